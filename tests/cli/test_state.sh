#!/bin/sh
# test_state.sh BINARY - what one run computed serves the next: --save-state, --load-state.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

state=$dir/talk.state
model=tests/data/models/llama-gqa.gguf
ask() { # FLAGS...: a prompt of 80 tokens and its answer as JSON
    run 0 generate -m $model --temp 0 -n 20 --seed 1 --ignore-eos --json --tokens "@$dir/ids" "$@"
}
cached() { sed -n 's/.*"cached_tokens":\([0-9]*\).*/\1/p' "$dir/out"; }
text() { sed 's/,"usage".*//' "$dir/out"; }

i=0
while [ $i -lt 80 ]; do
    echo $((i * 37 % 100 + 3))
    i=$((i + 1))
done >"$dir/ids"

ask --save-state "$state"
[ "$(cached)" = 0 ] || fail "$(cached) tokens were cached"
text >"$dir/want"
ask --load-state "$state"
[ "$(cached)" = 64 ] || fail "$(cached) tokens were cached, expected 64"
text | cmp -s - "$dir/want" || fail "another answer: $(cat "$dir/out")"

# and on from there: the whole blocks of 99 computed tokens
ask --load-state "$state" --save-state "$state"
sed -n 's/.*"tokens":\[\([^]]*\)\].*/\1/p' "$dir/out" >>"$dir/ids"
ask --load-state "$state"
[ "$(cached)" = 96 ] || fail "$(cached) tokens were cached, expected 96"

refused 3 "cannot open" generate -m $model -n 1 --tokens 5,6 --load-state "$dir/none"
refused 4 "no saved state" generate -m $model -n 1 --tokens 5,6 --load-state tests/cli/test_state.sh
refused 2 "another model" generate -m tests/data/models/qwen3.gguf -n 1 --tokens 5,6 --load-state "$state"
refused 2 "values of type F16" generate -m $model --kv-type f16,q4_0 -n 1 --tokens 5,6 --load-state "$state"
run 2 generate -m $model -n 3 --tokens 5,6 --save-state "$dir/short"
says err "none of the 5 tokens"
[ -e "$dir/short" ] && fail "a file of nothing was written"

[ "$failed" -eq 0 ] && echo "$n_checks runs"
exit "$failed"
