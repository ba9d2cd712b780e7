#!/bin/sh
# The program itself on an emulated AMD GPU, told by RF_GPU_LIBRARY and RF_EMU_ARCH: the demo model's
# first tokens and the logits of a short prompt are those of the CPU, bit for bit.
# usage: generate.sh PROGRAM
set -eu
program=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for backend in cpu gpu; do
    "$program" generate -p 'Once upon a time' -n 4 --temp 0 --backend $backend >"$out/text.$backend"
    "$program" logits --tokens 5,77,300 --backend $backend -o "$out/logits.$backend"
done
[ -s "$out/text.gpu" ] && [ -s "$out/logits.gpu" ]
cmp "$out/text.cpu" "$out/text.gpu"
cmp "$out/logits.cpu" "$out/logits.gpu"
cat "$out/text.gpu"
