"""Writes the trained model as GGUF: Q8_0 matrices, F32 norms, tokenizer and chat template inside.

    python3 export.py --model DIR --out demo.gguf --check

--check reads the file back, decodes it with the gguf package, runs the forward pass in numpy
(float32, written independently of model.py) and compares the logits with the PyTorch checkpoint.
"""

import argparse
import json
import os

import gguf
import numpy as np

import sample
from tokenizer import END, END_TURN, SPECIAL

NAME = "Ember 14M"
DESCRIPTION = (
    "The built-in demo model of ROCmForge: tells short stories in plain English and answers simple questions. "
    "Trained from nothing on generated text of the project's own and a little public-domain text."
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXT = "<|im_start|>user\nTell me a story about a fox<|im_end|>\n<|im_start|>assistant\nOnce upon a time, there was a fox. He found a red kite, and 7 plus 5 is 12."


def add_metadata(writer, config):
    c = config
    writer.add_name(NAME)
    writer.add_author("the ROCmForge project")
    writer.add_license("MIT")
    writer.add_description(DESCRIPTION)
    writer.add_size_label("14M")
    writer.add_languages(["en"])
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.dim)
    writer.add_block_count(c.layers)
    writer.add_feed_forward_length(c.ff)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_layer_norm_rms_eps(c.eps)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_vocab_size(c.vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def add_tokenizer(writer, path):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    ids = data["model"]["vocab"]
    tokens = sorted(ids, key=ids.get)
    assert [ids[t] for t in tokens] == list(range(len(tokens))) and tokens[:3] == SPECIAL
    kinds = [gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(ids[END])
    writer.add_eos_token_id(ids[END])
    writer.add_eot_token_id(ids[END_TURN])
    writer.add_pad_token_id(ids[END])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def write(model, tokenizer_path, out):
    """The GGUF file, by way of a temporary file."""
    temporary = out + ".tmp"
    writer = gguf.GGUFWriter(temporary, "llama")
    add_metadata(writer, model.config)
    add_tokenizer(writer, tokenizer_path)
    for name, tensor in model.state_dict().items():
        data = tensor.float().numpy()
        if data.ndim == 1:
            writer.add_tensor(name, data)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(temporary, out)


# --- the check: a second forward pass, from the file alone ------------------------------------


def read_file(path):
    """(metadata, tensors as float32) of a GGUF file."""
    reader = gguf.GGUFReader(path)
    values = {name: field.contents() for name, field in reader.fields.items()}
    weights = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type)
        .astype(np.float32)
        .reshape([int(n) for n in reversed(t.shape)])
        for t in reader.tensors
    }
    return values, weights


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rope(x, base):
    """x [length][heads][head_dim]: turn neighbouring pairs."""
    length, _, size = x.shape
    angle = np.arange(length)[:, None] * base ** (-np.arange(0, size, 2) / size)[None, :]
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = turned.real, turned.imag
    return out


def attention(q, k, v):
    """q [length][heads][d], k and v [length][kv_heads][d]; causal."""
    length, heads, size = q.shape
    groups = heads // k.shape[1]
    hidden = np.triu(np.full((length, length), -np.inf), 1)
    out = np.empty_like(q)
    for head in range(heads):
        scores = q[:, head] @ k[:, head // groups].T / np.sqrt(size) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, head // groups]
    return out.reshape(length, -1)


def forward(values, w, tokens):
    """Logits [length][vocab] of a llama file whose embeddings are tied."""
    heads, kv_heads = values["llama.attention.head_count"], values["llama.attention.head_count_kv"]
    eps, base = values["llama.attention.layer_norm_rms_epsilon"], values["llama.rope.freq_base"]
    size, length = values["llama.attention.key_length"], len(tokens)
    x = w["token_embd.weight"][tokens]
    for i in range(values["llama.block_count"]):
        b = f"blk.{i}."
        h = norm(x, w[b + "attn_norm.weight"], eps)
        q = rope((h @ w[b + "attn_q.weight"].T).reshape(length, heads, size), base)
        k = rope((h @ w[b + "attn_k.weight"].T).reshape(length, kv_heads, size), base)
        v = (h @ w[b + "attn_v.weight"].T).reshape(length, kv_heads, size)
        x = x + attention(q, k, v) @ w[b + "attn_output.weight"].T
        h = norm(x, w[b + "ffn_norm.weight"], eps)
        gate = h @ w[b + "ffn_gate.weight"].T
        x = (
            x
            + (gate / (1 + np.exp(-gate)) * (h @ w[b + "ffn_up.weight"].T))
            @ w[b + "ffn_down.weight"].T
        )
    return norm(x, w["output_norm.weight"], eps) @ w["token_embd.weight"].T


def check(model, tokenizer, path):
    """Compare the file with the checkpoint; raises when they differ by more than rounding to 8 bits."""
    import torch

    values, weights = read_file(path)
    ids = tokenizer.encode(TEXT).ids
    ours = forward(values, weights, np.array(ids))
    with torch.no_grad():
        truth = model(torch.tensor([ids]))[0].numpy()
    error = np.linalg.norm(ours - truth) / np.linalg.norm(truth)
    same = (ours.argmax(-1) == truth.argmax(-1)).mean()
    print(
        f"check: {len(ids)} tokens, relative error of the logits {error:.4f}, same best token at {same:.1%} of the positions"
    )
    if error > 0.03 or same < 0.9:
        raise SystemExit("the exported file does not compute what the checkpoint computes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder that train.py wrote")
    parser.add_argument("--out", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    model, tokenizer = sample.load(args.model)
    write(model, os.path.join(args.model, "tokenizer.json"), args.out)
    print(f"{args.out}: {os.path.getsize(args.out) / 1e6:.2f} MB")
    if args.check:
        check(model, tokenizer, args.out)


if __name__ == "__main__":
    main()
