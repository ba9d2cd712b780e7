"""Checks structured output against other implementations: python tools/check_grammar.py WALKER VOCAB.gguf [options]

WALKER is the program grammar_walker (tests/grammar/walker.c), VOCAB a GGUF file with a tokenizer.
Needs jsonschema and rfc3339-validator; with --llama also llama-cpp-python.

schemas: random JSON Schemas; every text walked through the token masks must validate with the
jsonschema package, and random valid instances must be accepted.  regex: verdicts on random strings
against Python's re.  gbnf: verdicts against llama.cpp's grammar engine.
--write FILE keeps the first cases, as lines of JSON, for the project's own tests."""
import argparse
import datetime
import json
import random
import re
import subprocess
import sys
import uuid

WORDS = ["a", "name", "x y", "größe", "日本", "q\"uote", "back\\slash", "tab\t", "", "😀", "id", "Z9"]
PATTERNS = [("^[a-z]+$", lambda r: "".join(r.choice("abcxyz") for _ in range(r.randint(1, 6)))),
            ("^\\d{3}-\\w+$", lambda r: f"{r.randint(0, 999):03d}-{r.choice(['a_1', 'Zz', '0'])}"),
            ("foo|^ba[rz]", lambda r: r.choice(["foo", "xfooy", "bar", "bazaar"])),
            ("^(ab?c)*\"?$", lambda r: "".join(r.choice(["abc", "ac"]) for _ in range(r.randint(0, 3))) + r.choice(["", '"'])),
            ("é.$", lambda r: r.choice(["é1", "zzé日"]))]


