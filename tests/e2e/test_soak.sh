#!/bin/sh
# test_soak.sh BINARY - a few seconds of bench/soak.py: clients that leave, stall, send garbage and go
# beyond limits leave no request, KV block, connection or file behind.  req: C-18, B-26, B-33
set -u
command -v python3 >/dev/null || {
    echo "no python3"
    exit 77
}
exec python3 bench/soak.py "$1" --seconds 5 --clients 16 --idle 50
