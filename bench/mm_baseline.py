#!/usr/bin/env python3
"""Compares a run of bench_mm with committed shares of the machine's peaks and says what got slower.

    build/bench_mm 2048 64 4,8,16,64 | python3 bench/mm_baseline.py
    build/bench_mm 2048 64 4,8,16,64 | python3 bench/mm_baseline.py --write

Shares (of the read rate for one activation row, of the multiplication peak for more) hold from machine to
machine where times do not, as far as these have the same instructions.  A share that is smaller than the
committed one by more than the slack is a regression: exit status 1.  --write replaces the shares of the
instruction sets that the run has, and keeps the others.
"""
import argparse
import csv
import pathlib
import re
import sys

FILE = pathlib.Path(__file__).with_suffix(".csv")
LINE = re.compile(r"^(\S+)\s+(\S+)\s+[\d.]+ GB/s \(\s*(\d+) %\)(.*)$")
MORE = re.compile(r"(\d+): [\d.]+ \((\d+) %\)")


def read_run(lines):
    """{(isa, format, rows): percent}"""
    shares = {}
    for line in lines:
        m = LINE.match(line)
        if not m:
            continue
        name, isa, share, more = m.groups()
        shares[isa, name, 1] = int(share)
        for rows, percent in MORE.findall(more):
            shares[isa, name, int(rows)] = int(percent)
    return shares


def read_committed():
    with FILE.open(newline="") as f:
        return {(r["isa"], r["format"], int(r["rows"])): int(r["percent"]) for r in csv.DictReader(f)}


def write(shares):
    with FILE.open("w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["isa", "format", "rows", "percent"])
        out.writerows([*key, percent] for key, percent in sorted(shares.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slack", type=float, default=0.2, help="how much of a share may be missing (0.2)")
    parser.add_argument("--write", action="store_true", help="commit this run's shares")
    args = parser.parse_args()
    run = read_run(sys.stdin)
    if not run:
        sys.exit("mm_baseline: no line of bench_mm's output on stdin")
    old = read_committed() if FILE.exists() else {}
    if args.write:
        sets = {isa for isa, _, _ in run}
        write({k: v for k, v in old.items() if k[0] not in sets} | run)
        return
    worse = [(k, old[k], v) for k, v in sorted(run.items()) if k in old and v + 1 < old[k] * (1 - args.slack)]
    for (isa, name, rows), before, now in worse:
        print(f"{isa:8} {name:10} {rows:4} rows: {now} % of the peak, was {before} %")
    compared = sum(k in old for k in run)
    print(f"{len(worse)} of {compared} shares are smaller than committed; {len(run) - compared} are new")
    sys.exit(1 if worse or not compared else 0)


if __name__ == "__main__":
    main()
