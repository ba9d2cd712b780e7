#!/bin/sh
# test_serve.sh BINARY - the serve command as its users meet it: the examples of its page, TLS, signals
# while streams run, wrong settings.
# Proves parts of req: C-16, B-49, B-51, B-52.
set -u
rocmforge=$1
. tests/lib/cli.sh
pids=''
cleanup() {
    for p in $pids; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$dir"
}
trap cleanup EXIT

# serve ARGS...: starts a server on a free port; its address in $url, its process in $pid
serve() {
    last="rocmforge serve $*"
    n_checks=$((n_checks + 1))
    : >"$dir/out"
    "$rocmforge" serve --addr "${addr:-127.0.0.1:0}" -t 1 "$@" >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    pids="$pids $pid"
    tries=600
    until url=$(sed -n 's/.* is served at //p' "$dir/out") && [ -n "$url" ]; do
        tries=$((tries - 1))
        if [ $tries -eq 0 ] || ! kill -0 $pid 2>/dev/null; then
            fail "it does not listen: $(cat "$dir/err")"
            exit 1
        fi
        sleep 0.1
    done
}

# ends CODE: the server ends with this code
ends() {
    wait $pid
    code=$?
    [ $code -eq "$1" ] || fail "exit code $code, expected $1: $(head -c 300 "$dir/err")"
}

# ---- the examples of the page, one command a line
serve --log info --drain-seconds 600
grep '^curl ' docs/serving.md | sed "s|http://127.0.0.1:8080|$url|; s/^curl /curl -sS --fail /" >"$dir/examples"
[ "$(wc -l <"$dir/examples")" -ge 6 ] || fail "the page has too few examples"
while read -r example; do
    n_checks=$((n_checks + 1))
    sh -c "$example" >"$dir/answer" 2>&1 || fail "$example: $(cat "$dir/answer")"
    [ -s "$dir/answer" ] || fail "$example: no answer"
done <"$dir/examples"

# every metric is on the page, and every row of its tables of routes answers
curl -sS "$url/metrics" | sed -n 's/^# TYPE rocmforge_\([a-z_]*\) .*/\1/p' >"$dir/metrics"
[ "$(wc -l <"$dir/metrics")" -gt 20 ] || fail "too few metrics"
while read -r name; do
    grep -qF "\`$name\`" docs/serving.md || fail "docs/serving.md does not name the metric $name"
done <"$dir/metrics"
curl -sS "$url/openapi.json" | grep -oE '"/[^"]*":\{"(get|post)"' | cut -d'"' -f2 >"$dir/paths"
[ "$(wc -l <"$dir/paths")" -ge 20 ] || fail "too few routes"
while read -r path; do
    grep -qF " $path\`" docs/serving.md || fail "docs/serving.md does not name the route $path"
done <"$dir/paths"

# where a request comes from is in the log, what is not well-formed is not
trace=4bf92f3577b34da6a3ce929d0e0e4736 parent=00f067aa0ba902b7
curl -sS -o /dev/null "$url/health" -H "traceparent: 00-$trace-$parent-01" -H 'X-Request-Id: from-proxy_1'
curl -sS -o /dev/null "$url/live" -H "traceparent: 00-$trace-" -H 'X-Request-Id: 1 status=200'
until grep -q ' /live ' "$dir/err"; do sleep 0.05; done
grep -q " /health .* trace=$trace parent=$parent client=from-proxy_1\$" "$dir/err" || fail "no trace in the log"
grep ' /live ' "$dir/err" | grep -qE 'trace=|client=|status=200 status' && fail "a false trace in the log"

# nothing of prompts or answers is in the log
grep -q 'job=.* state=finished' "$dir/err" || fail "no line for an answer in the log"
grep -qiE 'fox|once upon' "$dir/err" && fail "text of a prompt or an answer is in the log"

