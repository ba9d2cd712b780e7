#!/usr/bin/env python3
"""Makes the tiny random embedding models of the tests, and what they must compute.

As make_model_fixtures.py does for decoders: every model is built with `transformers`, which also computes
the hidden states of fixed token sequences in float32, each sequence alone; pooling and normalisation follow
sentence-transformers.  Files are laid out the way converters do it (position tables of RoBERTa cut to
start at position 0, query, key and value of nomic-bert and modern-bert fused).  Each file is also run by
libllama, as a second opinion on the layout; it approximates GELU, so transformers is asked for the
same approximation in that comparison.  Needs torch, transformers, gguf, numpy, llama-cpp-python; run it
only to change fixtures:

    python3 tools/make_encoder_fixtures.py [NAME...]     # writes tests/data/models, tests/fuzz/corpus/model
"""
import ctypes
import sys

import gguf
import llama_cpp
import numpy as np
import torch
import transformers

from make_model_fixtures import CORPUS, MODELS, N_VOCAB, add_tokenizer

LENGTHS = (45, 1, 20)  # of the sequences; 45 is longer than a KV block and than two windows
FIRST_TOKEN = 4  # below are padding and the like, which transformers treats specially

POOL = gguf.PoolingType
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
             num_attention_heads=4, max_position_embeddings=80)
BERT = dict(layer_norm_eps=1e-12, type_vocab_size=2)
ROBERTA = dict(layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1, max_position_embeddings=82)
MODERN = dict(num_hidden_layers=5, intermediate_size=32, local_attention=16, global_attn_every_n_layers=3, norm_eps=1e-5,
              pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)

# name: architecture, class, changes to SMALL, pooling
FIXTURES = {
    "bert": ("bert", "BertModel", BERT, POOL.CLS),
    "bert-roberta": ("bert", "XLMRobertaModel", ROBERTA, POOL.MEAN),
    "bert-rank": ("bert", "XLMRobertaForSequenceClassification",
                  dict(**ROBERTA, num_labels=1), POOL.RANK),
    "nomic-bert": ("nomic-bert", "NomicBertModel", dict(
        layer_norm_eps=1e-12, type_vocab_size=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0}), POOL.MEAN),
    "modern-bert": ("modern-bert", "ModernBertModel", MODERN, POOL.CLS),
    "modern-bert-rank": ("modern-bert", "ModernBertForSequenceClassification", dict(
        **{**MODERN, "num_hidden_layers": 3}, num_labels=2, classifier_pooling="mean"), POOL.RANK),
    "qwen3-embedding": ("qwen3", "Qwen3Model", dict(
        head_dim=16, num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}), POOL.LAST),
    "qwen3-rank": ("qwen3", "Qwen3ForSequenceClassification", dict(
        head_dim=8, num_key_value_heads=2, rms_norm_eps=1e-6, num_labels=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}), POOL.RANK),
}

EMBEDDINGS = {
    "embeddings.word_embeddings": "token_embd", "embeddings.tok_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm", "embeddings.norm": "token_embd_norm",
    "final_norm": "output_norm", "embed_tokens": "token_embd", "norm": "output_norm",
    "classifier.dense": "cls", "classifier.out_proj": "cls.output", "classifier": "cls.output", "score": "cls.output",
    "head.dense": "cls", "head.norm": "cls.norm",
}
LAYER = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "attn_output_norm",
    "post_mlp_layernorm": "layer_output_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "attn_norm": "attn_norm",
    "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down",
}
QWEN3 = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}


