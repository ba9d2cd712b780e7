#!/bin/sh
# Who may include whom: the table of docs/architecture.md, checked against every #include of src/.
# Also: every header compiles alone, as C17 and as C++17.  req: C-18
set -eu
cd "$(dirname "$0")/../.."

allowed() {
    case $1 in
    base) echo '' ;;
    quant) echo 'base' ;;
    gguf) echo 'base quant' ;;
    model) echo 'base gguf quant' ;;
    text) echo 'base gguf' ;;
    model/arch) echo 'base gguf quant model plan' ;;
    plan) echo 'base quant model' ;;
    backend | backend/ref | backend/cpu | backend/gpu) echo 'base quant model plan backend' ;;
    grammar) echo 'base text' ;;
    engine) echo 'base quant gguf model text plan backend grammar' ;;
    server) echo 'base text gguf' ;;
    cli) echo 'base server text gguf quant' ;;
    *) echo "unknown room $1" >&2; exit 1 ;;
    esac
}

room_of() {
    case $1 in
    backend/gpu/kernels/*) echo backend/gpu ;;
    backend/*/* | model/*/*) echo "${1%/*}" ;;
    *) echo "${1%%/*}" ;;
    esac
}

bad=0 seen=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
find src -name '*.[ch]' | sort >"$tmp/files"
while read -r file; do
    room=$(room_of "${file#src/}")
    sed -nE 's/^#include "([^"]+)".*/\1/p' "$file" >"$tmp/includes"
    while read -r target; do
        seen=$((seen + 1))
        if [ "$target" = rocmforge.h ]; then
            case $room in engine | server | cli) continue ;; esac
        fi
        to=$(room_of "$target")
        ok=0
        [ "$to" = "$room" ] && ok=1
        for a in $(allowed "$room"); do
            [ "$to" = "$a" ] && ok=1
        done
        if [ $ok -eq 0 ]; then
            echo "$file includes $target: $room may not include $to"
            bad=1
        fi
    done <"$tmp/includes"
done <"$tmp/files"
[ $seen -gt 50 ] || { echo "only $seen includes found"; exit 1; }

grep '\.h$' "$tmp/files" >"$tmp/headers"
echo include/rocmforge.h >>"$tmp/headers"
while read -r header; do
    # written over what the including file defines, or in need of an instruction set's flags
    case $header in *avx*.h | *neon*.h | */attend_ints.h | */attend_lanes.h | */mm_float.h | */mm_minima.h | */mm_panels.h | */mm_quads.h | */mm_rows.h | */mm_vnni.h | */widen.h) continue ;; esac
    printf '#include "%s"\n' "$(pwd)/$header" >"$tmp/alone.c"
    cc -std=c17 -D_GNU_SOURCE -Isrc -Iinclude -fsyntax-only "$tmp/alone.c" || { echo "$header does not compile alone"; bad=1; }
done <"$tmp/headers"
if command -v c++ >/dev/null 2>&1; then
    printf '#include "rocmforge.h"\n' >"$tmp/alone.cc"
    c++ -std=c++17 -Iinclude -fsyntax-only "$tmp/alone.cc" || bad=1
fi
exit $bad
