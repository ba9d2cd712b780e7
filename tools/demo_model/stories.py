"""Stories: a plot, a world, a length; the beats joined into a text, with questions it answers."""

import re

import lexicon as lex
import phrases  # noqa: F401  (registers the shared rules)
import plots_everyday
import plots_nature
import plots_wonder
import world as worlds
from grammar import chance, expand, pick, polish, sample, say, title_case

PLOTS = plots_everyday.PLOTS + plots_nature.PLOTS + plots_wonder.PLOTS
OBJECT_PLOTS = [p for p in PLOTS if p.get("object")]
PLOTS_AT = {
    sort: [p for p in PLOTS if sort in p.get("place", "out water woods farm").split()]
    for sort in ("out", "water", "woods", "home", "school", "town", "farm")
}
HERO_SORTS = {
    "child": [p for p in PLOTS if "child" in p.get("who", "child animal")],
    "animal": [p for p in PLOTS if "animal" in p.get("who", "child animal")],
    "fantasy": [
        p
        for p in PLOTS
        if "fantasy" in p.get("who", "") or "animal" in p.get("who", "child animal")
    ],
}


THEMES = {
    "friends": "friendship|friends|good friends",
    "kind": "kindness|being kind|someone kind",
    "brave": "courage|being brave|bravery",
    "honest": "honesty|telling the truth|the truth",
    "share": "sharing|sharing with others",
    "patient": "patience|waiting|taking time",
    "help": "helping others|helping each other|team work",
    "practice": "hard work|not giving up|trying again",
    "home": "home|coming home|a family",
    "enough": "happiness|being happy with what you have|the small things",
    "curious": "curiosity|a discovery|wonder",
    "careful": "being careful|taking care of things",
    "proud": "pride|boasting",
    "greedy": "greed|wanting too much",
    "self": "being yourself|being different",
    "look": "not judging others|looking closely",
    "listen": "listening|good advice",
    "tidy": "order|being tidy",
}


class Story:
    """A finished story: title, text, the plot and the world that made it."""

    def __init__(self, plot, world, paragraphs):
        self.plot, self.world = plot, world
        self.paragraphs = [polish(p) for p in paragraphs if p.strip()]
        self.title = title_case(expand(pick(plot["title"]), world))

    def text(self, style=None):
        style = style or ("paragraphs" if chance(0.6) else "one")
        return ("\n\n" if style == "paragraphs" else " ").join(self.paragraphs)

    def topic(self):
        """What the story is about, as somebody might ask for it."""
        if chance(0.2):
            return pick(THEMES[pick(self.plot["moral"].split())].split("|"))
        return expand(pick(self.plot["topic"]), self.world)

    def summary(self):
        return expand(self.plot["sum"], self.world)

    def questions(self):
        """(question, answer) pairs that this very story answers."""
        world, text = self.world, " ".join(self.paragraphs)
        pairs = [(say(q, world), say(a, world)) for q, a in self.plot["qa"]]
        hero = world["h"]
        pairs += [
            (
                pick(
                    (
                        "Who is the story about?",
                        "Who is the hero of the story?",
                        "Who is the main character?",
                    )
                ),
                (
                    f"The story is about {hero['n']}."
                    if "_bare" in world
                    else polish(
                        f"The story is about {hero['n']}, {hero['a']}."
                        if hero["named"]
                        else f"The story is about {hero['a']}."
                    )
                ),
            ),
            ("What is the story about?", say(f"It is about {self.plot['sum']}.", world)),
        ]
        if world["p"]["k"] in text:
            pairs.append(
                (
                    pick(
                        (
                            "Where does the story happen?",
                            "Where were they?",
                            f"Where was {hero['n']}?",
                        )
                    ),
                    say("It happens $p.at.", world) if chance(0.5) else say("$h was $p.at.", world),
                )
            )
        if world["f"].get("_seen") and world["f"].get("named"):
            pairs.append(
                (f"Who is {world['f']['n']}?", polish(f"{world['f']['n']} is {world['f']['a']}."))
            )
        return pairs


def choose_plot(wish):
    """A plot that can grant the wish."""
    if "plot" in wish:
        return wish["plot"]
    if "thing" in wish:
        return pick(OBJECT_PLOTS)
    if "place" in wish:
        sort = next(row[0] for row in lex.PLACES if row[1] == wish["place"])
        return pick(PLOTS_AT[sort])
    if "hero_kind" in wish:
        kind = wish["hero_kind"]
        sort = (
            "child"
            if kind in ("boy", "girl")
            else "fantasy" if kind in worlds.FANTASY_KINDS else "animal"
        )
        return pick(
            [p for p in HERO_SORTS[sort] if "hero" not in p or kind in p["hero"].split("|")]
        )
    if "name" in wish:
        return pick(HERO_SORTS["child"])
    return pick(PLOTS)


