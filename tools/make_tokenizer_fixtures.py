#!/usr/bin/env python3
"""make_tokenizer_fixtures.py - small vocabularies and what reference tokenizers make of text.

Trains byte-level BPE (Hugging Face tokenizers) and SentencePiece BPE vocabularies of a few hundred
tokens on our own text, writes each as a vocabulary-only GGUF file, and asks the library that
trained it for the ids of the strings of the corpus.  Also writes how the pre-tokenizer patterns, as
the models' own tokenizer.json files spell them, cut one mixed text, and seeds for the fuzzers.
Never needed to build or run anything.

usage: make_tokenizer_fixtures.py CORPUS.json STORIES.txt OUT_DIR FUZZ_CORPUS_DIR
needs: tokenizers, sentencepiece
"""
import io
import json
import os
import struct
import sys
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
MARK, ENDING = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (MARK + UPPER + "*" + LOWER + "+" + ENDING + "|" + MARK + UPPER + "+" + LOWER + "*" + ENDING
         + r"|\p{N}{1,3}" + O200K_TAIL)
TEKKEN = (MARK + UPPER + "*" + LOWER + "+|" + MARK + UPPER + "+" + LOWER + r"*|\p{N}" + O200K_TAIL)
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
             r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPARK = DEEPSEEK3.replace(r"[\r\n]*|\s*[\r\n]+", r"|[\r\n]")
PATTERNS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "llama-bpe": [CL100K % r"\p{N}{1,3}"],
    "qwen2": [CL100K % r"\p{N}"],
    "qwen35": [QWEN35],
    "gpt-4o": [GPT4O],
    "tekken": [TEKKEN],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK3],
    "spark2_5": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", SPARK, r"\p{N}"],
    "laguna": [r"[^\n]+|[\n]+", CL100K % r"\p{N}"],
}
OWN_LINES = [
    "It's 12 o'clock; we've 3,456 things to do, and they'll say: \"Don't!\"",
    "int main(void) {\n    return x[i] + 0x1F;  /* done */\n}\n",
    "Größe, naïve café, Übung. Привет, мир! Γειά σου. 你好,世界。こんにちは 안녕하세요 🦙🙂",
    "URL: https://example.org/a?b=c&d=%20  e-mail: a.b@example.org\t\ttabs\r\n",
]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER = ["<tool>", "   \n"]

# --- GGUF ---------------------------------------------------------------------------------------
U8, U32, I32, F32, BOOL, STR, ARRAY = 0, 4, 5, 6, 7, 8, 9
PACK = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B"}


def packed(kind, value):
    if kind == STR:
        data = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(data)) + data
    return struct.pack(PACK[kind], value)


def write_gguf(path, entries):
    out = io.BytesIO()
    out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)))
    for key, kind, value in entries:
        out.write(packed(STR, key))
        if isinstance(value, list):
            out.write(struct.pack("<IIQ", ARRAY, kind, len(value)))
            for item in value:
                out.write(packed(kind, item))
        else:
            out.write(struct.pack("<I", kind) + packed(kind, value))
    while out.tell() % 32:
        out.write(b"\0")
    with open(path, "wb") as f:
        f.write(out.getvalue())


# --- byte-level BPE -----------------------------------------------------------------------------
def pre_tokenizer(pre):
    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERNS[pre][0]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def bpe(pre, vocab, merges, added):
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre == "llama-bpe"))
    t.pre_tokenizer = pre_tokenizer(pre)
    t.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken(s, special=s in CONTROL, normalized=False) for s in added])
    return t


def make_bpe(pre, lines, n_tokens, out_dir):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer(pre)
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=n_tokens, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    model = json.loads(t.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    vocab = dict(model["vocab"])
    if pre == "llama-bpe":  # a token that no merge reaches: only ignore_merges finds it
        assert "Ġlazy" not in vocab
        vocab["Ġlazy"] = len(vocab)
    for text in CONTROL + USER:
        vocab[text] = len(vocab)
    tokens = sorted(vocab, key=vocab.get)
    kinds = [3 if s in CONTROL else 4 if s in USER else 1 for s in tokens]
    write_gguf(os.path.join(out_dir, f"bpe-{pre}.gguf"), [
        ("general.architecture", STR, "llama"),
        ("tokenizer.ggml.model", STR, "gpt2"),
        ("tokenizer.ggml.pre", STR, pre),
        ("tokenizer.ggml.tokens", STR, tokens),
        ("tokenizer.ggml.token_type", I32, kinds),
        ("tokenizer.ggml.merges", STR, [a + " " + b for a, b in merges]),
        ("tokenizer.ggml.bos_token_id", U32, vocab[CONTROL[0]]),
        ("tokenizer.ggml.eos_token_id", U32, vocab[CONTROL[2]]),
        ("tokenizer.ggml.add_bos_token", BOOL, pre == "llama-bpe"),
    ])
    return bpe(pre, vocab, merges, USER), bpe(pre, vocab, merges, CONTROL + USER)


# --- SentencePiece ------------------------------------------------------------------------------
def make_spm(lines, n_tokens, out_dir):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=n_tokens,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.995, split_digits=True, num_threads=1, minloglevel=2,
        max_sentence_length=100000)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
             for i in range(len(sp))]
    write_gguf(os.path.join(out_dir, "spm.gguf"), [
        ("general.architecture", STR, "llama"),
        ("tokenizer.ggml.model", STR, "llama"),
        ("tokenizer.ggml.tokens", STR, [sp.id_to_piece(i) for i in range(len(sp))]),
        ("tokenizer.ggml.scores", F32, [sp.get_score(i) for i in range(len(sp))]),
        ("tokenizer.ggml.token_type", I32, kinds),
    ])
    return sp


