#!/usr/bin/env python3
"""make_tokenizer_json_fixtures.py - small tokenizer.json files and what Hugging Face makes of text.

Trains tokenizers of a few hundred tokens on our own text, one for each kind of model, normaliser,
pre-tokenizer, decoder and post-processor, and asks the library that trained them for ids and texts.
Also WordPiece and Unigram vocabularies as GGUF files, and seeds for the fuzzer.  With --random N and
the path of the program it compares N random texts a tokenizer instead, and writes nothing.
Never needed to build or run anything.

usage: make_tokenizer_json_fixtures.py CORPUS.json STORIES.txt OUT_DIR FUZZ_CORPUS_DIR
       make_tokenizer_json_fixtures.py CORPUS.json STORIES.txt --random N PROGRAM
needs: tokenizers, sentencepiece, protobuf
"""
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as R

from make_tokenizer_fixtures import BOOL, F32, I32, OWN_LINES, STR, U8, U32, choose, dump, write_gguf

LETTERS = P.ByteLevel.alphabet()
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+")
ADDED = [
    AddedToken("<tok>", special=True, normalized=False),
    AddedToken("<n>", special=False, normalized=True),
    AddedToken("[w]", single_word=True, normalized=False),
    AddedToken("<l>", lstrip=True, normalized=False),
    AddedToken("<r>", rstrip=True, normalized=True, special=True),
    AddedToken("[X]", special=True, lstrip=True, rstrip=True, normalized=False),
    AddedToken("<É>", normalized=True)]
ADDED_TEXTS = ["", "<tok>", " <tok> ", "a<n>b", "[w]", "x[w]y", " [w] ", "  <l>  <r>  z", "<l><r>",
               "a <r> b", "É <É> é <é>", "one[X] two [X]three", "<tok><tok>", "<n> <n>"]


def trained(t, lines, trainer, **parts):
    for name, part in parts.items():
        setattr(t, name, part)
    t.train_from_iterator(lines, trainer)
    return t


def bpe(lines, size, model=None, trainer=None, **parts):
    return trained(Tokenizer(models.BPE(**(model or {}))), lines, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, **(trainer or {})), **parts)


def byte_level(lines, size, *steps, **parts):
    return bpe(lines, size, None, {"initial_alphabet": LETTERS}, decoder=D.ByteLevel(),
               pre_tokenizer=P.Sequence(list(steps)), **parts)


def wordpiece(lines, size, normalizer, pre, decoder=None):
    t = trained(Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20)), lines,
                trainers.WordPieceTrainer(vocab_size=size, show_progress=False,
                                          special_tokens=["[UNK]", "[CLS]", "[SEP]"]),
                normalizer=normalizer, pre_tokenizer=pre, decoder=decoder or D.WordPiece())
    t.post_processor = R.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return t


def unigram(lines, size, normalizer, pre, decoder):
    t = trained(Tokenizer(models.Unigram()), lines, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>"], unk_token="<unk>", show_progress=False),
        normalizer=normalizer, pre_tokenizer=pre, decoder=decoder)
    t.post_processor = R.TemplateProcessing(single="<s> $A <s>", pair="$A $B",
                                            special_tokens=[("<s>", 1)])
    return t


def changed(t, **model):
    tree = json.loads(t.to_str())
    tree["model"].update(model)
    return Tokenizer.from_str(json.dumps(tree))


def add_bpe(all_, lines, n):
    raw = P.ByteLevel(add_prefix_space=False, use_regex=False)
    t = byte_level(lines, n, P.ByteLevel(add_prefix_space=True), normalizer=N.NFC())
    t.post_processor = R.Sequence([R.ByteLevel(trim_offsets=False), R.RobertaProcessing(
        ("a", t.token_to_id("a")), ("b", t.token_to_id("b")))])
    all_["byte-level"] = t
    all_["regex"] = changed(byte_level(lines, n, P.Split(Regex(LLAMA3), "isolated"), raw),
                            ignore_merges=True)
    all_["intersection"] = byte_level(lines, n, P.Split(Regex(KIMI), "isolated"), raw)
    for how in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            name = f"split-{how}{'-inverted' if invert else ''}".replace("_", "-")
            all_[name] = byte_level(lines, n, P.Split(Regex(r"\s+|\d"), how, invert), raw)
    all_["borders"] = byte_level(lines, n, P.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"),
                                 P.Split("a", "merged_with_previous"), raw)
    unk = {"unk_token": "<unk>"}
    for scheme in ("always", "first", "never"):
        all_[f"metaspace-{scheme}"] = bpe(
            lines, n, dict(unk, fuse_unk=scheme == "first"), {"special_tokens": ["<unk>"]},
            normalizer=N.NFKC(), pre_tokenizer=P.Metaspace(prepend_scheme=scheme,
                                                           split=scheme != "first"),
            decoder=D.Metaspace(prepend_scheme=scheme))
    all_["byte-fallback"] = changed(bpe(
        lines, n + 256, unk, {"special_tokens": ["<unk>"] + [f"<0x{i:02X}>" for i in range(256)]},
        normalizer=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
        decoder=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])),
        byte_fallback=True, fuse_unk=True)
    end = {"end_of_word_suffix": "</w>"}
    all_["suffix"] = bpe(lines, n, dict(unk, **end), dict(end, special_tokens=["<unk>"]),
                         normalizer=N.Lowercase(), pre_tokenizer=P.BertPreTokenizer())
    inside = {"continuing_subword_prefix": "##"}
    all_["prefix"] = bpe(lines, n, dict(unk, **inside), dict(inside, special_tokens=["<unk>"]),
                         normalizer=N.BertNormalizer(), pre_tokenizer=P.Whitespace())
    all_["letters"] = bpe(lines, n, None, {"initial_alphabet": LETTERS}, decoder=D.ByteLevel(),
                          normalizer=N.Sequence([N.NFC(), N.ByteLevel()]))


