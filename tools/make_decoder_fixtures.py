#!/usr/bin/env python3
"""Makes the tiny random dense decoders of the tests, and what they must compute.

As make_model_fixtures.py does for the Llama and Qwen families: every model is built with `transformers`,
which also computes the logits of a fixed token sequence in float32; the weights go into a GGUF file laid
out the way converters do it (tensor names from the `gguf` package; reordered query and key rows where
converters reorder them; fused matrices; 1 added to the norms that are stored around 0).  The file is also
run by libllama, as a second opinion on the layout; where that is known to compute something else than the
original model, the fixture says so (libllama=...).  Needs torch, transformers, gguf, numpy,
llama-cpp-python; run it only to change fixtures:

    python3 tools/make_decoder_fixtures.py [NAME...]   # writes tests/data/models, tests/fuzz/corpus/model
"""
import ctypes
import math
import re
import sys

import gguf
import llama_cpp
import numpy as np
import torch
import transformers

from make_model_fixtures import CORPUS, MODELS, N_VOCAB, add_tensor, add_tokenizer, rope, swap_halves

N_TOKENS = 40

SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, layer_norm_eps=1e-5, norm_epsilon=1e-5, tie_word_embeddings=True,
             bos_token_id=0, eos_token_id=0, pad_token_id=None)
GEMMA = dict(hidden_size=24, intermediate_size=12, head_dim=16, query_pre_attn_scalar=16,
             num_attention_heads=2, num_key_value_heads=1)
GPT2 = dict(num_key_value_heads=None, max_position_embeddings=64, n_inner=20,
            layer_norm_epsilon=1e-5, layer_norm_eps=None, norm_epsilon=None)
LONGROPE = dict(partial_rotary_factor=0.75, original_max_position_embeddings=32,
                short_factor=[1.0, 1.1, 1.3, 1.6, 1.9, 2.3], long_factor=[1.0, 1.5, 2.2, 3.1, 5.0, 7.5])


def has_gelu_tanh(kind):
    return kind.startswith(("Gemma", "Phi", "GPT", "Starcoder2")) and kind != "Phi3"


class Fixture:
    """One model: architecture, class, what differs from SMALL, and how its file differs."""

    def __init__(self, arch, kind, changes, **how):
        self.arch, self.kind, self.changes = arch, kind, changes
        self.keys = how.pop("keys", lambda c: {})  # keys of this architecture, from the config
        self.layernorm = how.pop("layernorm", False)
        self.permute = how.pop("permute", False)  # query and key rows to neighbouring pairs
        self.plus_one = how.pop("plus_one", False)  # norms are stored around 0
        self.names = how.pop("names", {})  # our module name: the file's, beyond the gguf package's
        self.split = how.pop("split", None)  # what makes one tensor several or reorders it
        # How far that may be (its GELU is a table of f16), or why it is further.
        self.libllama = how.pop("libllama", 1e-3 if has_gelu_tanh(kind) else 1e-5)
        self.n_ctx = how.pop("n_ctx", 64)
        self.n_prefix = how.pop("n_prefix", 0)  # so many of the tokens see each other both ways
        assert not how, how

    def attention_mask(self):
        """[1][1][N_TOKENS][N_TOKENS] to add to scores, where attention is not just causal."""
        if not self.n_prefix:
            return None
        is_seen = torch.ones(N_TOKENS, N_TOKENS).tril() > 0
        is_seen[:, :self.n_prefix] = True
        return torch.zeros(N_TOKENS, N_TOKENS).masked_fill(~is_seen, -math.inf)[None, None]


def window_keys(c):
    return {"attention.sliding_window": c.sliding_window}


def softcap_keys(c):
    return {"attention.sliding_window": c.sliding_window,
            "attn_logit_softcapping": c.attn_logit_softcapping,
            "final_logit_softcapping": c.final_logit_softcapping}


def granite_keys(c):
    return {"embedding_scale": c.embedding_multiplier, "residual_scale": c.residual_multiplier,
            "logit_scale": c.logits_scaling, "attention.scale": c.attention_multiplier}


