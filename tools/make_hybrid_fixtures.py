#!/usr/bin/env python3
"""Makes the tiny random models whose layers partly keep a state instead of keys and values.

As make_decoder_fixtures.py does for dense decoders: every model is built with `transformers`, which also
computes the logits of a fixed token sequence in float32; the weights go into a GGUF file laid out the way
converters do it (taps of convolutions without their dimension of groups; -exp of A_log; 1 added to the
norms that are stored around 0; value heads of Qwen3.5 in turn of their key heads; the joint projections of
Qwen3-Next sorted by what they are).  The file is also run by libllama, as a second opinion on the layout.
Needs torch, transformers, gguf, numpy, llama-cpp-python; run it only to change fixtures:

    python3 tools/make_hybrid_fixtures.py [NAME...]   # writes tests/data/models, tests/fuzz/corpus/model
"""
import ctypes
import re
import sys

import gguf
import llama_cpp
import numpy as np
import torch
import transformers

from make_decoder_fixtures import run_libllama
from make_model_fixtures import CORPUS, MODELS, N_VOCAB, add_tensor, add_tokenizer, rope

N_TOKENS = 40

SMALL = dict(vocab_size=N_VOCAB, hidden_size=16, intermediate_size=12, num_hidden_layers=3,
             num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256,
             rms_norm_eps=1e-5, norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
             pad_token_id=None)
LFM2 = dict(layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, **rope(theta=1e6))
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8,
             linear_num_key_heads=2, linear_num_value_heads=4, head_dim=8,
             layer_types=["linear_attention", "full_attention", "linear_attention"])
SHORT = dict(DELTA, num_hidden_layers=2, layer_types=DELTA["layer_types"][:2])
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)

# What modules are called in a file, in the order in which they are tried.
NAMES = [(re.compile(a + "$"), b) for a, b in [
    (r"model\.embed_tokens\.weight", "token_embd.weight"),
    (r"model\.embedding_norm\.weight", "token_embd_norm.weight"),
    (r"model\.norm\.weight", "output_norm.weight"),
    (r"lm_head\.weight", "output.weight"),
    (r"(operator_norm|input_layernorm)\.weight", "attn_norm.weight"),
    (r"self_attn\.([qkv])_proj\.weight", r"attn_\1.weight"),
    (r"self_attn\.(out|o)_proj\.weight", "attn_output.weight"),
    (r"self_attn\.([qk])_(layer)?norm\.weight", r"attn_\1_norm.weight"),
    (r"conv\.(in_proj|conv|out_proj)\.weight", r"shortconv.\1.weight"),
    (r"ffn_norm\.weight", "ffn_norm.weight"),
    (r"feed_forward\.w1\.weight", "ffn_gate.weight"),
    (r"feed_forward\.w2\.weight", "ffn_down.weight"),
    (r"feed_forward\.w3\.weight", "ffn_up.weight"),
    (r"(feed_forward|mlp)\.gate\.weight", "ffn_gate_inp.weight"),
    (r"feed_forward\.expert_bias", "exp_probs_b.bias"),
    (r"(feed_forward|mlp)\.experts\.gate_up_proj", "ffn_gate_up_exps.weight"),
    (r"(feed_forward|mlp)\.experts\.down_proj", "ffn_down_exps.weight"),
    (r"mlp\.(gate|up|down)_proj\.weight", r"ffn_\1.weight"),
    (r"mlp\.shared_expert\.(gate|up|down)_proj\.weight", r"ffn_\1_shexp.weight"),
    (r"mlp\.shared_expert_gate\.weight", "ffn_gate_inp_shexp.weight"),
    (r"post_attention_layernorm\.weight", "post_attention_norm.weight"),
    (r"linear_attn\.in_proj_qkvz\.weight", "ssm_in.weight"),
    (r"linear_attn\.in_proj_qkv\.weight", "attn_qkv.weight"),
    (r"linear_attn\.in_proj_z\.weight", "attn_gate.weight"),
    (r"linear_attn\.in_proj_ba\.weight", "ssm_ba.weight"),
    (r"linear_attn\.in_proj_b\.weight", "ssm_beta.weight"),
    (r"linear_attn\.in_proj_a\.weight", "ssm_alpha.weight"),
    (r"linear_attn\.conv1d\.weight", "ssm_conv1d.weight"),
    (r"linear_attn\.dt_bias", "ssm_dt.bias"),
    (r"linear_attn\.A_log", "ssm_a"),
    (r"linear_attn\.norm\.weight", "ssm_norm.weight"),
    (r"linear_attn\.out_proj\.weight", "ssm_out.weight"),
    (r"model\.embeddings\.weight", "token_embd.weight"),
    (r"model\.norm_f\.weight", "output_norm.weight"),
    (r"norm\.weight", "attn_norm.weight"),
    (r"block_sparse_moe\.router\.weight", "ffn_gate_inp.weight"),
    (r"block_sparse_moe\.experts\.gate_up_proj", "ffn_gate_up_exps.weight"),
    (r"block_sparse_moe\.experts\.down_proj", "ffn_down_exps.weight"),
    (r"shared_mlp\.input_linear\.weight", "ffn_gate_up.weight"),
    (r"shared_mlp\.output_linear\.weight", "ffn_down.weight"),
    (r"(mamba|mixer)\.in_proj\.weight", "ssm_in.weight"),
    (r"(mamba|mixer)\.conv1d\.(weight|bias)", r"ssm_conv1d.\2"),
    (r"(mamba|mixer)\.dt_bias", "ssm_dt.bias"),
    (r"(mamba|mixer)\.A_log", "ssm_a"),
    (r"(mamba|mixer)\.D", "ssm_d"),
    (r"(mamba|mixer)\.norm\.weight", "ssm_norm.weight"),
    (r"(mamba|mixer)\.out_proj\.weight", "ssm_out.weight"),
    (r"mixer\.([qkv])_proj\.weight", r"attn_\1.weight"),
    (r"mixer\.o_proj\.weight", "attn_output.weight"),
    (r"mixer\.(up|down)_proj\.weight", r"ffn_\1.weight"),
]]


