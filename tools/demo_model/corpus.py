"""Writes the training corpus of the demo model: stories, conversations, plain facts, old books.

    python3 corpus.py --out DIR --corpora DIR --megabytes 400 --jobs 16 --seed 1

Every shard is made by its own process from a seed derived from --seed and the shard's number, so
the corpus depends on --seed, --shards and --megabytes alone, not on the number of processes.
Documents end with <|endoftext|>. The text is our own but for the share --books of public-domain
text taken from --corpora.
"""

import argparse
import multiprocessing
import os
import random

END = "<|endoftext|>"
BOOKS = {
    "tinyshakespeare.txt": "From the plays of William Shakespeare",
    "alice29.txt": "From Alice's Adventures in Wonderland, by Lewis Carroll",
    "paradise-lost.txt": "From Paradise Lost, by John Milton",
    "asyoulik.txt": "From As You Like It, by William Shakespeare",
    "own-children-stories.txt": "",
}


def book_passages(folder, size=1800):
    """Passages of the public-domain texts, cut at line ends, each under the name of its book."""
    passages = []
    for name, header in BOOKS.items():
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
            text = f.read().strip()
        while text:
            cut = text.find("\n", size)
            cut = len(text) if cut < 0 else cut
            passages.append(f"{header}\n\n{text[:cut].strip()}".strip())
            text = text[cut:]
    return passages


def documents(seed, passages, book_share):
    """An endless stream of documents; book_share is a share of the characters."""
    import chat
    import grammar
    import stories

    grammar.seed(seed)
    picker = random.Random(seed + 1)
    written = from_books = 0
    while True:
        if passages and from_books < book_share * written:
            text = picker.choice(passages)
            from_books += len(text)
        else:
            r = picker.random()
            text = (
                stories.document()
                if r < 0.40
                else chat.exposition() if r < 0.43 else chat.document()
            )
        written += len(text)
        yield text


def write_shard(job):
    path, seed, limit, passages, book_share = job
    written = 0
    with open(path, "w", encoding="utf-8") as f:
        for text in documents(seed, passages, book_share):
            f.write(text + END)
            written += len(text)
            if written >= limit:
                break
    return written


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument(
        "--corpora", help="folder of the public-domain texts; without it, none are mixed in"
    )
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--books", type=float, default=0.015, help="share of public-domain text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    passages = book_passages(args.corpora) if args.corpora else []
    limit = int(args.megabytes * 1e6 / args.shards)
    jobs = [
        (os.path.join(args.out, f"{i:03d}.txt"), args.seed * 1000 + i, limit, passages, args.books)
        for i in range(args.shards)
    ]
    with multiprocessing.Pool(args.jobs) as pool:
        total = sum(pool.imap_unordered(write_shard, jobs))
    print(f"{total / 1e6:.1f} MB in {args.shards} shards")


if __name__ == "__main__":
    main()
