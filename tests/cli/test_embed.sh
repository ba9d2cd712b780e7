#!/bin/sh
# test_embed.sh BINARY - texts as vectors from the command line: where texts come from, how vectors are
# printed, and what is refused.
# Proves parts of req: C-16.
set -u
rocmforge=$1
data=tests/data/models
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

keep() { cp "$dir/out" "$dir/$1"; }
same_output() { cmp -s "$dir/out" "$dir/$1" || fail "another output than $1"; }
lines() { [ "$(wc -l <"$dir/out")" -eq "$1" ] || fail "not $1 lines: $(head -c 300 "$dir/out")"; }
numbers() { [ "$(head -n 1 "$dir/out" | wc -w)" -eq "$1" ] || fail "not $1 numbers: $(cat "$dir/out")"; }

# ---- encoders and decoders, one vector a line, rerankers their scores
for name in bert bert-roberta nomic-bert modern-bert qwen3-embedding qwen3 llama-gqa; do
    run 0 embed -m $data/$name.gguf "the thing" other "a b c"
    lines 3
    run 0 embed -m $data/$name.gguf "the thing"
    lines 1
    awk '{ for (i = 1; i <= NF; i++) s += $i * $i; exit !(s > 0.99999 && s < 1.00001) }' "$dir/out" ||
        fail "not of length 1"
    run 0 embed -m $data/$name.gguf --no-normalize "the thing"
    awk '{ for (i = 1; i <= NF; i++) s += $i * $i; exit (s > 0.99 && s < 1.01) }' "$dir/out" ||
        fail "of length 1"
done
run 0 embed -m $data/bert.gguf hello
numbers 32
keep default
for kind in cls mean last; do
    run 0 embed -m $data/bert.gguf --pooling $kind hello
    keep $kind
done
cmp -s "$dir/cls" "$dir/default" || fail "the file's own pooling is not the default"
cmp -s "$dir/cls" "$dir/mean" && fail "cls and mean are the same"
cmp -s "$dir/cls" "$dir/last" && fail "cls and last are the same"
run 0 embed -m $data/bert-rank.gguf hello there
lines 2
numbers 1
run 0 embed -m $data/qwen3-rank.gguf hello
numbers 2

# ---- all ways to give texts
model=$data/nomic-bert.gguf
refused 2 "text 1 has no tokens" embed -m $model "one text" ""
run 0 embed -m $model "one text" "another one" three
keep three
printf 'one text\nanother one\nthree\n' >"$dir/texts"
run 0 embed -m $model -f "$dir/texts"
same_output three
printf 'one text\r\nanother one\r\nthree' >"$dir/texts"
run 0 embed -m $model --file "$dir/texts"
same_output three
run 0 embed -m $model -f "$dir/texts" -t 2 --batch 3
same_output three
run 0 embed -m $model "one text" -f "$dir/texts"
lines 4
"$rocmforge" embed -m $model <"$dir/texts" >"$dir/out"
same_output three
run 0 tokenize -m $model --json --add-special "one text"
ids=$(tr -d '[]' <"$dir/out")
run 0 embed -m $model --tokens "$ids"
head -n 1 "$dir/three" >"$dir/first"
same_output first

# ---- JSON holds the same numbers
run 0 embed -m $model --json "one text" "another one" three
says out '"pooling":"mean","normalized":true,"tokens":['
sed 's/.*"embeddings":\[\[//; s/\]\]}$//; s/\],\[/\n/g; s/,/ /g' "$dir/out" >"$dir/numbers"
cmp -s "$dir/numbers" "$dir/three" || fail "JSON and text differ"
run 0 embed -m $model --json --no-normalize three
says out '"normalized":false'
run 0 embed -m $data/qwen3-rank.gguf --json three
says out '"pooling":"rank","normalized":false'
says out '"scores":[['

# ---- similarities
run 0 embed -m $model --similarity "one text" "another one" "one text"
lines 3
awk '{ if (NF != 3 || $NR < 0.999999 || $NR > 1.000001) exit 1; m[NR, 1] = $1; m[NR, 2] = $2; m[NR, 3] = $3 }
     END { exit !(m[1, 2] == m[2, 1] && m[1, 3] > 0.999999 && m[1, 2] == m[3, 2] && m[1, 2] < 0.9999) }' \
    "$dir/out" || fail "no matrix of cosines: $(cat "$dir/out")"
run 0 embed -m $model --similarity --json a b
says out '"similarity":[[1,'

# ---- refusals
refused 2 "--pooling: 'max' is not known; expected mean, cls, last or rank" embed -m $model --pooling max a
refused 5 "no classification head" embed -m $model --pooling rank a
refused 2 "this model gives scores" embed -m $data/bert-rank.gguf --similarity a b
refused 2 "there is no text" embed -m $model
refused 2 "'x' is not a token id" embed -m $model --tokens x
refused 2 "token 0 of text 0 is 500" embed -m $model --tokens 500
refused 3 "no/such/file" embed -m $model -f no/such/file
refused 1 "tokens, but the context holds 4" embed -m $model -c 4 "a longer text than four tokens"
refused 2 "81 tokens is more than the 80 positions" embed -m $data/bert.gguf -c 81 a
for command in "generate -n 3 hello" "chat" "logits --tokens 5 -o $dir/logits"; do
    # shellcheck disable=SC2086
    refused 5 "encoders: they turn a text into a vector and cannot continue it; use them for embeddings" \
        $command -m $data/bert.gguf
done
[ -e "$dir/logits" ] && fail "logits of an encoder"

echo "$n_checks commands run"
exit $failed