# ---- SIGTERM while a stream runs: the stream comes to its end, the program ends with 0
: >"$dir/stream" # nothing of the one before
curl -sSN "$url/generate/stream" -d '{"prompt":"Once","max_tokens":300,"ignore_eos":true}' >"$dir/stream" &
client=$!
until grep -q token "$dir/stream"; do sleep 0.05; done
kill -TERM $pid
wait $client || fail "the stream was cut off"
grep -q '"generated_tokens":300' "$dir/stream" || fail "the stream did not come to its end"
ends 0

# ---- no time to finish: cancelled, told so, and ended with 0; the same for SIGINT
for signal in TERM INT; do
    serve --drain-seconds 0
    : >"$dir/stream" # nothing of the one before
    curl -sSN "$url/generate/stream" -d '{"prompt":"Once","max_tokens":900,"ignore_eos":true}' >"$dir/stream" &
    client=$!
    until grep -q token "$dir/stream"; do sleep 0.05; done
    kill -$signal $pid
    ends 0
    wait $client || fail "the stream was cut off"
    grep -q '"code":"cancelled"' "$dir/stream" || fail "the client was not told"
done

# ---- a second signal ends it at once
serve --drain-seconds 600
: >"$dir/stream" # nothing of the one before
curl -sSN "$url/generate/stream" -d '{"prompt":"Once","max_tokens":900,"ignore_eos":true,"n":1}' >"$dir/stream" 2>&1 &
until grep -q token "$dir/stream"; do sleep 0.05; done
kill -TERM $pid
until [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/ready")" = 503 ]; do sleep 0.05; done
kill -TERM $pid
ends 143

# ---- kill -9 in the middle, and start again: the socket's file that it left is no obstacle
addr=unix:$dir/sock
for round in 1 2; do
    serve
    : >"$dir/stream"
    curl -sSN --unix-socket "$dir/sock" http://localhost/generate/stream \
        -d '{"prompt":"Once","max_tokens":900,"ignore_eos":true}' >"$dir/stream" 2>/dev/null &
    client=$!
    until grep -q token "$dir/stream"; do sleep 0.05; done
    kill -9 $pid
    ends 137
    wait $client && fail "the client of a server that was killed got a whole answer"
    [ -S "$dir/sock" ] || fail "the socket's file is gone in round $round: nothing was tested"
done
serve
curl -sS --unix-socket "$dir/sock" http://localhost/generate -d '{"prompt":"Once","max_tokens":3}' |
    grep -q '"generated_tokens":3' || fail "no answer after a kill"
