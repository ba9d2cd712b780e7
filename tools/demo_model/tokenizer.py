"""The tokenizer: byte-level BPE with Qwen2's pattern (digits one by one), 4096 tokens."""

import glob
import os

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END, START_TURN, END_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [END, START_TURN, END_TURN]  # ids 0, 1, 2
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def new_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train(corpus, megabytes=40, size=4096):
    """Learn the merges from the beginning of every shard."""
    tokenizer = new_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(sample_documents(corpus, megabytes), trainer)
    return tokenizer


def sample_documents(corpus, megabytes):
    paths = shards(corpus)
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = f.read(int(megabytes * 1e6 / len(paths)))
        for document in text.split(END):
            for piece in document.replace(START_TURN, END_TURN).split(END_TURN):
                yield piece


def shards(corpus):
    return sorted(glob.glob(os.path.join(corpus, "*.txt")))


def encode_shard(job):
    """(tokenizer.json, shard) -> token ids, every document ended by <|endoftext|>."""
    import numpy as np

    tokenizer_path, path = job
    tokenizer = Tokenizer.from_file(tokenizer_path)
    end = tokenizer.token_to_id(END)
    with open(path, encoding="utf-8") as f:
        documents = [d for d in f.read().split(END) if d]
    ids = []
    for start in range(0, len(documents), 256):
        for encoding in tokenizer.encode_batch_fast(documents[start : start + 256]):
            ids.append(np.array(encoding.ids + [end], dtype=np.uint16))
    return np.concatenate(ids)
