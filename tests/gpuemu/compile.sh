#!/bin/sh
# The program with kernels that it has compiled when it needs them, by the compiler of RF_GPU_COMPILER, on an
# emulated AMD GPU: logits are the CPU's bit for bit, the second start takes the code from the cache, and
# doctor tells that such a GPU can be used.
# usage: compile.sh PROGRAM
set -u
rocmforge=$1
model=tests/data/models/qwen3.gguf
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
XDG_CACHE_HOME=$dir/cache RF_GPU_COMPILE=1
export XDG_CACHE_HOME RF_GPU_COMPILE

run 0 logits -m $model --tokens 3,5,7 --backend cpu -o "$dir/cpu"
run 0 logits -m $model --tokens 3,5,7 --require-gpu --no-fast-floats -o "$dir/gpu"
says err "librf_fake_rtc.so 9.0 compiles the GPU kernels for $RF_EMU_ARCH"
cmp -s "$dir/cpu" "$dir/gpu" || fail "other logits"
RF_RTC_CLANG=/no/such/compiler run 0 logits -m $model --tokens 3,5,7 --require-gpu \
    --no-fast-floats -o "$dir/again"
cmp -s "$dir/cpu" "$dir/again" || fail "other logits from the cache"

run 0 doctor
says out "runs kernels for $RF_EMU_ARCH"

RF_RTC_ERROR='kernels.hip:1:1: error: none of it' RF_EMU_ARCH=gfx9999 run 5 logits -m $model --tokens 3 \
    --require-gpu -o "$dir/no"
says err "no kernels for gfx9999"
says err "error: none of it"
RF_GPU_COMPILER=libno-such.so RF_EMU_ARCH=gfx9999 refused 5 "libno-such.so: not installed" selftest

echo "$n_checks runs"
exit $failed
