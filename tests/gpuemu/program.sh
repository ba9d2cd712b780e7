#!/bin/sh
# The program on an emulated AMD GPU, told by RF_GPU_LIBRARY and RF_EMU_ARCH, beside generate.sh: layers on
# the GPU and the CPU give the text of the CPU alone, plan counts the device that it finds and doctor names
# it, and wrong devices are refused.
# usage: program.sh PROGRAM
set -u
rocmforge=$1
model=tests/data/models/qwen3.gguf # two layers
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
XDG_CACHE_HOME=$dir/cache
export XDG_CACHE_HOME

run 0 generate -m $model --tokens 3,5,7 -n 3 --temp 0 --backend cpu
cp "$dir/out" "$dir/text"
run 0 generate -m $model --tokens 3,5,7 -n 3 --temp 0 --gpu-layers 1 --no-fast-floats
cmp -s "$dir/out" "$dir/text" || fail "another text"
says err "running layers 0-0 on cpu "
says err "; layers 1-1 on gpu 0: "
RF_EMU_MEMORY=1000000 run 0 generate -m $model --tokens 3,5,7 -n 1 --temp 0
says err "some layers on the CPU: "
says err "; layers 1-1 on gpu 0: "
RF_EMU_MEMORY=1000000 refused 6 "leave layers to the CPU with --gpu-layers" \
    generate -m $model --require-gpu --tokens 3,5,7 -n 1

run 0 plan $model
says out "gpu 0: "
says out "($RF_EMU_ARCH)"
says out "cpu"
RF_EMU_MEMORY=1000000 run 0 plan $model
says out "does not fit"
says out "gpu 0    layers   1-1"
RF_EMU_MEMORY=1000000 run 0 plan $model --gpu-layers 1 --json
says out '{"device":"gpu 0","first_layer":1,"n_layers":1,'

refused 2 "GPU 0 is named twice" generate -m $model --device 0,0 x
refused 2 "there is no GPU number 1" generate -m $model --device 0,1 x
run 0 plan $model --device 0,5
says out "there is no GPU number 5"
refused 2 "--device: '0,1' is not a whole number between 0 and 63" selftest --device 0,1
refused 2 "there is no GPU number 7" selftest --device 7
refused 2 "--seed: '-1' is not a whole number" selftest --seed -1
refused 2 "unexpected argument 'x'" selftest x
RF_EMU_NO_DEVICE=1 refused 7 "invalid device ordinal" selftest
RF_EMU_ARCH=gfx9999 refused 5 "this build has no kernels for gfx9999" selftest
RF_EMU_MEMORY=1000 refused 6 "but 1000 of its 1000 bytes are free" selftest
RF_EMU_FAIL_ALLOC=1 refused 6 "out of memory" selftest
[ -e "$XDG_CACHE_HOME/rocmforge" ] && fail "a verdict is kept of a self-test that did not run"
run 0 doctor
says out "runs kernels for $RF_EMU_ARCH"
RF_EMU_NO_DEVICE=1 run 1 doctor
says out "invalid device ordinal"

echo "$n_checks runs"
exit $failed
