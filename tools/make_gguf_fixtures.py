#!/usr/bin/env python3
"""Writes the small GGUF files of tests/data/gguf, byte by byte and without any package.

    python3 tools/make_gguf_fixtures.py [DIRECTORY]

small.gguf        every key type, tensors of five formats, a tokenizer and a chat template
not-finite.gguf   the same shape of file with a NaN, an infinity and an infinite block scale
split-0000N-of-00002.gguf   one model in two parts
Our reader is proven on them, so they share no code with our writer."""
import os
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q",
        I64: "q", F64: "d"}
# name: (id, elements per block)
FORMATS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "I32": 26}


def string(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    return string(v) if kind == STRING else struct.pack("<" + PACK[kind], v)


def key(name, kind, v):
    return string(name) + struct.pack("<I", kind) + value(kind, v)


def array(name, kind, values):
    head = string(name) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(value(kind, v) for v in values)


def pad(b, alignment=32):
    return b + bytes(-len(b) % alignment)


def gguf(path, keys, tensors):
    """tensors: (name, shape slowest first, format, data)"""
    infos, data = b"", b""
    for name, shape, fmt, raw in tensors:
        infos += string(name) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", FORMATS[fmt], len(data))
        data = pad(data + raw)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    with open(path, "wb") as f:
        f.write(pad(head + b"".join(keys) + infos) + data)


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def q8_0(scale, quants):
    return struct.pack("<e32b", scale, *quants)


def metadata():
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("a") + i) for i in range(13)]
    return [
        key("general.architecture", STRING, "llama"),
        key("general.name", STRING, 'A "small" model'),
        key("llama.block_count", U32, 1),
        key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        key("llama.context_length", U32, 128),
        array("llama.per_layer", I32, [1, -2, 3]),
        key("test.u8", U8, 255),
        key("test.i8", I8, -128),
        key("test.u16", U16, 65535),
        key("test.i16", I16, -32768),
        key("test.u64", U64, 2**64 - 1),
        key("test.i64", I64, -2**63),
        key("test.f64", F64, 0.1),
        key("test.bool", BOOL, True),
        array("test.empty", F64, []),
        array("test.flags", BOOL, [True, False]),
        key("tokenizer.ggml.model", STRING, "llama"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.scores", F32, [-float(i) for i in range(16)]),
        key("tokenizer.ggml.bos_token_id", U32, 1),
        key("tokenizer.chat_template", STRING, "{{ messages[0].content }}\n"),
    ]


def small_tensors():
    ramp = [i / 4 for i in range(64)]
    return [
        ("token_embd.weight", [2, 32], "F32", f32(ramp)),
        ("blk.0.half.weight", [8], "F16", struct.pack("<8e", *[i - 4 for i in range(8)])),
        ("blk.0.q4.weight", [1, 32], "Q4_0", struct.pack("<e", 0.5) + bytes(range(16))),
        ("blk.0.q8.weight", [2, 64], "Q8_0",
         b"".join(q8_0(2.0**-k, range(-16, 16)) for k in range(4))),
        ("blk.0.ids", [3], "I32", struct.pack("<3i", 1, 2, 3)),
    ]


def not_finite_tensors():
    nan, inf = float("nan"), float("inf")
    return [
        ("good.weight", [4], "F32", f32([0, 1, 2, 3])),
        ("nan.weight", [4], "F32", f32([0, 1, nan, -inf])),
        ("scale.weight", [64], "Q8_0", q8_0(1, [1] * 32) + q8_0(inf, [1] * 31 + [0])),
    ]


def part(no, count, n_tensors):
    return [key("split.no", U16, no), key("split.count", U16, count),
            key("split.tensors.count", I32, n_tensors)]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "data", "gguf")
    os.makedirs(out, exist_ok=True)
    gguf(os.path.join(out, "small.gguf"), metadata(), small_tensors())
    gguf(os.path.join(out, "not-finite.gguf"), metadata()[:2], not_finite_tensors())
    tensors = small_tensors()
    gguf(os.path.join(out, "split-00001-of-00002.gguf"), metadata() + part(0, 2, 5), tensors[:2])
    gguf(os.path.join(out, "split-00002-of-00002.gguf"), part(1, 2, 5), tensors[2:])


main()