class Gen:
    """A random schema, and for it a function that makes valid instances."""

    def __init__(self, rng):
        self.r = rng
        self.defs = {}

    def schema(self, depth):
        r = self.r
        kinds = ["string", "string", "integer", "number", "enum", "const", "boolean", "null", "any", "types"]
        if depth > 0:
            kinds += ["object"] * 6 + ["array"] * 4 + ["anyOf", "allOf", "oneOf", "ref", "prefix", "tree", "tagged"]
        return getattr(self, "make_" + r.choice(kinds))(depth)

    def text(self):
        return "".join(self.r.choice(WORDS) for _ in range(self.r.randint(0, 3)))

    def make_string(self, depth):
        r = self.r
        kind = r.randint(0, 4)
        if kind == 0:
            return {"type": "string"}, self.text
        if kind == 1:
            lo = r.randint(0, 5)
            hi = lo + r.choice([0, 1, 5, 40, 3000])
            return ({"type": "string", "minLength": lo, "maxLength": hi},
                    lambda: "".join(r.choice("aé日😀\"\\ ") for _ in range(r.randint(lo, min(hi, lo + 60)))))
        if kind == 2:
            p, f = r.choice(PATTERNS)
            return {"type": "string", "pattern": p}, lambda: f(r)
        if kind == 3:
            return {"type": "string", "minLength": 2, "pattern": "^[a-c]*$"}, lambda: "".join(r.choice("abc") for _ in range(r.randint(2, 9)))
        f = r.choice(["date", "time", "date-time", "uuid", "ipv4"])
        day = lambda: datetime.date(r.randint(1, 9999), r.randint(1, 12), r.randint(1, 28)).isoformat()
        time = lambda: f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}" + r.choice(["", ".5", ".123456"]) + r.choice(["Z", "+05:30", "-23:59"])
        return {"type": "string", "format": f}, {
            "date": day, "time": time, "date-time": lambda: day() + "T" + time(),
            "uuid": lambda: str(uuid.UUID(int=r.getrandbits(128))),
            "ipv4": lambda: ".".join(str(r.randint(0, 255)) for _ in range(4))}[f]

    def make_integer(self, depth):
        r = self.r
        s = {"type": "integer"}
        size = r.choice([3, 20, 1000, 10**6, 10**12, 2**53])
        lo, hi = -size, size
        if r.random() < 0.6:
            lo = r.randint(-size, size)
            if r.random() < 0.3:
                s["exclusiveMinimum"] = lo - 1
            else:
                s["minimum"] = r.choice([lo, lo - 0.5]) if abs(lo) < 2**50 else lo
            hi = max(lo, hi)
        if r.random() < 0.6:
            hi = r.randint(lo, lo + 2 * size)
            if r.random() < 0.3:
                s["exclusiveMaximum"] = hi + 1
            else:
                s["maximum"] = hi
        return s, lambda: r.choice([lo, hi, r.randint(lo, hi)])

    def make_number(self, depth):
        r = self.r
        if r.random() < 0.4:
            return {"type": "number"}, lambda: r.choice([0, -1, 2.5, 1e-7, -1.5e300, 12345678901234567890, 0.1, -0.0])
        places = r.randint(0, 4)
        unit = 10**places
        lo = r.randint(-2000, 2000)
        hi = lo + r.choice([2, 30, 5000])
        s = {"type": "number"}
        s[r.choice(["minimum", "exclusiveMinimum"])] = lo / unit
        s[r.choice(["maximum", "exclusiveMaximum"])] = hi / unit
        from decimal import Decimal
        return s, lambda: float(Decimal(r.randint(lo * 100 + 1, hi * 100 - 1)) / (unit * 100))

    def constant(self, depth=2):
        r = self.r
        k = r.randint(0, 7 if depth else 5)
        if k == 6:
            return [self.constant(depth - 1) for _ in range(r.randint(0, 3))]
        if k == 7:
            return {r.choice(WORDS): self.constant(depth - 1) for _ in range(r.randint(0, 3))}
        return [None, True, r.randint(-99, 99), self.text(), 2.5, 1e100][k]

    def make_enum(self, depth):
        values = [self.constant() for _ in range(self.r.randint(1, 8))]
        return {"enum": values}, lambda: self.r.choice(values)

    def make_const(self, depth):
        v = self.constant()
        return {"const": v}, lambda: v

    def make_boolean(self, depth):
        return {"type": "boolean"}, lambda: self.r.random() < 0.5

    def make_null(self, depth):
        return {"type": "null"}, lambda: None

    def make_any(self, depth):
        return self.r.choice([{}, True, {"title": "t", "description": "d"}]), self.constant

    def make_types(self, depth):
        r = self.r
        return ({"type": ["string", "null", "integer"], "minimum": 3, "maxLength": 4},
                lambda: r.choice([None, "abcd", 3, 77, ""]))

    def make_object(self, depth):
        r = self.r
        s = {"type": "object", "properties": {}}
        fields = {}
        for name in r.sample(WORDS, r.randint(0, 5)):
            s["properties"][name], fields[name] = self.schema(depth - 1)
        required = [n for n in fields if r.random() < 0.5]
        if required:
            s["required"] = required
        mode = r.choice(["false", "false", "open", "schema", "pattern"])
        extra = None
        if mode == "false":
            s["additionalProperties"] = False
        elif mode == "schema":
            s["additionalProperties"], extra = self.schema(0)
        elif mode == "pattern":
            s["additionalProperties"] = False
            s["patternProperties"] = {"^p_": {"type": "integer"}}
            extra = lambda: r.randint(0, 9)

        def make():
            out = {n: f() for n, f in fields.items() if n in required or r.random() < 0.5}
            if extra or mode == "open":
                for _ in range(r.randint(0, 2)):
                    name = ("p_" if mode == "pattern" else "+") + str(r.randint(0, 99))
                    out[name] = extra() if extra else self.constant()
            return out
        return s, make

    def make_array(self, depth):
        r = self.r
        items, f = self.schema(depth - 1)
        lo = r.choice([0, 0, 1, 3])
        hi = r.choice([None, lo, lo + 2, 500])
        s = {"type": "array", "items": items}
        if lo:
            s["minItems"] = lo
        if hi is not None:
            s["maxItems"] = hi
        top = lo + 3 if hi is None else min(hi, lo + 3)
        return s, lambda: [f() for _ in range(r.randint(lo, top))]

    def make_prefix(self, depth):
        r = self.r
        pairs = [self.schema(depth - 1) for _ in range(r.randint(1, 3))]
        s = {"type": "array", "prefixItems": [p[0] for p in pairs], "items": False}
        return s, lambda: [p[1]() for p in pairs[:r.randint(0, len(pairs))]]

    def make_anyOf(self, depth):
        pairs = [self.schema(depth - 1) for _ in range(self.r.randint(1, 3))]
        return {"anyOf": [p[0] for p in pairs]}, lambda: self.r.choice(pairs)[1]()

    def make_oneOf(self, depth):
        a, f = self.make_integer(depth)
        b, g = self.make_string(depth)
        return {"oneOf": [a, b, {"type": "null"}]}, lambda: self.r.choice([f, g, lambda: None])()

    def make_allOf(self, depth):
        r = self.r
        if r.random() < 0.5:
            return ({"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 20}], "exclusiveMaximum": 20},
                    lambda: r.randint(5, 19))
        a, f = self.schema(depth - 1)
        b, g = self.schema(depth - 1)
        return ({"allOf": [{"type": "object", "properties": {"l": a}, "required": ["l"]},
                           {"properties": {"r": b}}]},
                lambda: {"l": f(), "r": g()})

    def make_tagged(self, depth):
        a, f = self.schema(depth - 1)
        b, g = self.schema(depth - 1)
        case = lambda tag, body: {"type": "object", "properties": {"kind": {"const": tag}, "body": body},
                                  "required": ["kind", "body"], "additionalProperties": False}
        return ({"oneOf": [case("a", a), case("b", b)]},
                lambda: self.r.choice([lambda: {"kind": "a", "body": f()}, lambda: {"kind": "b", "body": g()}])())

    def make_ref(self, depth):
        name = f"d{len(self.defs)}~/"
        self.defs[name] = None
        self.defs[name], f = self.schema(depth - 1)
        return {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1")}, f

    def make_tree(self, depth):
        r = self.r
        name = f"t{len(self.defs)}"
        leaf, f = self.schema(0)
        me = {"$ref": "#/$defs/" + name}
        self.defs[name] = {"type": "object", "properties": {"v": leaf, "kids": {"type": "array", "items": me}, "next": {"anyOf": [{"type": "null"}, me]}},
                           "required": ["v"], "additionalProperties": False}

        def make(level=2):
            out = {"v": f()}
            if r.random() < 0.6:
                out["kids"] = [make(level - 1) for _ in range(r.randint(0, 2))] if level else []
            if r.random() < 0.6:
                out["next"] = make(level - 1) if level and r.random() < 0.5 else None
            return out
        return me, make

    def whole(self):
        s, f = self.schema(self.r.randint(0, 3))
        if self.defs:
            s = {"$defs": self.defs, **s} if isinstance(s, dict) else s
        return s, f


class Walker:
    def __init__(self, program, vocab):
        self.p = subprocess.Popen([program, vocab], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **job):
        self.p.stdin.write(json.dumps(job) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"the walker ended on {json.dumps(job)}")
        return json.loads(line)


def validator_of(schema):
    import jsonschema
    from jsonschema import Draft202012Validator, validators

    def pattern(v, p, instance, s):  # ECMA-262's \d, \w, \s are ASCII, as in re.ASCII
        if v.is_type(instance, "string") and not re.search(p, instance, re.ASCII):
            yield jsonschema.ValidationError(f"{instance!r} does not match {p!r}")
    cls = validators.extend(Draft202012Validator, {"pattern": pattern})
    return cls(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def check_schemas(walker, n, first_seed, keep):
    n_walks = n_open = n_instances = n_refused = 0
    bad = []
    for seed in range(first_seed, first_seed + n):
        r = random.Random(seed)
        schema, make = Gen(r).whole()
        validator = validator_of(schema)
        instances = []
        for _ in range(3):
            v = make()
            if not validator.is_valid(v):
                continue  # allOf and anyOf of random parts may contradict each other
            sep = r.choice([(",", ":"), (", ", ": ")])
            instances.append(json.dumps(v, ensure_ascii=False, separators=sep))
        text = json.dumps(schema, ensure_ascii=r.random() < 0.5)
        got = walker.ask(language="schema", text=text, check=instances, walks=3, seed=seed)
        if "error" in got:
            n_refused += 1
            bad.append(f"seed {seed}: {text[:300]}: {got['error']}")
            continue
        for instance, ok in zip(instances, got["accepts"]):
            n_instances += 1
            if not ok:
                bad.append(f"seed {seed}: {text[:600]}: valid but not accepted: {instance}")
        for walk in got["walks"]:
            if walk is None:
                n_open += 1
                continue
            n_walks += 1
            try:
                errors = [e.message for e in validator.iter_errors(json.loads(walk))]
            except ValueError as e:
                errors = [str(e)]
            if errors:
                bad.append(f"seed {seed}: {text[:600]}: walked {walk[:300]!r}: {errors[0][:200]}")
        if keep is not None:
            keep.append({"schema": text, "valid": instances})
    print(f"schemas: {n}, {n_refused} refused, {n_walks} walks valid or reported, {n_open} without an end, "
          f"{n_instances} instances, {len(bad)} findings")
    return bad


def random_regex(r, depth=3):
    k = r.randint(0, 9 if depth else 4)
    if k <= 2:
        return r.choice(["a", "b", "c", "é", "\\.", "\\n", "0", "\\x41", "\\u00e9"])
    if k == 3:
        return r.choice([".", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S"])
    if k == 4:
        return r.choice(["[abc]", "[^a]", "[a-c0-9]", "[^\\d]", "[\\w.-]", "[é日]", "[]\\]a]".replace("[]", "[")])
    sub = lambda: random_regex(r, depth - 1)
    if k in (5, 6):
        return "".join(sub() for _ in range(r.randint(1, 3)))
    if k == 7:
        return r.choice(["(", "(?:", "(?P<n%d>" % r.getrandbits(30)]) + "|".join(sub() for _ in range(r.randint(1, 3))) + ")"
    return "(?:" + sub() + ")" + r.choice(["*", "+", "?", "{2}", "{1,3}", "{0,90}", "{2,}", "*?", "+?"])


def check_regex(walker, n, first_seed, keep):
    bad, n_strings, n_refused = [], 0, 0
    for seed in range(first_seed, first_seed + n):
        r = random.Random(seed)
        pattern = "|".join(random_regex(r) for _ in range(r.choice([1, 1, 2])))
        compiled = re.compile(pattern, re.ASCII)
        strings = ["".join(r.choice("abcé日0 .\n_A-") for _ in range(r.randint(0, 7))) for _ in range(20)]
        got = walker.ask(language="regex", text=pattern, check=strings, walks=4, seed=seed)
        if got.get("error") == "too ambiguous":
            n_refused += 1
            continue
        if "error" in got:
            bad.append(f"regex seed {seed}: {pattern!r}: {got['error']}")
            continue
        for s, ok in zip(strings + [w for w in got["walks"] if w is not None],
                         got["accepts"] + [True] * 4):
            n_strings += 1
            if bool(compiled.fullmatch(s)) != ok:
                bad.append(f"regex seed {seed}: {pattern!r} on {s!r}: {ok}")
        if keep is not None:
            keep.append({"regex": pattern, "check": strings, "accepts": got["accepts"]})
    print(f"regex: {n}, {n_refused} too ambiguous, {n_strings} strings, {len(bad)} findings")
    return bad


def random_gbnf(r):
    names = ["root"] + [f"r{i}" for i in range(r.randint(1, 4))]

    def element(depth, later):
        k = r.randint(0, 8)
        if k <= 2 or (k >= 6 and not depth):
            return json.dumps(r.choice(["a", "b", "ab", "é", "\n", "\"", "0"]), ensure_ascii=False)
        if k <= 4:
            return r.choice(["[a-c]", "[^a]", "[ab\\x30-\\x39]", "[é\\U0001F600]", "."])
        if k == 5 and later:
            return r.choice(later)
        if k == 5:
            return '"c"'
        inner = " | ".join(sequence(depth - 1, later) for _ in range(r.randint(1, 2)))
        return "(" + inner + ")" + r.choice(["", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,80}"])

    def sequence(depth, later):
        return " ".join(element(depth, later) for _ in range(r.randint(1, 3)))
    lines = []
    for i, name in enumerate(names):
        later = names[i + 1:]
        alts = [sequence(2, later) for _ in range(r.randint(1, 3))]
        if r.random() < 0.3:  # recursion behind a character
            alts.append('"(" ' + r.choice(names[:i + 1]) + ' ")"')
        lines.append(f"{name} ::= " + " | ".join(alts) + r.choice(["", " # a comment"]))
    return "\n".join(lines) + "\n"


class Llama:
    """llama.cpp's verdict: which tokens of a vocabulary its grammar sampler leaves alive."""

    def __init__(self, vocab_path):
        import llama_cpp
        self.l = llama_cpp
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(vocab_path.encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.eos = llama_cpp.llama_vocab_eos(self.vocab)
        self.of_byte = {}

    def tokens(self, text):
        import ctypes
        data = text.encode()
        out = (self.l.llama_token * (len(data) + 8))()
        n = self.l.llama_tokenize(self.vocab, data, len(data), out, len(data) + 8, False, False)
        return list(out[:n])

    def accepts(self, grammar, text):
        """None when llama.cpp refuses the grammar."""
        import ctypes
        s = self.l.llama_sampler_init_grammar(self.vocab, grammar.encode(), b"root")
        if not s:
            return None
        try:
            for t in self.tokens(text) + [self.eos]:
                data = (self.l.llama_token_data * 1)()
                data[0].id, data[0].logit, data[0].p = t, 0.0, 0.0
                array = self.l.llama_token_data_array(data, 1, -1, False)
                self.l.llama_sampler_apply(s, ctypes.byref(array))
                if data[0].logit == float("-inf"):
                    return False
                if t != self.eos:
                    self.l.llama_sampler_accept(s, t)
            return True
        finally:
            self.l.llama_sampler_free(s)


def check_gbnf(walker, n, first_seed, llama, keep):
    bad, n_strings, n_skipped = [], 0, 0
    for seed in range(first_seed, first_seed + n):
        r = random.Random(seed)
        grammar = random_gbnf(r)
        strings = ["".join(r.choice("abé\n\"0c()") for _ in range(r.randint(0, 6))) for _ in range(12)]
        got = walker.ask(language="gbnf", text=grammar, check=strings, walks=3, seed=seed)
        if "error" in got:
            n_skipped += 1
            if "left recursion" not in got["error"] and "empty" not in got["error"] and "too ambiguous" not in got["error"]:
                bad.append(f"gbnf seed {seed}: {grammar!r}: {got['error']}")
            continue
        walks = [w for w in got["walks"] if w is not None and len(w) < 200]
        for s, ok in zip(strings + walks, got["accepts"] + [True] * 3) if llama else []:
            other = llama.accepts(grammar, s)
            if other is None:
                n_skipped += 1
                break
            n_strings += 1
            if other != ok:
                bad.append(f"gbnf seed {seed}: {grammar!r} on {s!r}: {ok}, llama.cpp says {other}")
        if keep is not None:
            keep.append({"gbnf": grammar, "check": strings, "accepts": got["accepts"]})
    print(f"gbnf: {n}, {n_skipped} refused by one of both, {n_strings} strings, {len(bad)} findings")
    return bad


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("walker")
    a.add_argument("vocab")
    a.add_argument("--schemas", type=int, default=10000)
    a.add_argument("--regex", type=int, default=2000)
    a.add_argument("--gbnf", type=int, default=1000)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--llama", action="store_true", help="compare GBNF with llama.cpp")
    a.add_argument("--write", metavar="FILE")
    o = a.parse_args()
    walker = Walker(o.walker, o.vocab)
    keep = [] if o.write else None
    bad = check_schemas(walker, o.schemas, o.seed, keep)
    bad += check_regex(walker, o.regex, o.seed, keep)
    bad += check_gbnf(walker, o.gbnf, o.seed, Llama(o.vocab) if o.llama else None, keep)
    for line in bad[:40]:
        print(line)
    if o.write:
        with open(o.write, "w", encoding="utf-8") as f:
            for case in keep:
                f.write(json.dumps(case, ensure_ascii=False) + "\n")
    sys.exit(1 if bad else 0)


main()