def minicpm_keys(c):
    keys = granite_keys(c)
    assert abs(keys.pop("attention.scale") - (c.hidden_size // c.num_attention_heads) ** -0.5) < 1e-9
    return keys


def cohere_keys(c):
    return {"logit_scale": c.logit_scale}


def longrope_keys(c):
    r = c.rope_parameters
    scale = c.max_position_embeddings / r["original_max_position_embeddings"]
    return {"rope.scaling.original_context_length": r["original_max_position_embeddings"],
            "rope.scaling.attn_factor":
                math.sqrt(1 + math.log(scale) / math.log(r["original_max_position_embeddings"]))}


def longrope_tensors(config):
    r = config.rope_parameters
    return {f"rope_factors_{k}.weight": torch.tensor(r[k + "_factor"]) for k in ("long", "short")}


def yarn_keys(c):
    r = c.rope_parameters["full_attention"]
    return {"attention.sliding_window": c.sliding_window, "rope.scaling.type": "yarn",
            "rope.scaling.factor": r["factor"],
            "rope.scaling.original_context_length": r["original_max_position_embeddings"],
            "rope.scaling.attn_factor": r["attention_factor"] / (0.1 * math.log(r["factor"]) + 1)}


def neox_qkv(config, name, t):
    """Rows of (query, key, value) of each head to all queries, all keys, all values."""
    if ".query_key_value." not in name:
        return t
    n = config.num_attention_heads
    return t.reshape(n, 3, -1, *t.shape[1:]).transpose(0, 1).reshape(t.shape)


def falcon_qkv(config, name, t):
    """Rows of (queries of a group, key, value) likewise."""
    if ".query_key_value." not in name:
        return t
    n_kv = config.num_kv_heads if config.new_decoder_architecture else 1
    dim = config.hidden_size // config.num_attention_heads
    g = t.reshape(n_kv, -1, dim, t.shape[-1])
    return torch.cat([part.reshape(-1, t.shape[-1]) for part in (g[:, :-2], g[:, -2], g[:, -1])])


def transposed(config, name, t):
    """GPT-2's matrices are stored input first."""
    return t.T if t.dim() == 2 and re.search(r"\.(c_attn|c_proj|c_fc)\.weight", name) else t


FIXTURES = {
    "gemma": Fixture("gemma", "Gemma", dict(GEMMA, **rope()), plus_one=True),
    "gemma2": Fixture("gemma2", "Gemma2", dict(
        GEMMA, num_hidden_layers=3, sliding_window=8, attn_logit_softcapping=3.0,
        final_logit_softcapping=5.0, **rope()), plus_one=True, keys=softcap_keys),
    # Its number of layers says how scores are scaled.
    "gemma2-27b": Fixture("gemma2", "Gemma2", dict(
        num_hidden_layers=46, hidden_size=8, intermediate_size=8, num_attention_heads=2,
        num_key_value_heads=1, head_dim=2, query_pre_attn_scalar=4, sliding_window=8,
        attn_logit_softcapping=3.0, final_logit_softcapping=5.0, **rope()),
        plus_one=True, keys=softcap_keys, libllama="its GELU is a table of f16, 46 times"),
    "gemma3": Fixture("gemma3", "Gemma3", dict(
        GEMMA, num_hidden_layers=7, sliding_window=8, rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}}),
        plus_one=True, keys=lambda c: {**window_keys(c), "rope.scaling.type": "linear",
                                       "rope.scaling.factor": 8.0}),
    "phi2": Fixture("phi2", "Phi", dict(
        num_key_value_heads=4, tie_word_embeddings=False,
        **rope(partial_rotary_factor=0.5)), layernorm=True),
    "phi3": Fixture("phi3", "Phi3", dict(sliding_window=None, **rope())),
    "phi3-window": Fixture("phi3", "Phi3", dict(sliding_window=8, **rope(
        partial_rotary_factor=0.5)), keys=window_keys, libllama="it ignores phi3's window"),
    "phi3-longrope": Fixture("phi3", "Phi3", dict(
        hidden_size=64, num_hidden_layers=1, original_max_position_embeddings=32,
        **rope("longrope", **LONGROPE)), keys=longrope_keys),
    "phi3-shortrope": Fixture("phi3", "Phi3", dict(
        hidden_size=64, num_hidden_layers=1, max_position_embeddings=512,
        original_max_position_embeddings=256,
        **rope("longrope", **{**LONGROPE, "original_max_position_embeddings": 256})),
        keys=longrope_keys),
    "chatglm": Fixture("chatglm", "Glm", dict(
        head_dim=8, attention_bias=True, **rope(partial_rotary_factor=0.5)), split="fuse_qkv"),
    "chatglm-prefix": Fixture("chatglm", "Glm", dict(
        head_dim=8, attention_bias=True, num_hidden_layers=3, **rope(partial_rotary_factor=0.5)),
        split="fuse_qkv", n_prefix=24, keys=lambda c: {"attention.prefix": True},
        libllama="it knows no prefix"),
    "glm4": Fixture("glm4", "Glm4", dict(
        head_dim=12, attention_bias=True, tie_word_embeddings=False,
        **rope(partial_rotary_factor=0.5)),
        names={"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm":
               "post_ffw_norm", "post_attention_layernorm": "ffn_norm"}),
    "gpt2": Fixture("gpt2", "GPT2", GPT2, layernorm=True, split=transposed),
    "gptneox": Fixture("gptneox", "GPTNeoX", dict(
        num_key_value_heads=4, tie_word_embeddings=False,
        **rope(partial_rotary_factor=0.5)), layernorm=True,
        split=neox_qkv, keys=lambda c: {"use_parallel_residual": True},
        libllama="its GELU is the approximation by tanh"),
    "gptneox-serial": Fixture("gptneox", "GPTNeoX", dict(
        num_key_value_heads=4, tie_word_embeddings=False, use_parallel_residual=False,
        **rope(partial_rotary_factor=0.25)), layernorm=True,
        split=neox_qkv, keys=lambda c: {"use_parallel_residual": False},
        libllama="its GELU is the approximation by tanh"),
    "starcoder": Fixture("starcoder", "GPTBigCode", dict(
        GPT2, multi_query=True, attention_softmax_in_fp32=False), layernorm=True),
    "starcoder2": Fixture("starcoder2", "Starcoder2", dict(
        sliding_window=None, use_bias=True, **rope()), layernorm=True),
    "falcon": Fixture("falcon", "Falcon", dict(
        num_key_value_heads=None, layer_norm_epsilon=1e-5, multi_query=True, parallel_attn=True, bias=False,
        ffn_hidden_size=20, **rope()), layernorm=True, split=falcon_qkv,
        libllama="its GELU is the approximation by tanh"),
    "falcon-40b": Fixture("falcon", "Falcon", dict(
        num_key_value_heads=None, layer_norm_epsilon=1e-5, new_decoder_architecture=True, num_kv_heads=2,
        ffn_hidden_size=20, bias=False, **rope()), layernorm=True, split=falcon_qkv,
        libllama="its GELU is the approximation by tanh"),
    "stablelm": Fixture("stablelm", "StableLm", dict(
        use_qkv_bias=True, tie_word_embeddings=False, **rope(partial_rotary_factor=0.5)), layernorm=True,
        keys=lambda c: {"use_parallel_residual": False}),
    "stablelm-parallel": Fixture("stablelm", "StableLm", dict(
        use_parallel_residual=True, tie_word_embeddings=False,
        **rope(partial_rotary_factor=0.5)), layernorm=True,
        keys=lambda c: {"use_parallel_residual": True}),
    "olmo": Fixture("olmo", "Olmo", dict(**rope()), layernorm=True, permute=True),
    "olmo2": Fixture("olmo2", "Olmo2", dict(tie_word_embeddings=False, **rope())),
    "olmo3": Fixture("olmo2", "Olmo3", dict(
        num_hidden_layers=5, hidden_size=24, intermediate_size=12, sliding_window=8,
        tie_word_embeddings=False, rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
            "full_attention": {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
                               "original_max_position_embeddings": 64, "attention_factor": 1.2,
                               "beta_fast": 32.0, "beta_slow": 1.0}}), keys=yarn_keys),
    "command-r": Fixture("command-r", "Cohere", dict(logit_scale=0.25, **rope()), layernorm=True,
                         keys=cohere_keys),
    "cohere2": Fixture("cohere2", "Cohere2", dict(
        logit_scale=0.25, num_hidden_layers=5, hidden_size=24, intermediate_size=12,
        sliding_window=8, **rope()), layernorm=True,
        keys=lambda c: {**cohere_keys(c), **window_keys(c)}),
    "granite": Fixture("granite", "Granite", dict(
        embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
        attention_multiplier=0.2, **rope()), permute=True, keys=granite_keys),
    "minicpm": Fixture("minicpm", "Granite", dict(
        embedding_multiplier=12.0, residual_multiplier=0.7, logits_scaling=4.0,
        attention_multiplier=8 ** -0.5, **rope()), permute=True, keys=minicpm_keys),
    "exaone": Fixture("exaone", "Llama", dict(num_hidden_layers=1, **rope())),
    "exaone4": Fixture("exaone4", "Exaone4", dict(
        num_hidden_layers=5, hidden_size=24, intermediate_size=12, sliding_window=8, head_dim=6,
        sliding_window_pattern=4, **rope()), keys=lambda c: {
            **window_keys(c), "attention.sliding_window_pattern":
                [kind == "sliding_attention" for kind in c.layer_types]},
        libllama="it uses the window only in models of 64 layers"),
    "exaone4-full": Fixture("exaone4", "Exaone4", dict(
        sliding_window=None, head_dim=8, layer_types=["full_attention"] * 2, **rope())),
    "smollm3": Fixture("smollm3", "SmolLM3", dict(
        num_hidden_layers=5, hidden_size=24, intermediate_size=12, **rope()), permute=True),
    "seed_oss": Fixture("seed_oss", "SeedOss", dict(
        head_dim=12, attention_bias=True, attention_out_bias=False, **rope())),
    "ernie4_5": Fixture("ernie4_5", "Ernie4_5", dict(head_dim=12, **rope())),
    "hunyuan-dense": Fixture("hunyuan-dense", "HunYuanDenseV1", dict(head_dim=12, **rope())),
    "hunyuan-ntk": Fixture("hunyuan-dense", "HunYuanDenseV1", dict(
        head_dim=12, **rope("dynamic", factor=1.0, alpha=50.0)),
        keys=lambda c: {"rope.scaling.alpha": c.rope_parameters["alpha"]}),
    "nemotron": Fixture("nemotron", "Nemotron", dict(
        tie_word_embeddings=False, attention_bias=True, mlp_bias=True, norm_eps=1e-5,
        **rope(partial_rotary_factor=0.5)), layernorm=True, plus_one=True),
    "arcee": Fixture("arcee", "Arcee", dict(num_hidden_layers=1, **rope()), permute=True),
    "internlm2": Fixture("internlm2", "Llama", dict(num_hidden_layers=1, tie_word_embeddings=False, **rope()),
                         permute=True),
    "xverse": Fixture("xverse", "Llama", dict(
        num_hidden_layers=1, tie_word_embeddings=False, **rope()), permute=True),
    "orion": Fixture("orion", "StableLm", dict(
        num_hidden_layers=1, tie_word_embeddings=False, **rope(partial_rotary_factor=1.0)),
        layernorm=True),
    "pangu-embedded": Fixture("pangu-embedded", "Llama", dict(
        num_hidden_layers=1, attention_bias=True, **rope())),
}