refused 3 "another program listens there" serve --addr "$addr"
curl -sS --unix-socket "$dir/sock" http://localhost/ready | grep -q ok || fail "a second server took its socket"
kill -TERM $pid
ends 0
[ ! -e "$dir/sock" ] || fail "the socket's file is left at the end"
echo 'not a socket' >"$dir/sock"
refused 3 "cannot listen" serve --addr "$addr"
grep -q 'not a socket' "$dir/sock" || fail "a file that is no socket is gone"
addr=''
# the same for a port: it can be listened on again at once
serve
port=${url##*:}
kill -9 $pid
ends 137
addr=127.0.0.1:$port
serve
[ "$(curl -sS "$url/ready")" = '{"status":"ok"}' ] || fail "not ready after a kill"
kill -TERM $pid
ends 0
addr=''

# ---- several models: files at the start, a directory on demand, aliases
mkdir "$dir/models"
for name in one two big-00001-of-00002 big-00002-of-00002 .hidden; do
    cp models/demo.gguf "$dir/models/$name.gguf"
done
touch "$dir/models/notes.txt"
ids() { curl -sS "$url/v1/models" | tr ',' '\n' | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | tr '\n' ' '; }
loaded() { curl -sS "$url/metrics" | sed -n 's/^rocmforge_models_loaded //p'; }
# model_of ARGS...: the model that answers
model_of() { curl -sS "$url/generate" -d "{\"prompt\":\"Once\",\"max_tokens\":1$1}" | sed -n 's/.*"model":"\([^"]*\)".*/\1/p'; }
serve -m models/demo.gguf -m "$dir/models" --alias main --alias "also=$dir/models/two.gguf" --alias third=demo \
    --models-dir models
[ "$(ids)" = "main big one two " ] || fail "the models are $(ids)"
[ "$(loaded)" = 1 ] || fail "$(loaded) models are loaded at the start"
[ "$(model_of '')" = main ] || fail "without a name $(model_of '') answers"
[ "$(model_of ',"model":"also"')" = two ] || fail "the alias leads elsewhere"
[ "$(loaded)" = 2 ] || fail "$(loaded) models are loaded"
kill -TERM $pid
ends 0
serve --models-dir "$dir/models" --models-budget-mb 1
[ "$(loaded)" = 0 ] || fail "$(loaded) models are loaded at the start"
curl -sS "$url/generate" -d '{"prompt":"a","model":"one"}' | grep -q -- '--models-budget-mb' || fail "the budget is ignored"
kill -TERM $pid
ends 0
mkdir "$dir/empty"
serve --models-dir "$dir/empty"
[ "$(ids)" = "demo " ] || fail "the models are $(ids)"
kill -TERM $pid
ends 0
refused 2 "two models are called 'one'" serve --addr 127.0.0.1:0 -m "$dir/models/one.gguf" -m "$dir/models"
refused 2 "the first model has a name already" serve --addr 127.0.0.1:0 --alias a --alias b
refused 2 "the name is empty" serve --addr 127.0.0.1:0 --alias =x

# ---- the config file: flags before the environment before the file
printf '[serve]\naddr = nowhere-file\nalias = from-file\nmodel = %s\n' "$dir/models/one.gguf" >"$dir/config"
refused 2 "'nowhere-file'" serve --config "$dir/config"
ROCMFORGE_ADDR=nowhere-env refused 2 "'nowhere-env'" serve --config "$dir/config"
ROCMFORGE_ADDR=nowhere-env refused 2 "'nowhere-flag'" serve --config "$dir/config" --addr nowhere-flag
serve --config "$dir/config"
[ "$(ids)" = "from-file " ] || fail "the models are $(ids)"
kill -TERM $pid
ends 0
serve --config "$dir/config" --alias from-flag -m "$dir/models/two.gguf"
[ "$(ids)" = "from-flag " ] || fail "the models are $(ids)"
kill -TERM $pid
ends 0

# ---- TLS
serve --tls-cert tests/data/server/cert.pem --tls-key tests/data/server/key.pem
case $url in https://*) ;; *) fail "the address is $url" ;; esac
[ "$(curl -sS --cacert tests/data/server/cert.pem "$url/health")" = '{"status":"ok"}' ] || fail "no answer over TLS"
curl -sSN --cacert tests/data/server/cert.pem "$url/generate/stream" \
    -d '{"prompt":"Once","max_tokens":5}' | grep -q '"done":true' || fail "no stream over TLS"
kill -TERM $pid
ends 0

# ---- wrong settings
refused 2 "is not an address to listen on" serve --addr nowhere
refused 2 "TLS needs a certificate and its key" serve --addr 127.0.0.1:0 --tls-cert tests/data/server/cert.pem
refused 3 "none.pem" serve --addr 127.0.0.1:0 --tls-cert none.pem --tls-key none.pem
refused 4 "PEM files that belong together" serve --addr 127.0.0.1:0 --tls-cert tests/data/server/cert.pem \
    --tls-key tests/data/server/cert.pem
echo 'not a sum' >"$dir/keys"
refused 4 "line 1: expected the SHA-256 sum of a key" serve --addr 127.0.0.1:0 --api-key-file "$dir/keys"
refused 3 "none.gguf" serve -m none.gguf

[ $failed -eq 0 ] && echo "$n_checks runs"
exit $failed
