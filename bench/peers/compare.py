#!/usr/bin/env python3
"""Compares `rocmforge bench` with llama.cpp on the same file, in turns, and prints the ratios.

    pip install llama-cpp-python
    python3 bench/peers/compare.py build/rocmforge MODEL.gguf -p 256 -n 32 -t 2 -r 5

llama.cpp is timed through its library (llama_decode) in a process of its own per round, as llama-bench
does it: one warm-up, a prompt of P tokens in one batch, then N single tokens after an empty context.
Rounds alternate (A B A B ...), so a machine whose speed drifts is unfair to neither.
"""
import argparse
import json
import signal
import statistics
import subprocess
import sys
import time


def time_peer(model, n_prompt, n_gen, threads):
    """Tokens per second of llama.cpp: (prompt, generation)."""
    import llama_cpp as ll

    log = ll.llama_log_callback(lambda level, text, user: None)
    ll.llama_log_set(log, None)
    ll.llama_backend_init()
    m = ll.llama_model_load_from_file(model.encode(), ll.llama_model_default_params())
    params = ll.llama_context_default_params()
    params.n_ctx = n_prompt + n_gen + 8
    params.n_batch = params.n_ubatch = max(n_prompt, 32)
    params.n_threads = params.n_threads_batch = threads
    ctx = ll.llama_init_from_model(m, params)
    n_vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(m))

    def decode(tokens):
        array = (ll.llama_token * len(tokens))(*tokens)
        if ll.llama_decode(ctx, ll.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        ll.llama_synchronize(ctx)

    def clear():
        ll.llama_memory_clear(ll.llama_get_memory(ctx), True)

    prompt = [7919 * i % n_vocab for i in range(n_prompt)]
    decode(prompt[:16])
    clear()
    start = time.perf_counter()
    decode(prompt)
    prompt_s = time.perf_counter() - start
    clear()
    decode(prompt[:1])
    start = time.perf_counter()
    for i in range(n_gen):
        decode([104729 * i % n_vocab])
    gen_s = time.perf_counter() - start
    return n_prompt / prompt_s, n_gen / gen_s


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        code = done.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        sys.exit(f"{done.stderr.strip()}\n{' '.join(command)}: {how}".strip())
    return done.stdout


def time_ours(program, model, n_prompt, n_gen, threads):
    out = output_of([program, "bench", "-m", model, "-p", str(n_prompt), "-n", str(n_gen), "-t", str(threads),
                     "-r", "1", "--json"])
    return tuple(r["tokens_per_second"] for r in json.loads(out)["results"])


def time_peer_apart(model, n_prompt, n_gen, threads):
    return tuple(json.loads(output_of([sys.executable, __file__, "--peer", "-", model, "-p", str(n_prompt),
                                       "-n", str(n_gen), "-t", str(threads)])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the rocmforge program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", type=int, default=256)
    parser.add_argument("-n", type=int, default=32)
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-r", type=int, default=3, help="rounds")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    shape = (args.p, args.n, args.t)
    if args.peer:
        print(json.dumps(time_peer(args.models[0], *shape)))
        return
    print(f"| model | test | rocmforge | llama.cpp | ratio (median of {args.r} rounds) |\n|---|---|---|---|---|")
    for model in args.models:
        rounds = [(time_ours(args.program, model, *shape), time_peer_apart(model, *shape)) for _ in range(args.r)]
        for i, test in enumerate((f"pp{args.p}", f"tg{args.n}")):
            ours = [r[0][i] for r in rounds]
            peer = [r[1][i] for r in rounds]
            ratio = statistics.median(a / b for a, b in zip(ours, peer))
            name = model.rsplit("/", 1)[-1]
            print(f"| {name} | {test} | {statistics.median(ours):.1f} | {statistics.median(peer):.1f} | {ratio:.2f} |",
                  flush=True)


if __name__ == "__main__":
    main()
