#!/usr/bin/env python3
"""Makes the tiny random models with experts or latent attention, and what they must compute.

As make_model_fixtures.py does for dense decoders: every model is built with `transformers`, which also
computes the logits of a fixed token sequence in float32; the weights go into a GGUF file laid out the way
converters do it (experts stacked, gate and up apart, kv_b of latent attention split and its key part
transposed, MXFP4 blocks reordered).  The sequence is chosen so that every expert of every layer is used.
The same weights in float32 are also run by libllama, as a second opinion on the layout; where it
computes something else than the original model, it is compared with a model changed in that way
(as_libllama).  Needs torch, transformers, gguf, numpy, llama-cpp-python; run it only to change fixtures:

    python3 tools/make_moe_fixtures.py [NAME...]     # writes tests/data/models, tests/fuzz/corpus/model
"""
import ctypes
import pathlib
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np
import torch
import transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from make_model_fixtures import CORPUS, MODELS, N_VOCAB, add_tokenizer

N_TOKENS = 40
QTYPE = gguf.GGMLQuantizationType

SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=16, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
             pad_token_id=None)
DEEPSEEK = dict(hidden_size=32, num_hidden_layers=3, num_key_value_heads=4, rms_norm_eps=1e-6,
                intermediate_size=40, first_k_dense_replace=1, n_routed_experts=8,
                num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=12,
                kv_lora_rank=24, q_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8,
                v_head_dim=10)


