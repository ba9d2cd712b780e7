#!/bin/sh
# test_bench_serve.sh BINARY - load on our own server: what the client counts is what the server counts,
# for every workload; clients that leave; idle connections; keys; two servers; the image; Ctrl-C; wrong
# flags; a server that is not there.
# Proves parts of req: C-16.
set -u
rocmforge=$1
. tests/lib/cli.sh
pids=''
cleanup() {
    for p in $pids; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$dir"
}
trap cleanup EXIT

# serve ARGS...: starts a server on a free port; its address in $url
serve() {
    last="rocmforge serve $*"
    : >"$dir/address"
    "$rocmforge" serve --addr 127.0.0.1:0 -t 1 "$@" >"$dir/address" 2>"$dir/log" </dev/null &
    pids="$pids $!"
    server=$!
    tries=600
    until url=$(sed -n 's/.* is served at //p' "$dir/address") && [ -n "$url" ]; do
        tries=$((tries - 1))
        if [ $tries -eq 0 ] || ! kill -0 $server 2>/dev/null; then
            fail "it does not listen: $(cat "$dir/log")"
            exit 1
        fi
        sleep 0.1
    done
}

metric() { curl -sS "$url/metrics" | sed -n "s/^rocmforge_$1 //p"; }
counts() { echo "$(metric requests_completed_total) $(metric tokens_generated_total) $(metric prompt_tokens_total) $(metric prompt_tokens_cached_total)"; }
ended() { echo $(($(metric requests_completed_total) + $(metric requests_cancelled_total))); }
# number NAME: the first number of that name in the JSON on stdout
number() { grep -oE "\"$1\":[0-9.]+" "$dir/out" | head -n 1 | cut -d: -f2; }

# measured N ARGS...: N requests without warm-up; the server's counts grow by those of the JSON and of
# the one request for one token that asks whether ids are taken
measured() {
    n=$1
    shift
    before=$(counts)
    run 0 bench serve --url "$url" --json --requests "$n" --warmup 0 "$@"
    after=$(counts)
    # shellcheck disable=SC2046,SC2086
    set -- $before $after
    [ "$(number completed)" = "$n" ] || fail "$(number completed) of $n requests completed"
    [ $(($5 - $1)) -eq $((n + 1)) ] || fail "the server completed $(($5 - $1)) requests"
    [ $(($6 - $2)) -eq $(($(number output_tokens) + 1)) ] || fail "the server generated $(($6 - $2)) tokens"
    [ $(($7 - $3)) -eq $(($(number prompt_tokens) + 1)) ] || fail "the server got $(($7 - $3)) prompt tokens"
    [ $(($8 - $4)) -eq "$(number cached_tokens)" ] || fail "the server reused $(($8 - $4)) tokens"
    says out '"failed":0,"cancelled":0,"other_length":0,'
    says out '"errors":[]'
    for times in ttft_ms e2e_ms; do says out "\"$times\":{\"n\":$n,"; done
}

serve
# ---- counts; all answers alike: n * 6 tokens
measured 9 --concurrency 3 -p 20 -n 6 --spread 0
says out '"workload":"random","seed":0,"n_prefix":0,"n_prompt":20,"n_gen":6,"spread":0,"temperature":0,"top_k":0,"top_p":1,"cancel":0,"idle_connections":0,"rate":null,"concurrency":3'
[ "$(number output_tokens)" = 54 ] || fail "54 tokens were asked for"
[ "$(number prompt_tokens)" = 180 ] || fail "180 prompt tokens were sent"
says out '"prompts":"tokens"'

# ---- tokens drawn by chance
measured 9 --concurrency 3 -p 20 -n 6 --spread 0 --temp 0.7 --top-k 40 --top-p 0.9
says out '"temperature":0.7,"top_k":40,"top_p":0.9,'
[ "$(number output_tokens)" = 54 ] || fail "54 tokens were asked for"

# ---- lengths vary with the seed, and with nothing else
measured 9 --concurrency 3 -p 20 -n 6 --spread 0.5 --seed 7
first="$(number prompt_tokens) $(number output_tokens)"
measured 9 --rate 50 -p 20 -n 6 --spread 0.5 --seed 7
[ "$(number prompt_tokens) $(number output_tokens)" = "$first" ] || fail "the same seed, other lengths"
says out '"rate":50,"concurrency":null'
measured 9 --concurrency 1 -p 20 -n 6 --spread 0.5 --seed 8
[ "$(number prompt_tokens) $(number output_tokens)" = "$first" ] && fail "another seed, the same lengths"

