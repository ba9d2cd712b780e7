#!/bin/sh
# test_cli.sh BINARY - the program as a user meets it: the same text every time, files that are missing,
# broken or forbidden, disks that are full, pipes that break, Ctrl-C, a conversation at a terminal.
# Proves parts of req: C-16, C-18, B-49 (it runs at all), B-50 (no token lost), B-52, B-53.
set -u
rocmforge=$1
data=tests/data/models
model=$data/llama-gqa.gguf
. tests/lib/cli.sh
mounted=''
cleanup() {
    [ -n "$mounted" ] && umount "$mounted"
    rm -rf "$dir"
}
trap cleanup EXIT

left_out() { echo "left out: $1"; }

# wait_for COMMAND...: until it succeeds, a minute at most
wait_for() {
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { fail "waited in vain for: $*"; return 1; }
        sleep 0.1
    done
}

same_output() { cmp -s "$dir/out" "$dir/$1" || fail "another output than $1"; }

# ---- the same text however it is computed
for name in llama-gqa qwen2 qwen3-bf16 mistral-window; do
    run 0 generate -m $data/$name.gguf --temp 0 -n 40 --ignore-eos "the thing and the other"
    cp "$dir/out" "$dir/first"
    [ -s "$dir/first" ] || fail "no text"
    run 0 generate -m $data/$name.gguf --temp 0 -n 40 --ignore-eos "the thing and the other"
    same_output first
    for how in "-t 1" "-t 2" "-t 3" "--batch 1" "--batch 3 -t 2" "-c 64"; do
        # shellcheck disable=SC2086
        run 0 generate -m $data/$name.gguf --temp 0 -n 40 --ignore-eos $how "the thing and the other"
        same_output first
    done
    RF_CPU=scalar run 0 generate -m $data/$name.gguf --temp 0 -n 40 --ignore-eos "the thing and the other"
    same_output first
done
run 0 generate -m $model -n 30 --ignore-eos --seed 7 hello
cp "$dir/out" "$dir/seven"
run 0 generate -m $model -n 30 --ignore-eos --seed 7 -t 1 --batch 2 hello
same_output seven
run 0 generate -m $model -n 30 --ignore-eos --seed 8 hello
cmp -s "$dir/out" "$dir/seven" && fail "another seed gives the same text"
run 0 generate -m $model -n 30 --ignore-eos hello
cmp -s "$dir/out" "$dir/seven" && fail "no seed is always seed 7"

# ---- all ways to give a prompt; the output is the text and not a byte more
run 0 generate -m $model --temp 0 -n 12 --ignore-eos hello
cp "$dir/out" "$dir/hello"
run 0 generate -m $model --temp 0 -n 12 --ignore-eos -p hello
same_output hello
printf hello >"$dir/prompt"
run 0 generate -m $model --temp 0 -n 12 --ignore-eos -f "$dir/prompt"
same_output hello
last='generate < prompt'
"$rocmforge" generate -m $model --temp 0 -n 12 --ignore-eos <"$dir/prompt" >"$dir/out"
same_output hello
"$rocmforge" generate -m $model --temp 0 -n 12 --ignore-eos -p - <"$dir/prompt" >"$dir/out"
same_output hello
run 0 generate -m $model --temp 0 -n 12 --ignore-eos --tokens 71,68,123,78
same_output hello
printf '71 68\n123, 78\n' >"$dir/ids"
run 0 generate -m $model --temp 0 -n 12 --ignore-eos --tokens "@$dir/ids"
same_output hello
run 0 generate -m $model --temp 0 -n 12 --ignore-eos --echo hello
[ "$(cat "$dir/out")" = "hello$(cat "$dir/hello")" ] || fail "--echo: $(cat "$dir/out")"
run 0 generate -m $model --temp 0 -n 12 --ignore-eos --json hello
says out '"finish":"length"'
says out '"usage":{"prompt_tokens":4,"cached_tokens":0,"generated_tokens":12}'
run 0 generate -m $model --temp 0 -n 12 --stop "$(cut -c 3-5 "$dir/hello" | head -n 1)" --json hello
says out '"finish":"stop"'
run 0 generate -m $model --temp 0 -n 5 --logit-bias 33=1000 hello
[ "$(cat "$dir/out")" = BBBBB ] || fail "--logit-bias: $(cat "$dir/out")"
run 0 generate -m $model --temp 0 -n -1 -c 40 --ignore-eos --json hello
says out '"generated_tokens":36'
refused 2 'the prompt is empty' generate -m $model ''

