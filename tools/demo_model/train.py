"""Trains the demo model: tokenizer, token file, model, sample texts.

    python3 train.py --corpus DIR --out DIR [--tokens 6e8] [--max-minutes 7]

Writes tokenizer.json, config.json, weights-N.npz (f16, in parts), log.txt and samples.txt to --out.
The learning rate follows the number of tokens; --max-minutes only shortens the schedule when the
machine is slower than expected.
"""

import argparse
import json
import math
import multiprocessing
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import sample
import tokenizer as tok
from model import Config, Model


class Log:
    """Prints, and keeps what it printed in a file."""

    def __init__(self, path):
        self.file, self.start = open(path, "w", encoding="utf-8"), time.time()

    def __call__(self, text):
        line = f"[{time.time() - self.start:6.1f} s] {text}"
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


def prepare(args, log):
    """Train the tokenizer and encode the corpus: (tokenizer, training ids, held-out ids)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    tokenizer = tok.train(args.corpus)
    path = os.path.join(args.out, "tokenizer.json")
    tokenizer.save(path)
    log(f"tokenizer: {tokenizer.get_vocab_size()} tokens")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    shards = tok.shards(args.corpus)
    with multiprocessing.get_context("spawn").Pool(min(args.jobs, len(shards))) as pool:
        encoded = pool.map(tok.encode_shard, [(path, shard) for shard in shards], chunksize=1)
    ids = np.concatenate(encoded)
    size = sum(os.path.getsize(s) for s in shards)
    log(
        f"corpus: {size / 1e6:.1f} MB, {len(ids) / 1e6:.1f} M tokens, {size / len(ids):.2f} bytes per token"
    )
    held = min(len(ids) // 50, 400_000)
    return tokenizer, ids[:-held], ids[-held:]


class Batches:
    """Random windows that begin where a document begins."""

    def __init__(self, ids, context, device, seed):
        self.ids = torch.from_numpy(ids.astype(np.int16)).to(device)  # ids < 4096
        starts = torch.nonzero(self.ids == 0).flatten() + 1
        self.starts = starts[starts < len(ids) - context - 1]
        self.offsets = torch.arange(context + 1, device=device)
        self.generator = torch.Generator(device=device).manual_seed(seed)

    def next(self, count):
        chosen = torch.randint(
            len(self.starts), (count,), generator=self.generator, device=self.ids.device
        )
        window = self.ids[self.starts[chosen][:, None] + self.offsets].long()
        return window[:, :-1], window[:, 1:]


def optimizer_for(model, rate):
    """AdamW; no decay for the norms."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    norms = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=rate, betas=(0.9, 0.95), fused=next(model.parameters()).is_cuda
    )


def loss_of(model, x, y):
    return F.cross_entropy(model(x).float().view(-1, model_vocab(model)), y.reshape(-1))


def model_vocab(model):
    return getattr(model, "_orig_mod", model).config.vocab


@torch.no_grad()
def held_out_loss(model, batches, count, rounds, autocast):
    batches.generator.manual_seed(0)
    total = 0.0
    for _ in range(rounds):
        with autocast():
            total += loss_of(model, *batches.next(count)).item()
    return total / rounds


def save(model, out):
    """config.json and the weights as f16, in parts of at most 14 MB."""
    model = getattr(model, "_orig_mod", model)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(model.config.as_dict(), f, indent=1)
    part, parts, size = {}, [], 0
    for name, tensor in model.state_dict().items():
        array = tensor.detach().to(torch.float16).cpu().numpy()
        if size + array.nbytes > 14e6:
            parts.append(part)
            part, size = {}, 0
        part[name] = array
        size += array.nbytes
    for i, content in enumerate(parts + [part]):
        np.savez(os.path.join(out, f"weights-{i}.npz"), **content)


def fit(args, config, train_ids, held_ids, device, log):
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = Model(config).to(device)
    log(f"model: {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    optimizer = optimizer_for(model, args.rate)
    run = torch.compile(model) if args.compile else model
    data = Batches(train_ids, config.context, device, args.seed)
    held = Batches(held_ids, config.context, device, args.seed)
    cuda = device == "cuda"

    def autocast():
        return torch.autocast(device, dtype=torch.bfloat16, enabled=cuda)

    steps = max(1, int(args.tokens / (args.batch * config.context)))
    begun, done, saved = time.time(), 0.0, False
    step = 0
    while done < 1.0:
        rate = (
            args.rate
            * min(1.0, (step + 1) / args.warmup)
            * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * done)))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        with autocast():
            loss = loss_of(run, *data.next(args.batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == 5:
            begun = time.time() - 10  # compilation does not count as slowness
        if step % args.report == 0:
            value = loss.item()
            speed = step * args.batch * config.context / max(time.time() - begun, 1e-9)
            log(
                f"step {step}/{steps} loss {value:.4f} rate {rate:.2e} {speed / 1e6:.2f} M tokens/s"
            )
        if step % 20 == 0 and cuda:
            torch.cuda.synchronize()
        step += 1
        done = max(
            step / steps, (time.time() - begun) / (60 * args.max_minutes) if step > 5 else 0.0
        )
        if done > 0.7 and not saved:
            save(model, args.out)
            saved = True
    save(model, args.out)
    with torch.no_grad():
        final = held_out_loss(run, held, min(args.batch, 64), 6, autocast)
    log(
        f"trained on {step * args.batch * config.context / 1e6:.0f} M tokens in {time.time() - begun:.0f} s; held-out loss {final:.4f} nats per token"
    )
    return model


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokens", type=float, default=6e8, help="tokens to train on")
    parser.add_argument("--max-minutes", type=float, default=7)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--report", type=int, default=100)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    log = Log(os.path.join(args.out, "log.txt"))
    tokenizer, train_ids, held_ids = prepare(args, log)
    config = Config(
        vocab=tokenizer.get_vocab_size(),
        context=args.context,
        dim=args.dim,
        layers=args.layers,
        heads=args.dim // 64,
        ff=int(args.dim * 8 / 3) // 32 * 32,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = fit(args, config, train_ids, held_ids, device, log)
    sample.write(model.eval(), tokenizer, os.path.join(args.out, "samples.txt"), device)
    log("samples written")


if __name__ == "__main__":
    main()
