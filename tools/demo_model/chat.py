"""Conversations of one or more turns: questions, follow-ups, things to remember, stories."""

import re

import facts
import lexicon as lex
import stories
import talk
from grammar import chance, pick, polish, sample, say
from questions import (
    ANIMALS,
    COLOURS,
    COUNTRIES,
    DAYS,
    JOBS,
    OPPOSITES,
    SIMPLE_BAG,
    SYSTEMS,
    legs_phrase,
    a,
    from_block,
    q_colour,
    q_definition,
    q_job,
    q_opposite,
    q_use,
    rough,
)


def simple_turn():
    asked, answered = pick(SIMPLE_BAG)()
    return [(rough(asked), answered)]


def one_of(text):
    """One of the texts between the bars."""
    return pick(text.split("|"))


def follow_up():
    """A question, and 'And ...?' about another row of the same table."""
    return pick(
        (
            more_capitals,
            more_opposites,
            more_colours,
            more_sums,
            more_animals,
            more_days,
            more_jokes,
        )
    )()


def more_capitals():
    rows = sample(COUNTRIES, 2 + chance(0.4))
    country, capital = rows[0][:2]
    turns = [
        (
            rough(f"What is the capital of {country}?"),
            say(f"The capital of {country} is {capital}."),
        )
    ]
    for country, capital, _, _ in rows[1:]:
        asked = say(
            f"{{And of {country}?|And {country}?|What about {country}?"
            f"|and the capital of {country}?}}"
        )
        turns.append((asked, say(f"The capital of {country} is {capital}.")))
    return turns


def more_opposites():
    (x, y), (v, w) = sample(OPPOSITES, 2)
    return [
        (rough(f"What is the opposite of {x}?"), say(f"The opposite of {x} is {y}.")),
        (
            say(f"{{And of {v}?|And the opposite of {v}?|What about {v}?}}"),
            say(f"The opposite of {v} is {w}."),
        ),
    ]


def more_colours():
    (x, colour), (y, other) = sample(COLOURS, 2)
    return [
        (rough(f"What colour is {x}?"), say(f"{x} is {colour}.")),
        (say(f"{{And {y}?|What about {y}?}}"), say(f"{y} is {other}.")),
    ]


def more_animals():
    first, second = sample(ANIMALS, 2)
    x, y = a(first[0]), a(second[0])
    turns = [
        (rough(say(f"What does {x} eat?")), say(f"{x} eats {first[3]}.")),
        (say("And where does it live?"), say(f"{x} lives {first[2]}.")),
        (say(f"{{And what does {y} eat?|What about {y}?}}"), say(f"{y} eats {second[3]}.")),
    ]
    return turns[: pick((2, 3))]


def more_days():
    i = int(pick(range(7)))
    today, next_day, last = DAYS[i], DAYS[(i + 1) % 7], DAYS[(i + 2) % 7]
    return [
        (rough(f"What day comes after {today}?"), f"After {today} comes {next_day}."),
        (one_of("And then?|And after that?|And the next one?"), f"After {next_day} comes {last}."),
    ]


def more_sums():
    x, y, z = (int(pick(range(1, 11))) for _ in range(3))
    return [
        (rough(f"What is {x} plus {y}?"), f"{x} plus {y} is {x + y}."),
        (
            one_of(f"And plus {z}?|And if you add {z}?|Plus {z}?"),
            f"{x + y} plus {z} is {x + y + z}.",
        ),
    ]


def more_jokes():
    first, second = sample(talk.JOKES, 2)
    return [
        (rough(one_of("Tell me a joke|Do you know a joke?|Make me laugh")), first),
        (
            one_of("Another one|Another one please|Tell me another one|One more|another joke"),
            second,
        ),
    ]


FAVOURITES = {
    "colour": lex.COLOURS[:9],
    "animal": [r[0] for r in lex.ANIMALS],
    "food": [
        "pizza",
        "soup",
        "pancakes",
        "chocolate",
        "apples",
        "bread",
        "noodles",
        "rice",
        "cheese",
        "ice cream",
    ],
    "season": ["spring", "summer", "autumn", "winter"],
    "sport": facts.CATEGORIES["sport"],
    "fruit": facts.CATEGORIES["fruit"],
    "number": [str(n) for n in range(1, 30)],
    "day": DAYS,
}


def memory():
    """The user tells something about himself and asks for it later."""
    facts_told = []
    kinds = sample(("name", "favourite", "pet", "town", "age", "job"), pick((1, 1, 2)))
    for kind in kinds:
        facts_told.append(_told(kind))
    turns = [(rough(said) if chance(0.3) else said, reply) for said, reply, _, _ in facts_told]
    for _ in range(pick((0, 0, 1))):
        turns += simple_turn()
    turns += [(rough(asked), answer) for _, _, asked, answer in facts_told]
    return turns


