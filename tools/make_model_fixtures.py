#!/usr/bin/env python3
"""Makes the tiny random models of the tests, and what they must compute.

Every model is built with `transformers`, which also computes the logits of a fixed token sequence in
float32; the weights go into a GGUF file laid out the way converters do it (query and key rows of llama
reordered for rotation of neighbouring pairs).  So the engine's forward pass is compared with an
independent implementation.  Needs torch, transformers, gguf, numpy; run it only to change fixtures:

    python3 tools/make_model_fixtures.py            # writes tests/data/models, tests/fuzz/corpus/model
"""
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "data" / "models"
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "model"
N_VOCAB = 128
N_TOKENS = 40

SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, tie_word_embeddings=False)


def rope(kind="default", theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


# name: architecture, config class, changes to SMALL, type of matrices, type of vectors
FIXTURES = {
    "llama-mha": ("llama", "Llama", dict(num_key_value_heads=4, **rope()), "F32", "F32"),
    "llama-gqa": ("llama", "Llama", dict(num_hidden_layers=3, hidden_size=40, intermediate_size=72,
                                         **rope(theta=500.0)), "F32", "F32"),
    "llama-rope3": ("llama", "Llama", dict(
        head_dim=16, tie_word_embeddings=True,
        **rope("llama3", 5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=64)), "F32", "F32"),
    "llama-linear": ("llama", "Llama", dict(**rope("linear", factor=4.0)), "F32", "F32"),
    "llama-bias": ("llama", "Llama", dict(attention_bias=True, **rope()), "F32", "F32"),
    "llama-f16": ("llama", "Llama", dict(num_key_value_heads=1, **rope()), "F16", "F32"),
    "mistral-window": ("llama", "Mistral", dict(sliding_window=8, **rope()), "F32", "F32"),
    "qwen2": ("qwen2", "Qwen2", dict(tie_word_embeddings=True, **rope(theta=1e6)), "F32", "F32"),
    "qwen2-yarn": ("qwen2", "Qwen2", dict(
        hidden_size=64, num_hidden_layers=1,
        **rope("yarn", factor=4.0, original_max_position_embeddings=64)), "F32", "F32"),
    "qwen3": ("qwen3", "Qwen3", dict(head_dim=16, tie_word_embeddings=True, **rope(theta=1e6)),
              "F32", "F32"),
    "qwen3-yarn": ("qwen3", "Qwen3", dict(
        head_dim=16, num_hidden_layers=1, max_position_embeddings=512,
        **rope("yarn", 1000.0, factor=4.0, original_max_position_embeddings=128,
               attention_factor=1.5, beta_fast=8.0, beta_slow=2.0)), "F32", "F32"),
    "qwen3-bf16": ("qwen3", "Qwen3", dict(head_dim=12, num_hidden_layers=3, **rope()),
                   "BF16", "BF16"),
}


def byte_level_vocabulary():
    """Printable ASCII, blank and newline in GPT-2's alphabet, some merges, three special tokens."""
    tokens = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]
    merges = ["t h", "th e", "\u0120 the", "\u0120 a", "i n", "e r", "o n", "a n", "an d",
              "\u0120 and", "\u0120 s", "\u0120 w", "o u", "e n", "r e", "i t", "\u0120 t",
              "o r", "\u0120 b", "e s", "i s", "\u0120 o", "a t", "\u0120 c", "in g", "e d",
              "\u0120 h", "l l", "a r"]
    tokens += [m.replace(" ", "") for m in merges]
    kinds = [gguf.TokenType.NORMAL] * len(tokens)
    for special in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]:
        tokens.append(special)
        kinds.append(gguf.TokenType.CONTROL)
    assert len(tokens) == N_VOCAB == len(set(tokens))
    return tokens, kinds, merges


