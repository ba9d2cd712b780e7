#!/bin/sh
# test_lost_file.sh BINARY - a model that is cut while it is in use: a reason, not a crash.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

model=$dir/model.gguf
cp tests/data/models/llama-gqa.gguf "$model"
mkfifo "$dir/lines"
last='chat with a model that is cut between two answers'
"$rocmforge" chat -m "$model" --backend cpu --chat-format chatml -n 4 \
    <"$dir/lines" >"$dir/out" 2>"$dir/err" &
program=$!
exec 3>"$dir/lines"
echo 'one' >&3
i=0
until [ -s "$dir/out" ] || [ $i -ge 600 ]; do # the first answer: the model has been read
    sleep 0.1
    i=$((i + 1))
done
[ -s "$dir/out" ] || fail "no answer: $(cat "$dir/err")"
truncate -s 100 "$model"
echo 'two' >&3
exec 3>&-
wait $program
code=$?
[ "$code" -eq 3 ] || fail "exit code $code, expected 3"
says err 'a file in use lost bytes'
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "the error is not one line: $(cat "$dir/err")"

[ "$failed" -eq 0 ] && echo "1 run"
exit "$failed"