# ---- a shared prefix is found in the cache
measured 4 --workload shared-prefix --n-prefix 100 -p 10 -n 4 --concurrency 1 --seed 9
[ "$(number prompt_tokens)" -gt 400 ] || fail "the prefix is missing"
[ "$(number cached_tokens)" -ge 192 ] || fail "the prefix is not reused: $(number cached_tokens)"

# ---- warm-up requests are not counted
before=$(metric requests_completed_total)
run 0 bench serve --url "$url" --json --requests 3 --warmup 5 -p 8 -n 3 --spread 0
[ $(($(metric requests_completed_total) - before)) -eq 9 ] || fail "3 + 5 + 1 requests were to be sent"
[ "$(number output_tokens)" = 9 ] || fail "warm-up is counted"

# ---- clients that leave: the server cancels those, and finishes the others
base=$(ended) base_left=$(metric requests_cancelled_total)
run 0 bench serve --url "$url" --json --requests 40 --warmup 2 --concurrency 4 -p 20 -n 60 --spread 0 --cancel 0.5
says out '"cancel":0.5,'
n_left=$(number cancelled)
[ "$n_left" -gt 5 ] && [ "$n_left" -lt 35 ] || fail "$n_left of 40 clients left; one in two was to"
[ "$(number completed)" -eq $((40 - n_left)) ] || fail "$(number completed) of the others completed"
[ "$(number other_length)" -eq 0 ] || fail "answers were cut short"
# (the server learns of the last ones a moment later; it may be done with one whose client is leaving)
tries=100
until [ $(($(ended) - base)) -eq 43 ] || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
done
[ $(($(ended) - base)) -eq 43 ] || fail "the server ended $(($(ended) - base)) of 40 + 2 + 1 requests"
n_cancelled=$(($(metric requests_cancelled_total) - base_left))
[ $n_cancelled -le "$n_left" ] && [ $n_cancelled -ge $((n_left / 2)) ] || fail "the server cancelled $n_cancelled of $n_left"
[ "$(metric kv_blocks_free)" = "$(metric kv_blocks)" ] || fail "blocks are not free again"

# ---- idle connections are held open
run 0 bench serve --url "$url" --json --requests 8 --concurrency 4 -p 8 -n 4 --idle-connections 150
says out '"idle_connections":150,'
says out '"idle_opened":150,"idle_kept":150,'
run 0 bench serve --url "$url" --requests 1 -p 8 -n 4 --idle-connections 3
says out '   3 idle connections, 3 of them opened, 3 open at the end'

# ---- table, two servers, image
run 0 bench serve --url "$url/" --url "$url" --requests 4 -p 8 -n 4 --plot "$dir/plot.svg"
says out "| | A | B | A / B |"
says out "| requests completed | 4 | 4 | |"
for row in "output tokens/s" "total tokens/s" "requests/s" "TTFT, ms: p99" "inter-token, ms: p50" \
    "per output token, ms: mean" "end to end, ms: p95"; do
    grep -qE "^\| $row \|( [0-9.]+ \|){3}$" "$dir/out" || fail "no row '$row' with two figures and their ratio"
done
[ "$(grep -c '<path class="line"' "$dir/plot.svg")" -eq 6 ] || fail "the image does not have 4 lines and a legend of 2"
[ "$(tail -n 1 "$dir/plot.svg")" = "</svg>" ] || fail "the image is cut off"
run 0 bench serve --url "$url" --url "$url" --requests 2 -p 8 -n 4 --json
grep -qE '"ratios":\{"requests_per_second":[0-9.]+,"output_tokens_per_second":[0-9.]+,"total_tokens_per_second":[0-9.]+\}\}$' \
    "$dir/out" || fail "no ratios"
run 3 bench serve --url "$url" --requests 1 -p 4 -n 2 --plot "$dir/none/plot.svg"
says err "$dir/none/plot.svg"