def make(wish=None, length=None):
    """One story; it names the thing and the place that were wished for."""
    wish = wish or {}
    story = _make(wish, length)
    while not _granted(story, wish):
        story = _make(wish, length)
    return story


def _granted(story, wish):
    text = " ".join(story.paragraphs)
    return wish.get("thing", "") in text and ("place" not in wish or story.world["p"]["k"] in text)


def _make(wish, length):
    """length: 'short', 'medium' or 'long' (by chance if not given)."""
    length = length or pick(("short", "medium", "medium", "long"))
    plot = choose_plot(wish)
    world = worlds.build(plot, wish)
    parts = episode(plot, world, length, first=True)
    if length == "long" and chance(0.25):
        second = pick([p for p in PLOTS if p["name"] != plot["name"] and _fits(p, world["h"])])
        again = worlds.build(second, {}, {k: world[k] for k in "hfgesc"})
        again["_used"] = world["_used"]
        parts = parts[:-1] + episode(second, again, "short", first=False)
    return Story(plot, world, parts)


def _fits(plot, hero):
    sort = {"human": "child"}.get(hero["sort"], hero["sort"])
    return sort in plot.get("who", "child animal").split() and "hero" not in plot


def episode(plot, world, length, first):
    """The paragraphs of one plot; the last one is the ending."""

    def one(beat):
        return expand(pick(plot[beat]), world)

    indoors = world["p"]["sort"] in ("home", "school")
    side = "<side_in>" if indoors else "<side_out>"
    start = (
        _beginning(world)
        if first
        else pick(
            (
                "The next day came.",
                "But that was not all.",
                "A week later, something else happened.",
                "Then came another day.",
                "That is not the end of the story.",
            )
        )
    )
    opening = [start, one("open")]
    if length != "short" and chance(0.45):
        opening.append(expand(side, world))
    trouble = [one("trouble")]
    if length != "short" or chance(0.5):
        trouble.append(one("feel"))
    attempts = _attempts(plot, world, length)
    solution = [one("fix")]
    if length == "long" and chance(0.5):
        solution.append(
            expand(pick(("<glad:h>", "<glad:f>")) if world["f"].get("_seen") else "<glad:h>", world)
        )
    closing = [one("close")]
    if length != "short" and chance(0.3):
        closing.append(expand(pick(("<eat>", "<home_again>")), world))
    return [
        " ".join(opening),
        " ".join(trouble),
        " ".join(attempts),
        " ".join(solution),
        " ".join(closing + _ending(plot, world, length)),
    ]


def _beginning(world):
    """The sentences before the plot; sometimes none, and the plot begins at once."""
    r = pick(range(100))
    if world["occasion"]:
        return expand("<begin_occasion>", world)
    if r >= 88 and not world["_meets"]:
        return expand("<begin_friends>", world)
    if r < 22 and world["h"]["named"] and not world["_intro"]:
        world["h"]["_seen"] = world["_bare"] = True
        return ""
    return expand("<begin>" if r < 72 else "<begin_scene>" if r < 87 else "<begin_in>", world)


def _attempts(plot, world, length):
    tries = plot.get("tries", [])
    count = {"short": 0, "medium": pick((0, 1, 1)), "long": pick((1, 2, 2))}[length]
    chosen = sorted(sample(range(len(tries)), min(count, len(tries))))
    out = [expand(tries[i], world) for i in chosen]
    if out and "practice" in plot["moral"] and chance(0.4):
        out.append(expand("<try_again:h>", world))
    return out


def _ending(plot, world, length):
    out = []
    if not plot.get("nomoral") and chance({"short": 0.35, "medium": 0.5, "long": 0.6}[length]):
        out.append(expand(f"<moral_{pick(plot['moral'].split())}>", world))
    if world["occasion"] and chance(0.5):
        out.append(expand("<end_occasion>", world))
    elif chance(0.55) or not out:
        out.append(expand("<end_happy>", world))
    return out


def title_of(story):
    """The title of the plot, or one made of the hero and what he meets."""
    world, h = story.world, story.world["h"]
    if chance(0.6):
        return story.title
    other = (
        world["f"]["k"]
        if world["f"].get("_seen") and world["f"]["sort"] != "human"
        else world["o"]["n"]
    )
    return title_case(
        pick(
            (
                f"The {h['k']} and the {other}",
                f"{h['n']}",
                f"The story of {h['n']}",
                f"{h['n']} and the {other}",
                f"The {h['k']}",
            )
        )
    )


def document(title=0.2):
    """A plain story as it stands in the corpus, now and then with a title."""
    story = make()
    text = story.text()
    return f"{title_of(story)}\n\n{text}" if chance(title) else text


def sentences(text):
    return re.split(r'(?<=[.!?])\s+|(?<=[.!?]")\s+', text)
