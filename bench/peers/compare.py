#!/usr/bin/env python3
"""Compares `rocmforge bench` with llama.cpp on the same file, in turns, and prints the ratios.

    pip install llama-cpp-python
    python3 bench/peers/compare.py build/rocmforge MODEL.gguf -p 256 -n 32 -t 2 -r 5
    python3 bench/peers/compare.py build/rocmforge MODEL.gguf -p 0 -n 32 --parallel 8 -t 2

llama.cpp is timed through its library (llama_decode) in a process of its own per round, as llama-bench
does it: one warm-up, a prompt of P tokens in one batch, then N single tokens after an empty context or,
with -d, after so many tokens; with --parallel, N steps of so many sequences in one batch each.
Rounds alternate (A B A B ...), so a machine whose speed drifts is unfair to neither.
"""
import argparse
import json
import signal
import statistics
import subprocess
import sys
import time

CHUNK = 512  # tokens of a prompt in one batch, where they are not what is timed


class Peer:
    """llama.cpp with one context; sequences grow in step."""

    def __init__(self, args):
        import llama_cpp as ll

        self.ll = ll
        self.log = ll.llama_log_callback(lambda level, text, user: None)
        ll.llama_log_set(self.log, None)
        ll.llama_backend_init()
        model = ll.llama_model_load_from_file(args.models[0].encode(), ll.llama_model_default_params())
        params = ll.llama_context_default_params()
        params.n_seq_max = args.parallel
        params.n_ctx = args.parallel * (args.d + args.p + args.n + 8)
        params.n_batch = params.n_ubatch = max(args.p, args.parallel, CHUNK)
        params.n_threads = params.n_threads_batch = args.t
        self.ctx = ll.llama_init_from_model(model, params)
        self.n_vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
        self.batch = ll.llama_batch_init(params.n_batch, 0, 1)

    def decode(self, seqs, first, n):
        """n tokens of each of the sequences, from position first on, in one batch."""
        b = self.batch
        b.n_tokens = len(seqs) * n
        for i in range(b.n_tokens):
            pos = first + i % n
            b.token[i] = (7919 * pos + 104729 * seqs[i // n]) % self.n_vocab
            b.pos[i] = pos
            b.n_seq_id[i] = 1
            b.seq_id[i][0] = seqs[i // n]
            b.logits[i] = pos == first + n - 1
        if self.ll.llama_decode(self.ctx, b) != 0:
            sys.exit("llama_decode failed")
        self.ll.llama_synchronize(self.ctx)

    def begin(self, seqs, depth):
        """So many tokens of each of the sequences and nothing else."""
        self.ll.llama_memory_clear(self.ll.llama_get_memory(self.ctx), True)
        for first in range(0, depth, CHUNK):
            for seq in seqs:
                self.decode([seq], first, min(CHUNK, depth - first))


def time_peer(args):
    """Tokens per second of llama.cpp: prompt, generation; one that was not asked for is left out."""
    peer = Peer(args)
    seqs = range(args.parallel)
    rates = []
    peer.begin(seqs, 16)  # a warm-up
    if args.p:
        peer.begin([0], args.d)
        start = time.perf_counter()
        peer.decode([0], args.d, args.p)
        rates.append(args.p / (time.perf_counter() - start))
    if args.n:
        depth = max(args.d, 1)
        peer.begin(seqs, depth)
        start = time.perf_counter()
        for i in range(args.n):
            peer.decode(seqs, depth + i, 1)
        rates.append(args.n * args.parallel / (time.perf_counter() - start))
    return rates


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        code = done.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        sys.exit(f"{done.stderr.strip()}\n{' '.join(command)}: {how}".strip())
    return done.stdout


def flags_of(args):
    return ["-p", str(args.p), "-n", str(args.n), "-d", str(args.d), "--parallel", str(args.parallel), "-t", str(args.t)]


def time_ours(args, model):
    out = output_of([args.program, "bench", "-m", model, *flags_of(args), "-r", "1", "--json"])
    return [r["tokens_per_second"] for r in json.loads(out)["results"]]


def time_peer_apart(args, model):
    return json.loads(output_of([sys.executable, __file__, "--peer", "-", model, *flags_of(args)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the rocmforge program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", type=int, default=256, help="tokens of the prompt; 0: none")
    parser.add_argument("-n", type=int, default=32, help="tokens to generate; 0: none")
    parser.add_argument("-d", type=int, default=0, help="tokens of context before either")
    parser.add_argument("--parallel", type=int, default=1, help="answers at once")
    parser.add_argument("-t", type=int, default=2, help="threads")
    parser.add_argument("-r", type=int, default=3, help="rounds")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        print(json.dumps(time_peer(args)))
        return
    answers = f" x{args.parallel}" if args.parallel > 1 else ""  # a prompt is one sequence's
    where = f" @ d{args.d}" if args.d else ""
    tests = [f"pp{args.p}{where}"] * bool(args.p) + [f"tg{args.n}{answers}{where}"] * bool(args.n)
    print(f"| model | test | rocmforge | llama.cpp | ratio (median of {args.r} rounds) |\n|---|---|---|---|---|")
    for model in args.models:
        rounds = [(time_ours(args, model), time_peer_apart(args, model)) for _ in range(args.r)]
        for i, test in enumerate(tests):
            ours = [r[0][i] for r in rounds]
            peer = [r[1][i] for r in rounds]
            ratio = statistics.median(a / b for a, b in zip(ours, peer))
            name = model.rsplit("/", 1)[-1]
            print(f"| {name} | {test} | {statistics.median(ours):.1f} | {statistics.median(peer):.1f} | {ratio:.2f} |",
                  flush=True)


if __name__ == "__main__":
    main()