def add_wordpiece(all_, lines, n):
    all_["bert"] = wordpiece(lines, n, N.BertNormalizer(), P.BertPreTokenizer())
    all_["cased"] = wordpiece(
        lines, n, N.BertNormalizer(lowercase=False),
        P.Sequence([P.Whitespace(), P.Digits(individual_digits=True)]), D.WordPiece(cleanup=False))
    all_["accents"] = wordpiece(
        lines, n, N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]),
        P.Sequence([P.WhitespaceSplit(), P.Punctuation()]))
    all_["nfkd"] = wordpiece(
        lines, n, N.Sequence([N.NFKD(), N.Nmt(), N.Strip(left=True, right=False)]),
        P.Sequence([P.Punctuation("contiguous"), P.Digits()]))
    all_["replace"] = wordpiece(
        lines, n, N.Sequence([N.Replace(Regex(r"\s+"), " "), N.Replace(Regex(r"x*"), "-")]),
        P.CharDelimiterSplit(" "))


def add_unigram(all_, lines, n, charsmap):
    t = unigram(lines, n, N.NFKC(), P.Metaspace(), D.Metaspace())
    all_["unigram"] = t
    tree = json.loads(t.to_str())
    tree["model"]["byte_fallback"] = True
    tree["model"]["vocab"] += [[f"<0x{i:02X}>", -20.0] for i in range(256)]
    all_["unigram-bytes"] = Tokenizer.from_str(json.dumps(tree))
    if charsmap:
        all_["precompiled"] = unigram(
            lines, n, N.Sequence([N.Precompiled(charsmap), N.Replace(Regex(" {2,}"), " ")]),
            P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace())
    all_["words"] = trained(
        Tokenizer(models.WordLevel(unk_token="[UNK]")), lines, trainers.WordLevelTrainer(
            vocab_size=n, special_tokens=["[UNK]"], show_progress=False),
        pre_tokenizer=P.Whitespace())


def train_sentencepiece(lines, n):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="unigram", vocab_size=n,
        num_threads=1, minloglevel=2, max_sentence_length=100000)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(out.getvalue())
    return model


def make_t5(model, name, merges, prefix, texts, out_dir):
    model.normalizer_spec.remove_extra_whitespaces = merges
    model.normalizer_spec.add_dummy_prefix = prefix
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    key = "tokenizer.ggml."
    write_gguf(os.path.join(out_dir, f"{name}.gguf"), [
        ("general.architecture", STR, "t5"), (key + "model", STR, "t5"),
        (key + "tokens", STR, [p.piece for p in model.pieces]),
        (key + "scores", F32, [p.score for p in model.pieces]),
        (key + "token_type", I32, [p.type for p in model.pieces]),
        (key + "unknown_token_id", U32, 0), (key + "eos_token_id", U32, 2),
        (key + "add_space_prefix", BOOL, prefix), (key + "remove_extra_whitespaces", BOOL, merges),
        (key + "precompiled_charsmap", U8, list(model.normalizer_spec.precompiled_charsmap))])
    cases = [{"text": s, "plain": sp.encode(s)} for s in texts]
    dump(os.path.join(out_dir, f"{name}.json"), cases)


def make_bert(t, texts, out_dir):
    vocab = t.get_vocab()
    tokens = [None] * len(vocab)
    for text, i in vocab.items():
        inside = text.startswith("##")
        tokens[i] = text if text[0] == "[" and len(text) > 1 else text[2:] if inside else "▁" + text
    key = "tokenizer.ggml."
    write_gguf(os.path.join(out_dir, "wordpiece.gguf"), [
        ("general.architecture", STR, "bert"), (key + "model", STR, "bert"),
        (key + "tokens", STR, tokens), (key + "token_type", I32, [2, 3, 3] + [1] * (len(tokens) - 3)),
        (key + "unknown_token_id", U32, 0), (key + "bos_token_id", U32, 1),
        (key + "seperator_token_id", U32, 2)])
    dump(os.path.join(out_dir, "wordpiece.json"), [
        {"text": s, "plain": t.encode(s, add_special_tokens=False).ids, "special": t.encode(s).ids}
        for s in texts])