# ---- requests that the server refuses are failures, by kind
run 1 bench serve --url "$url" --json --model absent --requests 3 --warmup 0
says out '"completed":0,"failed":3,'
says out '"errors":[{"kind":"HTTP 404","count":3,'
run 1 bench serve --url "$url" --requests 2 --warmup 1 -p 100000 --spread 0 -n 4
says out "2 requests after 1 to warm up (1 of these failed)"
says out "   2 failed: HTTP 400 ("

# ---- Ctrl-C: what was measured so far, and 130
last="rocmforge bench serve, interrupted"
# (a shell's background jobs ignore SIGINT; the program catches it all the same)
"$rocmforge" bench serve --url "$url" --json --requests 100000 -p 8 -n 4 --warmup 0 --concurrency 2 \
    >"$dir/out" 2>"$dir/err" </dev/null &
client=$!
base=$(metric requests_completed_total)
until [ "$(metric requests_completed_total)" -gt $((base + 10)) ]; do sleep 0.05; done
kill -INT $client
wait $client
code=$?
[ $code -eq 130 ] || fail "exit code $code, expected 130"
says out '"interrupted":true'
says out '"failed":0,'
[ "$(number completed)" -ge 8 ] || fail "only $(number completed) requests are reported"

# ---- a server that hangs up on idle connections
serve --idle-seconds 1
run 1 bench serve --url "$url" --json --requests 20 --rate 8 --warmup 0 -p 4 -n 2 --idle-connections 4
says out '"idle_opened":4,"idle_kept":0,'
says out '"failed":0,'

# ---- keys
printf %s 'a-key' | sha256sum | cut -d' ' -f1 | sed 's/$/ user tester/' >"$dir/sums"
echo 'a-key' >"$dir/key"
serve --api-key-file "$dir/sums"
refused 3 "answered 401; give its key by --api-key-env or --key-file" bench serve --url "$url"
run 0 bench serve --url "$url" --key-file "$dir/key" --requests 2 -p 4 -n 2
THE_KEY=a-key run 0 bench serve --url "$url" --api-key-env THE_KEY --requests 2 -p 4 -n 2
THE_KEY=another refused 3 "answered 401" bench serve --url "$url" --api-key-env THE_KEY
refused 2 "the variable NO_KEY is not set" bench serve --url "$url" --api-key-env NO_KEY
refused 2 "both given" bench serve --api-key-env THE_KEY --key-file "$dir/key"
printf 'a b' >"$dir/bad"
refused 2 "expected a key of 1 to 4096 visible ASCII characters" bench serve --key-file "$dir/bad"
: >"$dir/bad"
refused 2 "expected a key" bench serve --key-file "$dir/bad"
refused 3 "none" bench serve --key-file "$dir/none"

# ---- a server that is not there any more
kill -9 $server
wait $server 2>/dev/null
refused 3 "$url/v1/models: " bench serve --url "$url"

# ---- wrong flags
refused 2 "'localhost:8080' is not http://HOST:PORT" bench serve --url localhost:8080
refused 2 "'file:///x' is not http://HOST:PORT" bench serve --url file:///x
refused 2 "'http://h/?q' is not http://HOST:PORT" bench serve --url 'http://h/?q'
refused 2 "--url is given 3 times; two servers" bench serve --url http://a --url http://b --url http://c
refused 2 "'bursts' is neither random nor shared-prefix" bench serve --workload bursts
refused 2 "--n-prefix says nothing without" bench serve --n-prefix 10
refused 2 "--rate and --concurrency exclude each other" bench serve --rate 5 --concurrency 2
refused 2 "--requests: '0' is not" bench serve --requests 0
refused 2 "--concurrency: '5000' is not" bench serve --concurrency 5000
refused 2 "--rate: '0' is not" bench serve --rate 0
refused 2 "--spread: '1.5' is not" bench serve --spread 1.5
refused 2 "--top-k and --top-p say nothing without --temp" bench serve --top-p 0.9
refused 2 "--cancel: '2' is not" bench serve --cancel 2
refused 2 "--idle-connections: '-1' is not" bench serve --idle-connections -1
refused 2 "unexpected argument 'x'" bench serve x
refused 2 "unknown flag '--api-key'" bench serve --api-key secret

[ $failed -eq 0 ] && echo "$n_checks runs"
exit $failed
