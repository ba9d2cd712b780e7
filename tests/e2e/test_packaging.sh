#!/bin/sh
# test_packaging.sh BINARY - the files of packaging/: what reads them in real life accepts them, every
# metric, flag, variable and route that they name exists, and streams and their end get through the
# proxies.  What is not installed here is said in a line "left out".
set -u
rocmforge=$1
. tests/lib/cli.sh
pids=''
cleanup() {
    for p in $pids; do kill "$p" 2>/dev/null; done
    wait
    rm -rf "$dir"
}
trap cleanup EXIT

has() { command -v "$1" >/dev/null 2>&1; }

# has_module NAME: this machine's python3 has it
has_module() { has python3 && python3 -c "import $1" 2>/dev/null; }

# accepts COMMAND...: it ends with 0
accepts() {
    last="$*" n_checks=$((n_checks + 1))
    "$@" >"$dir/said" 2>&1 || fail "refused: $(head -c 2000 "$dir/said")"
}

# known LIST WHAT NAME...: each name is a line of the file LIST
known() {
    list=$1 what=$2
    shift 2
    [ $# -gt 0 ] || fail "names no $what"
    for name in "$@"; do
        n_checks=$((n_checks + 1))
        grep -qxF -- "$name" "$list" || fail "there is no $what $name"
    done
}

# ---- what the server knows: one so slow that its long answers outlast the test
: >"$dir/out"
"$rocmforge" serve --addr "unix:$dir/sock" --backend ref -t 1 -m models/demo.gguf \
    >"$dir/out" 2>"$dir/err" </dev/null &
pids=$!
tries=300
until grep -q ' is served at ' "$dir/out"; do
    tries=$((tries - 1))
    if [ $tries -eq 0 ] || ! kill -0 "$pids"; then
        echo "FAILED: the server does not listen: $(cat "$dir/err")"
        exit 1
    fi
    sleep 0.1
done
ask() { curl -sS --max-time 60 --unix-socket "$dir/sock" "http://localhost$1"; }
ask /metrics >"$dir/text" && sed '/^#/d; s/[{ ].*//' "$dir/text" | sort -u >"$dir/metrics"
ask /openapi.json | grep -oE '"/[^"]*":\{"(get|post)"' | cut -d'"' -f2 >"$dir/routes"
"$rocmforge" help serve | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u >"$dir/flags"
"$rocmforge" man | grep -oE 'ROCMFORGE_[A-Z_]+' | sort -u >"$dir/variables"
for list in metrics routes flags variables; do
    [ "$(wc -l <"$dir/$list")" -ge 5 ] || fail "too few $list: $(cat "$dir/$list")"
done

# ---- the names in the files
in_file() { grep -oE -- "$1" "$last"; }
for last in packaging/grafana.json packaging/prometheus-adapter.yaml; do
    # shellcheck disable=SC2046
    known "$dir/metrics" metric $(in_file 'rocmforge_[a-z_]+' | sort -u)
done
last=packaging/grafana.json
sed 's/_bucket$//; s/_sum$//; s/_count$//' "$dir/metrics" | sort -u | while read -r name; do
    grep -qE "${name}[^a-z_]|${name}_(bucket|sum|count)" $last || echo "$name is in no panel"
done >"$dir/said"
[ -s "$dir/said" ] && fail "$(cat "$dir/said")"
last=packaging/kubernetes.yaml
# shellcheck disable=SC2046
known "$dir/metrics" metric $(in_file 'rocmforge_[a-z_]+' | sort -u)
for last in packaging/kubernetes.yaml packaging/rocmforge.service packaging/nginx.conf \
    packaging/haproxy.cfg; do
    # shellcheck disable=SC2046
    known "$dir/flags" flag $(in_file '--[a-z][a-z0-9-]*' | sort -u)
done
for last in packaging/rocmforge.service packaging/Dockerfile; do
    # shellcheck disable=SC2046
    known "$dir/variables" variable $(in_file 'ROCMFORGE_[A-Z_]+' | sort -u)
done
last=packaging/haproxy.cfg
# shellcheck disable=SC2046
known "$dir/routes" route $(sed -n 's/.*httpchk GET //p; s/.*{ path \(.*\) }.*/\1/p' $last)
last=packaging/nginx.conf
# shellcheck disable=SC2046
known "$dir/routes" route $(sed -n 's/.*location ~ ^\/(\(.*\))\$ {/\/\1/p' $last | sed 's/|/ \//g')
last=packaging/kubernetes.yaml
# shellcheck disable=SC2046
known "$dir/routes" route $(sed -n 's/.*{path: \([^,]*\),.*/\1/p' $last)

# ---- the config file: every flag of serve stands in it, and what it says of them is accepted
last=packaging/rocmforge.conf
sed -n 's/^#\([a-z0-9-]*\) = .*/--\1/p' $last | sort -u >"$dir/settings"
grep -vxE -- '--(help|json|config|color|no-.*)' "$dir/flags" | sort >"$dir/said"
diff "$dir/settings" "$dir/said" >"$dir/answer" || fail "not the flags of serve: $(cat "$dir/answer")"
files='model|models-dir|alias|addr|draft-model|api-key-file|tls-cert|tls-key|otlp-endpoint'
sed -E "/^#($files) = /d; s/^#([a-z0-9-]+ = )/\1/" $last >"$dir/config"
[ "$(grep -c '^[a-z]' "$dir/config")" -ge 25 ] || fail "too few settings"
echo "addr = unix:$dir/third" >>"$dir/config"
: >"$dir/third.out"
"$rocmforge" serve --config "$dir/config" >"$dir/third.out" 2>"$dir/third.err" </dev/null &
third=$!
until grep -q ' is served at ' "$dir/third.out" || ! kill -0 $third 2>/dev/null; do sleep 0.1; done
kill -TERM $third 2>/dev/null
wait $third || fail "the settings are refused: $(cat "$dir/third.err")"

# ---- systemd
last=packaging/rocmforge.service
grep -q '^ExecStart=rocmforge ' $last || fail "it starts something else"
sed "s|^ExecStart=rocmforge |ExecStart=$(realpath "$rocmforge") |" $last >"$dir/rocmforge.service"
if has systemd-analyze; then
    accepts systemd-analyze verify --man=no "$dir/rocmforge.service"
    [ -s "$dir/said" ] && fail "systemd complains: $(cat "$dir/said")"
    # 0 is perfectly shut in, 10 is not at all; it may use the network
    accepts systemd-analyze security --offline=true --threshold=20 "$dir/rocmforge.service"
else
    echo "left out: systemd reads rocmforge.service (systemd-analyze is not installed)"
fi

# ---- Kubernetes and Prometheus
if has_module yaml; then
    accepts python3 - <<'END'
import re, yaml
documents = {d["kind"]: d for d in yaml.safe_load_all(open("packaging/kubernetes.yaml"))}
assert set(documents) == {"Deployment", "Service", "PodDisruptionBudget",
                          "HorizontalPodAutoscaler"}, documents.keys()
deployment = documents["Deployment"]["spec"]
pod = deployment["template"]["spec"]
container = pod["containers"][0]
labels = deployment["template"]["metadata"]["labels"]
assert labels == deployment["selector"]["matchLabels"]
assert labels == documents["Service"]["spec"]["selector"]
assert labels == documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
ports = {p["name"] for p in container["ports"]}
assert documents["Service"]["spec"]["ports"][0]["targetPort"] in ports
for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    assert container[probe]["httpGet"]["port"] in ports, probe
drain = next(int(a.split("=")[1]) for a in container["args"] if a.startswith("--drain-seconds="))
sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
assert pod["terminationGracePeriodSeconds"] > sleep + drain
assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
scaler = documents["HorizontalPodAutoscaler"]["spec"]
assert scaler["scaleTargetRef"]["name"] == documents["Deployment"]["metadata"]["name"]
rules = yaml.safe_load(open("packaging/prometheus-adapter.yaml"))["rules"]["custom"]
made = re.search('__name__=~"([^"]*)"', rules[0]["seriesQuery"])[1].split("|")
assert {m["pods"]["metric"]["name"] for m in scaler["metrics"]} == set(made)
END
else
    echo "left out: reading kubernetes.yaml and prometheus-adapter.yaml (python3-yaml is not installed)"
fi
if has kubernetes-validate; then
    accepts kubernetes-validate --strict packaging/kubernetes.yaml
else
    echo "left out: Kubernetes' schemas (kubernetes-validate is not installed)"
fi

# ---- Grafana: queries as Prometheus gets them, one rule each
if has python3; then
    accepts python3 - "$dir/rules.json" <<'END'
import json, sys
board = json.load(open("packaging/grafana.json"))
panels = board["panels"]
assert len({p["id"] for p in panels}) == len(panels) >= 10
taken = set()
for p in panels:
    at = p["gridPos"]
    assert at["x"] + at["w"] <= 24, p["title"]
    for x in range(at["x"], at["x"] + at["w"]):
        for y in range(at["y"], at["y"] + at["h"]):
            assert (x, y) not in taken, f"{p['title']} lies on another panel"
            taken.add((x, y))
    assert p["targets"] and p["title"] and p["description"]
rules = [{"record": "q", "expr": t["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")}
         for p in panels for t in p["targets"]]
assert not any("$" in r["expr"] for r in rules)
# JSON is YAML
json.dump({"groups": [{"name": f"g{i}", "rules": [r]} for i, r in enumerate(rules)]},
          open(sys.argv[1], "w"))
END
    if has promtool; then
        accepts promtool check rules --lint=none "$dir/rules.json"
        accepts sh -c 'promtool check metrics <"$1"' sh "$dir/text"
    else
        echo "left out: Prometheus reads the queries and the metrics (promtool is not installed)"
    fi
else
    echo "left out: reading grafana.json (python3 is not installed)"
fi

# ---- Docker
last=packaging/Dockerfile
grep -q '^CMD \["serve"\]$' $last || fail "it starts something else"
if has docker && docker info >/dev/null 2>&1; then
    accepts docker build --check -f packaging/Dockerfile .
else
    echo "left out: Docker reads the Dockerfile (there is no docker daemon)"
fi

# ---- proxies, in front of the server and of one that is not there
if has openssl; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=llm.example.com \
        -keyout "$dir/proxy.key" -out "$dir/proxy.crt" 2>/dev/null
    cat "$dir/proxy.crt" "$dir/proxy.key" >"$dir/proxy.pem"
fi

through() { # SOCKET PATH MORE...
    socket=$1 path=$2
    shift 2
    curl -sSkN --max-time 60 --unix-socket "$socket" "https://llm.example.com$path" "$@"
}

# metric NAME: its value
metric() { ask /metrics | sed -n "s/^rocmforge_$1 //p"; }

# until_true COMMAND...: waits for it, at most 20 seconds
until_true() {
    tries=200
    until "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

is_cancelled() { [ "$(metric requests_cancelled_total)" -gt "$1" ]; }

# check_proxy SOCKET: pages pass, what is for administrators does not; a stream comes while it is made,
# and who leaves it ends the answer.
check_proxy() {
    n_checks=$((n_checks + 6))
    until_true through "$1" /ready -f -o "$dir/answer" || fail "it does not serve"
    grep -q '"ok"' "$dir/answer" || fail "/ready says $(cat "$dir/answer")"
    through "$1" / -o "$dir/answer" && grep -q '<title>ROCmForge' "$dir/answer" || fail "no page"
    for path in /metrics /slots /traces /models/load /models/unload; do
        code=$(through "$1" $path -o "$dir/answer" -w '%{http_code}')
        [ "$code" = 404 ] || fail "$path is answered with $code"
    done
    before=$(metric requests_cancelled_total)
    through "$1" /v1/chat/completions -d '{"messages": [{"role": "user", "content": "Go on."}],
        "stream": true, "ignore_eos": true, "max_tokens": 900}' 2>/dev/null | head -n 20 >"$dir/answer"
    [ "$(grep -c '^data: {' "$dir/answer")" -ge 5 ] || fail "no stream: $(cat "$dir/answer")"
    until_true is_cancelled "$before" || fail "the answer goes on when its client has left"
}

paths="s|/etc/ssl/rocmforge|$dir/proxy|; s|127.0.0.1:8080|unix:$dir/sock|; s|127.0.0.1:8081|127.0.0.1:1|"
last=packaging/nginx.conf
if has nginx && has openssl; then
    temporary=$(for kind in client_body proxy fastcgi uwsgi scgi; do
        printf '%s_temp_path %s; ' $kind "$dir/$kind"
    done)
    sed "$paths; s|\.pem|.crt|; s|listen 443|listen unix:$dir/nginx.sock|
        s|^http {|http { access_log off; $temporary|" $last >"$dir/nginx.conf"
    user=''
    [ "$(id -u)" -ne 0 ] || user='user root;'
    set -- nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/nginx.log" \
        -g "$user daemon off; pid $dir/nginx.pid;"
    accepts "$@" -t
    "$@" 2>>"$dir/err" &
    pids="$pids $!"
    last=packaging/nginx.conf
    check_proxy "$dir/nginx.sock"
else
    echo "left out: nginx reads nginx.conf (nginx or openssl is not installed)"
fi
last=packaging/haproxy.cfg
if has haproxy && has openssl; then
    sed "$paths; s|bind :443|bind unix@$dir/haproxy.sock|; s|unix:$dir/sock|unix@$dir/sock|" \
        $last >"$dir/haproxy.cfg"
    accepts haproxy -c -f "$dir/haproxy.cfg"
    haproxy -db -f "$dir/haproxy.cfg" 2>>"$dir/err" &
    pids="$pids $!"
    last=packaging/haproxy.cfg
    check_proxy "$dir/haproxy.sock"
else
    echo "left out: HAProxy reads haproxy.cfg (haproxy or openssl is not installed)"
fi

# ---- what the unit's Type=notify waits for
if has python3; then
    accepts timeout 60 python3 - "$rocmforge" "$dir/notify" "$dir/second" <<'END'
import os, signal, socket, subprocess, sys
binary, path, address = sys.argv[1:]
for name in (path, "@" + path):  # a file, and a name without one
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(name.replace("@", "\0"))
    manager.settimeout(30)
    server = subprocess.Popen([binary, "serve", "--addr", "unix:" + address, "-m", "models/demo.gguf"],
                              env={**os.environ, "NOTIFY_SOCKET": name}, stdout=subprocess.DEVNULL)
    assert manager.recv(100) == b"READY=1"
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(address)  # it does listen
    server.send_signal(signal.SIGTERM)
    assert manager.recv(100) == b"STOPPING=1"
    assert server.wait(30) == 0
END
else
    echo "left out: the word to the service manager (python3 is not installed)"
fi

echo "$n_checks checks"
exit $failed
