#!/usr/bin/env python3
"""Makes the importance matrices that the fixtures with experts must give, from `transformers`.

The models are those of make_moe_fixtures.py, made again; hooks see what goes into the experts and whom the
router chose, and for latent attention what the two matrices of every head are applied to.  The files
are laid out as llama.cpp's imatrix files: NAME.in_sum2 [matrices][columns] and NAME.counts [matrices].
Run it only to change fixtures:

    python3 tools/make_imatrix_fixtures.py     # writes tests/data/engine/*.imatrix.gguf
"""
import pathlib

import gguf
import numpy as np
import torch
import transformers

from make_moe_fixtures import FIXTURES, MODELS, config_of, randomize, round_weights

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data" / "engine"


def squares(x, n_matrices, choice):
    """Per matrix the sums of squares of the rows that chose it, and their number."""
    sums = torch.stack([(x[choice == m].double() ** 2).sum(0) for m in range(n_matrices)])
    return sums, torch.tensor([float((choice == m).sum()) for m in range(n_matrices)])


def watch_experts(stats, il, experts):
    """What each expert's gate and up get, and what its down gets of them."""
    def hook(module, args):
        x, chosen, _ = args
        n = module.down_proj.shape[0]
        rows = x.repeat_interleave(chosen.shape[1], 0)  # one for each expert of a token
        choice = chosen.flatten()
        both = torch.einsum("rc,roc->ro", rows.double(), module.gate_up_proj[choice].double())
        gate, up = both.chunk(2, -1)
        stats[f"blk.{il}.ffn_gate_exps.weight"] = squares(rows, n, choice)
        stats[f"blk.{il}.ffn_up_exps.weight"] = squares(rows, n, choice)
        stats[f"blk.{il}.ffn_down_exps.weight"] = squares(module.act_fn(gate) * up, n, choice)
    return experts.register_forward_pre_hook(hook)


def per_head(x):
    """[tokens][heads][columns] -> sums [heads][columns] and counts [heads]."""
    return (x.double() ** 2).sum(0), torch.full((x.shape[1],), float(x.shape[0]))


def add_latent(stats, il, c, seen, attention):
    q = seen[il, "q"][0].view(-1, c.num_attention_heads, c.qk_nope_head_dim + c.qk_rope_head_dim)
    read = torch.einsum("hts,sr->thr", attention[0], seen[il, "latent"][0])
    stats[f"blk.{il}.attn_k_b.weight"] = per_head(q[..., :c.qk_nope_head_dim])
    stats[f"blk.{il}.attn_v_b.weight"] = per_head(read)


def measure(model, tokens):
    stats, seen, c = {}, {}, model.config
    for il, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "experts"):
            watch_experts(stats, il, layer.mlp.experts)
        if hasattr(c, "kv_lora_rank"):
            for key, part in (("q", layer.self_attn.q_b_proj),
                              ("latent", layer.self_attn.kv_a_layernorm)):
                part.register_forward_hook(
                    lambda m, a, out, key=(il, key): seen.__setitem__(key, out))
    out = model(torch.tensor(tokens)[None], output_attentions=True)
    for il in range(len(model.model.layers) if seen else 0):
        add_latent(stats, il, c, seen, out.attentions[il])
    return out.logits[0].numpy(), stats


def write(path, stats):
    w = gguf.GGUFWriter(path, "")
    w.kv_data[0].pop("general.architecture", None)  # there is none in such a file
    w.add_string("general.type", "imatrix")
    w.add_array("imatrix.datasets", ["tokens"])
    w.add_uint32("imatrix.chunk_count", 1)
    w.add_uint32("imatrix.chunk_size", 40)
    for name, (sums, counts) in stats.items():
        w.add_tensor(name + ".in_sum2", sums.numpy().astype(np.float32))
        w.add_tensor(name + ".counts", counts.numpy().astype(np.float32)[:, None])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@torch.no_grad()
def make(name):
    f = FIXTURES[name]
    model = getattr(transformers, f.kind + "ForCausalLM")(config_of(f, {})).float().eval()
    randomize(model, sum(name.encode()))
    round_weights(f, model)
    tokens = [int(t) for t in (MODELS / f"{name}.tokens.txt").read_text().split()]
    logits, stats = measure(model, tokens)
    want = np.fromfile(MODELS / f"{name}.logits.f32", "<f4").reshape(logits.shape)
    assert np.abs(logits - want).max() < 1e-4 * np.abs(want).max(), f"{name} is another model"
    path = OUT / f"{name}.imatrix.gguf"
    write(path, stats)
    print(f"{name}: {path.stat().st_size} bytes, {len(stats)} weights")


def main():
    for name in ("mixtral", "deepseek2-v3"):
        make(name)


if __name__ == "__main__":
    main()
