#!/usr/bin/env python3
"""Writes tests/data/engine/sampler.txt: which tokens a sampler may choose, and how likely each is.

Every option of rf_sampling is computed here a second time, from its published definition and with
numpy in float64, on short rows of logits.  Nothing is shared with src/engine/sampler.c: matches are
found by comparing slices, filters by masks.  Cases in which a decision hangs on the last bits of a
sum are refused, so that both sides must agree exactly.

Sources of the definitions: top-p: Holtzman et al. 2020; typical: Meister et al. 2022; top-n-sigma:
Tang et al. 2024; min-p: Nguyen et al. 2024; mirostat 2: Basu et al. 2021; repetition penalty: Keskar
et al. 2019; presence and frequency penalty: the OpenAI API; XTC and DRY: their author's descriptions.

usage: make_sampler_fixtures.py [OUTPUT]
"""
import sys
from pathlib import Path

import numpy as np

INF = float("inf")
DEFAULTS = dict(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, top_n_sigma=0.0,
    xtc_probability=0.0, xtc_threshold=0.1, repeat_penalty=1.0, presence_penalty=0.0,
    frequency_penalty=0.0, penalty_last_n=-1, dry_multiplier=0.0, dry_base=1.75,
    dry_allowed_length=2, dry_last_n=-1, mirostat=0, mirostat_tau=5.0, mirostat_eta=0.1)
WHOLE = {"top_k", "penalty_last_n", "dry_allowed_length", "dry_last_n", "mirostat"}


class TooClose(Exception):
    """A decision that rounding could turn around."""