class Fixture:
    """One model: architecture, class, what differs from SMALL, the file's keys from the config, and what
    makes of a tensor with its name those of the file, where that is more than another name."""

    def __init__(self, arch, kind, changes, keys, change=lambda c, name, t: {name: t}, libllama=1e-5):
        self.arch, self.kind, self.changes, self.keys = arch, kind, changes, keys
        self.change, self.libllama = change, libllama


def expert_keys(c):
    return {"expert_count": c.num_experts, "expert_used_count": c.num_experts_per_tok,
            "expert_feed_forward_length": c.moe_intermediate_size}


def lfm2_keys(c):
    keys = {"shortconv.l_cache": c.conv_L_cache, "attention.head_count_kv": [
        c.num_key_value_heads if kind == "full_attention" else 0 for kind in c.layer_types]}
    if hasattr(c, "num_experts"):
        keys |= expert_keys(c) | {"leading_dense_block_count": c.num_dense_layers,
                                  "expert_gating_func": 2}
    return keys


def split_experts(c, name, t):
    """Gate and up of the experts apart."""
    if "ffn_gate_up_exps" not in name:
        return {name: t}
    gate, up = t.chunk(2, dim=1)
    return {name.replace("gate_up", "gate"): gate, name.replace("gate_up", "up"): up}