# --- expectations -------------------------------------------------------------------------------
def choose(corpus, n):
    """An even choice of the corpus's short valid strings, special-token texts all included."""
    texts = [s["text"] for s in corpus if s["text"] and len(s["text"]) < 90]
    special = [s["text"] for s in corpus if s["cat"] == "special" and s["text"]]
    step = max(1, len(texts) // n)
    extra = ["the lazy dog", "a<tool>b", "x   \ny", "<|im_start|>user\nhi<|im_end|>\n",
             "e\u0301 \u1112\u1161\u11ab", "a" * 300, "the" * 60, "he said" * 30, " " * 90 + "x",
             "\n" * 70, "=" * 120, "12" * 50, "你" * 60]
    return list(dict.fromkeys(texts[::step] + special + extra))


def byte_lengths(pre, text):
    t = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[pre]])
    return [len(piece.encode()) for piece, _ in t.pre_tokenize_str(text)]


def fuzz_seeds(corpus, out_dir):
    """Texts for each vocabulary, and vocabularies of a dozen tokens."""
    for folder in ("tokenizer", "vocab"):
        os.makedirs(os.path.join(out_dir, folder), exist_ok=True)
    odd = [s for s in corpus if s["cat"] in ("special", "invalid_utf8", "control", "whitespace")]
    for i, s in enumerate(odd[::4]):
        with open(os.path.join(out_dir, "tokenizer", f"{i:02}"), "wb") as f:
            f.write(bytes([i % 4 | (i % 3) << 4]) + bytes.fromhex(s["hex"]))
    model, tokens = "tokenizer.ggml.model", "tokenizer.ggml.tokens"
    kinds, merges = "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
    texts = ["a", "b", "Ġ", "ab", "Ġa", "<|im_end|>", "<tool>", "l", "o", "lo", "e", "H", "[PAD]"]
    for i, pre in enumerate(["gpt-2", "qwen2", "llama3", "deepseek-llm", "falcon", "unheard-of"]):
        write_gguf(os.path.join(out_dir, "vocab", f"bpe-{i}.gguf"), [
            (model, STR, "gpt2"), ("tokenizer.ggml.pre", STR, pre), (tokens, STR, texts),
            (kinds, I32, [1] * 5 + [3, 4] + [1] * 5 + [5]), (merges, STR, ["a b", "Ġ a", "l o"]),
            ("tokenizer.ggml.eos_token_id", U32, 5)])
    texts = ["<unk>", "<s>", "</s>", "a", "\u2581", "\u2581a", "aa", "<0x0A>", "e", "l", "a\u2581"]
    for i in range(3):
        write_gguf(os.path.join(out_dir, "vocab", f"spm-{i}.gguf"), [
            ("general.name", STR, "phi-3" if i == 1 else "x"), (model, STR, "llama"),
            (tokens, STR, texts[:11 - i]),
            ("tokenizer.ggml.scores", F32, [-float(k) for k in range(11 - i)]),
            (kinds, I32, ([2, 3, 3] + [1] * 4 + [6] + [1] * 3)[:11 - i]),
            ("tokenizer.ggml.add_eos_token", BOOL, i == 2),
            ("tokenizer.chat_template", STR, "<|im_start|><|im_end|>")])


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    corpus_path, stories_path, out_dir, fuzz_dir = sys.argv[1:]
    with open(corpus_path, encoding="utf-8") as f:
        corpus = json.load(f)["strings"]
    with open(stories_path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    lines = [s for s in lines if s] + OWN_LINES
    os.makedirs(out_dir, exist_ok=True)
    texts = choose(corpus, 90)
    for pre in ("gpt-2", "qwen2", "llama-bpe"):
        plain, parsing = make_bpe(pre, lines, 600, out_dir)
        dump(os.path.join(out_dir, f"bpe-{pre}.json"), [
            {"text": s, "plain": plain.encode(s).ids, "parsed": parsing.encode(s).ids,
             "decoded": unicodedata.normalize("NFC", s) if pre == "qwen2" else s} for s in texts])
    sp = make_spm(lines, 460, out_dir)
    dump(os.path.join(out_dir, "spm.json"), [
        {"text": s, "plain": sp.encode(s), "decoded": sp.decode(sp.encode(s))} for s in texts])
    mixed = "\n".join(texts) + "  \u2003\u3000 end \t "
    dump(os.path.join(out_dir, "pretok.json"),
         {"text": mixed, "pieces": {pre: byte_lengths(pre, mixed) for pre in PATTERNS}})
    fuzz_seeds(corpus, fuzz_dir)


if __name__ == "__main__":
    main()
