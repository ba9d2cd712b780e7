"""Sample texts of a model: stories and chat, greedy and at a temperature of 0.7.

python3 sample.py --model DIR [--temperature 0.7] [--chat] PROMPT ...
"""

import argparse
import glob
import json
import os

import numpy as np
import torch

import tokenizer as tok

STORIES = [
    "Once upon a time",
    "Once upon a time, there was a little robot",
    "The old lighthouse",
    "One day, Mia found a key in the garden.",
    "The fox and the crow",
    "It was raining, and",
    "In a castle far away lived a dragon who",
]
CHATS = [
    ["Hello!"],
    ["Who are you?"],
    ["Tell me a story about a brave mouse"],
    ["Tell me a story about a computer that was lonely"],
    ["Tell me a story about Christmas"],
    ["write a story about a spaceship and a talking banana"],
    ["Who is Napoleon?"],
    ["My name is Gunther.", "What is my name?"],
    ["What is a tree?"],
    ["a story about love"],
    ["Write a short story about a girl named Zelda and a blue umbrella", "Who is the story about?"],
    ["What is the capital of France?", "And of Japan?"],
    ["whats the capital of italy"],
    ["What is 7 + 5?", "And plus 3?"],
    ["What is 12 times 8?"],
    ["How many legs does a spider have?"],
    ["What colour is the sky?"],
    ["My name is Robert.", "What is my name?"],
    ["I am sad today"],
    ["Write a poem about the moon"],
    ["Why is the sky blue?"],
    ["Name three fruits"],
    ["What is the opposite of big?"],
    ["Explain quantum physics"],
    ["Tell me a joke"],
    ["What can you do?"],
    ["What will the weather be tomorrow?"],
    ["Is a whale a fish?"],
    ["I have a cat called Tiger.", "What is my cat called?"],
    ["How do I make pancakes?"],
    ["Can you help me with my homework?"],
    ["What is a river?"],
    ["What day comes after Friday?"],
    ["Give me some advice for a job interview"],
    ["What do you think about love?"],
    ["Do you like football?"],
    ["What is the largest city in the world?"],
    ["Thank you, goodbye!"],
]


def load(folder, device="cpu"):
    """(model, tokenizer) of a folder that train.py wrote."""
    from model import Config, Model

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        model = Model(Config(**json.load(f)))
    weights = {}
    for path in sorted(glob.glob(os.path.join(folder, "weights-*.npz"))):
        weights.update(
            {k: torch.from_numpy(v.astype(np.float32)) for k, v in np.load(path).items()}
        )
    model.load_state_dict(weights)
    return model.to(device).eval(), tok.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))


@torch.no_grad()
def generate(model, rows, temperature, device, limit=320):
    """Continue token rows together until each has ended; returns the new tokens of each."""
    torch.manual_seed(7)
    context = model.config.context
    batch = torch.zeros(len(rows), context, dtype=torch.long, device=device)
    lengths = torch.tensor([len(r) for r in rows], device=device)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = torch.tensor(row, device=device)
    first, alive = lengths.clone(), torch.ones(len(rows), dtype=torch.bool, device=device)
    index = torch.arange(len(rows), device=device)
    for _ in range(limit):
        top = int(lengths.max())
        if top >= context or not alive.any():
            break
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = model(batch[:, :top])[index, lengths - 1].float()
        if temperature > 0:
            token = torch.multinomial(torch.softmax(logits / temperature, -1), 1).flatten()
        else:
            token = logits.argmax(-1)
        batch[index, lengths] = torch.where(alive, token, 0)
        lengths += alive.long()
        alive &= (token != 0) & (token != 2)
    return [batch[i, first[i] : lengths[i]].tolist() for i in range(len(rows))]


def chat_tokens(tokenizer, history, question):
    """Tokens of a conversation so far [(question, answer)] and the next question."""
    turns = "".join(
        f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n{a}<|im_end|>\n"
        for q, a in history
    )
    return tokenizer.encode(
        f"{turns}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    ).ids


def decode(tokenizer, ids):
    return tokenizer.decode([i for i in ids if i > 2])


def write(model, tokenizer, path, device):
    """Samples of all prompts to a file."""
    with open(path, "w", encoding="utf-8") as out:
        for temperature in (0.0, 0.7):
            rows = [tokenizer.encode(p).ids for p in STORIES]
            for prompt, ids in zip(STORIES, generate(model, rows, temperature, device)):
                out.write(
                    f"### T={temperature} {prompt!r} ({len(ids)} tokens, ended: {ids[-1] in (0, 2)})\n{prompt}{decode(tokenizer, ids)}\n\n"
                )
            histories = [[] for _ in CHATS]
            for turn in range(max(map(len, CHATS))):
                chosen = [i for i, c in enumerate(CHATS) if len(c) > turn]
                rows = [chat_tokens(tokenizer, histories[i], CHATS[i][turn]) for i in chosen]
                for i, ids in zip(chosen, generate(model, rows, temperature, device)):
                    histories[i].append((CHATS[i][turn], decode(tokenizer, ids)))
            for history in histories:
                out.write(
                    f"### T={temperature} chat\n"
                    + "".join(f"> {q}\n{a}\n" for q, a in history)
                    + "\n"
                )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("prompts", nargs="+")
    args = parser.parse_args()
    model, tokenizer = load(args.model)
    for prompt in args.prompts:
        ids = chat_tokens(tokenizer, [], prompt) if args.chat else tokenizer.encode(prompt).ids
        answer = decode(tokenizer, generate(model, [ids], args.temperature, "cpu")[0])
        print(f"> {prompt}\n{answer}\n" if args.chat else prompt + answer + "\n")


if __name__ == "__main__":
    main()
