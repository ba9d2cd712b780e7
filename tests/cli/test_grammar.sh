#!/bin/sh
# test_grammar.sh BINARY - structured output as a user meets it: the examples of
# docs/structured-output.md with the demo model, files, and what is refused.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
export ROCMFORGE_GGUF="$PWD/models/demo.gguf"

# matches REGEX: standard output as a whole, joined to one line
matches() {
    tr -d '\n' <"$dir/out" | grep -qE "^$1\$" || fail "not /$1/: $(head -c 400 "$dir/out")"
}

# ---- the examples of the page run as they stand, and once more with other seeds
sed -n 's/^rocmforge generate /generate /p' docs/structured-output.md >"$dir/examples"
[ "$(wc -l <"$dir/examples")" -eq 4 ] || fail "expected 4 examples"
for seed in 1 2 3; do
    eval "run 0 $(sed -n 1p "$dir/examples") --seed $seed"
    matches '(apple|pear|plum)'
    eval "run 0 $(sed -n 2p "$dir/examples") --seed $seed"
    matches '[0-9]{4}-(0[1-9]|1[0-2])'
    eval "run 0 $(sed -n 3p "$dir/examples") --seed $seed"
    matches '\{ *"name": ?".{0,60}", *"age": ?(1[01][0-9]|120|[1-9]?[0-9]) *\}'
    eval "run 0 $(sed -n 4p "$dir/examples") --seed $seed"
    matches '(ha ){2,4}!'
done

# ---- from a file; the same seed gives the same text
printf 'root ::= "x" [0-9]{2}\n' >"$dir/g.gbnf"
run 0 generate a --grammar "@$dir/g.gbnf" --seed 7
matches 'x[0-9]{2}'
cp "$dir/out" "$dir/first"
run 0 generate a --grammar "@$dir/g.gbnf" --seed 7
cmp -s "$dir/first" "$dir/out" || fail 'the same seed gave another text'
echo '{"enum":["one","two"]}' >"$dir/s.json"
run 0 generate a --json-schema "@$dir/s.json" --json --seed 1
says out '"finish":"stop"'
run 0 generate a --choice yes,no --temp 0 --ignore-eos
matches '(yes|no)'

# ---- an answer that is cut off says so
run 0 generate a --regex '[a-z]{200}' -n 3 --json
says out '"finish":"length"'

# ---- refused, with the place
refused 5 '#/properties/a/uniqueItems: this keyword is not supported' generate a \
    --json-schema '{"properties":{"a":{"uniqueItems":true}}}'
refused 4 'GBNF line 1 column 10: undefined rule' generate a --grammar 'root ::= x'
refused 5 "rule 'root' calls itself" generate a --grammar 'root ::= root "a" | "b"'
refused 4 'regular expression: offset 2' generate a --regex '(a'
refused 2 'give one of --grammar' generate a --regex a --choice b
refused 3 "$dir/none" generate a --grammar "@$dir/none"

[ $failed -eq 0 ] && echo "$n_checks checks passed"
exit $failed
