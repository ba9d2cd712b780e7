"""Builds the world of one story: hero, friend, elder, stranger, small creature, things, place, time.

Each is an entity: a dict of ready-made phrases, so that a template can ask for `$h.his` or `$o.a`.

    h  hero          f  friend            g  second friend     e  elder (family or wise neighbour)
    s  stranger who can help              c  small creature    o  the object of the story
    t  another object   p  place          q  another place     w  something to eat
    time  season and a line about its weather                  noun1, adj1  any words
"""

import lexicon as lex
from grammar import RNG, chance, expand, pick

HE = {"he": "he", "him": "him", "his": "his", "self": "himself", "He": "He", "His": "His"}
SHE = {"he": "she", "him": "her", "his": "her", "self": "herself", "He": "She", "His": "Her"}

HUMAN_HOMES = """a small house near the river|a yellow house at the end of the street|a tall house in the city|a farm far from town|
a little village by the sea|a white house on a hill|a flat above a bakery|a town with many bridges|a cottage at the edge of the woods|
a quiet street with big trees|a house with a blue door|a village in the mountains""".replace(
    "\n", ""
).split(
    "|"
)
THING_HOMES = """an old shop|a dusty attic|a busy town|a quiet village|a house by the sea|a small workshop|a garden shed|a big city|a cupboard|
a farm|a garage|a school|a land far away|a corner of a museum""".replace(
    "\n", ""
).split(
    "|"
)
HUMAN_SKILLS = "run very fast|draw nice pictures|sing well|build things|tell funny stories|climb trees|cook simple meals|fix things|ride a bicycle|swim well|count quickly|read big books".split(
    "|"
)

HUMAN_ELDERS = [
    ("mom", "she", "Mom"),
    ("dad", "he", "Dad"),
    ("grandma", "she", "Grandma"),
    ("grandpa", "he", "Grandpa"),
    ("mother", "she", "Mother"),
    ("father", "he", "Father"),
    ("aunt", "she", "Auntie"),
    ("uncle", "he", "Uncle"),
    ("big sister", "she", "Sister"),
    ("big brother", "he", "Brother"),
    ("mommy", "she", "Mommy"),
    ("daddy", "he", "Daddy"),
]
ANIMAL_ELDERS = [
    ("mother", "she", "Mother"),
    ("father", "he", "Father"),
    ("grandmother", "she", "Grandmother"),
    ("grandfather", "he", "Grandfather"),
    ("mama", "she", "Mama"),
    ("papa", "he", "Papa"),
]
WISE = [
    ("the wise old owl", "she", "Owl"),
    ("the old turtle", "he", "Turtle"),
    ("the grey badger", "he", "Badger"),
    ("the old goose", "she", "Goose"),
    ("the old elephant", "she", "Elephant"),
    ("the wise old crow", "he", "Crow"),
]

_KINDS = {row[0]: row for row in lex.ANIMALS + lex.FANTASY}
FANTASY_KINDS = {row[0] for row in lex.FANTASY}
FEMALE = {"hen", "cow", "princess", "queen", "mermaid", "witch", "fairy", "ladybug"}
MALE = {"king", "prince", "snowman"}
SMALL = "bird|mouse|frog|kitten|puppy|duckling|hedgehog|butterfly|baby rabbit|ladybug|squirrel|snail|bee|chick|turtle|lizard|fawn|owlet".split(
    "|"
)


def with_pronoun(entity, he):
    """Add the pronouns of 'he' or 'she' and the possessive of the name."""
    entity.update(HE if he == "he" else SHE)
    entity["s"] = entity["n"] + "'s"
    return entity


def common(names):
    """A name of a list, those at its beginning more often."""
    r = RNG.random()
    return names[int(len(names) * r * r)]


