#!/usr/bin/env python3
"""Writes tests/data/quant: golden blocks of every format and hashes of their exact values.

Usage: make_quant_fixtures.py GOLDEN_FOLDER OUT_FOLDER CORPUS_FOLDER

GOLDEN_FOLDER holds quants/deq/T.blk with T.f32 (little-endian float32), and mx/mxfp6_*.deq.*.
OUT_FOLDER gets T.blk and index.txt with one line per format:

    NAME BLOCKS HASH SOURCE

HASH is the 64-bit FNV-1a of the float32 bytes that decoding BLOCKS blocks must give.  SOURCE is
"file" (T.blk lies beside) or "codes": block i is the number i in 16 bits, so no file is needed.

OUT_FOLDER also gets grids.txt: the name, byte count and hash of every code book of quants/tables.
CORPUS_FOLDER gets one seed per format for tests/fuzz/fuzz_quant.c: the format's row number in
dtype.def as a byte, then three blocks from the middle of the golden ones, or 0xff where none are.
"""
import shutil
import struct
import sys
from pathlib import Path

CODES = struct.pack("<65536H", *range(65536))


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def sizes(dtype_def):
    """Name -> (elements, bytes) of a block, from dtype.def."""
    out = {}
    for line in dtype_def.read_text().splitlines():
        if line.startswith("X("):
            name, _, elems, size = (v.strip() for v in line[2:].rstrip(")").split(","))
            out[name] = int(elems), int(size)
    return out


def write_seed(row, name, size, golden_blocks, corpus):
    at = len(golden_blocks) // size // 2 * size
    blocks = golden_blocks[at:at + 3 * size] or b"\xff" * 3 * size
    (corpus / name).write_bytes(bytes([row]) + blocks)


def add(name, blocks_at, values_at, size, out_dir):
    blocks, values = blocks_at.read_bytes(), values_at.read_bytes()
    elems, block_bytes = size
    n = len(blocks) // block_bytes
    if n * block_bytes != len(blocks) or n * elems * 4 != len(values):
        raise SystemExit(f"{name}: {len(blocks)} bytes of blocks, {len(values)} bytes of values")
    source = "codes" if blocks == CODES else "file"
    if source == "file":
        shutil.copyfile(blocks_at, out_dir / f"{name}.blk")
    return f"{name} {n} {fnv1a(values):016x} {source}\n"


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    golden, out_dir, corpus = (Path(arg) for arg in sys.argv[1:])
    known = sizes(Path(__file__).resolve().parent.parent / "src/quant/dtype.def")
    lines = []
    for path in sorted((golden / "quants/deq").glob("*.blk")):
        lines.append(add(path.stem, path, path.with_suffix(".f32"), known[path.stem], out_dir))
    for name in ("MXFP6_E2M3", "MXFP6_E3M2"):
        path = golden / "mx" / f"{name.lower()}.deq.blk"
        lines.append(add(name, path, path.with_suffix(".f32"), known[name], out_dir))
    (out_dir / "index.txt").write_text("".join(lines))
    grids = sorted((golden / "quants/tables").glob("*_grid.bin"))
    lines = [f"{p.stem} {p.stat().st_size} {fnv1a(p.read_bytes()):016x}\n" for p in grids]
    (out_dir / "grids.txt").write_text("".join(lines))
    for row, (name, (_, size)) in enumerate(known.items()):
        blocks_at = out_dir / f"{name}.blk"
        blocks = blocks_at.read_bytes() if blocks_at.exists() else b""
        write_seed(row, name, size, blocks, corpus)


main()