def cases_of(t, texts):
    out = []
    for s in texts:
        case = {"text": s, "ids": t.encode(s, add_special_tokens=False).ids,
                "special": t.encode(s).ids}
        if case["special"] == case["ids"]:
            del case["special"]
        case["decoded"] = t.decode(case["ids"], skip_special_tokens=False)
        hidden = t.decode(case["ids"])
        if hidden != case["decoded"]:
            case["hidden"] = hidden
        out.append(case)
    return out


def write_fixtures(lines, corpus, out_dir, fuzz_dir):
    # No characters younger than the libraries' tables, which differ.
    texts = [s for s in choose(corpus, 40) if len(s) < 100 and not any(
        unicodedata.ucd_3_2_0.category(c) == "Cn" for c in s)] + ADDED_TEXTS
    model = train_sentencepiece(lines, 300)
    all_ = {}
    add_bpe(all_, lines, 330)
    add_wordpiece(all_, lines, 260)
    add_unigram(all_, lines, 300, None)
    os.makedirs(os.path.join(out_dir, "hf"), exist_ok=True)
    make_bert(all_["bert"], [s for s in texts if len(s) < 20], out_dir)
    make_t5(model, "unigram", True, True, texts, out_dir)
    cases = {}
    for name, t in all_.items():
        t.add_tokens(ADDED)
        dump(os.path.join(out_dir, "hf", f"{name}.json"), json.loads(t.to_str()))
        cases[name] = cases_of(t, texts)
    dump(os.path.join(out_dir, "hf_cases.json"), cases)
    folder = os.path.join(fuzz_dir, "tokenizer_json")
    os.makedirs(folder, exist_ok=True)
    for name, t in all_.items():
        tree = json.loads(t.to_str())
        vocab, merges = tree["model"]["vocab"], tree["model"].get("merges")
        few = vocab[:12] if isinstance(vocab, list) else {k: i for i, k in enumerate(list(vocab)[:40])}
        tree["model"]["vocab"] = few
        if merges:
            tree["model"]["merges"] = [m for m in merges if set(m) | {"".join(m)} <= set(few)][:10]
        tree["added_tokens"] = [dict(a, id=len(few) + i) for i, a in enumerate(tree["added_tokens"])
                                if a["content"] not in few][-3:]
        tree["post_processor"] = None
        dump(os.path.join(folder, name), tree)


def random_text(lines, old):
    kind = random.random()
    if kind < 0.5:
        return "".join(random.choice(old if random.random() < 0.5 else old[:1500])
                       for _ in range(random.randint(1, 25)))
    line = random.choice(lines)
    at = random.randint(0, len(line) - 1)
    return line[at:at + random.randint(1, 80)].replace(" ", random.choice(
        [" ", "  ", " <tok> ", " <n> ", "[X]", " [w] ", "\n", "\u00a0"]))


def compare(lines, n, program):
    model = train_sentencepiece(lines, 1200)
    all_ = {}
    add_bpe(all_, lines, 900)
    add_wordpiece(all_, lines, 900)
    add_unigram(all_, lines, 3000, model.normalizer_spec.precompiled_charsmap)
    old = [chr(c) for c in range(1, 0x20000)
           if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")]
    n_wrong = 0
    for name, t in all_.items():
        t.add_tokens(ADDED)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            t.save(path)
            for _ in range(n):
                text = random_text(lines, old)
                got = subprocess.run([program, "tokenize", "--tokenizer", path, "--json",
                                      "--parse-special", "--file", "-"], input=text.encode(),
                                     capture_output=True, check=True).stdout
                if json.loads(got) != t.encode(text, add_special_tokens=False).ids:
                    print(name, ascii(text))
                    n_wrong += 1
    print(f"{len(all_)} tokenizers, {n} texts each: {n_wrong} different")
    return n_wrong


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        corpus = json.load(f)["strings"]
    with open(sys.argv[2], encoding="utf-8") as f:
        lines = [s for s in f.read().split("\n") if s] + OWN_LINES
    if sys.argv[3] == "--random":
        more = [s["text"].replace("\0", "") for s in corpus if s["text"]]
        sys.exit(compare(lines + [s for s in more if s], int(sys.argv[4]), sys.argv[5]) != 0)
    write_fixtures(lines, corpus, sys.argv[3], sys.argv[4])


if __name__ == "__main__":
    main()
