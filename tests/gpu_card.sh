#!/bin/sh
# What a GPU of this machine can prove, beyond what the emulator does: every kernel on fresh random numbers over memory
# filled with noise, the values of every step of the models among the tests, their logits and the demo model's text,
# each against the CPU's bits, and on NVIDIA's, where compute-sanitizer is found, accesses and races.
# Ends with a line "N passed, N failed, N skipped".
# usage: tests/gpu_card.sh [BUILD [RACE_BUILD]]
# BUILD: a build with tests and this card's kernels; without it build/card is made.
# RACE_BUILD: the same with RF_GPU_RACECHECK, for racecheck; without it build/card-race is made where that can run.
# RF_GPU_LIBRARY: the driver's library, where it is none of the usual ones.  RF_TEST_SEED: of the random numbers.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/card} race_build=${2:-build/card-race}
passed=0 failed=0 skipped=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

make_build() { # BUILD FLAGS...
    dir=$1
    shift
    cmake -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRF_TESTS=ON -DRF_GPU_TARGETS=cards "$@" &&
        cmake --build "$dir" || exit 1
}
if [ $# -eq 0 ]; then make_build "$build"; fi
program=$build/rocmforge
if [ -z "${RF_GPU_LIBRARY:-}" ]; then # a library may be there without its GPU
    for name in libamdhip64.so.7 libamdhip64.so.6 libamdhip64.so.5 libcuda.so.1; do
        RF_GPU_LIBRARY=$name "$program" doctor | grep -qF 'no usable GPU' && continue
        RF_GPU_LIBRARY=$name
        break
    done
fi
if [ -z "${RF_GPU_LIBRARY:-}" ]; then
    "$program" doctor >&2
    echo "set RF_GPU_LIBRARY to the driver's library" >&2
    exit 1
fi
seed=${RF_TEST_SEED:-$(date +%s)}
export RF_GPU_LIBRARY RF_TEST_SEED="$seed" ROCMFORGE_TEST_GPU=1 XDG_CACHE_HOME="$out/cache"
"$program" doctor | grep -i gpu
echo "driver's library $RF_GPU_LIBRARY, seed $seed"

step() { # NAME COMMAND...
    name=$1 since=$(date +%s)
    shift
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name, $(($(date +%s) - since)) s"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        grep -E 'ERROR|LINE|FAILED|rror:' "$out/log" | tail -n 20
        tail -n 20 "$out/log"
    fi
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped $1"
}

# The same output by the GPU as by the CPU, to the bit. usage: same COMMAND FLAGS...
same() {
    "$program" "$@" --backend cpu >"$out/cpu" && "$program" "$@" --backend gpu --no-fast-floats >"$out/gpu" &&
        [ -s "$out/cpu" ] && cmp "$out/cpu" "$out/gpu"
}

step "self-test" "$program" selftest --seed "$seed"
for test in "$build"/tests/backend_test_gpu "$build"/tests/backend_test_gpu_*; do
    case $test in
    *_code | *_driver | *_pack) continue ;; # of no device
    esac
    step "$(basename "$test")" "$test"
done
for tokens in tests/data/models/*.tokens.txt; do
    model=${tokens%.tokens.txt}
    [ -f "$model.logits.f32" ] || continue
    step "logits of $(basename "$model")" same logits -m "$model.gguf" -o - \
        --tokens "$(tr -s ' \n' ',,' <"$tokens" | sed 's/,$//')"
done
step "the demo model's text" same generate -p 'Once upon a time' -n 40 --temp 0
sanitize() { # TOOL BUILD TEST
    step "$1 of backend_test_gpu_$3" compute-sanitizer --tool "$1" --error-exitcode 1 "$2/tests/backend_test_gpu_$3"
}
if command -v compute-sanitizer >/dev/null && [ "$RF_GPU_LIBRARY" = libcuda.so.1 ]; then
    if [ $# -lt 2 ]; then make_build "$race_build" -DRF_GPU_RACECHECK=ON; fi
    for test in products kernels best attend halves attend_halves; do
        sanitize memcheck "$build" "$test"
        sanitize racecheck "$race_build" "$test"
    done
else
    skip "compute-sanitizer: it is not there, or the card is another vendor's"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