def qwen_keys(c):
    keys = {"full_attention_interval": 2, "ssm.conv_kernel": c.linear_conv_kernel_dim,
            "ssm.state_size": c.linear_key_head_dim, "ssm.group_count": c.linear_num_key_heads,
            "ssm.time_step_rank": c.linear_num_value_heads,
            "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim}
    if c.model_type.startswith("qwen3_5"):
        keys["rope.dimension_sections"] = c.rope_parameters["mrope_section"] + [0]
    if hasattr(c, "num_experts"):
        keys |= expert_keys(c)
        keys["expert_shared_feed_forward_length"] = c.shared_expert_intermediate_size
    return keys


def qwen(c, name, t):
    """What all Qwens have in common."""
    if name == "ssm_a":
        t = -torch.exp(t)
    elif name.endswith("norm.weight") and name != "ssm_norm.weight":
        t = t + 1
    return split_experts(c, name, t)


def qwen3next(c, name, t):
    """The joint projection of queries, keys, values and gates, from key head by key head to all of each."""
    if name != "ssm_in.weight":
        return qwen(c, name, t)
    n_k, n_v = c.linear_key_head_dim, c.linear_value_head_dim
    n_v = c.linear_num_value_heads // c.linear_num_key_heads * n_v
    heads = t.reshape(c.linear_num_key_heads, 2 * n_k + 2 * n_v, -1)
    q, k, v, z = (x.reshape(-1, t.shape[1]) for x in heads.split([n_k, n_k, n_v, n_v], dim=1))
    return {"attn_qkv.weight": torch.cat([q, k, v]), "attn_gate.weight": z}


def in_turn(c, t, size):
    """Value heads of size rows, from those of one key head after another to one of each in turn."""
    return t.reshape(c.linear_num_key_heads, -1, size, *t.shape[1:]).transpose(0, 1).reshape(t.shape)


def qwen35(c, name, t):
    size, n_keys = c.linear_value_head_dim, 2 * c.linear_num_key_heads * c.linear_key_head_dim
    if name in ("attn_qkv.weight", "ssm_conv1d.weight"):
        t = torch.cat([t[:n_keys], in_turn(c, t[n_keys:], size)])
    elif name == "attn_gate.weight":
        t = in_turn(c, t, size)
    elif name == "ssm_out.weight":
        t = in_turn(c, t.T.contiguous(), size).T
    elif name in ("ssm_beta.weight", "ssm_alpha.weight", "ssm_dt.bias", "ssm_a"):
        t = in_turn(c, t, 1)
    return qwen(c, name, t)


def mamba_keys(c, n_heads, n_groups, state, head_dim, taps):
    return {"ssm.conv_kernel": taps, "ssm.state_size": state, "ssm.group_count": n_groups,
            "ssm.inner_size": n_heads * head_dim, "ssm.time_step_rank": n_heads,
            "rope.scaling.finetuned": False,
            "attention.head_count_kv": [c.num_key_value_heads if kind == "full_attention" else 0
                                        for kind in c.layer_types]}


def granite_keys(c):
    keys = mamba_keys(c, c.mamba_n_heads, c.mamba_n_groups, c.mamba_d_state, c.mamba_d_head, c.mamba_d_conv)
    keys |= {"embedding_scale": c.embedding_multiplier, "residual_scale": c.residual_multiplier,
             "logit_scale": c.logits_scaling, "attention.scale": c.attention_multiplier}
    if c.num_local_experts:
        keys |= {"expert_count": c.num_local_experts, "expert_used_count": c.num_experts_per_tok,
                 "expert_shared_feed_forward_length": c.shared_intermediate_size}
    return keys


def nemotron_keys(c):
    keys = mamba_keys(c, c.mamba_num_heads, c.n_groups, c.ssm_state_size, c.mamba_head_dim, c.conv_kernel)
    return keys | {"attention.layer_norm_epsilon": c.layer_norm_epsilon, "feed_forward_length": [c.intermediate_size if kind == "mlp" else 0
                                           for kind in c.layer_types]}


def mamba(c, name, t):
    """A and D with a dimension more, the norm by groups, gate and up of the shared expert apart."""
    granite = c.model_type == "granitemoehybrid"
    shared = "_shexp" if granite and c.num_local_experts else ""
    if name == "ssm_a":
        return {name: -torch.exp(t)[:, None]}
    if name == "ssm_d":
        return {name: t[:, None]}
    if name == "ssm_norm.weight":
        return {name: t.reshape(c.mamba_n_groups if granite else c.n_groups, -1)}
    if name == "ffn_gate_up.weight":
        gate, up = t.chunk(2)
        return {f"ffn_gate{shared}.weight": gate, f"ffn_up{shared}.weight": up}
    if name == "ffn_down.weight":
        return {f"ffn_down{shared}.weight": t}
    if name == "post_attention_norm.weight":
        return {"ffn_norm.weight": t}
    return split_experts(c, name, t)


GRANITE = dict(mamba_n_heads=4, mamba_d_state=8, mamba_d_head=8, mamba_d_conv=4, shared_intermediate_size=12,
               embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.6,
               attention_multiplier=0.25)
NEMOTRON = dict(mamba_num_heads=4, n_groups=2, ssm_state_size=8, mamba_head_dim=8, head_dim=8, conv_kernel=4,
                layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"],
                num_hidden_layers=5, tie_word_embeddings=False)
NEXT = dict(shared_expert_intermediate_size=8, norm_topk_prob=True, **EXPERTS,
            **rope(theta=1e5, partial_rotary_factor=0.5))
MROPE = rope(theta=1e5, partial_rotary_factor=0.5, mrope_section=[1, 1, 0])
FIXTURES = {
    "lfm2": Fixture("lfm2", "Lfm2", dict(block_auto_adjust_ff_dim=False, **LFM2), lfm2_keys),
    "lfm2moe": Fixture("lfm2moe", "Lfm2Moe", dict(
        num_dense_layers=1, use_expert_bias=True, norm_topk_prob=True, **EXPERTS, **LFM2), lfm2_keys,
        split_experts),
    # libllama's way to make vectors of length 1 differs
    "qwen3next": Fixture("qwen3next", "Qwen3Next", NEXT | DELTA, qwen_keys, qwen3next, libllama=1e-4),
    "qwen3next-joint": Fixture("qwen3next", "Qwen3Next", NEXT | SHORT, qwen_keys, qwen, libllama=1e-4),
    "qwen35": Fixture("qwen35", "Qwen3_5", DELTA | MROPE, qwen_keys, qwen35, libllama=1e-4),
    "qwen35moe": Fixture("qwen35moe", "Qwen3_5Moe", dict(
        shared_expert_intermediate_size=8, **EXPERTS, **SHORT, **MROPE), qwen_keys, qwen35, libllama=1e-4),
    "granitehybrid": Fixture("granitehybrid", "GraniteMoeHybrid", dict(
        num_local_experts=0, mamba_n_groups=1, layer_types=DELTA["layer_types"], **GRANITE), granite_keys,
        mamba),
    "granitehybrid-moe": Fixture("granitehybrid", "GraniteMoeHybrid", dict(
        num_local_experts=4, num_experts_per_tok=2, mamba_n_groups=2, num_hidden_layers=2,
        layer_types=SHORT["layer_types"], **GRANITE), granite_keys, mamba),
    "nemotron_h": Fixture("nemotron_h", "NemotronH", NEMOTRON, nemotron_keys, mamba),
}

# A few KB each, for the fuzzer to start from: what to make smaller.
TINY = dict(vocab_size=10, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64)
SEEDS = {
    "lfm2": dict(TINY, layer_types=["conv", "full_attention"]),
    "nemotron_h": dict(TINY, num_hidden_layers=3, mamba_num_heads=2, n_groups=1, ssm_state_size=4,
                       mamba_head_dim=4, head_dim=4,
                       layers_block_type=["linear_attention", "mlp", "full_attention"]),
    "qwen35": dict(TINY, head_dim=8, linear_num_value_heads=2, linear_num_key_heads=1,
                   linear_key_head_dim=4, linear_value_head_dim=4, linear_conv_kernel_dim=2,
                   layer_types=["linear_attention", "full_attention"],
                   **rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0])),
}


