#!/usr/bin/env python3
"""Writes a GGUF model of a real model's shape with random weights, for benchmarks.

    python3 tools/make_synthetic.py qwen2-0.5b Q4_0 OUT.gguf

Speed does not depend on the values of weights, so random blocks with small scales do; the text it
generates is noise.  The vocabulary is the 256 bytes and fillers.  Needs numpy and gguf.
"""
import argparse
import sys

import gguf
import numpy as np

# name: arch, layers, embd, heads, kv heads, head_dim, ff, vocab, rope base, biases, tied
SHAPES = {
    "qwen2-0.5b": ("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 1e6, True, True),
    "qwen2-1.5b": ("qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 1e6, True, True),
    "llama-8b": ("llama", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, False, False),
    "llama-1b": ("llama", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, False, True),
    "qwen3-0.6b": ("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, False, True),
    "qwen3-30b-a3b": ("qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, 1e6, False, False),
    "tiny": ("llama", 2, 256, 4, 2, 64, 512, 512, 1e4, False, True),
}

EXPERTS, EXPERTS_USED = 128, 8  # of qwen3moe

# Where a block's f16 scales lie (byte offsets); all other bytes may be anything.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_XS": [0], "IQ3_S": [0], "IQ2_S": [0], "TQ2_0": [64],
}

# What a block's minimum is of its scale where it is added: so much that weights lie around zero.  All of one sign they would
# make activations that no real model has.
MINIMA = {"Q4_1": -7.5, "Q5_1": -15.5}


def random_blocks(rng, qtype, rows, cols, scale):
    """[rows][bytes] of valid blocks whose weights have about the given size."""
    elems, size = gguf.GGML_QUANT_SIZES[qtype]
    if cols % elems:
        raise SystemExit(f"{qtype.name} needs rows of a multiple of {elems}, not {cols}")
    n = rows * cols // elems
    data = rng.integers(0, 256, size=(n, size), dtype=np.uint8)
    if qtype.name == "Q8_0":  # quantising makes no -128
        data[data == 128] = 129
    for at in SCALES[qtype.name]:
        minimum = MINIMA.get(qtype.name, 1) if at else 1
        data[:, at:at + 2] = np.frombuffer(np.float16(scale * minimum).tobytes(), np.uint8)
    return data.reshape(rows, cols // elems * size)


def weight(rng, qtype, rows, cols):
    """One matrix in the wanted format, random."""
    if qtype == gguf.GGMLQuantizationType.BF16:
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if qtype in (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.F32):
        dtype = np.float16 if qtype == gguf.GGMLQuantizationType.F16 else np.float32
        return (rng.standard_normal((rows, cols), dtype=np.float32) * 0.02).astype(dtype)
    per_scale = {"Q8_0": 0.0003, "Q6_K": 2e-5, "Q4_K": 1e-4, "Q5_K": 5e-5, "Q2_K": 1e-3, "Q3_K": 1e-4,
                 "IQ4_XS": 1e-5, "IQ4_NL": 0.0004}
    return random_blocks(rng, qtype, rows, cols, per_scale.get(qtype.name, 0.004))


def fallback(qtype, cols):
    """The format for rows that the wanted one cannot hold, as llama.cpp's mixes choose it."""
    if cols % gguf.GGML_QUANT_SIZES[qtype][0] == 0:
        return qtype
    types = gguf.GGMLQuantizationType
    return {"Q4_K": types.Q5_0, "Q5_K": types.Q5_1, "Q6_K": types.Q8_0}.get(qtype.name, types.IQ4_NL)


def add_vocabulary(writer, n_vocab):
    """The 256 bytes in GPT-2's printable alphabet, one merge, fillers that no text becomes but that
    a server can send as text."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in printable}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    tokens = [letters[b] for b in range(256)] + ["th", "<|endoftext|>"]
    types = [1] * 257 + [3]
    tokens += [f"<filler{i}>" for i in range(len(tokens), n_vocab)]
    types += [1] * (n_vocab - len(types))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(257)
    writer.add_bos_token_id(257)
    writer.add_add_bos_token(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", help="F16, Q8_0, Q4_0, Q4_K, Q6_K, ...; Q4_K_M: Q6_K where it counts most")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="so many instead of the model's")
    args = parser.parse_args()
    arch, layers, embd, heads, kv_heads, head_dim, ff, vocab, base, biases, tied = SHAPES[args.shape]
    layers = args.layers or layers
    try:
        qtype = gguf.GGMLQuantizationType[args.type.upper().removesuffix("_M")]
    except KeyError:
        sys.exit(f"unknown type {args.type}")
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(args.out, arch)
    writer.add_name(f"synthetic {args.shape} {args.type}")
    writer.add_context_length(32768)
    writer.add_embedding_length(embd)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(1e-6)
    is_moe = arch == "qwen3moe"
    if is_moe:
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(EXPERTS_USED)
        writer.add_expert_feed_forward_length(ff)
    add_vocabulary(writer, vocab)

    def put(name, rows, cols, more_bits=False, planes=1):
        mixed = args.type.upper() == "Q4_K_M" and more_bits
        kind = fallback(gguf.GGMLQuantizationType.Q6_K if mixed else qtype, cols)
        data = weight(rng, kind, planes * rows, cols)
        writer.add_tensor(name, data.reshape(planes, rows, -1) if planes > 1 else data, raw_dtype=kind)

    def vector(name, n, value):
        writer.add_tensor(name, np.full(n, value, np.float32))

    put("token_embd.weight", vocab, embd)
    for il in range(layers):
        p = f"blk.{il}."
        vector(p + "attn_norm.weight", embd, 1)
        vector(p + "ffn_norm.weight", embd, 1)
        for name, rows, cols in (("attn_q", heads * head_dim, embd), ("attn_k", kv_heads * head_dim, embd),
                                 ("attn_v", kv_heads * head_dim, embd), ("attn_output", embd, heads * head_dim),
                                 ("ffn_gate", ff, embd), ("ffn_up", ff, embd), ("ffn_down", embd, ff)):
            outer = il < layers // 8 or il >= 7 * layers // 8 or (il - layers // 8) % 3 == 2
            stacked = is_moe and name.startswith("ffn")
            put(f"{p}{name}{'_exps' if stacked else ''}.weight", rows, cols,
                outer and name in ("attn_v", "ffn_down"), EXPERTS if stacked else 1)
            if biases and name in ("attn_q", "attn_k", "attn_v"):
                vector(f"{p}{name}.bias", rows, 0.01)
        if is_moe:
            router = rng.standard_normal((EXPERTS, embd), dtype=np.float32) * np.float32(0.02)
            writer.add_tensor(p + "ffn_gate_inp.weight", router)
        if arch.startswith("qwen3"):
            vector(p + "attn_q_norm.weight", head_dim, 1)
            vector(p + "attn_k_norm.weight", head_dim, 1)
    vector("output_norm.weight", embd, 1)
    if not tied:
        put("output.weight", vocab, embd, True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
