#!/bin/sh
# test_plan.sh BINARY - plan: what a model takes where, on devices that are told; and flags that cannot be.
# req: C-15, B-11
set -u
rocmforge=$1
model=tests/data/models/qwen3.gguf # two layers
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
RF_GPU_LIBRARY=$dir/none.so # no GPU of this machine's
export RF_GPU_LIBRARY

# field NAME: the first number of that name in the JSON
field() {
    sed -E "s/.*\"$1\":([0-9]+).*/\1/" "$dir/part"
}

# stage N: the Nth stage of the split into $dir/part
stage() {
    sed -E 's/.*"split":\{"stages":\[//; s/\]\}\}$//; s/\},\{/\}\n\{/g' "$dir/out" | sed -n "$1p" >"$dir/part"
}

refused 2 "--memory 'lots': expected a number of bytes" plan $model --memory lots
refused 2 "--memory '1X': expected a number of bytes" plan $model --memory 1X
refused 2 "--memory '0': expected" plan $model --memory 0
refused 2 "--gpu-layers: '-2' is not a whole number between -1 and 65536" plan $model --gpu-layers -2
refused 2 "--gpu-layers 0 leaves nothing to the GPU" plan $model --gpu-layers 0 --require-gpu
refused 2 "--gpu-layers 0 leaves nothing to the GPU" generate -m $model --gpu-layers 0 --backend gpu x
refused 2 "--gpu-layers 0 leaves nothing to the GPU" serve -m $model --gpu-layers 0 --require-gpu
refused 2 "1 layers on GPUs are asked for, but backend 'cpu'" generate -m $model --gpu-layers 1 --backend cpu x
refused 2 "GPUs '0,x': expected a number, or up to 16 of them" generate -m $model --device 0,x --backend gpu x
refused 5 "no usable GPU" generate -m $model --gpu-layers 1 x
refused 5 "no usable GPU" generate -m $model --require-gpu x
refused 5 "--memory SIZE plans for a GPU that is not here" plan $model --backend gpu
refused 3 "$dir/absent" plan "$dir/absent"
refused 2 "unexpected argument 'b'" plan a b

run 0 plan $model
says out "cpu"
says out "longest context by requests at once: 1:"
run 0 plan $model --json
says out '"split":null'
run 0 plan $model --json --gpu-layers 0
says out '"backend":"cpu"'
says out '"split":null'

# ---- on a device that is told
run 0 plan $model --memory 1G --json
says out '"backend":"gpu"'
says out '"memory":1000000000'
says out '"fits":true'
says out '"split":null'
cp "$dir/out" "$dir/part"
whole=$(field total)
run 0 plan $model --memory 1G --gpu-layers 1 --json
stage 1
says part '"device":"cpu","first_layer":0,"n_layers":1,'
stage 2
says part '"device":"gpu 0","first_layer":1,"n_layers":1,'
one=$(field total)
parts=$(($(field weights) + $(field kv) + $(field activations) + $(field other)))
[ "$one" -eq "$parts" ] || fail "a total of $one, but parts of $parts"
[ "$one" -lt "$whole" ] || fail "a layer of two takes $one, both $whole"

# ---- as much as fits, by itself
short=$((one + one / 20))
run 0 plan $model --memory $short --json
says out '"fits":false'
stage 2
says part '"device":"gpu 0","first_layer":1,"n_layers":1,'
[ "$(field total)" -eq "$one" ] || fail "the same layer takes $(field total) and $one"
run 0 plan $model --memory $short
says out "layers on several devices"
says out "cpu      layers   0-0"
says out "gpu 0    layers   1-1"
run 0 plan $model --memory $short --require-gpu
says out "of 2 layers 1 fit into the $short bytes that are free on 1 GPU, 2 are to be there"
run 0 plan $model --memory $short --gpu-layers 2 --json
says out '"split":{"error":"of 2 layers 1 fit'
run 0 plan $model --memory $short --device 3,1 --require-gpu --json
stage 1
says part '"device":"gpu 3","first_layer":0,"n_layers":1,'
stage 2
says part '"device":"gpu 1","first_layer":1,"n_layers":1,'
run 0 plan $model --memory 1000 --json
says out '"split":{"error":"of 2 layers 0 fit'

echo "$n_checks runs"
exit $failed
