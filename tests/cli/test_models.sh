#!/bin/sh
# test_models.sh BINARY - the table of docs/models.md is the table of architectures in the code, row by
# row, and every architecture with a decoder of its own is run by a fixture.  Proves parts of req: C-13.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

run 0 models
awk '/^Architectures:/ { on = 1; next } on { name = $1; sub(/^ *[^ ]+ +/, ""); print name " | " $0 }' \
    "$dir/out" >"$dir/code"
[ "$(wc -l <"$dir/code")" -ge 30 ] || fail "only $(wc -l <"$dir/code") architectures are listed"

sed -n 's/^| `\([^`]*\)` | \(.*\) |$/\1 | \2/p' docs/models.md >"$dir/docs"
grep -vxFf "$dir/docs" "$dir/code" >"$dir/missing"
[ -s "$dir/missing" ] && fail "docs/models.md has no row like: $(cat "$dir/missing")"
[ "$(wc -l <"$dir/code")" -eq "$(grep -cxFf "$dir/code" "$dir/docs")" ] ||
    fail "docs/models.md has a row twice"

for model in tests/data/models/*.gguf; do
    run 0 inspect "$model" --json
    cat "$dir/out" >>"$dir/inspected"
done
while read -r name rest; do
    grep -qF "\"$name\"" "$dir/inspected" || fail "no model in tests/data/models is of '$name' ($rest)"
done <"$dir/code"

[ "$failed" -eq 0 ] && echo "$n_checks runs, $(wc -l <"$dir/code") architectures"
exit "$failed"