def randomize(model, seed):
    """Values large enough that a wrong position, mask, bias or norm changes every logit."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=g)
            if name.endswith("norm.weight"):
                p.copy_(1 + 0.2 * x)
            elif name.endswith("bias"):
                p.copy_(0.5 * x)
            elif "embed_tokens" in name:
                p.copy_(x)
            else:
                p.copy_(1.2 * x / p.shape[1] ** 0.5)


def round_to(t, kind):
    return t.to({"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]).float()


def swap_halves(w, n_heads):
    """Rows of each head from halves to neighbouring pairs: (2, n/2) becomes (n/2, 2)."""
    rest = w.shape[1:]
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, *rest).transpose(1, 2).reshape(w.shape)


NAMES = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    base, suffix = rest.rsplit(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[base]}.{suffix}"


def add_tensor(w, name, t, kind):
    a = t.detach().numpy().astype(np.float32)
    if kind == "BF16":
        bits = a.view(np.uint32)
        assert not (bits & 0xFFFF).any()
        w.add_tensor(name, (bits >> 16).astype(np.uint16).view(np.uint8).reshape(*a.shape[:-1], -1),
                     raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        w.add_tensor(name, a.astype(np.float16) if kind == "F16" else a)


def llama3_factors(config):
    """What divides each frequency, from the published rule of Llama 3.1."""
    r = config.rope_parameters
    n = config.head_dim
    freqs = 1.0 / r["rope_theta"] ** (np.arange(0, n, 2, dtype=np.float64) / n)
    low = r["original_max_position_embeddings"] / r["low_freq_factor"]
    high = r["original_max_position_embeddings"] / r["high_freq_factor"]
    out = []
    for wavelen in 2 * np.pi / freqs:
        if wavelen < high:
            out.append(1.0)
        elif wavelen > low:
            out.append(r["factor"])
        else:
            smooth = ((r["original_max_position_embeddings"] / wavelen - r["low_freq_factor"])
                      / (r["high_freq_factor"] - r["low_freq_factor"]))
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    assert len(set(out)) >= 3, "the fixture should have all three kinds"
    return torch.tensor(out, dtype=torch.float32)


def add_metadata(w, arch, config, head_dim):
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    if head_dim * config.num_attention_heads != config.hidden_size:
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    w.add_rope_dimension_count(head_dim)
    r = config.rope_parameters
    w.add_rope_freq_base(r["rope_theta"])
    if r["rope_type"] in ("linear", "yarn"):
        w.add_string(f"{arch}.rope.scaling.type", r["rope_type"])
        w.add_float32(f"{arch}.rope.scaling.factor", r["factor"])
    if r["rope_type"] == "yarn":
        w.add_uint32(f"{arch}.rope.scaling.original_context_length",
                     r["original_max_position_embeddings"])
    if r.get("attention_factor"):  # in GGUF a factor on top of the one that follows from the scale
        w.add_float32(f"{arch}.rope.scaling.attn_factor",
                      r["attention_factor"] / (0.1 * np.log(r["factor"]) + 1))
        w.add_float32(f"{arch}.rope.scaling.yarn_beta_fast", r["beta_fast"])
        w.add_float32(f"{arch}.rope.scaling.yarn_beta_slow", r["beta_slow"])
    if getattr(config, "sliding_window", None) and config.model_type == "mistral":
        w.add_sliding_window(config.sliding_window)


def add_tokenizer(w):
    tokens, kinds, merges = byte_level_vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_bos_token_id(tokens.index("<|endoftext|>"))
    w.add_eos_token_id(tokens.index("<|endoftext|>"))
    w.add_add_bos_token(False)


def write_model(path, arch, model, mat, vec):
    config = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    w = gguf.GGUFWriter(path, arch)
    w.add_name(path.stem)
    add_metadata(w, arch, config, head_dim)
    add_tokenizer(w)
    if config.rope_parameters["rope_type"] == "llama3":
        add_tensor(w, "rope_freqs.weight", llama3_factors(config), "F32")
    for name, p in model.named_parameters():
        t = p.detach()
        if arch == "llama" and ".q_proj." in name:
            t = swap_halves(t, config.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            t = swap_halves(t, config.num_key_value_heads)
        add_tensor(w, gguf_name(name), t, mat if t.dim() == 2 else vec)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_fixture(name, seed):
    arch, kind, changes, mat, vec = FIXTURES[name]
    config = getattr(transformers, kind + "Config")(**{**SMALL, **changes},
                                                    attn_implementation="eager")
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    randomize(model, seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(round_to(p, mat if p.dim() == 2 else vec))
    tokens = np.random.default_rng(seed).integers(0, N_VOCAB, N_TOKENS)
    with torch.no_grad():
        logits = model(torch.tensor(tokens)[None]).logits[0].numpy()
    write_model(MODELS / f"{name}.gguf", arch, model, mat, vec)
    logits.astype("<f4").tofile(MODELS / f"{name}.logits.f32")
    (MODELS / f"{name}.tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    size = (MODELS / f"{name}.gguf").stat().st_size
    assert size < 300_000
    print(f"{name}: {size} bytes, logits within {np.abs(logits).max():.3f}")


def make_seed(name, arch, keys=(), drop=(), biases=False, qk_norm=False):
    """A model of a few KB for the fuzzer to start from."""
    n, n_kv, n_ff, n_vocab = 8, 4, 12, 10
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(CORPUS / f"{name}.gguf", arch)
    w.add_context_length(64)
    w.add_embedding_length(n)
    w.add_block_count(1)
    w.add_feed_forward_length(n_ff)
    w.add_head_count(2)
    w.add_head_count_kv(1)
    w.add_layer_norm_rms_eps(1e-5)
    for key, value in keys:
        add = {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool}
        add[type(value)](f"{arch}.{key}", value)
    w.add_token_list([chr(97 + i) for i in range(n_vocab)])
    shapes = {"token_embd.weight": (n_vocab, n), "output_norm.weight": (n,)}
    for part, shape in {"attn_norm": (n,), "attn_q": (n, n), "attn_k": (n_kv, n),
                        "attn_v": (n_kv, n), "attn_output": (n, n), "ffn_norm": (n,),
                        "ffn_gate": (n_ff, n), "ffn_up": (n_ff, n), "ffn_down": (n, n_ff)}.items():
        shapes[f"blk.0.{part}.weight"] = shape
    if biases:
        shapes |= {"blk.0.attn_q.bias": (n,), "blk.0.attn_k.bias": (n_kv,),
                   "blk.0.attn_v.bias": (n_kv,)}
    if qk_norm:
        shapes |= {"blk.0.attn_q_norm.weight": (4,), "blk.0.attn_k_norm.weight": (4,)}
    for tensor, shape in shapes.items():
        if tensor not in drop:
            w.add_tensor(tensor, rng.standard_normal(shape).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    MODELS.mkdir(parents=True, exist_ok=True)
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name in FIXTURES:
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_fixture(name, sum(name.encode()))
    make_seed("llama", "llama", [("rope.dimension_count", 4), ("rope.freq_base", 1e4)])
    make_seed("llama-window", "llama", [("attention.sliding_window", 8), ("vocab_size", 10),
                                        ("rope.scaling.type", "linear"),
                                        ("rope.scaling.factor", 2.0)])
    make_seed("qwen2", "qwen2", [("attention.causal", False)], biases=True)
    make_seed("qwen3-yarn", "qwen3", [("rope.scaling.type", "yarn"), ("rope.scaling.factor", 4.0),
                                      ("rope.scaling.original_context_length", 16)], qk_norm=True)
    make_seed("missing-tensor", "llama", drop=["blk.0.ffn_up.weight"])
    make_seed("surplus-tensor", "llama", qk_norm=True)


if __name__ == "__main__":
    main()
