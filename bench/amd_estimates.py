#!/usr/bin/env python3
"""What the kernels for AMD's GPUs take of a card, and what that comes to at most: nothing is measured.

    cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DRF_GPU_TARGETS="gfx1030;gfx1100;gfx1201;gfx90a;gfx942"
    ninja -C build rocmforge rf_emu_hip
    python3 bench/amd_estimates.py build

A token, and a prompt, run through two layers of a model on the emulated card (tests/gpuemu), which lists each launch with
the instructions that its waves executed.  A layer's launches times the model's layers, and those of the logits, are a
whole step.  Beside a card's published bandwidth, clock and matrix rate they bound its speed from above: all
weights read at the full rate, and an instruction begun in every cycle.  What launches, latency and caches cost is not
counted, so a card will be slower.  Takes some minutes; needs clang-22, llvm-objdump-22, numpy and gguf.
"""
import argparse
import collections
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import gguf

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
LAYERS_RUN, LAYERS = 2, 32  # of Llama 3.1 8B
PROMPT = 64  # tokens: as many as the largest tiles have columns

# Of a SIMD: its registers (a lane's), the grain in which a wave gets them, the most waves, cycles of a vector
# instruction and of a product of 16 x 16 by 16 in bytes and in 16-bit floats (gfx942: by 32 in bytes; 0: there is none),
# and whether vector instructions run beside products.
Arch = collections.namedtuple("Arch", "wave simds registers grain most vector bytes halves beside")
ARCHS = {
    "gfx1030": Arch(32, 2, 1024, 16, 16, 1, 0, 0, False),
    "gfx1100": Arch(32, 2, 1536, 24, 16, 1, 32, 32, False),
    "gfx1201": Arch(32, 2, 1536, 24, 16, 1, 8, 16, False),
    "gfx90a": Arch(64, 4, 512, 8, 8, 4, 32, 32, True),
    "gfx942": Arch(64, 4, 512, 8, 8, 4, 16, 16, True),
}
# units: multiprocessors as HIP counts them, on RDNA pairs of CUs
Card = collections.namedtuple("Card", "name arch cus units gb_s ghz")
CARDS = [
    Card("RX 6800 XT", "gfx1030", 72, 36, 512, 2.25),
    Card("RX 7900 XTX", "gfx1100", 96, 48, 960, 2.5),
    Card("RX 9070 XT", "gfx1201", 64, 32, 640, 2.97),
    Card("MI210", "gfx90a", 104, 104, 1638, 1.7),
    Card("MI300X", "gfx942", 304, 304, 5300, 2.1),
]


def total(rows, what):
    return sum(int(r[what]) for r in rows)