def randomize(model, seed):
    """Values large enough that a wrong state, position, gate or norm changes every logit."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.state_dict().items():
        x = torch.randn(p.shape, generator=g)
        if name.endswith(("norm.weight", "norm_f.weight")):
            around = float(p.flatten()[0])  # 0 or 1: how the model stores its norms
            p.copy_(around + 0.2 * x)
        elif name.endswith(("bias", "A_log")):
            p.copy_(0.4 * x)
        elif name.endswith(".D"):
            p.copy_(1 + 0.4 * x)
        elif "embed" in name:
            p.copy_(x / getattr(model.config, "embedding_multiplier", 1.0))
        elif "conv" in name and p.dim() == 3:
            p.copy_(0.7 * x)
        else:
            p.copy_(1.2 * x / p.shape[-1] ** 0.5)


def tensors_of(f, model):
    """Name in the file: tensor, of every parameter and buffer, as converters lay them out."""
    out = {}
    for source, t in model.state_dict().items():
        if source == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        layer = re.match(r"model\.layers\.(\d+)\.(.*)", source)
        part = layer.group(2) if layer else source
        name = next(p.sub(to, part) for p, to in NAMES if p.match(part))
        t = t.detach().float()
        if t.dim() == 3 and t.shape[1] == 1:
            t = t.squeeze(1)  # a convolution's taps
        for to, what in f.change(model.config, name, t).items():
            out[f"blk.{layer.group(1)}.{to}" if layer else to] = what
    return out


def metadata(f, c):
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    keys = {"context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
            "block_count": c.num_hidden_layers, "attention.head_count": c.num_attention_heads,
            "attention.head_count_kv": c.num_key_value_heads,
            "vocab_size": c.vocab_size}
    if f.arch != "nemotron_h":  # which says layer_norm_epsilon
        keys["attention.layer_norm_rms_epsilon"] = 1e-5
    if getattr(c, "intermediate_size", None):
        keys["feed_forward_length"] = c.intermediate_size
    r = getattr(c, "rope_parameters", None)
    if r:
        keys["rope.dimension_count"] = int(head_dim * r.get("partial_rotary_factor", 1.0))
        keys["rope.freq_base"] = float(r["rope_theta"])
    if getattr(c, "head_dim", None):
        keys |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    return keys | f.keys(c)


def write_model(path, f, model):
    w = gguf.GGUFWriter(path, f.arch)
    w.add_name("tiny random hybrid")
    add = {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool,
           list: w.add_array}
    for key, value in metadata(f, model.config).items():
        add[type(value)](f"{f.arch}.{key}", value)
    if model.config.vocab_size == N_VOCAB:
        add_tokenizer(w)
    else:
        w.add_token_list([chr(97 + i) for i in range(model.config.vocab_size)])
    for name, t in tensors_of(f, model).items():
        add_tensor(w, name, t.contiguous(), "F32")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_model(f, seed, more):
    suffix = "TextConfig" if f.kind.startswith("Qwen3_5") else "Config"
    config = getattr(transformers, f.kind + suffix)(**{**SMALL, **f.changes, **more})
    config._attn_implementation = "eager"
    model = getattr(transformers, f.kind + "ForCausalLM")(config).float().eval()
    randomize(model, seed)
    return model


@torch.no_grad()
def make_fixture(name, f):
    seed = sum(name.encode())
    model = make_model(f, seed, {})
    tokens = np.random.default_rng(seed).integers(0, N_VOCAB, N_TOKENS)
    logits = model(torch.tensor(tokens)[None], use_cache=False).logits[0].numpy()
    path = MODELS / f"{name}.gguf"
    write_model(path, f, model)
    logits.astype("<f4").tofile(MODELS / f"{name}.logits.f32")
    (MODELS / f"{name}.tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    diff = np.nan
    if f.libllama is not None:
        diff = np.abs(run_libllama(path, tokens, 64) - logits).max() / np.abs(logits).max()
    print(f"{name}: {path.stat().st_size} bytes, logits within {np.abs(logits).max():.3f}, libllama off "
          f"by {diff:.1e}", flush=True)
    assert f.libllama is None or diff < f.libllama, name


def main():
    silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *a: None)
    llama_cpp.llama_log_set(silence, None)
    for name, f in FIXTURES.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_fixture(name, f)
    for name, changes in SEEDS.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            with torch.no_grad():
                write_model(CORPUS / f"{name}.gguf", FIXTURES[name],
                            make_model(FIXTURES[name], 1, changes))


if __name__ == "__main__":
    main()
