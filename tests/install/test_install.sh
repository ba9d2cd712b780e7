#!/bin/sh
# test_install.sh BINARY - the library as a stranger meets it: an installed copy in a folder of its own,
# the examples built against it through pkg-config and through CMake, and run; Python through ctypes.
# Parts of req: C-18.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT
source=$PWD
build=$(dirname "$rocmforge")
prefix=$dir/prefix

must() {
    last="$*"
    n_checks=$((n_checks + 1))
    "$@" >"$dir/out" 2>"$dir/err" || fail "$(tail -n 5 "$dir/out" "$dir/err")"
}

must cmake --install "$build" --prefix "$prefix"
libdir=$(dirname "$(find "$prefix" -name librocmforge.so)")
for file in bin/rocmforge share/rocmforge/demo.gguf share/man/man1/rocmforge.1 include/rocmforge.h \
    share/bash-completion/completions/rocmforge share/zsh/site-functions/_rocmforge \
    share/fish/vendor_completions.d/rocmforge.fish; do
    [ -s "$prefix/$file" ] || fail "$file is not installed"
done
demo=$prefix/share/rocmforge/demo.gguf

# ---- the program finds its demo model where it was installed, from any folder
cd "$dir" || exit 1
rocmforge=$prefix/bin/rocmforge
run 0 generate -p 'Once upon a time' --temp 0 -n 24
story=$(cat "$dir/out")
[ -n "$story" ] || fail 'the installed program said nothing'

# ---- the library shows what the header declares, and nothing else
tr '\n' ' ' <"$prefix/include/rocmforge.h" | grep -oE 'RF_API [^;(]*\(' |
    sed -nE 's/.*[ *](rf_[a-z_]+)\($/\1/p' | sort >declared
nm -D --defined-only "$libdir/librocmforge.so" | sed -nE 's/.* T (.*)@@ROCMFORGE_0/\1/p' | sort >shown
last='exported symbols'
[ -s shown ] || fail 'none'
diff declared shown >difference || fail "$(cat difference)"
readelf -d "$libdir/librocmforge.so" | grep -q 'SONAME.*librocmforge\.so\.0' || fail 'wrong soname'

# ---- C examples through pkg-config
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
# A sanitizer of the library must be in the program too; its compiler flags come from the cache.
sanitize=$(sed -nE 's/^RF_SANITIZE:STRING=(.+)/-fsanitize=\1/p' "$build/CMakeCache.txt")
compiler=$(sed -nE 's/^CMAKE_C_COMPILER:[A-Z]+=(.+)/\1/p' "$build/CMakeCache.txt")
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    # shellcheck disable=SC2046,SC2086
    must "$compiler" -std=c17 -Wall -Wextra -Werror $sanitize "$example" \
        $(pkg-config --cflags --libs rocmforge) -o "$name"
done
must ./generate "$demo" 'Once upon a time'
[ "$(wc -c <out)" -gt 40 ] || fail "too little text: $(cat out)"
must ./concurrent "$demo" 'Once upon a time' 'One day' 'The little dog'
says out '3 requests in'
printf '%s\n' 'a dog ran' 'a dog ran home' 'the sky is blue' >texts
last='./embeddings'
./embeddings "$demo" <texts >out 2>err || fail "$(cat err)"
[ "$(wc -l <out)" -ge 3 ] || fail "no similarities: $(cat out)"
last='./generate of a missing model'
./generate missing.gguf x >out 2>err && fail 'a missing model was no error'
says err 'missing.gguf'

# ---- through CMake
must cmake -S "$source/examples" -B cmake-build -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$sanitize"
must cmake --build cmake-build
must cmake-build/generate "$demo" 'Once upon a time'

# ---- Python: a sanitized library cannot be loaded into a program without it
if ! command -v python3 >/dev/null; then
    echo 'left out: examples/generate.py, there is no python3'
elif [ -n "$sanitize" ]; then
    echo 'left out: examples/generate.py, the library is built with a sanitizer'
else
    must python3 "$source/examples/generate.py" "$demo" 'Once upon a time'
    [ "$(wc -c <out)" -gt 40 ] || fail "too little text: $(cat out)"
    # the structures of the example are those of the header
    cat >sizes.c <<'TEXT'
#include <rocmforge.h>
#include <stdio.h>
int main(void) {
    printf("%zu %zu %zu %zu\n", sizeof(rf_engine_opts), sizeof(rf_sampling),
           sizeof(rf_request_opts), offsetof(rf_event, text_len));
}
TEXT
    # shellcheck disable=SC2046
    must "$compiler" sizes.c $(pkg-config --cflags rocmforge) -o sizes
    cp "$source/examples/generate.py" example.py
    must python3 -c "
import ctypes, subprocess, example as x
mine = [ctypes.sizeof(t) for t in (x.EngineOpts, x.Sampling, x.RequestOpts)] + [x.Event.text_len.offset]
theirs = [int(n) for n in subprocess.check_output('./sizes').split()]
assert mine == theirs, (mine, theirs)"
fi

[ $failed -eq 0 ] && echo "$n_checks runs ok"
exit $failed
