"""Counts right answers of a trained model on questions whose answers can be checked.

    python3 quiz.py --model DIR

Greedy decoding. The capitals are those that the training text names; the names to remember are
made up on the spot.
"""

import argparse

import questions
import grammar
import sample

CASES = 60


def sums(top, sign):
    for _ in range(CASES):
        x, y = (int(grammar.pick(range(1, top + 1))) for _ in range(2))
        x, y = max(x, y), min(x, y)
        result = {"plus": x + y, "minus": x - y, "times": x * y}[sign]
        yield [], f"What is {x} {sign} {y}?", f" {result}."


def capitals():
    for country, capital, _, _ in questions.COUNTRIES:
        yield [], f"What is the capital of {country}?", capital


def names():
    for _ in range(CASES):
        name = "".join(
            grammar.pick(("ba", "ku", "ri", "to", "mel", "zan", "dor", "ix")) for _ in range(3)
        ).capitalize()
        yield [(f"My name is {name}.", f"Nice to meet you, {name}!")], "What is my name?", name


def score(model, tokenizer, cases):
    """(right, asked)."""
    cases = list(cases)
    rows = [sample.chat_tokens(tokenizer, history, question) for history, question, _ in cases]
    answers = sample.generate(model, rows, 0.0, "cpu", limit=24)
    right = [wanted in sample.decode(tokenizer, ids) for (_, _, wanted), ids in zip(cases, answers)]
    return sum(right), len(right)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    model, tokenizer = sample.load(args.model)
    grammar.seed(123)
    for name, cases in (
        ("sums to 20", sums(10, "plus")),
        ("differences to 20", sums(20, "minus")),
        ("times table to 10", sums(10, "times")),
        ("sums of two-digit numbers", sums(99, "plus")),
        ("capitals", capitals()),
        ("remembers a made-up name", names()),
    ):
        right, asked = score(model, tokenizer, cases)
        print(f"{name:28} {right:3d} of {asked}")


if __name__ == "__main__":
    main()
