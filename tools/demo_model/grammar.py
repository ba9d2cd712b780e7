"""The template language in which the whole corpus is written, and its expander.

A template is plain English with four kinds of marks:

    {a|b|c}        one of the alternatives; they nest; an empty one makes the text optional
    $h  $h.he      a slot of the world: an entity (a dict) or a plain string; the entity's name,
                   or the field after the dot ($f.first: 'a shy boy named Tom', later just 'Tom')
    <sad:h>        a named rule, expanded with $x = slot h ($y = the second one, else the hero)
    <hello>        a rule without arguments

Rules do not repeat themselves within one text while unused alternatives are left. The world (a
dict) lives as long as one text, so names, pronouns and objects stay the same from its first
sentence to its last. All randomness comes from one generator, seeded by `seed()`.
"""

import random
import re

RNG = random.Random(0)
RULES = {}  # name -> list of compiled templates
_CACHE = {}  # template text -> compiled template

_MARK = re.compile(r"\$([a-z]+[0-9]?)(?:\.([A-Za-z]+))?|<([a-z_]+)(?::([a-z0-9,]+))?>|[{|}]")
_SENTENCE = re.compile(r'(^|[.!?]["\']?\s+|(?:^|(?<!,)\s)"|\n)([a-z])')
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w+))")
_AN = re.compile(r"(?i)[aeio]|u(?!ni|s[eu]|k)|hour|honest")
_NOT_AN = re.compile(r"(?i)one|once|eu")
_TAG = re.compile(
    r"(?:(?:the|his|her|a|an) )?(?:[a-z]+ ){0,3}?(?:said|asked|cried|called|shouted|whispered|thought|laughed|answered|"
    r"roared|sobbed|wanted to know)\b"
)
_SPACES = re.compile(r"[ \t]+")
_BEFORE_MARK = re.compile(r" +([,.!?;:])(?=\s|$|\")")


def seed(value):
    """Restart the generator; equal seeds give equal texts."""
    RNG.seed(value)


def pick(items):
    """One item of a sequence."""
    return items[int(RNG.random() * len(items))]


def chance(p):
    """True with probability p."""
    return RNG.random() < p


def sample(items, n):
    """n different items of a sequence."""
    return RNG.sample(items, n)


def rules(**named):
    """Register rules: name=[template, ...]."""
    for name, alternatives in named.items():
        RULES[name] = [compile_template(t) for t in alternatives]


def compile_template(text):
    """Template text -> tuple of parts: str, ('$', slot, field), ('|', alts), ('<', rule, args)."""
    done = _CACHE.get(text)
    if done is None:
        parts, at = _parse(text, 0, False)
        if at != len(text):
            raise ValueError(f"unbalanced braces in template: {text!r}")
        done = _CACHE[text] = parts
    return done


def _parse(text, at, nested):
    """Parse alternatives until the closing brace (or the end); return (parts, position)."""
    alternatives, parts = [], []
    while True:
        mark = _MARK.search(text, at)
        if mark is None:
            if nested:
                raise ValueError(f"missing brace in template: {text!r}")
            parts.append(text[at:])
            return tuple(p for p in parts if p != ""), len(text)
        parts.append(text[at : mark.start()])
        at = mark.end()
        sign = mark.group(0)
        if mark.group(1):
            parts.append(("$", mark.group(1), mark.group(2) or "n"))
        elif mark.group(3):
            parts.append(("<", mark.group(3), tuple((mark.group(4) or "").split(","))))
        elif sign == "{":
            inner, at = _parse(text, at, True)
            parts.append(inner)
        elif not nested:
            raise ValueError(f"stray {sign!r} in template: {text!r}")
        else:
            alternatives.append(tuple(p for p in parts if p != ""))
            parts = []
            if sign == "}":
                return ("|", tuple(alternatives)), at


def _expand(parts, world, out):
    for part in parts:
        if part.__class__ is str:
            out.append(part)
        elif part[0] == "|":
            _expand(pick(part[1]), world, out)
        elif part[0] == "$":
            value = world[part[1]]
            out.append(value if value.__class__ is str else _field(value, part[2]))
        else:
            _expand_rule(part, world, out)


def _field(entity, field):
    """A field of an entity; 'first' introduces it once and names it afterwards."""
    if field == "first":
        if "_seen" in entity:
            return entity["n"]
        field = "intro"
    if field == "intro":
        entity["_seen"] = True
    return entity[field]


def _expand_rule(part, world, out):
    _, name, args = part
    used = world.setdefault("_used", set())
    alternatives = RULES[name]
    choice = int(RNG.random() * len(alternatives))
    for _ in range(4):
        if (name, choice) not in used:
            break
        choice = int(RNG.random() * len(alternatives))
    used.add((name, choice))
    saved = world.get("x"), world.get("y")
    if args[0]:
        bound = [world[a] for a in args]
        world["x"] = bound[0]
        world["y"] = bound[1] if len(bound) > 1 else world["f" if args[0] == "h" else "h"]
    _expand(alternatives[choice], world, out)
    world["x"], world["y"] = saved


def expand(template, world=None):
    """Expand one template in a world; raw text, not yet polished."""
    out = []
    _expand(compile_template(template), {} if world is None else world, out)
    return "".join(out)


def polish(text):
    """Spaces, capitals at the start of sentences, a/an."""
    text = _SPACES.sub(" ", text)
    text = _BEFORE_MARK.sub(r"\1", text)
    text = text.replace("\n ", "\n").replace(" \n", "\n").strip()
    text = _SENTENCE.sub(_capital, text)
    return _ARTICLE.sub(_article, text)


def _capital(match):
    """Upper-case the first letter of a sentence, but not of the 'asked Mia' after '"Why?" '."""
    before = match.group(1).rstrip()
    if before.endswith(('?"', '!"')) and _TAG.match(match.string, match.start(2)):
        return match.group(0)
    return match.group(1) + match.group(2).upper()


_SMALL_WORDS = {
    "a",
    "an",
    "the",
    "of",
    "in",
    "on",
    "at",
    "to",
    "and",
    "who",
    "with",
    "for",
    "by",
    "is",
    "as",
}


def title_case(text):
    """A title: every word but the small ones with a capital."""
    words = polish(text).split(" ")
    return " ".join(
        w if i and w.lower() in _SMALL_WORDS else w[:1].upper() + w[1:] for i, w in enumerate(words)
    )


def _article(match):
    word = match.group(2)
    vowel = _AN.match(word) and not _NOT_AN.match(word)
    return match.group(1) + ("n " if vowel else " ")


def say(template, world=None):
    """Expand and polish."""
    return polish(expand(template, world))