def _told(kind):
    """(what the user says, the reply, what the user asks later, the answer)."""
    name = stories.worlds.made_up_name() if chance(0.35) else pick(lex.GIRLS + lex.BOYS)
    if kind == "name":
        return _told_name(name)
    return {
        "favourite": _told_favourite,
        "pet": _told_pet,
        "town": _told_town,
        "age": _told_age,
        "job": _told_job,
    }[kind]()


def _told_name(name):
    return (
        one_of(
            f"My name is {name}.|I am {name}.|Hi, I am {name}.|Hello, my name is {name}."
            f"|Call me {name}.|I'm {name}"
        ),
        one_of(
            f"Hello, {name}! Nice to meet you. I am Ember.|Nice to meet you, {name}!"
            f"|Hi {name}! How can I help you?"
        ),
        one_of("What is my name?|Do you remember my name?|Do you know my name?|Who am I?"),
        one_of(f"Your name is {name}.|You are {name}.|Yes, your name is {name}."),
    )


def _told_favourite():
    what = pick(list(FAVOURITES))
    value = pick(FAVOURITES[what])
    value = f"the {value}" if what == "animal" else value
    return (
        one_of(f"My favourite {what} is {value}.|I like {value} best. It is my favourite {what}."),
        one_of(
            f"{value[0].upper() + value[1:]} is a good choice!"
            f"|I will remember that your favourite {what} is {value}."
            f"|That is nice. Why do you like {value}?"
        ),
        one_of(
            f"What is my favourite {what}?|Which {what} do I like best?"
            f"|Do you remember my favourite {what}?"
        ),
        f"Your favourite {what} is {value}.",
    )


def _told_pet():
    pet = pick("dog cat rabbit hamster parrot horse goldfish turtle".split())
    known = lex.PET_NAMES + lex.GIRLS[:30] + [n.capitalize() for n in lex.NOUNS]
    name = stories.worlds.made_up_name() if chance(0.4) else pick(known)
    return (
        one_of(
            f"I have a {pet} called {name}.|My {pet} is called {name}."
            f"|I have a {pet}. Its name is {name}."
        ),
        one_of(
            f"{name} is a nice name for a {pet}!|How nice! What does {name} like to do?"
            f"|A {pet}! Give {name} my greetings."
        ),
        one_of(
            f"What is the name of my {pet}?|What is my {pet} called?"
            "|Do you remember the name of my pet?"
        ),
        f"Your {pet} is called {name}.",
    )


def _told_town():
    town = pick([c[1] for c in COUNTRIES])
    return (
        one_of(f"I live in {town}.|I am from {town}.|I come from {town}."),
        one_of(
            f"{town} is a great city!|How do you like {town}?|It must be nice to live in {town}."
        ),
        one_of("Where do I live?|Where am I from?|In which city do I live?"),
        f"You {one_of('live in|are from')} {town}.",
    )


def _told_age():
    age = int(pick(range(5, 80)))
    return (
        one_of(f"I am {age} years old.|I'm {age}."),
        one_of(f"{age} is a good age!|So you are {age}. What do you like to do?"),
        one_of("How old am I?|Do you remember my age?"),
        f"You are {age} years old.",
    )


def _told_job():
    job = a(pick(JOBS)[0])
    return (
        one_of(f"I am {job}.|I work as {job}.|My job is {job}."),
        one_of(
            f"That is an important job!|Being {job} must be interesting.|Do you like your work?"
        ),
        one_of("What is my job?|What do I do for work?|Do you remember my job?"),
        f"You are {job}.",
    )


def riddle_game():
    riddle, answer = pick([r.split("|") for r in talk.RIDDLES.splitlines()])
    turns = [
        (
            say("{Tell me a riddle|Give me a riddle|Let us play a riddle game|Ask me a riddle}"),
            riddle,
        )
    ]
    core = answer.rstrip(".")
    if chance(0.5):
        return turns + [
            (
                pick(
                    (
                        f"{core}?",
                        f"Is it {core[0].lower() + core[1:]}?",
                        f"{core[0].lower() + core[1:]}",
                    )
                ),
                pick(
                    (
                        "Yes, that is right!",
                        "Correct! Well done.",
                        f"Yes! It is {core[0].lower() + core[1:]}.",
                    )
                ),
            )
        ]
    return turns + [
        (
            pick(
                (
                    "I don't know",
                    "I give up",
                    "What is the answer?",
                    "No idea",
                    "Tell me the answer",
                )
            ),
            f"The answer is: {core[0].lower() + core[1:]}.",
        )
    ]


# --- stories on request -----------------------------------------------------------------------

