# shellcheck shell=sh disable=SC2034,SC2154
# cli.sh - what the shell tests of the program share; sourced with the program's path in $rocmforge.
# Makes the folder $dir (the test removes it), keeps the user's own settings out, counts runs.
dir=$(mktemp -d) || exit 1
failed=0 n_checks=0 last=''
# nothing of the user's own may decide a test
unset ROCMFORGE_GGUF ROCMFORGE_MODELS ROCMFORGE_THREADS ROCMFORGE_MAX_CONTEXT ROCMFORGE_LOG \
    ROCMFORGE_CONFIG ROCMFORGE_TOKENIZER NO_COLOR RF_CPU
HOME=$dir XDG_CONFIG_HOME=$dir/none
export HOME XDG_CONFIG_HOME

fail() {
    echo "FAILED: $last: $1"
    failed=1
}

# run EXPECTED_CODE ARGS...: output in $dir/out and $dir/err
run() {
    want=$1
    shift
    n_checks=$((n_checks + 1))
    last="rocmforge $*"
    "$rocmforge" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    [ "$code" -eq "$want" ] || fail "exit code $code, expected $want: $(head -c 300 "$dir/err")"
}

# says FILE TEXT: the text occurs in one line
says() {
    grep -qF -- "$2" "$dir/$1" || fail "'$2' is not in std$1: $(head -c 800 "$dir/$1")"
}

# refused CODE TEXT ARGS...: one line on stderr with the text, nothing on stdout
refused() {
    want_code=$1 text=$2
    shift 2
    run "$want_code" "$@"
    says err "$text"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "the error is not one line: $(cat "$dir/err")"
    [ -s "$dir/out" ] && fail "printed something: $(head -c 200 "$dir/out")"
}
