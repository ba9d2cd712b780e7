#!/bin/sh
# The program itself on an emulated AMD GPU, told by RF_GPU_LIBRARY and RF_EMU_ARCH: the demo model's
# first tokens and the logits of a short prompt are those of the CPU, bit for bit.  With fast floats, the
# default, those of a model in BF16 are the same for a prompt at once and its first tokens one by one.
# usage: generate.sh PROGRAM
set -eu
program=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for backend in cpu gpu; do
    "$program" generate -p 'Once upon a time' -n 4 --temp 0 --backend $backend --no-fast-floats \
        >"$out/text.$backend"
    "$program" logits --tokens 5,77,300 --backend $backend --no-fast-floats -o "$out/logits.$backend"
done
[ -s "$out/text.gpu" ] && [ -s "$out/logits.gpu" ]
cmp "$out/text.cpu" "$out/text.gpu"
cmp "$out/logits.cpu" "$out/logits.gpu"
"$program" quantize models/demo.gguf "$out/bf16.gguf" BF16 >&2
of_bf16() { # TOKENS BATCH
    "$program" logits -m "$out/bf16.gguf" --tokens "$1" --backend gpu --batch "$2" -o "$out/logits.$2"
}
of_bf16 "$(seq -s, 5 24)" 256
of_bf16 5,6,7,8 1
[ -s "$out/logits.1" ]
cmp -n "$(wc -c <"$out/logits.1")" "$out/logits.1" "$out/logits.256"
cat "$out/text.gpu"
