#!/bin/sh
# test_speculation.sh BINARY - speculation from the command line: the same text with it and without, the
# figures that are printed, and what is refused.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
export ROCMFORGE_GGUF="$PWD/models/demo.gguf" ROCMFORGE_BACKEND=cpu

# answer FLAGS...: tokens and their log-probabilities as one line in $dir/answer
answer() {
    run 0 generate 'red, green, blue, red, green' -n 40 --ignore-eos --json --logprobs 1 "$@" \
        --regex '(, (red|green|blue)){30}'
    sed 's/,"usage":.*//' "$dir/out" >"$dir/answer"
}

for how in '--temp 0 --seed 4' '--temp 0.9 --seed 4 --dry-multiplier 1'; do
    # shellcheck disable=SC2086 # words
    answer $how
    says out '"draft_n":0,"draft_n_accepted":0'
    cp "$dir/answer" "$dir/plain"
    for guesses in '--speculate ngram' '--draft-model models/demo.gguf --draft-min 3' \
        '--speculate ngram --draft-model models/demo.gguf --draft-max 2 --draft-min 1'; do
        # shellcheck disable=SC2086 # words
        answer $how $guesses
        cmp -s "$dir/plain" "$dir/answer" || fail 'another answer than without guesses'
        grep -q '"draft_n":[1-9]' "$dir/out" || fail "no guesses: $(cat "$dir/out")"
        grep -q '"draft_n_accepted":[1-9]' "$dir/out" || fail "none was right: $(cat "$dir/out")"
    done
done

run 0 bench -p 0 -n 12 -r 1 --draft-model models/demo.gguf --draft-min 5 --draft-max 5
says out 'tg12: 10 of 10 guesses were right'
run 0 bench -p 0 -n 12 -r 1 --draft-model models/demo.gguf --draft-min 5 --draft-max 5 --json
says out '"draft_n":10,"draft_n_accepted":10'

refused 2 'no speculation '\''magic'\''' generate a --speculate magic
refused 2 'draft model: its vocabulary has' generate a --draft-model tests/data/models/qwen3.gguf
refused 3 'no/such.gguf' generate a --draft-model no/such.gguf
refused 2 'draft-max' generate a --draft-max 65
refused 2 '5 to 4 guesses' generate a --speculate ngram --draft-min 5 --draft-max 4

[ "$failed" -eq 0 ] && echo "$n_checks checks passed"
exit "$failed"