def rope(theta=10000.0, kind="default", **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


class Fixture:
    """One model: architecture, class, what differs from SMALL, and how its file differs."""

    def __init__(self, arch, kind, changes, **how):
        self.arch, self.kind, self.changes = arch, kind, changes
        self.mat = how.pop("mat", "F16")  # type of matrices
        self.experts = how.pop("experts", {})  # types of ffn_gate_exps and so on, else mat
        self.keys = how.pop("keys", lambda c: {})  # keys of this architecture, from the config
        self.mtp = how.pop("mtp", None)  # a layer for multi-token prediction, shaped like this one
        self.expanded = how.pop("expanded", False)  # kv_b of latent attention in one piece
        self.fused = how.pop("fused", False)  # gate and up of the experts in one tensor, which
                                              # libllama gets apart
        self.fused_qkv = how.pop("fused_qkv", False)
        self.twins = how.pop("twins", ())  # experts that are the same, so that their scores tie
        self.as_libllama = how.pop("as_libllama", {})  # changes with which it computes the same
        self.libllama_keys = how.pop("libllama_keys", {})  # that libllama alone insists on
        assert not how, how


def qwen_keys(c):
    keys = {"expert_feed_forward_length": c.moe_intermediate_size}
    if hasattr(c, "shared_expert_intermediate_size"):
        keys["expert_shared_feed_forward_length"] = c.shared_expert_intermediate_size
    return keys


def sigmoid_keys(c):
    """glm4moe, dots1, deepseek2 and their like."""
    keys = {"expert_feed_forward_length": c.moe_intermediate_size,
            "leading_dense_block_count": getattr(c, "first_k_dense_replace", 1),
            "expert_shared_count": getattr(c, "n_shared_experts", None) or c.num_shared_experts,
            "expert_weights_scale": float(c.routed_scaling_factor),
            "expert_weights_norm": bool(c.norm_topk_prob)}
    if c.model_type != "deepseek_v2":
        keys["expert_gating_func"] = 2
    if (getattr(c, "n_group", None) or 1) > 1:
        keys["expert_group_count"] = c.n_group
        keys["expert_group_used_count"] = c.topk_group
    return keys


def latent_keys(c, expanded):
    keys = {"attention.kv_lora_rank": c.kv_lora_rank, "rope.dimension_count": c.qk_rope_head_dim}
    if c.q_lora_rank is not None:
        keys["attention.q_lora_rank"] = c.q_lora_rank
    if expanded:
        keys["attention.head_count_kv"] = c.num_attention_heads
        keys["attention.key_length"] = c.qk_nope_head_dim + c.qk_rope_head_dim
        keys["attention.value_length"] = c.v_head_dim
    else:
        keys["attention.head_count_kv"] = 1
        keys["attention.key_length"] = c.kv_lora_rank + c.qk_rope_head_dim
        keys["attention.value_length"] = c.kv_lora_rank
        keys["attention.key_length_mla"] = c.qk_nope_head_dim + c.qk_rope_head_dim
        keys["attention.value_length_mla"] = c.v_head_dim
    if "mscale_all_dim" in c.rope_parameters:
        keys["rope.scaling.yarn_log_multiplier"] = 0.1 * c.rope_parameters["mscale_all_dim"]
    return keys


def granite_keys(c):
    return {"attention.scale": c.attention_multiplier, "embedding_scale": c.embedding_multiplier,
            "residual_scale": c.residual_multiplier, "logit_scale": c.logits_scaling,
            "rope.dimension_count": c.hidden_size // c.num_attention_heads}


def ernie_keys(c):
    return {"expert_feed_forward_length": c.moe_intermediate_size,
            "expert_shared_count": c.moe_num_shared_experts,
            "expert_shared_feed_forward_length":
                c.moe_intermediate_size * c.moe_num_shared_experts,
            "interleave_moe_layer_step": c.moe_layer_interval,
            "leading_dense_block_count": c.moe_layer_start_index}


UNTIED = dict(tie_word_embeddings=False)  # all that libllama knows of these architectures
YARN = dict(kind="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0,
            beta_slow=1.0)
GLM = dict(num_hidden_layers=3, intermediate_size=40, moe_intermediate_size=12, head_dim=16,
           n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1, attention_bias=True,
           routed_scaling_factor=1.7, norm_topk_prob=True, num_mtp_layers=1,
           **rope(partial_rotary_factor=0.5))
ERNIE = dict(intermediate_size=40, moe_intermediate_size=12, moe_num_experts=6, moe_k=2,
             moe_num_shared_experts=2, moe_layer_start_index=1)
OSS_YARN = dict(kind="yarn", factor=4.0, original_max_position_embeddings=1024, beta_fast=32.0,
                beta_slow=1.0, truncate=False)
OSS = dict(max_position_embeddings=4096, num_hidden_layers=4, intermediate_size=32, head_dim=16,
           num_local_experts=4, num_experts_per_tok=2, sliding_window=8, **UNTIED)

FIXTURES = {
    "mixtral": Fixture("llama", "Mixtral", dict(num_local_experts=8, num_experts_per_tok=2,
                                                **rope(1e6))),
    "mixtral-ties": Fixture("llama", "Mixtral", dict(num_local_experts=6, num_experts_per_tok=3,
                                                     num_hidden_layers=1, **rope()),
                            mat="F32", twins=(1, 3, 4)),
    "qwen2moe": Fixture("qwen2moe", "Qwen2Moe", dict(
        num_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=False,
        shared_expert_intermediate_size=28, **UNTIED, **rope()), keys=qwen_keys),
    "qwen2moe-top1": Fixture("qwen2moe", "Qwen2Moe", dict(
        num_experts=4, num_experts_per_tok=1, moe_intermediate_size=12, norm_topk_prob=False,
        shared_expert_intermediate_size=20, **UNTIED, **rope()), keys=qwen_keys, mat="BF16"),
    "qwen3moe": Fixture("qwen3moe", "Qwen3Moe", dict(
        head_dim=16, num_experts=16, num_experts_per_tok=8, moe_intermediate_size=8,
        norm_topk_prob=True, **rope(1e6)), keys=qwen_keys),
    "qwen3moe-quant": Fixture("qwen3moe", "Qwen3Moe", dict(
        hidden_size=256, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=32, norm_topk_prob=True, **rope(1e6)), keys=qwen_keys,
        experts={"ffn_gate_exps": "Q4_K", "ffn_up_exps": "Q6_K", "ffn_down_exps": "Q8_0"}),
    "glm4moe": Fixture("glm4moe", "Glm4Moe", dict(n_shared_experts=2, use_qk_norm=True, **GLM),
                       keys=sigmoid_keys, mtp=2),
    "glm4moe-air": Fixture("glm4moe", "Glm4Moe", dict(n_shared_experts=1, use_qk_norm=False,
                                                      **GLM), keys=sigmoid_keys, fused=True),
    "olmoe": Fixture("olmoe", "Olmoe", dict(num_key_value_heads=4, num_experts=8,
                                            num_experts_per_tok=4, norm_topk_prob=False, **UNTIED,
                                            **rope())),
    "granitemoe": Fixture("granitemoe", "GraniteMoe", dict(
        num_local_experts=8, num_experts_per_tok=3, embedding_multiplier=6.0, logits_scaling=3.0,
        residual_multiplier=0.4, attention_multiplier=0.2, **rope()), keys=granite_keys),
    "granitemoe-shared": Fixture("granitemoe", "GraniteMoeShared", dict(
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=16,
        embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.4,
        attention_multiplier=0.2, **rope()),
        keys=lambda c: dict(granite_keys(c),
                            expert_shared_feed_forward_length=c.shared_intermediate_size)),
    # libllama always rounds where the ramp of YaRN begins and ends to whole dimensions
    "gpt-oss": Fixture(
        "gpt-oss", "GptOss", dict(**OSS, **rope(1000.0, **OSS_YARN)),
        keys=lambda c: {"attention.sliding_window": c.sliding_window,
                        "expert_feed_forward_length": c.intermediate_size},
        experts={"ffn_gate_exps": "MXFP4", "ffn_up_exps": "MXFP4", "ffn_down_exps": "MXFP4"},
        as_libllama=rope(1000.0, **{**OSS_YARN, "truncate": True})),
    "deepseek2-lite": Fixture("deepseek2", "DeepseekV2", dict(
        **{**DEEPSEEK, "q_lora_rank": None, "num_hidden_layers": 2}, routed_scaling_factor=1.0,
        norm_topk_prob=False, topk_method="greedy",
        **rope(**YARN, mscale=0.707, mscale_all_dim=0.707)), keys=sigmoid_keys,
        libllama_keys={"attention.q_lora_rank": 0}),
    "deepseek2-old": Fixture("deepseek2", "DeepseekV2", dict(
        **{**DEEPSEEK, "q_lora_rank": None, "num_hidden_layers": 2}, routed_scaling_factor=1.0,
        norm_topk_prob=False, topk_method="greedy",
        **rope(**YARN, mscale=0.707, mscale_all_dim=0.707)), keys=sigmoid_keys, expanded=True,
        libllama_keys={"attention.q_lora_rank": 0}),
    # libllama ranks groups by the sum of their two best, as V3 does; V2 by their best alone
    "deepseek2-v2": Fixture("deepseek2", "DeepseekV2", dict(
        **{**DEEPSEEK, "n_routed_experts": 12, "num_hidden_layers": 2}, routed_scaling_factor=4.0,
        norm_topk_prob=False,
        topk_method="group_limited_greedy", n_group=4, topk_group=2, **rope()),
        keys=sigmoid_keys, as_libllama=dict(topk_method="greedy", n_group=1)),
    "deepseek2-v3": Fixture("deepseek2", "DeepseekV3", dict(
        **{**DEEPSEEK, "n_routed_experts": 12, "n_shared_experts": 1}, routed_scaling_factor=2.5,
        norm_topk_prob=True, n_group=4, topk_group=2,
        **rope(**YARN, mscale=1.0, mscale_all_dim=1.0)), keys=sigmoid_keys),
    "deepseek2-glm": Fixture("deepseek2", "Glm4MoeLite", dict(
        **{k: v for k, v in DEEPSEEK.items() if k not in ("first_k_dense_replace",
                                                         "num_hidden_layers")},
        routed_scaling_factor=1.8, norm_topk_prob=True, n_group=1, topk_group=1, **rope(1e6)),
        keys=sigmoid_keys),
    "dots1": Fixture("dots1", "Dots1", dict(
        num_hidden_layers=3, num_key_value_heads=4, intermediate_size=40, moe_intermediate_size=12,
        head_dim=8, n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1, n_shared_experts=2,
        norm_topk_prob=True, routed_scaling_factor=2.5, **UNTIED, **rope()), keys=sigmoid_keys),
    # transformers has no class of that name, but the same computation
    "bailingmoe2": Fixture("bailingmoe2", "Dots1", dict(
        num_hidden_layers=3, intermediate_size=40, moe_intermediate_size=12, head_dim=8,
        n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1, n_shared_experts=1,
        norm_topk_prob=True, routed_scaling_factor=2.5, n_group=4, topk_group=2, **UNTIED,
        **rope(600000.0)), keys=sigmoid_keys, fused_qkv=True),
    "exaone-moe": Fixture("exaone-moe", "ExaoneMoe", dict(
        num_hidden_layers=5, intermediate_size=40, moe_intermediate_size=12, num_experts=4,
        num_experts_per_tok=2, num_shared_experts=1, routed_scaling_factor=2.5, sliding_window=8,
        norm_topk_prob=True, **UNTIED, **rope(1e6)), mtp=0,
        keys=lambda c: dict(sigmoid_keys(c), **{"attention.sliding_window": c.sliding_window})),
    "ernie4_5-moe": Fixture("ernie4_5-moe", "Ernie4_5_Moe", dict(
        **ERNIE, num_hidden_layers=3, moe_layer_interval=1, **rope(500000.0)), keys=ernie_keys),
    # libllama's loader expects experts in every layer behind the leading dense ones
    "ernie4_5-moe-step": Fixture("ernie4_5-moe", "Ernie4_5_Moe", dict(
        **ERNIE, num_hidden_layers=4, moe_layer_interval=2, **rope(500000.0)), keys=ernie_keys,
        as_libllama=None),
    "minimax-m2": Fixture("minimax-m2", "MiniMaxM2", dict(
        intermediate_size=16, head_dim=16, num_local_experts=8, num_experts_per_tok=4,
        **UNTIED, **rope(5e6, partial_rotary_factor=0.5)), keys=lambda c: {
            "expert_feed_forward_length": c.intermediate_size, "expert_gating_func": 2,
            "rope.dimension_count": c.head_dim // 2}),
    "hunyuan-moe": Fixture("hunyuan-moe", "HunYuanMoEV1", dict(
        head_dim=8, num_experts=6, moe_topk=2, **rope()), keys=lambda c: {
            "expert_shared_feed_forward_length": c.intermediate_size,
            "expert_feed_forward_length": c.intermediate_size}),
}

# A few KB each, for the fuzzer to start from.
TINY = dict(vocab_size=10, hidden_size=8, intermediate_size=4, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, moe_intermediate_size=4)
TINY_LATENT = dict(TINY, num_key_value_heads=2, first_k_dense_replace=0, n_routed_experts=4,
                   num_experts_per_tok=2, n_shared_experts=1, kv_lora_rank=6, q_lora_rank=4,
                   qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=4)
SEEDS = {
    "moe-shared": Fixture("qwen2moe", "Qwen2Moe", dict(
        **TINY, num_experts=3, num_experts_per_tok=2, norm_topk_prob=False,
        shared_expert_intermediate_size=4, **rope()), keys=qwen_keys, mat="F32"),
    "latent-groups": Fixture("deepseek2", "DeepseekV3", dict(
        **TINY_LATENT, routed_scaling_factor=2.5, norm_topk_prob=True, n_group=2, topk_group=1,
        **rope(**YARN, mscale=1.0, mscale_all_dim=1.0)), keys=sigmoid_keys, mat="F32"),
    "latent-expanded": Fixture("deepseek2", "DeepseekV2", dict(
        **{**TINY_LATENT, "q_lora_rank": None}, routed_scaling_factor=1.0, norm_topk_prob=False,
        topk_method="greedy", **rope()), keys=sigmoid_keys, expanded=True, fused=True, mat="F32"),
}

TOP_NAMES = {"model.embed_tokens.weight": "token_embd.weight",
             "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.sinks": "attn_sinks.weight",
    "self_attn.q_a_proj.weight": "attn_q_a.weight", "self_attn.q_b_proj.weight": "attn_q_b.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.kv_b_proj.weight": "attn_kv_b.weight",
    "self_attn.query_layernorm.weight": "attn_q_norm.weight",
    "self_attn.key_layernorm.weight": "attn_k_norm.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "mlp.router.bias": "ffn_gate_inp.bias",
    "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.e_score_correction_bias": "exp_probs_b.bias",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
    "experts.gate_up_proj_bias": "ffn_gate_up_exps.bias",
    "experts.down_proj_bias": "ffn_down_exps.bias",
    **{f"self_attn.{a}.{s}": f"attn_{b}.{s}" for s in ("weight", "bias")
       for a, b in dict(q_proj="q", k_proj="k", v_proj="v", o_proj="output", q_norm="q_norm",
                        k_norm="k_norm").items()},
    **{f"mlp.{a}.weight": "ffn_gate_inp.weight" for a in ("gate", "router", "gate.wg")},
    **{f"mlp.{a}_proj.weight": f"ffn_{a}.weight" for a in ("gate", "up", "down")},
    **{f"{e}.{a}_proj.weight": f"ffn_{a}_shexp.weight" for a in ("gate", "up", "down")
       for e in ("mlp.shared_expert", "mlp.shared_experts", "mlp.shared_mlp")},
    "shared_mlp.input_linear.weight": "ffn_gate_up_shexp.weight",
    "shared_mlp.output_linear.weight": "ffn_down_shexp.weight",
}


def gguf_name(arch, name):
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    rest = rest.replace("block_sparse_moe.", "mlp.").replace("mlp.experts.", "experts.")
    if rest == "post_attention_layernorm.weight":
        part = "post_attention_norm" if arch in ("gpt-oss", "glm4moe") else "ffn_norm"
        return f"blk.{layer}.{part}.weight"
    return f"blk.{layer}.{LAYER_NAMES[rest]}"


def swap_halves(w, n_heads):
    """Rows of each head from halves to neighbouring pairs: (2, n/2) becomes (n/2, 2)."""
    rest = w.shape[1:]
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, *rest).transpose(1, 2).reshape(w.shape)


def split_latent(c, base, kv_b):
    """kv_b [n_heads * (nope + value)][rank] as the absorbed form wants it."""
    kv_b = kv_b.reshape(c.num_attention_heads, c.qk_nope_head_dim + c.v_head_dim, c.kv_lora_rank)
    k_b, v_b = kv_b.split([c.qk_nope_head_dim, c.v_head_dim], dim=1)
    return {f"{base}attn_k_b.weight": k_b.transpose(1, 2), f"{base}attn_v_b.weight": v_b}


def split_gate_up(f, name, t):
    """gpt-oss interleaves the two and stores [in][out]; everyone else stacks them."""
    base, kind = name.split("ffn_gate_up_")
    if f.arch == "gpt-oss":
        t = t if kind == "exps.bias" else t.transpose(1, 2)
        gate, up = t[:, ::2], t[:, 1::2]
    else:
        gate, up = t.chunk(2, dim=t.dim() - 2)
    return {f"{base}ffn_gate_{kind}": gate, f"{base}ffn_up_{kind}": up}


def tensors_of(f, model):
    """GGUF name -> float32 array, split and reordered as converters do."""
    c, out = model.config, {}
    for source, p in model.state_dict().items():
        if source == "lm_head.weight" and c.tie_word_embeddings:
            continue
        name, t = gguf_name(f.arch, source), p.detach().float()
        if f.arch in ("llama", "granitemoe") and (".attn_q." in name or ".attn_k." in name):
            heads = c.num_attention_heads if ".attn_q." in name else c.num_key_value_heads
            t = swap_halves(t, heads)
        if "ffn_gate_up_" in name and not f.fused:
            out |= split_gate_up(f, name, t)
        elif "attn_kv_b" in name and not f.expanded:
            out |= split_latent(c, name.removesuffix("attn_kv_b.weight"), t)
        elif f.arch == "gpt-oss" and name.endswith("ffn_down_exps.weight"):
            out[name] = t.transpose(1, 2)
        elif name.endswith("exp_probs_b.bias"):
            out[name] = t.reshape(-1)
        else:
            out[name] = t
    for il in range(c.num_hidden_layers if f.fused_qkv else 0):
        out[f"blk.{il}.attn_qkv.weight"] = torch.cat(
            [out.pop(f"blk.{il}.attn_{x}.weight") for x in "qkv"])
    out = {k: v.contiguous().numpy() for k, v in out.items()}
    return out | (mtp_tensors(f, c, out) if f.mtp is not None else {})


def mtp_tensors(f, c, tensors):
    """A layer for multi-token prediction, and what surrounds it."""
    n, like = c.hidden_size, f"blk.{f.mtp}."
    new = f"blk.{c.num_hidden_layers}."
    rng = np.random.default_rng(7)
    shapes = {new + k.removeprefix(like): v.shape for k, v in tensors.items() if k.startswith(like)}
    shapes |= {new + f"nextn.{k}.weight": s for k, s in dict(
        eh_proj=(n, 2 * n), enorm=(n,), hnorm=(n,), shared_head_norm=(n,)).items()}
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


def kind_of(f, name, t):
    """The number format of a tensor: vectors, routers and biases always F32."""
    if t.ndim == 1 or name.endswith("bias") or "ffn_gate_inp" in name:
        return "F32"
    part = name.split(".")[2] if name.startswith("blk.") else name
    return f.experts.get(part, f.mat)


def ggml_quantize(kind, t):
    """libllama's own quantiser, for the formats that the gguf package cannot write."""
    lib = llama_cpp.llama_cpp._lib
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    block, size = gguf.GGML_QUANT_SIZES[QTYPE[kind]]
    rows = int(np.prod(t.shape[:-1]))
    out = np.empty((rows, t.shape[-1] // block * size), np.uint8)
    src = np.ascontiguousarray(t, np.float32)
    lib.ggml_quantize_chunk(ctypes.c_int(QTYPE[kind].value), src.ctypes.data_as(ctypes.c_void_p),
                            out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                            ctypes.c_int64(rows), ctypes.c_int64(t.shape[-1]), None)
    return out.reshape(*t.shape[:-1], -1)


def repack_mxfp4(blocks, scales):
    """16 bytes of neighbouring pairs, low half first, and a scale -> scale, then (i, i + 16)."""
    low, high = blocks & 15, blocks >> 4
    values = torch.stack((low, high), dim=-1).flatten(-2)  # [...][32]
    packed = values[..., :16] | values[..., 16:] << 4
    return torch.cat((scales.unsqueeze(-1), packed), dim=-1).flatten(-2).numpy()


def fill_mxfp4(model, f, seed):
    """Experts of gpt-oss get values that MXFP4 can hold; their blocks by GGUF name."""
    g, stored = torch.Generator().manual_seed(seed), {}
    for il, layer in enumerate(model.model.layers):
        for part in ("gate_up_proj", "down_proj"):
            p = getattr(layer.mlp.experts, part)
            shape = p.shape[0], p.shape[2], p.shape[1] // 32, 16  # [expert][row][block][byte]
            blocks = torch.randint(0, 256, shape, dtype=torch.uint8, generator=g)
            scales = torch.randint(121, 125, shape[:3], dtype=torch.uint8, generator=g)
            p.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
            cuts = {"down": slice(None)} if part == "down_proj" else {
                "gate": slice(0, None, 2), "up": slice(1, None, 2)}
            for k, rows in cuts.items():
                stored[f"blk.{il}.ffn_{k}_exps.weight"] = repack_mxfp4(blocks[:, rows],
                                                                      scales[:, rows])
    return stored


def randomize(model, seed):
    """Values large enough that a wrong expert, weight, position or norm changes every logit."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.state_dict().items():
        x = torch.randn(p.shape, generator=g)
        if "norm" in name.lower() and name.endswith("weight"):
            p.copy_(1 + 0.3 * x)
        elif name.endswith("e_score_correction_bias"):
            p.copy_(0.2 * x)
        elif name.endswith("bias") or name.endswith("sinks"):
            p.copy_(0.5 * x)
        elif "embed_tokens" in name:
            p.copy_(x / getattr(model.config, "embedding_multiplier", 1.0))
        elif ".mlp.gate.weight" in name or "router" in name or "gate.wg" in name:
            p.copy_(2 * x / p.shape[-1] ** 0.5)
        else:
            p.copy_(1.2 * x / p.shape[-1] ** 0.5)


def make_twins(model, twins):
    for layer in model.model.layers:
        for p in layer.mlp.state_dict().values():
            for e in twins[1:]:
                p[e] = p[twins[0]]


def round_weights(f, model):
    """Every weight to what the file will hold; the quantised tensors by GGUF name."""
    stored = {}
    if "MXFP4" in f.experts.values():
        stored = fill_mxfp4(model, f, 1)
    for name, p in model.state_dict().items():
        to = gguf_name(f.arch, name)
        kind = kind_of(f, to, p)
        if "ffn_gate_up_exps.weight" in to and f.experts:
            kind = "F32"
        if kind in ("F16", "BF16"):
            p.copy_(p.to(dict(F16=torch.float16, BF16=torch.bfloat16)[kind]).float())
    if f.experts and not stored:
        for layer_no, layer in enumerate(model.model.layers):
            experts = layer.mlp.experts
            n = experts.down_proj.shape[-1]
            views = {"ffn_gate_exps": experts.gate_up_proj[:, :n],
                     "ffn_up_exps": experts.gate_up_proj[:, n:], "ffn_down_exps": experts.down_proj}
            for part, view in views.items():
                raw = ggml_quantize(f.experts[part], view.numpy())
                view.copy_(torch.from_numpy(gguf.quants.dequantize(raw, QTYPE[f.experts[part]])))
                stored[f"blk.{layer_no}.{part}.weight"] = raw
    return stored


def metadata(f, c):
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    keys = {
        "context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
        "block_count": c.num_hidden_layers + (f.mtp is not None), "feed_forward_length": c.intermediate_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": c.rms_norm_eps,
        "rope.freq_base": float(c.rope_parameters["rope_theta"]), "vocab_size": c.vocab_size,
        "expert_used_count": c.num_experts_per_tok,
        "expert_count": getattr(c, "num_experts", None) or c.num_local_experts,
    }
    if getattr(c, "head_dim", None) and not hasattr(c, "kv_lora_rank"):
        keys |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    r = c.rope_parameters
    if f.arch == "llama" or "partial_rotary_factor" in r:
        keys["rope.dimension_count"] = int(head_dim * r.get("partial_rotary_factor", 1))
    if r["rope_type"] == "yarn":
        keys |= {"rope.scaling.type": "yarn", "rope.scaling.factor": r["factor"],
                 "rope.scaling.original_context_length": r["original_max_position_embeddings"],
                 "rope.scaling.yarn_beta_fast": r["beta_fast"],
                 "rope.scaling.yarn_beta_slow": r["beta_slow"]}
    if f.mtp is not None:
        keys["nextn_predict_layers"] = 1
    keys |= f.keys(c)
    if hasattr(c, "kv_lora_rank"):
        keys |= latent_keys(c, f.expanded)
    return keys


def write_model(path, f, config, tensors, stored, keys):
    w = gguf.GGUFWriter(path, f.arch)
    w.add_name(path.stem)
    add = {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool}
    for key, value in keys.items():
        add[type(value)](f"{f.arch}.{key}", value)
    if config.vocab_size == N_VOCAB:
        add_tokenizer(w)
    else:
        w.add_token_list([chr(97 + i) for i in range(config.vocab_size)])
    for name, t in tensors.items():
        kind = kind_of(f, name, t)
        if name in stored:
            w.add_tensor(name, stored[name], raw_dtype=QTYPE[kind])
        elif kind == "BF16":
            w.add_tensor(name, gguf.quants.quantize(t, QTYPE.BF16), raw_dtype=QTYPE.BF16)
        else:
            w.add_tensor(name, t.astype(np.float16) if kind == "F16" else t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def libllama(path, tokens):
    """The logits of every token as libllama computes them from the file."""
    mp = llama_cpp.llama_model_default_params()
    mp.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), mp)
    assert model, f"libllama refuses {path}"
    cp = llama_cpp.llama_context_default_params()
    cp.n_ctx, cp.n_threads, cp.n_batch, cp.n_ubatch = 64, 1, 64, 64
    cp.type_k = cp.type_v = 0  # F32
    cp.flash_attn_type = 0
    ctx = llama_cpp.llama_init_from_model(model, cp)
    batch = llama_cpp.llama_batch_init(64, 0, 1)
    batch.n_tokens = len(tokens)
    for i, t in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(t), i, 1
        batch.seq_id[i][0], batch.logits[i] = 0, 1
    assert llama_cpp.llama_decode(ctx, batch) == 0
    rows = [llama_cpp.llama_get_logits_ith(ctx, i)[:N_VOCAB] for i in range(len(tokens))]
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(ctx)
    llama_cpp.llama_model_free(model)
    return np.array(rows)


def second_opinion(f, model, tokens):
    """How far libllama is from transformers, on the same values in float32: nothing is rounded twice."""
    if f.as_libllama is None:
        return "no comparison"
    config = config_of(f, f.as_libllama)
    twin = getattr(transformers, f.kind + "ForCausalLM")(config).float().eval()
    twin.load_state_dict(model.state_dict())
    logits, _ = run(twin, tokens)
    plain = Fixture(f.arch, f.kind, {}, keys=f.keys, mat="F32", expanded=f.expanded, mtp=f.mtp,
                    fused_qkv=f.fused_qkv)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        keys = {**metadata(plain, config), **f.libllama_keys}
        write_model(path, plain, config, tensors_of(plain, twin), {}, keys)
        got = libllama(path, tokens)
    return f"{np.abs(got - logits).max() / np.abs(logits).max():.1e}"


def run(model, tokens):
    """Logits, and which experts each router chose."""
    chosen, hooks = {}, []
    for name, m in model.named_modules():
        if type(m).__name__.endswith(("Router", "Gate")):
            hooks.append(m.register_forward_hook(
                lambda m, a, out, name=name: chosen.__setitem__(name, out[2])))
    logits = model(torch.tensor(tokens)[None]).logits[0].numpy()
    for h in hooks:
        h.remove()
    return logits, chosen


def pick_tokens(model, n_experts, seed):
    """A sequence for which every expert of every layer is used."""
    for attempt in range(200):
        tokens = np.random.default_rng(seed + attempt).integers(0, N_VOCAB, N_TOKENS)
        logits, chosen = run(model, tokens)
        if chosen and all(len(torch.unique(c)) >= n_experts for c in chosen.values()):
            return tokens, logits
    raise SystemExit("no sequence uses every expert")


def config_of(f, changes):
    config = getattr(transformers, f.kind + "Config")(**{**SMALL, **f.changes, **changes})
    config._attn_implementation = "eager"
    return config


@torch.no_grad()
def make_fixture(name, f, seed):
    config = config_of(f, {})
    model = getattr(transformers, f.kind + "ForCausalLM")(config).float().eval()
    randomize(model, seed)
    if f.twins:
        make_twins(model, f.twins)
    stored = round_weights(f, model)
    keys = metadata(f, config)
    tokens, logits = pick_tokens(model, keys["expert_count"] - max(len(f.twins) - 1, 0), seed)
    path = MODELS / f"{name}.gguf"
    tensors = tensors_of(f, model)
    for part, raw in stored.items():  # the blocks are what the model computes with
        kind = QTYPE[kind_of(f, part, tensors[part])]
        assert np.array_equal(gguf.quants.dequantize(raw, kind), tensors[part]), part
    write_model(path, f, config, tensors, stored, keys)
    logits.astype("<f4").tofile(MODELS / f"{name}.logits.f32")
    (MODELS / f"{name}.tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    print(f"{name:18} {path.stat().st_size:7} bytes, logits within {np.abs(logits).max():.2f}, "
          f"libllama against transformers: {second_opinion(f, model, tokens)}")


@torch.no_grad()
def make_seed(name, f):
    config = config_of(f, {})
    model = getattr(transformers, f.kind + "ForCausalLM")(config).float().eval()
    randomize(model, 1)
    write_model(CORPUS / f"{name}.gguf", f, config, tensors_of(f, model), {}, metadata(f, config))


@llama_cpp.llama_log_callback
def only_errors(level, text, user):
    if level == 4:
        print(text.decode(), end="", file=sys.stderr)


def main():
    llama_cpp.llama_log_set(only_errors, ctypes.c_void_p(0))
    for name, f in FIXTURES.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_fixture(name, f, sum(name.encode()))
    for name, f in SEEDS.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_seed(name, f)


if __name__ == "__main__":
    main()
