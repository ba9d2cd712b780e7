#!/bin/sh
# test_bench.sh BINARY - `rocmforge bench`: every form of output, lists of tests, the roofline, and a
# peer that answers as llama-bench does.
# Proves parts of req: C-19.
set -u
rocmforge=$1
. tests/lib/cli.sh
trap 'rm -rf "$dir"' EXIT

run 0 bench -p 8,16 -n 4 -d 0,32 --parallel 1,3 -t 1 -r 2 --backend cpu
for row in "| pp8 |" "| pp16 |" "| tg4 |" "| tg4, 3 streams |" "| pp16 @ d32 |" "| tg4 @ d32, 3 streams |" \
    "of read rate | of peak |" "Measured beside it, 1 thread: reads"; do
    grep -qF "$row" "$dir/out" || fail "no '$row' in the table"
done

run 0 bench -p 8 -n 4 -t 1,2 -r 1 --format csv --backend cpu
[ "$(wc -l <"$dir/out")" -eq 5 ] || fail "not a head and four lines of CSV"
[ "$(awk -F, '{ print NF }' "$dir/out" | sort -u)" = 14 ] || fail "lines of different length"

cat >"$dir/peer" <<'PEER'
#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
while [ $# -gt 0 ]; do
    case $1 in -p) p=$2 ;; -n) n=$2 ;; esac
    shift
done
echo "[{\"n_prompt\": $p, \"n_gen\": $n, \"avg_ts\": 50.0}]"
PEER
chmod +x "$dir/peer"
run 0 bench -p 8 -n 4 -d 0,32 -t 1 -r 2 --backend cpu --json --compare "$dir/peer" --plot "$dir/roof.svg"
grep -q '"peer_tokens_per_second":50.000,"ratio":' "$dir/out" || fail "no ratio"
[ "$(wc -l <"$dir/calls")" -eq 8 ] || fail "the peer ran $(wc -l <"$dir/calls") times, not 8"
grep -q -- "-p 8 -n 0 -t 1 -r 1 -o json -d 32$" "$dir/calls" || fail "other arguments for the peer"
grep -q -- "-p 8 -n 0 -t 1 -r 1 -o json$" "$dir/calls" || fail "a depth of 0 for a peer that may know none"
grep -q "</svg>" "$dir/roof.svg" || fail "the image has no end"
[ "$(grep -c "<circle" "$dir/roof.svg")" -eq 4 ] || fail "not four points"

printf '#!/bin/sh\necho no json\n' >"$dir/peer"
refused 4 "its output is no JSON" bench -p 8 -n 0 -r 1 --compare "$dir/peer"
printf '#!/bin/sh\necho "[{}]"\n' >"$dir/peer"
refused 4 "is it llama-bench?" bench -p 8 -n 0 -r 1 --compare "$dir/peer"
printf '#!/bin/sh\nexit 7\n' >"$dir/peer"
refused 3 "ended with code 7" bench -p 8 -n 0 -r 1 --compare "$dir/peer"
refused 3 "cannot start" bench -p 8 -n 0 -r 1 --compare "$dir/none"
refused 2 "none of md, csv and json" bench --format xml
refused 2 "--depth: '1,x' is not a number" bench -d 1,x
refused 2 "--parallel: '0' is not a number" bench --parallel 0
refused 2 "--n-prompt: '' is not a number" bench -p ""
refused 3 "none/roof.svg" bench -p 8 -n 0 -r 1 --backend cpu --plot "$dir/none/roof.svg"

[ $failed -eq 0 ] && echo "$n_checks runs as expected"
exit $failed
