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
    "$rocmforge" serve --addr 127.0.0.1:0 -t 1 "$@" >"$dir/out" 2>"$dir/err" </dev/null &
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