# ---- tokens
printf 'a\000b' >"$dir/bytes"
last='tokenize -'
"$rocmforge" tokenize -m tests/data/text/bpe-gpt-2.gguf --json - <"$dir/bytes" >"$dir/out" || fail "failed"
grep -q '^\[[0-9]*,[0-9]*,[0-9]*\]$' "$dir/out" || fail "$(cat "$dir/out")"
tr -d '[]' <"$dir/out" >"$dir/ids"
run 0 detokenize -m tests/data/text/bpe-gpt-2.gguf --tokens "@$dir/ids"
same_output bytes
run 0 tokenize -m $model hello
[ "$(cat "$dir/out")" = "$(printf '71\t"h"\n68\t"e"\n123\t"ll"\n78\t"o"')" ] || fail "$(cat "$dir/out")"
run 0 tokenize -m $model --json ''
says out '[]'
run 0 detokenize -m $model 71 68 123,78
[ "$(cat "$dir/out")" = hello ] || fail "$(cat "$dir/out")"
run 0 tokenize -m $model --json --parse-special '<|im_start|>'
says out '[126]'
run 0 detokenize -m $model --parse-special 126
says out '<|im_start|>'

# ---- logits: shape, values, independence
ids=$(tr -s ' \n' ',' <$data/llama-gqa.tokens.txt | sed 's/^,//; s/,$//')
n=$(echo "$ids" | tr ',' '\n' | wc -l)
run 0 logits -m $model --tokens "$ids" -o "$dir/logits"
[ "$(wc -c <"$dir/logits")" -eq $((n * 128 * 4)) ] || fail "size $(wc -c <"$dir/logits")"
od -An -v -tf4 -w4 "$dir/logits" >"$dir/a"
od -An -v -tf4 -w4 $data/llama-gqa.logits.f32 >"$dir/b"
paste "$dir/a" "$dir/b" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d
    x = $2 < 0 ? -$2 : $2; if (x > most) most = x } END { exit !(NR > 1000 && worst < 2e-3 * most) }' ||
    fail "the values are not those of the fixture"
for how in "-t 1" "--batch 1" "-t 2 --batch 5"; do
    # shellcheck disable=SC2086
    run 0 logits -m $model --tokens "$ids" $how -o -
    same_output logits
done
RF_CPU=scalar run 0 logits -m $model --tokens "$ids" -o -
same_output logits

# ---- files
mkdir "$dir/d"
head -c 5000 $model >"$dir/cut.gguf"
head -c 60000 $model >"$dir/cut2.gguf"
printf 'This is no model.\n' >"$dir/text.gguf"
: >"$dir/empty.gguf"
for command in "generate -n 1 -p x" "tokenize -f $dir/prompt" "logits --tokens 1 -o $dir/x" \
    "bench -p 1 -n 1 -r 1" "chat"; do
    # shellcheck disable=SC2086
    {
        refused 3 "$dir/none.gguf" $command -m "$dir/none.gguf"
        refused 3 "$dir/d" $command -m "$dir/d"
        refused 4 "$dir/cut.gguf" $command -m "$dir/cut.gguf"
        refused 4 "$dir/text.gguf" $command -m "$dir/text.gguf"
        refused 4 "$dir/empty.gguf" $command -m "$dir/empty.gguf"
        refused 4 "$dir/cut2.gguf" $command -m "$dir/cut2.gguf"
    }
done
refused 4 'tests/data/text/spm.gguf: holds a vocabulary' generate -m tests/data/text/spm.gguf x # a vocabulary only
refused 3 "$dir/none" generate -m $model -f "$dir/none"
refused 3 "$dir/none" generate -m $model --tokens "@$dir/none"
refused 3 "$dir/none/x" logits -m $model --tokens 1 -o "$dir/none/x"
refused 3 "directory" logits -m $model --tokens 1 -o "$dir/d"
program=$rocmforge
if [ "$(id -u)" -eq 0 ]; then # root may read and write everything: be somebody else
    printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups -- "%s" "$@"\n' \
        "$program" >"$dir/as-nobody"
    chmod 755 "$dir" "$dir/as-nobody"
    program=$dir/as-nobody
fi
if "$program" inspect $model >"$dir/out" 2>&1; then
    rocmforge_of_all=$rocmforge rocmforge=$program
    cp $model "$dir/locked.gguf"
    chmod 0 "$dir/locked.gguf"
    refused 3 "Permission denied" generate -m "$dir/locked.gguf" x
    says err "$dir/locked.gguf"
    mkdir "$dir/locked"
    chmod 555 "$dir/locked"
    refused 3 "Permission denied" logits -m $model --tokens 1 -o "$dir/locked/x"
    : >"$dir/readonly"
    chmod 444 "$dir/readonly"
    refused 3 "Permission denied" logits -m $model --tokens 1 -o "$dir/readonly"
    [ -s "$dir/readonly" ] && fail "wrote into a read-only file"
    rocmforge=$rocmforge_of_all