CONSONANTS, VOWELS = (
    "b d f g h j k l m n p r s t v w y z br dr fl gr kl pr st tr sh th ch".split(),
    "a e i o u a e i o ee oo ai".split(),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def made_up_name():
    """A name that stands in no list, so that the model learns to copy names."""
    kind = RNG.random()
    if kind < 0.15:
        return pick(lex.NOUNS).capitalize()
    if kind < 0.25:
        return "".join(pick(LETTERS) for _ in range(int(pick((3, 4, 5, 6))))).capitalize()
    name = "".join(pick(CONSONANTS) + pick(VOWELS) for _ in range(int(pick((1, 2, 2, 3)))))
    return (
        name + pick(("", "", "n", "r", "s", "l", "x", "th", "nd", "ck", "lla", "na"))
    ).capitalize()


def human(he=None, name=None, look=None):
    he = he or pick(("he", "she"))
    name = name or (
        made_up_name() if chance(0.04) else common(lex.BOYS if he == "he" else lex.GIRLS)
    )
    kind = "boy" if he == "he" else "girl"
    trait = pick(lex.TRAITS)
    look = look or pick(
        ("little", "young", trait, trait, "small", "little", "happy", pick(lex.MANNERS))
    )
    return with_pronoun(
        {
            "n": name,
            "k": kind,
            "the": f"the {pick(('little', 'young'))} {kind}" if chance(0.5) else f"the {kind}",
            "a": f"a {look} {kind}",
            "intro": f"a {look} {kind} {pick(('named', 'called'))} {name}",
            "trait": trait,
            "home": pick(HUMAN_HOMES),
            "good": pick(HUMAN_SKILLS),
            "food": pick(lex.FOODS),
            "call": name,
            "named": True,
            "sort": "human",
        },
        he,
    )


def animal(he=None, kind=None, name=None, named=None, adj=None):
    """An animal or a fantasy creature; named or just 'the fox'."""
    row = _KINDS.get(kind) or (
        pick(lex.ANIMALS)
        if kind is None
        else (kind, pick(THING_HOMES), "little|old|young|small", "help others", "bread")
    )
    kind = row[0]
    he = "she" if kind in FEMALE else "he" if kind in MALE else he or pick(("he", "she"))
    named = chance(0.65) if named is None else named
    adj = adj or pick(
        (lex.MANNERS if kind in _KINDS else lex.ADJECTIVES) if chance(0.4) else row[2].split("|")
    )
    sort = "fantasy" if kind in FANTASY_KINDS else "animal"
    if named:
        name = name or (
            made_up_name()
            if chance(0.05)
            else common((lex.BOYS if he == "he" else lex.GIRLS) if chance(0.3) else lex.PET_NAMES)
        )
        entity = {
            "n": name,
            "intro": f"a {adj} {kind} {pick(('named', 'called'))} {name}",
            "call": name,
        }
    else:
        adj_name = f"the {adj} {kind}" if chance(0.15) else f"the {kind}"
        entity = {
            "n": adj_name,
            "intro": f"a {adj} {kind}",
            "call": f"{kind}" if chance(0.4) else f"little {kind}",
        }
        if sort == "fantasy" or adj in ("big", "huge", "old", "strong", "tall"):
            entity["call"] = kind
    entity.update(
        {
            "k": kind,
            "the": f"the {kind}",
            "a": f"a {adj} {kind}",
            "trait": pick(lex.TRAITS),
            "home": row[1],
            "good": row[3],
            "food": row[4],
            "named": bool(named),
            "sort": sort,
        }
    )
    return with_pronoun(entity, he)


def elder_of(hero):
    """Someone older whom the hero trusts."""
    if hero["sort"] == "human" or chance(0.55):
        noun, he, call = pick(HUMAN_ELDERS if hero["sort"] == "human" else ANIMAL_ELDERS)
        name = f"{hero['his']} {noun}"
    else:
        name, he, call = pick(WISE)
        noun = name
    return with_pronoun(
        {
            "n": name,
            "k": noun,
            "the": name,
            "a": name,
            "call": call,
            "intro": name,
            "sort": "elder",
        },
        he,
    )


def stranger_for(hero, avoid):
    """Someone met on the way who can help."""
    if hero["sort"] == "human" and chance(0.75):
        intro, he, noun, doing = pick(lex.STRANGERS)
        return with_pronoun(
            {
                "n": f"the {noun}",
                "k": noun,
                "the": f"the {noun}",
                "a": intro,
                "intro": intro,
                "doing": doing,
                "call": "sir" if he == "he" else "madam",
                "good": "help",
                "sort": "human",
            },
            he,
        )
    while True:
        other = animal(named=chance(0.3))
        if other["k"] not in avoid and other["k"] not in ("whale", "fish", "dolphin", "octopus"):
            return other


def small_creature(avoid):
    kind = pick([k for k in SMALL if k not in avoid])
    row_adj = pick(("little", "tiny", "small", "wet", "frightened", "lost", "shivering"))
    return with_pronoun(
        {
            "n": f"the {row_adj} {kind}" if chance(0.2) else f"the {kind}",
            "k": kind,
            "the": f"the {kind}",
            "a": f"a {row_adj} {kind}",
            "intro": f"a {row_adj} {kind}",
            "call": f"little {kind}",
            "good": "help",
            "sort": "animal",
        },
        pick(("he", "she")),
    )


def toy(noun=None):
    rows = [r for r in lex.TOYS if r[0] == noun] if noun else None
    row = rows[0] if rows else pick(lex.TOYS)
    return thing_entity(*row)


def thing(noun=None):
    return thing_entity(
        noun or pick(lex.SMALL if chance(0.3) else lex.THINGS),
        "looked at it every day",
        "look at it",
        "it cracked down the middle",
        "glued the two halves together",
    )


def thing_entity(noun, did, infinitive, broke, mend):
    adj = pick(lex.COLOURS) if chance(0.55) else pick(lex.SIZES if chance(0.8) else lex.ADJECTIVES)
    if chance(0.12):
        adj = f"{pick(lex.SIZES[:5])} {pick(lex.COLOURS)}"
    if adj.split()[0] in ("little", "old", "round") and noun.split()[0] in ("little", "toy", "old"):
        adj = pick(lex.COLOURS)
    return {
        "n": noun,
        "a": f"{adj} {noun}",
        "adj": adj,
        "did": did,
        "inf": infinitive,
        "broke": broke,
        "mend": mend,
    }


def place(sort=None, noun=None):
    """A place of one of the sorts ('out water woods'), or the named one."""
    rows = [
        r
        for r in lex.PLACES
        if (noun is None or r[1] == noun) and (sort is None or r[0] in sort.split())
    ]
    sort_, name, at, to, sights = pick(rows or lex.PLACES)
    see = RNG.sample(sights.split("|"), 2)
    return {
        "n": f"the {name}",
        "k": name,
        "at": at,
        "to": to,
        "see": see[0],
        "saw": see[1],
        "sort": sort_,
    }


def time_of_day():
    season, text = pick(lex.SEASONS)
    return {"n": season, "line": _weather(text)}


def _weather(text):
    """One line out of 'a.|b.|c.' whose lines may hold {x|y} themselves."""
    lines, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch == "{") - (ch == "}")
        if ch == "|" and depth == 0:
            lines.append(text[start:i])
            start = i + 1
    return pick(lines + [text[start:]])