ASK = [
    "Tell me a story about {}",
    "Write a short story about {}",
    "Write a story about {}",
    "Can you tell me a story about {}?",
    "A story about {}, please",
    "I want to hear a story about {}",
    "Please write a story about {}.",
    "Tell a short story about {}",
    "Could you write a little story about {}?",
    "Story about {}",
    "Make up a story about {}",
    "I would like a story about {}",
    "tell me a bedtime story about {}",
    "Do you know a story about {}?",
    "Write me a story about {}",
    "Now tell me a story about {}",
]
ASK_ANY = [
    "Tell me a story",
    "Tell me a story.",
    "Can you tell me a story?",
    "Write a story",
    "Write a short story",
    "I want a story",
    "Please tell me a story",
    "A story please",
    "tell me a story",
    "Do you know a story?",
    "Tell me a bedtime story",
    "Another story, please",
    "Write a short story for a child",
    "Story time!",
    "Tell me a nice story",
    "Tell me something",
]


def story_request():
    """(request, Story): by hero, thing, place, topic, name, or nothing in particular."""
    kind = pick(
        (
            "any",
            "topic",
            "topic",
            "topic",
            "hero",
            "hero",
            "hero",
            "thing",
            "thing",
            "name",
            "both",
            "place",
            "sum",
            "occasion",
        )
    )
    length = pick((None, None, "short"))
    if kind == "any":
        story = stories.make(length=length)
        return pick(ASK_ANY), story
    if kind == "occasion":
        story = stories.make({"occasion": pick(lex.OCCASIONS)}, length)
        return pick(ASK).format(story.world["occasion"]), story
    if kind == "sum":
        story = stories.make({"hero_kind": pick(lex.NOUNS)} if chance(0.2) else None, length)
        return pick(ASK).format(_summary_request(story)), story
    if kind == "topic":
        story = stories.make(length=length)
        return pick(ASK).format(say_lower(story.topic())), story
    hero = (
        pick(lex.NOUNS)
        if chance(0.3)
        else pick([r[0] for r in lex.ANIMALS] + [r[0] for r in lex.FANTASY] + ["boy", "girl"] * 6)
    )
    adj = {"adj": pick(lex.MANNERS)} if chance(0.5) else {}
    wish = {
        "hero": dict(adj, hero_kind=hero),
        "thing": {"thing": pick(lex.THINGS + [t[0] for t in lex.TOYS] + lex.SMALL)},
        "place": {"place": pick(lex.PLACES)[1]},
        "name": _named_wish(),
        "both": dict(adj, hero_kind=hero, thing=pick(lex.THINGS + lex.SMALL)),
    }[kind]
    story = stories.make(wish, length)
    h, o = story.world["h"], story.world["o"]
    subject = {
        "hero": _hero_phrase(h),
        "thing": a(o["n"] if chance(0.6) else o["a"]),
        "place": (
            f"something that happens {story.world['p']['at']}"
            if chance(0.5)
            else a(story.world["p"]["k"])
        ),
        "name": _hero_phrase(h),
        "both": f"{_hero_phrase(h)} and {a(o['n'] if chance(0.5) else o['a'])}",
    }[kind]
    return pick(ASK).format(subject), story


def _named_wish():
    girl = chance(0.5)
    wish = {
        "name": (
            stories.worlds.made_up_name() if chance(0.5) else pick(lex.GIRLS if girl else lex.BOYS)
        ),
        "he": "she" if girl else "he",
    }
    return (
        dict(wish, hero_kind=pick([r[0] for r in lex.ANIMALS]))
        if chance(0.3)
        else dict(wish, hero_kind="girl" if girl else "boy") if chance(0.6) else wish
    )


def _hero_phrase(hero):
    """How a user names the hero: 'a fox', 'a brave fox', 'a girl named Mia'."""
    if hero["named"] and chance(0.4):
        return pick(
            (
                f"{a(hero['k'])} {pick(('named', 'called'))} {hero['n']}",
                hero["n"],
                f"{hero['a']} {pick(('named', 'called'))} {hero['n']}",
            )
        )
    if chance(0.15) and " " in hero["a"]:
        return f"{a(hero['k'])} {pick(('who was', 'that was', 'who is'))} {hero['a'].split()[1]}"
    return a(hero["k"]) if chance(0.4) else a(hero["a"].split(" ", 1)[1])


def say_lower(text):
    return re.sub(r"\s+", " ", polish("x " + text)[2:])


def _summary_request(story):
    """'how Mia lost a kite', or 'a girl who lost a kite'."""
    summary, h = story.summary(), story.world["h"]
    start = f"how {h['n']} "
    if (
        summary.startswith(start)
        and not summary.startswith(start + "and ")
        and "_bare" not in story.world
        and chance(0.6)
    ):
        return say_lower(f"{_hero_phrase(h)} who {summary[len(start):]}")
    return say_lower(summary)