def randomize(model, seed, plus_one):
    """Values large enough that a wrong position, mask, bias or norm changes every logit."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=g)
            if name.endswith("bias"):
                p.copy_(0.3 * x)
            elif p.dim() == 1 or "norm" in name:
                p.copy_((0 if plus_one else 1) + 0.2 * x)
            elif re.search(r"embed|wte|wpe", name):
                p.copy_(0.5 * x if "wpe" in name else x)
            else:
                p.copy_(1.2 * x / p.shape[1] ** 0.5)


def tensors_of(f, model):
    """(name in the file, tensor) of every parameter, as converters lay them out."""
    config = model.config
    names = gguf.get_tensor_name_map(
        next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == f.arch), config.num_hidden_layers)
    out = {}
    for name, p in model.named_parameters():
        t = p.detach()
        if f.plus_one and name.endswith("norm.weight") or f.plus_one and "layernorm.weight" in name:
            t = t + 1
        if f.permute and (".q_proj." in name or ".k_proj." in name):
            t = swap_halves(t, config.num_attention_heads if ".q_proj." in name
                            else config.num_key_value_heads)
        if callable(f.split):
            t = f.split(config, name, t)
        base, suffix = name.rsplit(".", 1)
        found = names.get_name(base)
        for ours, theirs in f.names.items():
            if base.endswith("." + ours):
                found = f"blk.{base.split('.')[2]}.{theirs}"
        assert found, name
        assert f"{found}.{suffix}" not in out, (name, found)
        out[f"{found}.{suffix}"] = t
    if f.split == "fuse_qkv":
        for key in [k for k in out if ".attn_q." in k]:
            out[key.replace("attn_q", "attn_qkv")] = torch.cat(
                [out.pop(key.replace("attn_q", "attn_" + part)) for part in "qkv"])
    return out


def add_metadata(w, f, config):
    n_heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // n_heads
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(next(v for k in ("n_inner", "ffn_hidden_size", "intermediate_size")
                                   if (v := getattr(config, k, None))))
    n_kv = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", n_heads)
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", 0):
        n_kv = 1
    w.add_head_count(n_heads)
    w.add_head_count_kv(n_kv)
    if f.layernorm:
        w.add_layer_norm_eps(1e-5)
    else:
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "head_dim", None):
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    r = getattr(config, "rope_parameters", None)
    if r:
        r = r.get("full_attention", r)
        w.add_rope_dimension_count(int(head_dim * r.get("partial_rotary_factor", 1.0)))
        w.add_rope_freq_base(r["rope_theta"])
    w.add_vocab_size(config.vocab_size)
    for key, value in f.keys(config).items():
        add = {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool}
        if isinstance(value, list):
            w.add_array(f"{f.arch}.{key}", value)
        else:
            add[type(value)](f"{f.arch}.{key}", value)


def write_model(path, f, model):
    w = gguf.GGUFWriter(path, f.arch)
    w.add_name("tiny random decoder")  # libllama treats some names specially
    add_metadata(w, f, model.config)
    if model.config.vocab_size == N_VOCAB:
        add_tokenizer(w)
    else:
        w.add_token_list([chr(97 + i) for i in range(model.config.vocab_size)])
    tensors = tensors_of(f, model)
    r = getattr(model.config, "rope_parameters", None) or {}
    if r.get("rope_type") == "longrope":
        tensors.update(longrope_tensors(model.config))
    for name, t in tensors.items():
        add_tensor(w, name, t.contiguous(), "F32")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def run_libllama(path, tokens, n_ctx):
    llama = llama_cpp.Llama(str(path), n_ctx=n_ctx, n_batch=64, logits_all=True, verbose=False,
                            type_k=0, type_v=0, flash_attn=False)
    llama.eval([int(t) for t in tokens])
    return np.array(llama.scores[:len(tokens)], dtype=np.float32)


def make_model(f, seed, more):
    config = getattr(transformers, "Gemma3TextConfig" if f.kind == "Gemma3" else f.kind + "Config")(
        **{k: v for k, v in {**SMALL, **f.changes, **more}.items()
           if v is not None or k != "norm_epsilon"}, attn_implementation="eager")
    head = "LMHeadModel" if f.kind == "GPT2" else "ForCausalLM"
    model = getattr(transformers, f.kind + head)(config).float().eval()
    randomize(model, seed, f.plus_one)
    return model


def make_fixture(name, f):
    seed = sum(name.encode())
    model = make_model(f, seed, {})
    tokens = np.random.default_rng(seed).integers(0, N_VOCAB, N_TOKENS)
    with torch.no_grad():
        logits = model(torch.tensor(tokens)[None], attention_mask=f.attention_mask(),
                       use_cache=False).logits[0].numpy()
    path = MODELS / f"{name}.gguf"
    write_model(path, f, model)
    logits.astype("<f4").tofile(MODELS / f"{name}.logits.f32")
    (MODELS / f"{name}.tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    size = path.stat().st_size
    other = run_libllama(path, tokens, f.n_ctx)
    diff = np.abs(other - logits).max() / np.abs(logits).max()
    print(f"{name}: {size} bytes, logits within {np.abs(logits).max():.3f}, libllama off by "
          f"{diff:.1e}" + (f" ({f.libllama})" if isinstance(f.libllama, str) else ""), flush=True)
    assert size < 200_000, name
    assert isinstance(f.libllama, str) or diff < f.libllama, name


# Models of a few KB for the fuzzer to start from: what to make smaller.
TINY = dict(vocab_size=10, hidden_size=8, intermediate_size=12, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=4, max_position_embeddings=64)
BARE = {k: v for k, v in TINY.items() if k not in ("head_dim", "num_key_value_heads")}
SEEDS = {
    "gemma3": dict(TINY, num_hidden_layers=2),
    "gemma2": TINY,
    "phi3-longrope": dict(TINY, **rope("longrope", short_factor=[1.0, 1.5], long_factor=[2.0, 3.0],
                                       original_max_position_embeddings=32)),
    "chatglm": TINY,
    "glm4": TINY,
    "gpt2": dict(BARE, n_inner=12, max_position_embeddings=16),
    "gptneox": dict(TINY, num_key_value_heads=2),
    "falcon-40b": dict(BARE, num_kv_heads=1, ffn_hidden_size=12),
    "cohere2": dict(TINY, num_hidden_layers=4),
    "hunyuan-ntk": TINY,
    "nemotron": TINY,
}


def make_seed(name, changes):
    write_model(CORPUS / f"{name}.gguf", FIXTURES[name], make_model(FIXTURES[name], 1, changes))


def main():
    silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *a: None)
    llama_cpp.llama_log_set(silence, None)
    failed = []
    for name, f in FIXTURES.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        try:
            make_fixture(name, f)
        except Exception as e:
            failed.append(name)
            print(f"{name}: {type(e).__name__}: {e}", flush=True)
    for name, changes in SEEDS.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_seed(name, changes)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