def hero_for(who, wish, plot_kinds=None):
    """A hero of a sort that the plot allows ('child animal fantasy')."""
    if "hero_kind" in wish:
        kind = wish["hero_kind"]
        if kind in ("boy", "girl"):
            return human("he" if kind == "boy" else "she", wish.get("name"), wish.get("adj"))
        return animal(
            kind=kind,
            name=wish.get("name"),
            named=True if wish.get("name") else None,
            adj=wish.get("adj"),
        )
    if "name" in wish:
        return human(wish.get("he"), wish["name"])
    if plot_kinds and (who.split() != ["child"]) and chance(0.9):
        return animal(kind=pick(plot_kinds.split("|")))
    sort = pick(who.split())
    if sort == "child":
        return human()
    if sort == "animal" and chance(0.1):
        return animal(kind=pick(lex.NOUNS))
    return animal(kind=pick(lex.FANTASY)[0] if sort == "fantasy" else None)


def friend_of(hero, taken, named=None):
    he = None if chance(0.25) else "she" if hero["he"] == "he" else "he"
    while True:
        if hero["sort"] == "human":
            other = human(he)
        elif hero["sort"] == "fantasy" and chance(0.3):
            other = human(he)
        else:
            other = animal(he, named=True if named or hero["named"] else None)
        if other["n"] not in taken and other["k"] not in taken:
            return other


def people(plot, wish):
    """The persons of a story: no two share a name, no two animals a kind."""
    hero = hero_for(plot.get("who", "child child animal"), wish, plot.get("hero"))
    taken = {hero["n"]} | ({hero["k"]} if hero["sort"] != "human" else set())
    friend = friend_of(hero, taken, plot.get("named"))
    taken |= {friend["n"]} | ({friend["k"]} if friend["sort"] != "human" else set())
    second = friend_of(hero, taken, plot.get("named"))
    taken |= {second["n"], second["k"]}
    return {
        "h": hero,
        "f": friend,
        "g": second,
        "e": elder_of(hero),
        "s": stranger_for(hero, taken),
        "c": small_creature(taken),
    }


def build(plot, wish=None, known=None):
    """The world of one story; `wish` may fix name, hero_kind, thing, place; `known` people stay."""
    wish = wish or {}
    cast = known or people(plot, wish)
    obj = (
        toy(wish.get("thing")) if plot.get("object", "thing") == "toy" else thing(wish.get("thing"))
    )
    other = thing()
    while other["n"] == obj["n"]:
        other = thing()
    sort = plot.get("place", "out water woods farm")
    here = place(sort, wish.get("place"))
    there = place()
    while there["k"] == here["k"]:
        there = place()
    world = dict(
        cast,
        _intro="hero_kind" in wish,
        _meets=plot.get("meets"),
        occasion=wish.get("occasion", ""),
        o=obj,
        t=other,
        p=here,
        q=there,
        w=pick(lex.FOODS),
        time=time_of_day(),
        food=cast["h"].get("food", "bread"),
        colour=pick(lex.COLOURS),
        noun1=pick(lex.NOUNS),
        adj1=pick(lex.ADJECTIVES),
    )
    for name, values in plot.get("vars", {}).items():
        world[name] = _pick_variable(values, world)
    return world


def _pick_variable(values, world):
    value = pick(values)
    if isinstance(value, str):
        return expand(value, world)
    return {field: expand(text, world) for field, text in value.items()}