else
    left_out "files without permission (run by root, and no other user can run the program)"
fi
[ -e "$dir/x" ] && fail "left a file behind"

# ---- full disks
if [ -c /dev/full ]; then
    for command in "generate -m $model -n 8 hello" "generate -m $model -n 8 --json hello" \
        "logits -m $model --tokens 1,2 -o -" "tokenize -m $model x" "detokenize -m $model 1" \
        "help" "man" "completions bash" "models" "inspect $model" "version" "help --json"; do
        last="rocmforge $command > /dev/full" n_checks=$((n_checks + 1))
        # shellcheck disable=SC2086
        "$rocmforge" $command >/dev/full 2>"$dir/err" </dev/null
        code=$?
        [ $code -eq 3 ] || fail "exit code $code, expected 3"
        says err "cannot write to standard output: No space left on device"
        [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than one line: $(cat "$dir/err")"
    done
    refused 3 "No space left on device" logits -m $model --tokens 1,2 -o /dev/full
    [ -c /dev/full ] || fail "replaced the device by a file"
else
    left_out "/dev/full (there is none)"
fi
mkdir "$dir/small"
if mount -t tmpfs -o size=64k none "$dir/small" 2>/dev/null; then
    mounted=$dir/small
    printf old >"$dir/small/logits"
    refused 3 "No space left on device" logits -m $model --tokens "$(seq -s, 1 120),$(seq -s, 1 120)" \
        -o "$dir/small/logits"
    [ "$(cat "$dir/small/logits")" = old ] || fail "the old file is gone"
    [ "$(ls -A "$dir/small")" = logits ] || fail "left behind: $(ls -A "$dir/small")"
    umount "$mounted" && mounted=''
else
    left_out "a full tmpfs (may not be mounted here); /dev/full stands for it"
fi

# ---- closed and broken output
last='version >&-'
"$rocmforge" version >&- 2>"$dir/err"
[ $? -eq 3 ] || fail "a closed standard output goes unnoticed"
says err "cannot write to standard output"
last='logits -o FILE >&-'
"$rocmforge" logits -m $model --tokens "$ids" -o "$dir/out" >&- 2>"$dir/err" || fail "exit code $?"
same_output logits
for command in "generate -m $model -c 4096 -n -1 --ignore-eos hello" "man" "gguf dump --all $model" \
    "logits -m $model --tokens $ids -o -"; do
    last="rocmforge $command | head -c 1" n_checks=$((n_checks + 1))
    # shellcheck disable=SC2086
    {
        (
            sleep 0.3 # so that head is gone when the text comes, whatever fits the pipe
            "$rocmforge" $command 2>"$dir/err" </dev/null
            echo $? >"$dir/code"
        ) | true
    }
    [ "$(cat "$dir/code")" -eq 3 ] || fail "exit code $(cat "$dir/code"), expected 3"
    [ -s "$dir/err" ] && fail "a broken pipe is no news: $(cat "$dir/err")"
done
last='generate | head -c 1'
# counted, since the one byte may be a line's end
[ "$("$rocmforge" generate -m $model -c 4096 -n -1 --ignore-eos hello </dev/null | head -c 1 | wc -c)" -eq 1 ] ||
    fail "no text"

# ---- Ctrl-C
# start COMMAND...: in the background, up to where it catches Ctrl-C; $pid
start() {
    n_checks=$((n_checks + 1))
    last="rocmforge $* and Ctrl-C"
    : >"$dir/out"
    "$rocmforge" "$@" <"$dir/never" >"$dir/out" 2>"$dir/err" &
    pid=$!
    exec 9>"$dir/never"
}
catches() { grep -q '^SigCgt:.*[2367abef]$' /proc/$pid/status; }
# stopped: interrupts it and checks how it ends
stopped() {
    kill -INT $pid
    wait $pid
    code=$?
    exec 9>&-
    [ $code -eq 130 ] || fail "exit code $code, expected 130: $(cat "$dir/err")"
    [ -s "$dir/err" ] && fail "said: $(cat "$dir/err")"
}
mkfifo "$dir/never"
start generate -m $model -c 16384 -n -1 --ignore-eos -p hello
wait_for test -s "$dir/out"
stopped
start generate -m $model -c 16384 -n -1 --ignore-eos --json -p hello
wait_for catches
stopped
says out '"finish":"cancelled"'
start chat -m $model --chat-format plain -c 16384 -n -1 --ignore-eos
echo hello >&9
wait_for test -s "$dir/out"
stopped
start chat -m $model --chat-format plain # nothing said yet
wait_for catches
stopped
start bench -m $model -p 100 -n 100 -r 1000
wait_for catches
kill -INT $pid
wait $pid
code=$?
exec 9>&-
[ $code -eq 130 ] || fail "exit code $code, expected 130"

# ---- conversations
last='chat'
chat() { "$rocmforge" chat -m $model --chat-format plain --temp 0 -n 6 --ignore-eos "$@" 2>"$dir/err"; }
printf 'hello\nthe other\n' | chat >"$dir/out" || fail "exit code $?"
[ "$(wc -l <"$dir/out")" -ge 2 ] || fail "two lines in, $(wc -l <"$dir/out") out"
cp "$dir/out" "$dir/talk"
printf 'hello\nthe other\n' | chat -t 1 --batch 4 >"$dir/out"
same_output talk
printf 'hello\n/clear\n\n/retry\n' | chat >"$dir/out"
[ $? -eq 2 ] || fail "a failing command goes unnoticed"
says err "nothing to answer again yet"
printf 'hello\n/retry\n/exit\nnever read\n' | chat --json >"$dir/out" || fail "exit code $?"
[ "$(wc -l <"$dir/out")" -eq 2 ] || fail "$(cat "$dir/out")"
[ "$(uniq "$dir/out" | wc -l)" -eq 1 ] || fail "/retry at temperature 0 gives another answer"
says out '{"role":"assistant","content":"'
printf '/frob\n' | chat >"$dir/out"
[ $? -eq 2 ] || fail "an unknown command goes unnoticed"
says err "unknown command '/frob'; /help lists them"
yes 'the other and the thing' | head -n 30 | chat -c 128 >"$dir/out" || # more than fits the context
    fail "a long conversation fails: $(cat "$dir/err")"
head -c 2000 /dev/zero | tr '\0' x | chat -c 128 >"$dir/out"
[ $? -eq 1 ] || fail "one message over the whole context goes unnoticed"
says err "shorten it or raise the context length"

# at a terminal Ctrl-C stops the answer and not the program
if command -v script >/dev/null 2>&1 && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    last='chat at a terminal'
    mkfifo "$dir/keys"
    TERM=dumb script -qefc "'$rocmforge' chat -m $model --chat-format plain -c 16384 -n -1 --ignore-eos" \
        "$dir/seen" <"$dir/keys" >/dev/null 2>&1 &
    pid=$!
    exec 9>"$dir/keys"
    shows() { grep -qF -- "$1" "$dir/seen" 2>/dev/null; }
    longer_than() { [ "$(wc -c <"$dir/seen")" -gt "$1" ]; }
    wait_for shows "/help lists commands"
    printf 'hello\n' >&9
    wait_for longer_than 1500
    printf '\003' >&9
    wait_for shows '[stopped]'
    printf '\003' >&9 # at the prompt: nothing but a fresh line
    printf '/help\n' >&9
    wait_for shows 'answer the last message again'
    printf '/exit\n' >&9
    wait $pid
    code=$?
    exec 9>&-
    [ $code -eq 0 ] || fail "exit code $code, expected 0: $(tail -c 300 "$dir/seen")"
else
    left_out "chat at a terminal (script is not installed)"
fi

# ---- the built-in model
if [ -f "$(dirname "$rocmforge")/demo.gguf" ]; then
    run 0 generate --temp 0 -n 24 "Once upon a time"
    cp "$dir/out" "$dir/story"
    [ "$(wc -w <"$dir/story")" -ge 8 ] || fail "hardly a story: $(cat "$dir/story")"
    RF_CPU=scalar run 0 generate --temp 0 -n 24 -t 1 "Once upon a time"
    same_output story
    run 0 doctor
    says out "demo model"
    run 0 models
    says out "built in"
    last='chat with the built-in model'
    printf 'Hello!\n' | "$rocmforge" chat -n 40 -s 1 >"$dir/out" 2>"$dir/err" || fail "$(cat "$dir/err")"
    [ "$(wc -w <"$dir/out")" -ge 1 ] || fail "no answer"
else
    refused 3 "name a model with -m" generate hello
    run 1 doctor
    says out "demo model"
    left_out "the built-in model (demo.gguf does not lie beside the program)"
fi

echo "$n_checks runs"
exit $failed