def run_step(build, model, card, units, n_tokens, n_new):
    """The launches of the last step: (a layer's, all others')."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/launches.csv"
        env = dict(os.environ, RF_GPU_LIBRARY=next(map(str, build.glob("tests/gpuemu/libamdhip64.so.*"))),
                   RF_EMU_ARCH=card.arch, RF_EMU_UNITS=str(units), RF_EMU_LAUNCHES=path,
                   RF_EMU_THREADS=str(os.cpu_count()), RF_EMU_LISTINGS=str(build / "tests/gpuemu"),
                   XDG_CACHE_HOME=folder)
        command = [build / "rocmforge", "generate", "-m", model, "-p", "x" * n_tokens, "-n", str(n_new), "-c", "512",
                   "--temp", "0", "--ignore-eos", "--backend", "gpu"]
        done = subprocess.run(command, env=env, capture_output=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))} on {card.arch}:\n{done.stderr.decode()}")
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
    step = rows[max(i for i, r in enumerate(rows) if r["kernel"].startswith("rf_embed")):]
    attend = [i for i, r in enumerate(step) if r["kernel"].startswith("rf_attend")]
    layer = step[attend[0]:attend[1]]  # from an attention to the next one
    return layer, step[:attend[0]] + step[attend[1]:]


def waves_of(arch, row):
    """Of a SIMD, by registers and by shared memory: 64 KB of a CU, 128 of RDNA's pairs of CUs."""
    a = ARCHS[arch]
    waves = -(-int(row["threads"]) // a.wave)
    by_registers = a.registers // (-(-int(row["vgpr"]) // a.grain) * a.grain)
    cus = 2 if a.wave == 32 else 1
    by_shared = cus * 65536 // int(row["lds"]) * waves // (cus * a.simds) if int(row["lds"]) else a.most
    return min(a.most, by_registers, by_shared)


def busy_seconds(card, name, vector, matrix):
    """Of instructions on all SIMDs of the card, for weights of a format."""
    a = ARCHS[card.arch]
    vector, matrix = vector * a.vector, matrix * (a.halves if name.endswith("F16") else a.bytes)
    cycles = max(vector, matrix) if a.beside else vector + matrix
    return cycles / (card.cus * a.simds * card.ghz * 1e9)


def of_model(layer, others, what):
    """Of a step of the whole model: others have the one other layer that ran."""
    return LAYERS * total(layer, what) + total(others, what) - (LAYERS_RUN - 1) * total(layer, what)


def weights_of(model):
    """(weights, bytes) that a token reads."""
    n = size = 0
    for t in gguf.GGUFReader(model).tensors:
        if len(t.shape) < 2 or t.name == "token_embd.weight" or t.name.startswith("blk.1."):
            continue
        times = LAYERS if t.name.startswith("blk.0.") else 1
        n, size = n + times * int(t.n_elements), size + times * int(t.n_bytes)
    return n, size


def one_token(build, model, name, card):
    layer, others = run_step(build, model, card, card.units, 1, 2)
    vector, matrix = (of_model(layer, others, what) for what in ("vector", "matrix"))
    n, size = weights_of(model)
    memory = size / (card.gb_s * 1e9)
    busy = busy_seconds(card, name, vector, matrix)
    largest = max(layer, key=lambda r: int(r["bytes_loaded"]))
    return (f"| {card.name} ({card.arch}) | {name} | {len(layer)} | {largest['vgpr']}, {waves_of(card.arch, largest)} | "
            f"{vector * ARCHS[card.arch].wave / n:.2f} | {size / 1e9:.2f} | "
            f"{of_model(layer, others, 'bytes_loaded') / 1e9:.2f} | {1 / memory:.0f} | {100 * busy / memory:.0f} % |")


def prompt(build, model, name, card):
    """By the tiles of long prompts, which a card of few units takes for a short one."""
    layer, _ = run_step(build, model, card, 2, PROMPT, 1)
    busy = LAYERS * busy_seconds(card, name, total(layer, "vector"), total(layer, "matrix"))
    products = LAYERS * busy_seconds(card, name, 0, total(layer, "matrix"))
    largest = max(layer, key=lambda r: int(r["instructions"]))
    return (f"| {card.name} ({card.arch}) | {name} | {largest['kernel'].removeprefix('rf_')} | {largest['vgpr']}, "
            f"{waves_of(card.arch, largest)} | {f'{100 * products / busy:.0f} %' if products else '-'} | "
            f"{PROMPT / busy:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a build with those kernels and the stand-in library")
    parser.add_argument("--formats", default="Q4_K,Q8_0,BF16")
    parser.add_argument("--prompts", default="Q4_K,BF16", help="formats whose prompts run, too")
    args = parser.parse_args()
    tables = {one_token: [], prompt: []}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.formats.split(","):
            model = f"{folder}/{name}.gguf"
            subprocess.run([sys.executable, TOOLS / "make_synthetic.py", "llama-8b", name, model, "--layers",
                            str(LAYERS_RUN)], check=True)
            for card in CARDS:
                for kind, lines in tables.items():
                    if kind is one_token or name in args.prompts.split(","):
                        lines.append(kind(args.build, model, name, card))
                        print(lines[-1], file=sys.stderr, flush=True)
            os.remove(model)
    print("| card | 8B in | launches a layer | registers, waves of a SIMD | instructions a weight | GB of weights | "
          "GB that lanes load | tokens/s at most | issuing |")
    print("|---|---|---|---|---|---|---|---|---|", *tables[one_token], sep="\n")
    print("\n| card | 8B in | kernel | registers, waves of a SIMD | matrix units busy | tokens/s at most |")
    print("|---|---|---|---|---|---|", *tables[prompt], sep="\n")


if __name__ == "__main__":
    main()