def story_talk():
    asked, story = story_request()
    text = story.text()
    if chance(0.12):
        text = f"{stories.title_of(story)}\n\n{text}"
    turns = [(rough(asked) if chance(0.5) else asked, text)]
    if chance(0.45):
        questions = story.questions()
        turns += [
            (rough(q), answer)
            for q, answer in sample(questions, min(len(questions), pick((1, 1, 2, 3))))
        ]
        if chance(0.2):
            turns.append(
                (
                    pick(
                        (
                            "Give the story a title",
                            "What would be a good title?",
                            "What is the title of the story?",
                        )
                    ),
                    story.title,
                )
            )
    if chance(0.08):
        turns.append(
            (
                pick(
                    (
                        "Another one",
                        "Tell me another story",
                        "Another story please",
                        "One more story",
                        "Now another one",
                        "Tell me one more",
                    )
                ),
                stories.make(length="short").text(),
            )
        )
    elif chance(0.15):
        turns.append(
            tuple(from_block("GREETINGS"))
            if chance(0.3)
            else (
                pick(
                    ("Thank you", "Thanks for the story!", "That was a nice story", "I liked that")
                ),
                pick(
                    (
                        "You are welcome! Would you like another story?",
                        "I am glad that you liked it.",
                        "Thank you! I am happy to hear that.",
                    )
                ),
            )
        )
    return turns


def reading():
    """A story in the question, then questions about it, or a continuation."""
    story = stories.make(length=pick(("short", "medium")))
    text = story.text("one")
    if chance(0.4):
        parts = stories.sentences(text)
        cut = int(pick(range(1, min(4, len(parts)))))
        first, rest = " ".join(parts[:cut]), " ".join(parts[cut:])
        return [
            (
                pick(
                    (
                        "Continue this story: {}",
                        "Finish this story: {}",
                        "How does this story go on? {}",
                        "Continue: {}",
                        "Write the rest of the story: {}",
                    )
                ).format(first),
                rest,
            )
        ]
    questions = sample(story.questions(), 2)
    turns = [
        (
            pick(
                (
                    "Read this story and answer the question. {} Question: {}",
                    "{}\n\n{}",
                    "Here is a story: {} {}",
                    "{}\n\nQuestion: {}",
                )
            ).format(text, questions[0][0]),
            questions[0][1],
        )
    ]
    return turns + ([questions[1]] if chance(0.4) else [])


# --- whole conversations ----------------------------------------------------------------------


def conversation():
    """The turns of one conversation."""
    r = pick(range(100))
    if r < 36:
        turns = []
        for _ in range(pick((1, 1, 1, 2, 2, 3, 4, 5))):
            turns += simple_turn()
        return turns
    if r < 70:
        turns = story_talk()
        if chance(0.15):
            turns = simple_turn() + turns
        elif chance(0.1):
            turns += simple_turn()
        return turns
    if r < 78:
        return follow_up() + (simple_turn() if chance(0.3) else [])
    if r < 86:
        return memory()
    if r < 88:
        return riddle_game()
    if r < 94:
        return reading()
    turns = (
        [tuple(from_block("GREETINGS")), tuple(from_block("ABOUT"))]
        if chance(0.5)
        else [tuple(from_block("GREETINGS"))]
    )
    return turns + simple_turn() + (story_talk() if chance(0.3) else [])


def document():
    """One conversation in ChatML."""
    turns = conversation()
    out = [f"<|im_start|>system\n{pick(SYSTEMS)}<|im_end|>\n"] if chance(0.25) else []
    for asked, answered in turns:
        out.append(
            f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{answered}<|im_end|>\n"
        )
    return "".join(out)


def exposition():
    """A few plain sentences about one thing, as in a first reader."""
    if chance(0.4):
        name, kind, home, food, sound, legs, young, fact = pick(ANIMALS)
        who = a(name)
        lines = [
            f"{who} is {a(kind)}.",
            f"It lives {home}.",
            f"It eats {food}.",
            f"It has {legs_phrase(legs)}.",
            f"Its young is called {a(young)}.",
            fact,
        ]
        return say(" ".join(lines[:1] + sample(lines[1:], pick((3, 4, 5)))))
    if chance(0.5):
        country, capital, continent, language = pick(COUNTRIES)
        return say(
            f"{country} is a country in {continent}. Its capital is {capital}. The people there speak {language}."
        )
    return " ".join(
        polish(answer)
        for _, answer in (
            pick((q_definition, q_use, q_job, q_colour, q_opposite))()
            for _ in range(pick((3, 4, 5)))
        )
    )
