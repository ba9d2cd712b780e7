#!/usr/bin/env python3
"""Writes src/quant/iq_tables.c from a folder of code books (raw int8 files, one per grid).

Usage: make_iq_tables.py FOLDER > src/quant/iq_tables.c

Every grid is a sorted list of points whose coordinates take three values (2 bits each) or eight
values (one octal digit each), so the C file holds one short number per point and macros that expand
it to bytes at compile time.  The script checks that this loses nothing.
"""
import sys
from pathlib import Path

HEAD = """\
/* iq_tables.c - the code books of the IQ formats.  Written by tools/make_iq_tables.py: do not edit.
 *
 * A grid point is stored as its coordinates' codes, lowest first: 2 bits each for grids of eight
 * coordinates, an octal digit each for grids of four.  The macros expand a point to one byte per
 * coordinate, element 0 in the lowest byte, while compiling. */
#include "quant/iq_tables.h"

/* clang-format off */
#define C2(c, i) ((uint64_t)(c) >> 2 * (i) & 3)
#define C3(c, i) ((uint32_t)(c) >> 3 * (i) & 7)
#define EIGHT(v, c) (v(c, 0) | v(c, 1) << 8 | v(c, 2) << 16 | v(c, 3) << 24 | v(c, 4) << 32 | \\
                     v(c, 5) << 40 | v(c, 6) << 48 | v(c, 7) << 56)
#define FOUR(v, c)  (v(c, 0) | v(c, 1) << 8 | v(c, 2) << 16 | v(c, 3) << 24)
#define V2(c, i)    (8 + 17 * C2(c, i) + (C2(c, i) >> 1))     /* 8, 25, 43 */
#define V3XXS(c, i) (4 + 8 * C3(c, i) + 2 * (C3(c, i) == 7)) /* 4, 12 .. 52, 62 */
#define V3S(c, i)   (1 + 2 * C3(c, i))                        /* 1, 3 .. 15 */

"""
TAIL = "/* clang-format on */\n"

# file, C name, coordinates, their values, macro for the short name P
GRIDS = [
    ("iq2xxs_grid", 8, [8, 25, 43], "EIGHT(V2, c)"),
    ("iq2xs_grid", 8, [8, 25, 43], "EIGHT(V2, c)"),
    ("iq2s_grid", 8, [8, 25, 43], "EIGHT(V2, c)"),
    ("iq1s_grid", 8, [-1, 0, 1], "EIGHT(C2, c)"),
    ("iq3xxs_grid", 4, [4, 12, 20, 28, 36, 44, 52, 62], "FOUR(V3XXS, c)"),
    ("iq3s_grid", 4, [1, 3, 5, 7, 9, 11, 13, 15], "FOUR(V3S, c)"),
]


def signed(raw):
    return [b - 256 if b > 127 else b for b in raw]


def codes(values, width, alphabet):
    bits = 2 if width == 8 else 3
    out = []
    for at in range(0, len(values), width):
        point = values[at:at + width]
        out.append(sum(alphabet.index(v) << bits * i for i, v in enumerate(point)))
    if out != sorted(set(out)):
        raise SystemExit("grid is not a sorted set of points")
    return out


def write_rows(out, entries, per_line):
    for at in range(0, len(entries), per_line):
        out.write("    " + " ".join(entries[at:at + per_line]) + "\n")


def write_grid(out, folder, name, width, alphabet, macro):
    points = codes(signed((folder / f"{name}.bin").read_bytes()), width, alphabet)
    kind, fmt = ("uint64_t", "P(0x{:04x}),") if width == 8 else ("uint32_t", "P(0{:04o}),")
    c_name = "rf_" + name
    out.write(f"#define P(c) {macro}\nconst {kind} {c_name}[{len(points)}] = {{\n")
    write_rows(out, [fmt.format(p) for p in points], 8)
    out.write("};\n#undef P\n\n")


def check_derived(folder):
    """Facts that the C code computes instead of storing them."""
    signs = (folder / "ksigns_iq2xs.bin").read_bytes()
    if list(signs) != [i | (bin(i).count("1") & 1) << 7 for i in range(128)]:
        raise SystemExit("stored signs are not completed to an even number")
    fp4 = signed((folder / "kvalues_fp4.bin").read_bytes())
    e2m1 = [m if e == 0 else (2 + m) << (e - 1) for e in range(4) for m in range(2)]
    if fp4 != e2m1 + [-v for v in e2m1]:
        raise SystemExit("FP4 values are not twice E2M1")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    check_derived(folder)
    out = sys.stdout
    out.write(HEAD)
    for grid in GRIDS:
        write_grid(out, folder, *grid)
    out.write(TAIL)


main()