def randomize(model, seed):
    """Values large enough that a wrong position, window, bias or norm changes every result."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=g)
            if "norm" in name.lower() and name.endswith("weight"):
                p.copy_(1 + 0.2 * x)
            elif name.endswith("bias"):
                p.copy_(0.3 * x)
            elif "embed" in name:
                p.copy_(x)
            else:
                p.copy_(1.2 * x / p.shape[1] ** 0.5)


def gguf_name(arch, name):
    for prefix in ("roberta.", "model.", "encoder."):
        name = name.removeprefix(prefix)
    base, suffix = name.rsplit(".", 1)
    if not base.startswith(("layer.", "layers.")):
        return f"{EMBEDDINGS[base]}.{suffix}"
    _, layer, part = base.split(".", 2)
    part = {**LAYER, **QWEN3}[part] if arch == "qwen3" else LAYER[part]
    return f"blk.{layer}.{part}.{suffix}"


def tensors_of(arch, model):
    """(GGUF name, float32 array), fused and cut as converters do."""
    parameters = dict(model.named_parameters())
    for name, p in parameters.items():
        if "pooler." in name:
            continue
        a = p.detach().numpy().astype(np.float32)
        if "position_embeddings" in name and model.config.model_type == "xlm-roberta":
            a = a[model.config.pad_token_id + 1:]
        if arch == "nomic-bert" and ".q_proj." in name:
            qkv = [parameters[name.replace("q_proj", f"{c}_proj")] for c in "qkv"]
            layer = name.split(".")[name.split(".").index("layers") + 1]
            yield f"blk.{layer}.attn_qkv.weight", torch.cat(qkv).detach().numpy()
        elif arch == "nomic-bert" and (".k_proj." in name or ".v_proj." in name):
            continue
        elif arch == "nomic-bert" and name.startswith("embeddings_layernorm"):
            yield f"token_embd_norm.{name.rsplit('.', 1)[1]}", a
        else:
            yield gguf_name(arch, name), a


def add_metadata(w, arch, model, pooling):
    c = model.config
    roberta = c.model_type == "xlm-roberta"
    w.add_context_length(c.max_position_embeddings - (c.pad_token_id + 1 if roberta else 0))
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_pooling_type(pooling)
    if arch == "qwen3":
        w.add_head_count_kv(c.num_key_value_heads)
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])
        if pooling == POOL.RANK:
            w.add_classifier_output_labels(["yes", "no"])
        return
    w.add_layer_norm_eps(c.norm_eps if arch == "modern-bert" else c.layer_norm_eps)
    w.add_causal_attention(False)
    if arch == "nomic-bert":
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    if arch == "modern-bert":
        w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
        w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
        w.add_sliding_window(c.local_attention)
        w.add_sliding_window_pattern(c.global_attn_every_n_layers)
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if pooling == POOL.RANK:
        w.add_classifier_output_labels([f"LABEL_{i}" for i in range(c.num_labels)])


def write_model(path, arch, model, pooling):
    w = gguf.GGUFWriter(path, arch)
    w.add_name(path.stem)
    add_metadata(w, arch, model, pooling)
    add_tokenizer(w)
    if arch != "qwen3":
        w.add_token_type_count(getattr(model.config, "type_vocab_size", 1))
    for name, a in tensors_of(arch, model):
        w.add_tensor(name, np.ascontiguousarray(a))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def results(model, sequences):
    """Hidden states of each sequence [n][n_embd], and scores [n_labels] where there is a head."""
    hidden, scores = [], []
    base = getattr(model, "roberta", None) or getattr(model, "model", model)
    with torch.no_grad():
        for s in sequences:
            ids = torch.tensor(s)[None]
            hidden.append(base(ids).last_hidden_state[0].numpy())
            if base is not model:
                logits = model(ids).logits[0]
                scores.append((logits.softmax(0) if hasattr(model, "score") else logits).numpy())
    return hidden, scores


def pooled(hidden):
    """[3][n_embd]: first token, mean, last token, each of length 1."""
    v = np.stack([hidden[0], hidden.mean(0, dtype=np.float64), hidden[-1]]).astype(np.float64)
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12)


SILENCE = llama_cpp.llama_log_callback(lambda *_: None)  # must outlive the library's use of it


def libllama(path, sequences, pooling):
    """What libllama computes: rows of every token where pooling is NONE, else one vector each."""
    mp = llama_cpp.llama_model_default_params()
    mp.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), mp)
    assert model, f"libllama refuses {path}"
    out = []
    for s in sequences:
        cp = llama_cpp.llama_context_default_params()
        cp.embeddings, cp.pooling_type, cp.n_ctx, cp.n_threads = True, pooling, 64, 1
        cp.n_batch = cp.n_ubatch = 64
        cp.type_k = cp.type_v = 0  # F32
        cp.flash_attn_type = 0
        ctx = llama_cpp.llama_init_from_model(model, cp)
        batch = llama_cpp.llama_batch_init(64, 0, 1)
        batch.n_tokens = len(s)
        for i, t in enumerate(s):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(t), i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        assert llama_cpp.llama_decode(ctx, batch) == 0
        n_embd = llama_cpp.llama_model_n_embd(model)
        if pooling == POOL.NONE:
            rows = [llama_cpp.llama_get_embeddings_ith(ctx, i)[:n_embd] for i in range(len(s))]
            out.append(np.array(rows))
        else:
            n = llama_cpp.llama_model_n_cls_out(model) if pooling == POOL.RANK else n_embd
            out.append(np.array(llama_cpp.llama_get_embeddings_seq(ctx, 0)[:n]))
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(ctx)
    llama_cpp.llama_model_free(model)
    return out


def difference(a, b):
    return max(np.abs(x - y).max() / np.abs(y).max() for x, y in zip(a, b))


def as_libllama_computes(kind, model):
    """The same model with GELU approximated by tanh."""
    c = model.config.__class__(**{**model.config.to_dict(), "hidden_activation": "gelu_pytorch_tanh"}
                               if hasattr(model.config, "hidden_activation") else
                               {**model.config.to_dict(), "hidden_act": "gelu_new"})
    c._attn_implementation = "eager"
    twin = getattr(transformers, kind)(c).float().eval()
    twin.load_state_dict(model.state_dict())
    return twin


def make_fixture(name, seed):
    arch, kind, changes, pooling = FIXTURES[name]
    config_class = getattr(transformers, kind).config_class
    config = config_class(**{**SMALL, **changes}, attn_implementation="eager")
    model = getattr(transformers, kind)(config).float().eval()
    randomize(model, seed)
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(FIRST_TOKEN, N_VOCAB, n) for n in LENGTHS]
    hidden, scores = results(model, sequences)
    path = MODELS / f"{name}.gguf"
    write_model(path, arch, model, pooling)
    np.concatenate(hidden).astype("<f4").tofile(MODELS / f"{name}.hidden.f32")
    vectors = scores if scores else [pooled(h) for h in hidden]
    np.stack(vectors).astype("<f4").tofile(MODELS / f"{name}.pooled.f32")
    (MODELS / f"{name}.tokens.txt").write_text(" ".join(map(str, np.concatenate(sequences))) + "\n")
    twin = model if arch in ("nomic-bert", "qwen3") else as_libllama_computes(kind, model)
    twin_hidden, twin_scores = results(twin, sequences)
    print(f"{name}: {path.stat().st_size} bytes; libllama against transformers: hidden states",
          f"{difference(libllama(path, sequences, POOL.NONE), twin_hidden):.2g}", end="")
    if scores:
        print(f", scores {difference(libllama(path, sequences, POOL.RANK), twin_scores):.2g}")
    else:
        row = {POOL.CLS: 0, POOL.MEAN: 1, POOL.LAST: 2}[pooling]
        got = [v / np.linalg.norm(v) for v in libllama(path, sequences, pooling)]
        print(f", pooled {difference(got, [pooled(h)[row] for h in twin_hidden]):.2g}")


def make_seed(name, arch, keys, tensors, layer):
    """A model of a few KB for the fuzzer to start from."""
    w = gguf.GGUFWriter(CORPUS / f"{name}.gguf", arch)
    w.add_context_length(16)
    w.add_embedding_length(8)
    w.add_block_count(2)
    w.add_feed_forward_length(12)
    w.add_head_count(2)
    w.add_layer_norm_eps(1e-5)
    for key, value in keys.items():
        add = {int: w.add_uint32, float: w.add_float32, bool: w.add_bool}[type(value)]
        add(f"{arch}.{key}", value)
    w.add_token_list([chr(97 + i) for i in range(10)])
    rng = np.random.default_rng(1)
    shapes = {"token_embd": (10, 8), "token_embd_norm": (8,), **tensors}
    for il in range(2):
        shapes |= {f"blk.{il}.{part}": shape for part, shape in layer.items()
                   if (il, part) != (0, "attn_norm")}
    for tensor, shape in shapes.items():
        w.add_tensor(f"{tensor}.weight", rng.standard_normal(shape).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_seeds():
    post = {"attn_output": (8, 8), "attn_output_norm": (8,), "ffn_up": (12, 8),
            "ffn_down": (8, 12), "layer_output_norm": (8,)}
    split = {f"attn_{c}": (8, 8) for c in "qkv"}
    make_seed("bert-rank", "bert", {"pooling_type": 4, "attention.causal": False},
              {"position_embd": (16, 8), "token_types": (2, 8), "cls": (8, 8),
               "cls.output": (3, 8)}, {**split, **post})
    make_seed("nomic-bert", "nomic-bert", {"pooling_type": 1}, {},
              {"attn_qkv": (24, 8), "ffn_gate": (12, 8), **post})
    make_seed("modern-bert", "modern-bert",
              {"attention.sliding_window": 4, "rope.freq_base_swa": 100.0},
              {"output_norm": (8,)},
              {"attn_norm": (8,), "attn_qkv": (24, 8), "attn_output": (8, 8), "ffn_norm": (8,),
               "ffn_up": (24, 8), "ffn_down": (8, 12)})


def main():
    llama_cpp.llama_log_set(SILENCE, ctypes.c_void_p(0))
    for name in FIXTURES:
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_fixture(name, sum(name.encode()))
    make_seeds()


if __name__ == "__main__":
    main()