def clear(a, b):
    """Refuses a comparison of two numbers that are nearly but not exactly equal."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    gap = np.abs(a - b)[np.isfinite(a) & np.isfinite(b)]
    if np.any((gap < 1e-7) & (gap > 0)):
        raise TooClose


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def tail(history, n):
    return history if n < 0 else history[len(history) - min(n, len(history)):]


def penalize(x, o, history):
    recent = tail(history, o["penalty_last_n"])
    for token in set(recent):
        x[token] = x[token] * o["repeat_penalty"] if x[token] <= 0 else x[token] / o["repeat_penalty"]
        x[token] -= o["presence_penalty"] + recent.count(token) * o["frequency_penalty"]


def dry(x, o, history, breakers):
    """The token that would lengthen a repetition of length L >= allowed loses
    multiplier * base ** (L - allowed); a repetition holds no breaker."""
    if o["dry_multiplier"] == 0:
        return
    seen = tail(history, o["dry_last_n"])
    longest = {}
    for at in range(1, len(seen)):  # seen[at] followed seen[:at] then
        if seen[at] in breakers:
            continue
        length = 0
        while length < at and seen[at - length - 1:at] == seen[len(seen) - length - 1:] \
                and seen[at - length - 1] not in breakers:
            length += 1
        longest[seen[at]] = max(longest.get(seen[at], 0), length)
    for token, length in longest.items():
        if length > 0 and length >= o["dry_allowed_length"]:
            x[token] -= o["dry_multiplier"] * o["dry_base"] ** (length - o["dry_allowed_length"])


def by_logit(ids, x):
    return sorted(ids, key=lambda i: (-x[i], i))


def until_mass(ids, p, mass):
    """The shortest start of ids whose likelihoods reach the mass; at least one."""
    sums = np.cumsum([p[i] for i in ids])
    clear(sums, mass)
    return ids[:int(np.searchsorted(sums, mass, side="left")) + 1]


def likelihoods(ids, x):
    return dict(zip(ids, softmax(np.array([x[i] for i in ids]))))


def filters(ids, x, o):
    if o["top_n_sigma"] > 0:
        logits = np.array([x[i] for i in ids])
        bound = logits.max() - o["top_n_sigma"] * logits.std()
        clear(logits, bound)
        ids = [i for i in ids if x[i] >= bound]
    if o["top_k"] > 0:
        ids = by_logit(ids, x)[:o["top_k"]]
    if o["typical_p"] < 1:
        p = likelihoods(ids, x)
        entropy = -sum(v * np.log(v) for v in p.values())
        off = {i: abs(-np.log(p[i]) - entropy) for i in ids}
        order = sorted(ids, key=lambda i: (off[i], i))
        for a, b in zip(order, order[1:]):
            if x[a] != x[b]:
                clear(off[a], off[b])
        ids = until_mass(order, p, o["typical_p"])
    if o["top_p"] < 1:
        ids = until_mass(by_logit(ids, x), likelihoods(ids, x), o["top_p"])
    if o["min_p"] > 0:
        p = likelihoods(ids, x)
        bound = max(p.values()) * o["min_p"]
        clear(list(p.values()), bound)
        ids = [i for i in ids if p[i] >= bound]
    return ids


def xtc(ids, x, o):
    p = likelihoods(ids, x)
    clear(list(p.values()), o["xtc_threshold"])
    top = [i for i in by_logit(ids, x) if p[i] >= o["xtc_threshold"]]
    return ids if o["xtc_threshold"] > 0.5 or len(top) < 2 else [i for i in ids if i not in top[:-1]]


def distributions(case):
    """What may be drawn: {id: likelihood} when XTC strikes (or is off), and when it does not."""
    o, x = case["o"], np.array(case["logits"], np.float64)
    for token, value in case["bias"]:
        x[token] += value
    penalize(x, o, case["history"])
    dry(x, o, case["history"], set(case["breakers"]))
    x[case["banned"]] = -INF
    ids = [i for i in range(len(x)) if np.isfinite(x[i])]
    if not ids:
        return {}, {}
    if o["temperature"] == 0:
        return ({by_logit(ids, x)[0]: 1.0},) * 2
    if o["mirostat"]:
        x = x / o["temperature"]
        p = likelihoods(ids, x)
        surprise = {i: -np.log2(p[i]) for i in ids}
        clear(list(surprise.values()), 2 * o["mirostat_tau"])
        best = by_logit(ids, x)[0]
        ids = [i for i in ids if i == best or surprise[i] <= 2 * o["mirostat_tau"]]
        return (likelihoods(ids, x),) * 2
    ids = filters(ids, x, o)
    struck = xtc(ids, x, o) if o["xtc_probability"] > 0 else ids
    x = x / o["temperature"]
    return likelihoods(struck, x), likelihoods(ids, x)


def make_rows(rng):
    rows = {"two": [0.5, -1.0], "one": [2.0], "flat": [1.0] * 8}
    rows["ties"] = [1, 3, 3, 0, 3, -2, 1, 3, 2, 2]
    rows["peak"] = [-4, 6, -3.5, -5, 0.25, -4, -8, -2]
    rows["holes"] = [1.5, -INF, 0.5, float("nan"), 2.25, INF, -1, -INF, 0.75, -3]
    rows["hopeless"] = [-INF, float("nan"), -INF]
    rows["far"] = [80, 79, -90, 0, 78.5, -100]
    for k in range(6):
        n = (12, 16, 20, 24, 32, 40)[k]
        rows[f"r{k}"] = list(np.round(rng.normal(0, 1.5 + k / 4, n) * 16) / 16)
    return rows


def singles():
    """Each option alone, over its range."""
    yield from ({"temperature": t} for t in (0, 0.01, 0.5, 0.8, 1, 1.7, 10, 100))
    yield from ({"top_k": k} for k in (1, 2, 3, 7, 1000))
    yield from ({"top_p": p} for p in (0, 0.1, 0.5, 0.9, 0.99))
    yield from ({"min_p": p} for p in (0.01, 0.05, 0.3, 1))
    yield from ({"typical_p": p} for p in (0, 0.2, 0.5, 0.95))
    yield from ({"top_n_sigma": s} for s in (0.3, 1, 2))
    yield from ({"xtc_probability": p, "xtc_threshold": t}
                for p in (0.4, 1) for t in (0, 0.05, 0.2, 0.51))
    yield from ({"repeat_penalty": r} for r in (0.5, 1.3, 4))
    yield from ({"presence_penalty": p} for p in (-0.5, 1.5))
    yield from ({"frequency_penalty": p} for p in (-0.25, 0.75))
    yield from ({"repeat_penalty": 1.2, "penalty_last_n": n, "presence_penalty": 0.5,
                 "frequency_penalty": 0.1} for n in (0, 1, 5))
    yield from ({"dry_multiplier": m, "dry_allowed_length": a, "dry_base": b}
                for m in (0.8, 2) for a in (0, 1, 2, 3) for b in (1, 1.75))
    yield from ({"dry_multiplier": 1, "dry_last_n": n} for n in (0, 1, 6, 9))
    yield from ({"mirostat": 1, "mirostat_tau": t, "temperature": k}
                for t in (0, 0.5, 1.25, 5) for k in (0.7, 1, 2))


def combination(rng):
    o = {"temperature": float(rng.choice([0, 0.3, 0.8, 1.4])), "top_k": int(rng.integers(0, 12)),
         "top_p": float(rng.choice([0.3, 0.8, 0.95, 1])), "min_p": float(rng.choice([0, 0.02, 0.1])),
         "typical_p": float(rng.choice([0.4, 0.9, 1])), "top_n_sigma": float(rng.choice([0, 1.1, 3])),
         "xtc_probability": float(rng.choice([0, 0.5, 1])),
         "xtc_threshold": float(rng.choice([0.06, 0.15])),
         "repeat_penalty": float(rng.choice([1, 1.15])),
         "presence_penalty": float(rng.choice([0, 0.4])),
         "frequency_penalty": float(rng.choice([0, 0.2])),
         "penalty_last_n": int(rng.choice([-1, 4, 64])),
         "dry_multiplier": float(rng.choice([0, 0.9])), "dry_allowed_length": int(rng.integers(0, 4))}
    return o


def history_for(rng, n_vocab):
    """Tokens that repeat themselves, so that DRY has something to find."""
    phrase = [int(t) for t in rng.integers(0, n_vocab, 4)]
    noise = [int(t) for t in rng.integers(0, n_vocab, 3)]
    return phrase + noise[:1] + phrase[1:] + noise + phrase + phrase[:2]


def make_cases(rng, rows):
    def case(row, options, **more):
        o = DEFAULTS | options
        o = {k: v if k in WHOLE else float(np.float32(v)) for k, v in o.items()}
        return dict(row=row, logits=rows[row], o=o, history=[], breakers=[], banned=[],
                    bias=[]) | more

    for i, o in enumerate(singles()):
        for row in (list(rows)[i % len(rows)], f"r{i % 6}", "ties" if i % 2 else "peak"):
            n = len(rows[row])
            more = {"history": history_for(rng, n)}
            if "dry_multiplier" in o and i % 2:
                more["breakers"] = [int(t) for t in set(rng.integers(0, n, 2))]
            yield case(row, o, **more)
    for o in ({"typical_p": 0.5}, {"top_p": 0.5}, {"min_p": 1}, {"top_n_sigma": 1}, {"top_k": 4}):
        yield case("flat", o)  # sums that reach the mass exactly, bounds that all meet
    for row in rows:
        n = len(rows[row])
        yield case(row, {}, bias=[(0, 2.5), (n - 1, -INF), (0, 0.25)])
        yield case(row, {"temperature": 0}, bias=[(n - 1, 100.0)])
        yield case(row, {"temperature": 0}, banned=[0, n - 1])
        yield case(row, {"top_k": 3}, banned=[1 % n])
    for _ in range(90):
        row = f"r{rng.integers(0, 6)}"
        n = len(rows[row])
        yield case(row, combination(rng), history=history_for(rng, n),
                   breakers=[int(rng.integers(0, n))], bias=[(int(rng.integers(0, n)), 1.5)],
                   banned=[int(rng.integers(0, n))])


def number(v):
    return repr(v) if isinstance(v, int) else f"{v:.9g}"


def write(out, rows, cases):
    out.write("# made by tools/make_sampler_fixtures.py; nothing here is typed by hand\n")
    for name, logits in rows.items():
        out.write(f"row {name} {' '.join(number(float(v)) for v in logits)}\n")
    for n, (case, struck, spared) in enumerate(cases):
        out.write(f"case {n} {case['row']}\n")
        for key, value in case["o"].items():
            if value != (DEFAULTS[key] if key in WHOLE else float(np.float32(DEFAULTS[key]))):
                out.write(f"{key} {number(value)}\n")
        for key in ("history", "breakers", "banned"):
            if case[key]:
                out.write(f"{key} {' '.join(map(str, case[key]))}\n")
        for token, value in case["bias"]:
            out.write(f"bias {token} {number(value)}\n")
        for key, dist in (("struck", struck), ("spared", spared)):
            if key == "struck" or dist != struck:
                order = sorted(dist.items(), key=lambda kv: (-kv[1], kv[0]))
                out.write(f"{key} {' '.join(f'{i}:{p:.10g}' for i, p in order)}\n")
        out.write("end\n")


def main():
    default = Path(__file__).resolve().parent.parent / "tests/data/engine/sampler.txt"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rng = np.random.default_rng(20)
    rows, cases, refused = make_rows(rng), [], 0
    for case in make_cases(rng, rows):
        try:
            with np.errstate(all="ignore"):
                cases.append((case, *distributions(case)))
        except TooClose:
            refused += 1
    with open(path, "w") as out:
        write(out, rows, cases)
    print(f"{path}: {len(cases)} cases, {refused} refused as too close to call")


if __name__ == "__main__":
    main()
