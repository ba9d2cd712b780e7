"""Single questions with their answers, made from the tables of facts.py and the talk of talk.py.

Every q_... function returns one (question, answer); the weights of SIMPLE say how often which.
"""

import facts
import lexicon as lex
import stories
import talk
from grammar import chance, expand, pick, polish, sample, say

ANIMALS = facts.rows(facts.ANIMALS)
USES = facts.rows(facts.USES)
COLOURS = facts.rows(facts.COLOURS)
COUNTRIES = facts.rows(facts.COUNTRIES)
JOBS = facts.rows(facts.JOBS)
DEFINITIONS = facts.rows(facts.DEFINITIONS)
OPPOSITES = [p.split() for p in facts.OPPOSITES.split("|")]
RHYMES = [g.split() for g in facts.RHYMES.split("|")]
PAST = [p.split() for p in facts.PAST.split("|")]
PLURALS = [p.split() for p in facts.IRREGULAR_PLURALS.split("|")]
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
DAYS, MONTHS = facts.CATEGORIES["day of the week"], facts.CATEGORIES["month"]
BLOCKS = {
    name: talk.exchanges(getattr(talk, name))
    for name in ("GREETINGS", "ABOUT", "SCIENCE", "ADVICE", "HOWTO", "UNKNOWN")
}
SYSTEMS = [
    "You are a helpful assistant.",
    "You are Ember, a small and friendly assistant.",
    "You are a helpful, honest and friendly assistant.",
    "You are Ember, the demo model of ROCmForge.",
    "You answer questions in simple English.",
    "You tell stories and answer simple questions.",
    "You are a kind storyteller.",
    "Answer shortly and simply.",
    "You are a friendly chat bot.",
    "You are a helpful AI assistant.",
]


def a(noun):
    """The noun with its article."""
    return polish("x a " + noun)[2:]


def rough(question):
    """A question as people type it: sometimes lower case, without marks, or with a polite frame."""
    r = chance
    if (
        r(0.08)
        and question.endswith("?")
        and question.split()[0] in ("What", "Who", "Where", "Why", "How")
    ):
        frame = pick(
            (
                "Can you tell me: ",
                "Please tell me: ",
                "I have a question: ",
                "Tell me, ",
                "Do you know: ",
                "Hi, ",
                "Please, ",
            )
        )
        question = frame + question[0].lower() + question[1:]
    if r(0.16):
        question = question[0].lower() + question[1:] if r(0.5) else question.lower()
    if r(0.16):
        question = question.rstrip("?.!")
    elif r(0.05) and question[-1] not in "?.!":
        question += "."
    return question.replace("What is", "What's", 1) if r(0.06) else question


def from_block(name):
    asked, answered = pick(BLOCKS[name])
    return say(pick(asked)), say(pick(answered))


def q_animal():
    name, kind, home, food, sound, legs, young, fact = pick(ANIMALS)
    who = a(name)
    options = [
        (
            f"{{What kind of animal is {who}?|What is {who}?|Is {who} a mammal, a bird, a fish or an insect?}}",
            f"{who} is {a(kind)}.",
        ),
        (
            f"{{Where does {who} live?|Where do you find {who}?|Where can I see {who}?}}",
            f"{{{who} lives {home}.|You can find {who} {home}.}}",
        ),
        (
            f"{{What does {who} eat?|What is the food of {who}?|What should I feed {who}?}}",
            f"{who} eats {food}.",
        ),
        (
            f"{{How many legs does {who} have?|How many legs has {who}?}}",
            f"{who} has {legs_phrase(legs)}.",
        ),
        (
            f"{{What is a baby {name} called?|What do you call a baby {name}?|What is the young of {who} called?}}",
            f"A baby {name} is called {a(young)}.",
        ),
        (
            f"{{Tell me something about {who}|Tell me a fact about {who}|What do you know about {who}?|Do you know something about {who}?|Tell me about {who}}}",
            f"{who} is {a(kind)}. {{It lives {home}.|It eats {food}.|It lives {home} and eats {food}.}} {fact}",
        ),
        (
            f"{{Describe {who}|Write a few sentences about {who}|Explain what {who} is}}",
            f"{who} is {a(kind)}. It lives {home}. It eats {food}. It has {legs_phrase(legs)}. {fact}",
        ),
    ]
    if sound != "-":
        options.append(
            (
                f"{{What sound does {who} make?|What noise does {who} make?|What does {who} say?}}",
                f"{who} {sound}.",
            )
        )
    return tuple(map(say, pick(options)))


def legs_phrase(count):
    return {
        "0": "no legs",
        "2": "two legs",
        "4": "four legs",
        "6": "six legs",
        "8": "eight legs",
        "10": "ten legs",
    }[count]


def q_yes_no_animal():
    name, kind, *_ = pick(ANIMALS)
    classes = ["mammal", "bird", "fish", "insect", "reptile"]
    guess = kind if chance(0.5) and kind in classes else pick(classes)
    yes = guess == kind
    return say(f"Is {a(name)} {a(guess)}?"), say(
        f"{'Yes' if yes else 'No'}, {a(name)} is {a(kind)}."
    )


NO_ARTICLE = {"scissors", "glasses", "glue", "tape", "soap", "paint", "medicine", "thread"}


def q_use():
    thing, use = pick(USES)
    who, be = thing if thing in NO_ARTICLE else a(thing), (
        "are" if thing in ("scissors", "glasses") else "is"
    )
    return tuple(
        map(
            say,
            pick(
                [
                    (
                        f"{{What {be} {who} for?|What do you use {who} for?|What can you do with {who}?|Why do people need {who}?|What do we need {who} for?|What is the use of {who}?}}",
                        f"{{You use {who} to {use}.|{who} {be} used to {use}.|With {who} you can {use}.}}",
                    ),
                    (
                        f"{{What do I need to {use}?|What can I use to {use}?|With what can I {use}?}}",
                        f"{{You can use {who} to {use}.|You need {who}.|You can use {who}.}}",
                    ),
                ]
            ),
        )
    )


def q_colour():
    thing, colour = pick(COLOURS)
    if chance(0.25):
        other = pick(lex.COLOURS[:9])
        yes = other in colour.split() or other + "," in colour.split()
        return say(f"Is {thing} {other}?"), say(
            f"Yes, {thing} is {colour}." if yes else f"No, {thing} is {colour}."
        )
    return (
        say(
            f"{{What colour is {thing}?|What color is {thing}?|Which colour does {thing} have?|What is the colour of {thing}?|Do you know the colour of {thing}?}}"
        ),
        say(f"{thing} is {colour}."),
    )


def q_country():
    country, capital, continent, language = pick(COUNTRIES)
    return tuple(
        map(
            say,
            pick(
                [
                    (
                        f"{{What is the capital of {country}?|Which city is the capital of {country}?|What is the capital city of {country}?|Name the capital of {country}|capital of {country}|Do you know the capital of {country}?}}",
                        f"{{The capital of {country} is {capital}.|{capital} is the capital of {country}.}}",
                    ),
                    (
                        f"{{What is the capital of {country}?|What's the capital of {country}?}}",
                        f"The capital of {country} is {capital}.",
                    ),
                    (
                        f"{{Of which country is {capital} the capital?|{capital} is the capital of which country?|In which country is {capital}?|Where is {capital}?}}",
                        f"{capital} is {{the capital of|in}} {country}.",
                    ),
                    (
                        f"{{On which continent is {country}?|Where is {country}?|In which part of the world is {country}?}}",
                        f"{country} is in {continent}.",
                    ),
                    (
                        f"{{Which language do people speak in {country}?|What language do people speak in {country}?|What do they speak in {country}?}}",
                        f"In {country} people speak {language}.",
                    ),
                    (
                        f"{{Tell me about {country}|What do you know about {country}?}}",
                        f"{country} is a country in {continent}. Its capital is {capital}. People there speak {language}.",
                    ),
                ]
            ),
        )
    )


def q_opposite():
    x, y = pick(OPPOSITES)
    if chance(0.5):
        x, y = y, x
    return (
        say(
            f'{{What is the opposite of {x}?|What\'s the opposite of {x}?|Opposite of {x}?|What is the contrary of {x}?|Tell me the opposite of {x}|Which word is the opposite of "{x}"?}}'
        ),
        say(f"{{The opposite of {x} is {y}.|{y} is the opposite of {x}.}}"),
    )


def q_job():
    job, does = pick(JOBS)
    return tuple(
        map(
            say,
            pick(
                [
                    (
                        f"{{What does {a(job)} do?|What is the job of {a(job)}?|What is {a(job)}?|What work does {a(job)} do?}}",
                        f"{{{a(job)} {does}.|{a(job)} is a person who {does}.}}",
                    ),
                    (
                        f"{{Who {does}?|What do you call a person who {does}?|Which person {does}?}}",
                        f"{a(job)} {does}.",
                    ),
                ]
            ),
        )
    )


def q_definition():
    word, meaning = pick(DEFINITIONS)
    plain = (
        word
        in (
            "rain snow ice fog wind thunder lightning gravity light sound courage patience honesty kindness friendship happiness sadness anger fear love "
            "hope war peace money music art breakfast lunch dinner electricity energy skin"
        ).split()
    )
    who = (
        word
        if plain
        else (
            "lungs"
            if word == "lungs"
            else (
                f"the {word}"
                if word in ("sun", "moon", "internet", "brain", "heart", "stomach")
                else a(word)
            )
        )
    )
    verb = "are" if who == "lungs" else "is"
    return (
        say(
            f'{{What {verb} {who}?|What does "{word}" mean?|Explain the word "{word}"|Can you explain what {who} {verb}?|What does the word {word} mean?|Define {word}|What do you call {meaning}?}}'
        ),
        say(f"{who} {verb} {meaning}."),
    )


def q_category():
    name = pick(list(facts.CATEGORIES))
    items = facts.CATEGORIES[name]
    plural = facts.PLURALS.get(name, name + "s")
    if chance(0.35):
        item = pick(items)
        other = name if chance(0.5) else pick(list(facts.CATEGORIES))
        yes = item in facts.CATEGORIES[other]
        noun = (
            item
            if item in ("milk", "water", "juice", "tea", "coffee", "lemonade")
            or item[0].isupper()
            or name in ("sport", "colour", "season", "feeling")
            else a(item)
        )
        return say(f"Is {noun} {a(other)}?"), say(
            f"Yes, {noun} is {a(other)}."
            if yes
            else f"No, {noun} is not {a(other)}. It is {a(name)}."
        )
    n = min(pick((1, 2, 3, 3, 4, 5)), len(items))
    chosen = sample(items, n)
    words = chosen[0] if n == 1 else ", ".join(chosen[:-1]) + " and " + chosen[-1]
    if n == 1:
        return say(
            f"{{Name {a(name)}|Tell me {a(name)}|Give me an example of {a(name)}|Say {a(name)}}}"
        ), say(f"{chosen[0]} is {a(name)}." if chance(0.4) else words + ".")
    count = WORDS[n] if chance(0.6) else str(n)
    if chance(0.3):
        return (
            say(f"{{List|Make a list of|Give me a list of}} {count} {plural}"),
            "\n".join(f"{i}. {w[0].upper() + w[1:]}" for i, w in enumerate(chosen, 1)),
        )
    return say(
        f"{{Name {count} {plural}|Tell me {count} {plural}|Can you name {count} {plural}?|Give me {count} {plural}|What are {count} {plural}?}}"
    ), say(f"{{{words}.|{count} {plural} are {words}.}}")


def q_rhyme():
    group = pick(RHYMES)
    x, y = sample(group, 2)
    return (
        say(
            f"{{What rhymes with {x}?|Which word rhymes with {x}?|Give me a rhyme for {x}|Find a word that rhymes with {x}}}"
        ),
        say(f"{{{y} rhymes with {x}.|{x} rhymes with {y}.}}"),
    )


def q_word():
    if chance(0.4):
        word = pick(facts.SPELL)
        letters = "-".join(word)
        return tuple(
            map(
                say,
                pick(
                    [
                        (
                            f'{{How do you spell {word}?|Spell the word {word}|Spell {word}|Can you spell "{word}"?}}',
                            f"{{You spell it {letters}.|{word} is spelled {letters}.}}",
                        ),
                        (
                            f"{{How many letters are in the word {word}?|How many letters does {word} have?}}",
                            f"The word {word} has {WORDS[len(word)]} letters: {letters}.",
                        ),
                        (
                            f"{{What is the first letter of {word}?|With which letter does {word} begin?}}",
                            f"The first letter of {word} is {word[0]}.",
                        ),
                        (
                            f"{{What is the last letter of {word}?|With which letter does {word} end?}}",
                            f"The last letter of {word} is {word[-1]}.",
                        ),
                    ]
                ),
            )
        )
    if chance(0.5):
        one, many = pick(PLURALS)
        return say(
            f"{{What is the plural of {one}?|One {one}, two what?|Plural of {one}?|How do you say more than one {one}?}}"
        ), say(f"{{The plural of {one} is {many}.|One {one}, two {many}.}}")
    now, past = pick(PAST)
    return say(
        f'{{What is the past of "{now}"?|What is the past tense of {now}?|Past tense of {now}?}}'
    ), say(f"The past tense of {now} is {past}.")


def q_calendar():
    days = chance(0.5)
    names = DAYS if days else MONTHS
    i = int(pick(range(len(names))))
    after, before = names[(i + 1) % len(names)], names[i - 1]
    unit = "day" if days else "month"
    options = [
        (
            f"{{What {unit} comes after {names[i]}?|Which {unit} comes after {names[i]}?|What comes after {names[i]}?|What is the next {unit} after {names[i]}?}}",
            f"{{After {names[i]} comes {after}.|{after} comes after {names[i]}.}}",
        ),
        (
            f"{{What {unit} comes before {names[i]}?|Which {unit} comes before {names[i]}?|What comes before {names[i]}?}}",
            f"{{Before {names[i]} comes {before}.|{before} comes before {names[i]}.}}",
        ),
    ]
    if days:
        options.append(
            (
                f"If today is {names[i]}, what day is tomorrow?",
                f"If today is {names[i]}, tomorrow is {after}.",
            )
        )
        options.append(
            (
                f"If today is {names[i]}, what day was yesterday?",
                f"If today is {names[i]}, yesterday was {before}.",
            )
        )
    else:
        season = (
            "winter" if i in (11, 0, 1) else "spring" if i < 5 else "summer" if i < 8 else "autumn"
        )
        length = 28 if i == 1 else 30 if i in (3, 5, 8, 10) else 31
        options.append(
            (
                f"{{In which season is {names[i]}?|Which season is it in {names[i]}?}}",
                f"In the north, {names[i]} is in {season}.",
            )
        )
        options.append(
            (
                f"How many days does {names[i]} have?",
                f"{names[i]} has {length} days{', and 29 in a leap year' if i == 1 else ''}.",
            )
        )
        options.append(
            (
                f"{{What is the {_th(i + 1)} month?|Which month is the {_th(i + 1)} month of the year?}}",
                f"The {_th(i + 1)} month of the year is {names[i]}.",
            )
        )
    return tuple(map(say, pick(options)))


def _th(n):
    return "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()[
        n
    ]


def q_compare():
    scale, word, less = pick(
        [(facts.SIZES, "bigger", "smaller"), (facts.SPEEDS, "faster", "slower")]
    )
    i, j = sample(range(len(scale)), 2)
    big, small = scale[max(i, j)], scale[min(i, j)]
    if chance(0.3):
        first, second = scale[i], scale[j]
        return say(f"Is {first} {word} than {second}?"), say(
            f"Yes, {first} is {word} than {second}."
            if i > j
            else f"No, {first} is {less} than {second}."
        )
    if chance(0.5):
        return say(f"{{What|Which}} is {word}, {scale[i]} or {scale[j]}?"), say(
            f"{big} is {word} than {small}."
        )
    return say(f"{{What|Which}} is {less}, {scale[i]} or {scale[j]}?"), say(
        f"{small} is {less} than {big}."
    )


def _spoken(n):
    return WORDS[n] if n <= 20 and chance(0.35) else str(n)


def q_sum():
    kind = pick("+++--**/")
    top = pick((10, 10, 20, 20, 50, 100))
    if kind == "+":
        x, y = int(pick(range(top + 1))), int(pick(range(top + 1)))
        result, sign, word = x + y, "+", "plus"
    elif kind == "-":
        x = int(pick(range(top + 1)))
        y = int(pick(range(x + 1)))
        result, sign, word = x - y, "-", "minus"
    elif kind == "*":
        x, y = int(pick(range(13))), int(pick(range(11)))
        result, sign, word = x * y, pick("*x"), "times"
    else:
        y, result = int(pick(range(1, 11))), int(pick(range(11)))
        x, sign, word = y * result, "/", "divided by"
    spoken = f"{_spoken(x)} {word} {_spoken(y)}"
    written = f"{x} {sign} {y}" if chance(0.7) else f"{x}{sign}{y}"
    asked = pick(
        (
            f"What is {spoken}?",
            f"How much is {spoken}?",
            f"What is {written}?",
            f"{written} = ?",
            f"{written}",
            f"Calculate {written}",
            f"What does {spoken} make?",
            f"Can you tell me what {written} is?",
        )
    )
    return asked, pick(
        (
            f"{x} {word} {y} is {result}.",
            f"{x} {sign} {y} = {result}",
            f"{polish(spoken)} is {_spoken(result)}.",
        )
    )


def q_hard_sum():
    """Sums beyond the model: it says so."""
    x, y, sign = (
        int(pick(range(100, 10000))),
        int(pick(range(20, 1000))),
        pick(("*", "/", "+", "-", "x", "times", "plus", "divided by")),
    )
    return (
        pick(
            (
                f"What is {x} {sign} {y}?",
                f"{x} {sign} {y}",
                f"Calculate {x} {sign} {y}",
                f"How much is {x} {sign} {y}?",
            )
        ),
        pick(
            (
                "That is too hard for me. I can only do small sums.",
                "I am sorry, these numbers are too big for me.",
                "I cannot do such big sums. A calculator can help you.",
            )
        ),
    )


def q_number():
    n = int(pick(range(1, 100)))
    options = [
        (
            f"{{What number comes after {n}?|Which number comes after {n}?|What comes after {n}?}}",
            f"After {n} comes {n + 1}.",
        ),
        (f"{{What number comes before {n}?|What comes before {n}?}}", f"Before {n} comes {n - 1}."),
        (
            f"{{Is {n} even or odd?|Is {n} an even number?|Is {n} odd?}}",
            f"{n} is an {'even' if n % 2 == 0 else 'odd'} number.",
        ),
        (
            f"{{What is the double of {n}?|What is twice {n}?|Double {n}}}",
            f"The double of {n} is {2 * n}.",
        ),
        (f"What is half of {2 * n}?", f"Half of {2 * n} is {n}."),
    ]
    m = int(pick(range(1, 100)))
    if m != n:
        options.append(
            (
                f"{{Which is bigger, {n} or {m}?|Which number is bigger, {n} or {m}?|What is more, {n} or {m}?}}",
                f"{max(n, m)} is bigger than {min(n, m)}.",
            )
        )
        options.append(
            (f"Which is smaller, {n} or {m}?", f"{min(n, m)} is smaller than {max(n, m)}.")
        )
    k, start = int(pick((3, 5, 10, 12, 15, 20))), 1
    options.append(
        (
            f"{{Count to {k}|Can you count to {k}?|Please count from 1 to {k}|Count from one to {WORDS[k]}}}",
            ", ".join(map(str, range(start, k + 1))) + ".",
        )
    )
    options.append(
        (
            f"{{Count backwards from {k}|Count down from {k}}}",
            ", ".join(map(str, range(k, 0, -1))) + ".",
        )
    )
    return tuple(map(say, pick(options)))


def q_story_sum():
    """A small word problem."""
    x, y = int(pick(range(1, 13))), int(pick(range(1, 10)))
    who, thing = pick(lex.GIRLS + lex.BOYS), pick(
        "apple coin book marble cookie flower shell pencil egg balloon".split()
    )
    he = "She" if who in lex.GIRLS else "He"
    if chance(0.5):
        return (
            f"{who} has {_n(x, thing)}. {he} {pick(('gets', 'finds', 'buys'))} {y} more. How many {thing}s does {who} have now?",
            f"{x} plus {y} is {x + y}, so {who} has {_n(x + y, thing)}.",
        )
    x += y
    return (
        f"{who} has {_n(x, thing)}. {he} {pick(('loses', 'gives away', 'sells'))} {y}. How many {thing}s does {who} have left?",
        f"{x} minus {y} is {x - y}, so {who} has {_n(x - y, thing)} left.",
    )


def _n(count, thing):
    return f"{count} {thing}" + ("" if count == 1 else "s")


def q_joke():
    joke = pick(talk.JOKES)
    return (
        say(
            "{Tell me a joke|Do you know a joke?|Say something funny|Make me laugh|Another joke please|Can you tell a joke?}"
        ),
        joke,
    )


def q_riddle():
    riddle, answer = pick([r.split("|") for r in talk.RIDDLES.splitlines()])
    if chance(0.5):
        return riddle, answer
    return (
        say("{Tell me a riddle|Do you know a riddle?|Give me a riddle|Ask me a riddle}"),
        f"{riddle} The answer is: {answer[0].lower() + answer[1:]}",
    )


COUPLETS = {
    "sun": [
        "The sun comes up, the sky is blue,/the grass is wet with morning dew.",
        "It paints the roofs, it warms the stone,/and no one has to freeze alone.",
        "And when it sinks behind the hill,/the birds are quiet, the world is still.",
    ],
    "rain": [
        "The rain falls soft, the rain falls long,/it sings upon the roof its song.",
        "The puddles shine along the street,/and children jump with happy feet.",
        "And when the clouds have gone away,/a rainbow ends the rainy day.",
    ],
    "snow": [
        "The snow came softly in the night/and made the sleeping garden white.",
        "My boots go crunch, my nose is cold,/the sun is made of winter gold.",
        "We build a man with hat and nose/and laugh until the evening glows.",
    ],
    "winter": [
        "The trees are bare, the days are small,/and snow lies on the garden wall.",
        "We sit together by the fire/and watch the yellow flames go higher.",
        "So let the wind blow cold outside,/for here it is warm and the door is wide.",
    ],
    "spring": [
        "The ice is gone, the brook runs free,/there is a bud on every tree.",
        "A little bird begins to sing/the very first small song of spring.",
        "The world puts on a dress of green,/the brightest that was ever seen.",
    ],
    "summer": [
        "The days are long, the nights are light,/the swallows play till late at night.",
        "We eat our berries in the sun/and swim and laugh till day is done.",
        "And when the stars come out to shine,/I wish this summer could be mine.",
    ],
    "autumn": [
        "The leaves turn red, the leaves turn gold,/the mornings now are clear and cold.",
        "The apples fall, the wind blows free,/and takes the last leaf from the tree.",
        "The squirrel hides its winter store,/and I hang my coat behind the door.",
    ],
    "moon": [
        "The moon looks in my room at night/and fills it with its silver light.",
        "It sees the sea, it sees the hill,/it sees the mill wheel standing still.",
        "Good night, dear moon, keep watch for me,/and shine on every house and tree.",
    ],
    "night": [
        "The day is done, the lamps are low,/the clouds across the rooftops go.",
        "A star looks down, a star looks in,/and now the quiet dreams begin.",
        "So close your eyes and sleep till day,/the dark will gently go away.",
    ],
    "star": [
        "A little star so far, so high,/a tiny lamp up in the sky.",
        "You see the ships, you see the snow,/you see the little child below.",
        "And when I cannot sleep at night,/I count on you and on your light.",
    ],
    "sea": [
        "The sea is wide, the sea is deep,/it sings the little fish to sleep.",
        "The waves come in, the waves go out,/the gulls fly round and cry and shout.",
        "I found a shell, I hold it near,/and still it is the sea I hear.",
    ],
    "cat": [
        "My cat lies sleeping in the sun/and dreams that she is on the run.",
        "She hears the smallest mouse in town,/she climbs up high and won't come down.",
        "But when the day turns dark and late,/she comes back home and finds her plate.",
    ],
    "dog": [
        "My dog is always glad to see/when I come home, for he loves me.",
        "He runs and jumps, he wags his tail,/he barks at everyone with mail.",
        "And when I am not feeling good,/he looks as if he understood.",
    ],
    "bird": [
        "A little bird sat on a wall/and sang so sweetly for us all.",
        "It sang of sun, it sang of rain,/it stopped, and then it sang again.",
        "And then it spread its wings to fly,/a small dark dot up in the sky.",
    ],
    "tree": [
        "There stands a tree, so old and tall,/it gives a home to birds and all.",
        "Its roots are deep, its crown is wide,/and I can sit on its shady side.",
        "A hundred years it stood right here,/and grows a little every year.",
    ],
    "flower": [
        "A flower grew beside the way,/it opened up on the first of May.",
        "It had no gold, it had no name,/but all the bees and beetles came.",
        "I did not pick it, let it be,/so others have the joy to see.",
    ],
    "friend": [
        "A friend is someone who will stay/when all the others go away.",
        "We share our bread, we share our tears,/our silly jokes, our hopes and fears.",
        "And if the road is long and steep,/a friend has promises to keep.",
    ],
    "home": [
        "There is a light, there is a door,/there are my shoes upon the floor.",
        "The soup is hot, the bed is made,/and there is nothing to be afraid.",
        "I like to travel, like to roam,/but best of all is coming home.",
    ],
    "book": [
        "A book is like a little door/to lands you never saw before.",
        "You turn a page, and there you are,/upon a ship, upon a star.",
        "And when you close it in the night,/the pictures stay without a light.",
    ],
    "love": [
        "Love is a light that does not burn,/it gives and asks for no return.",
        "It is a hand, it is a word,/the sweetest song you ever heard.",
        "It grows when it is given away,/a little more with every day.",
    ],
}
ANY_COUPLETS = [
    "The $t is here, the $t is there,/I see it almost everywhere.",
    "O little $t, so good and fine,/I wish that you were only mine.",
    "Some like the sun, some like the sea,/but it is the $t that pleases me.",
    "And when the evening turns to night,/I dream of the $t in silver light.",
    "I told the bird, I told the tree/how much the $t can mean to me.",
    "I saw a $t the other day,/it smiled at me and went its way.",
    "Who knows the $t, who knows it well?/I know a tale that I could tell.",
    "So here I end my little song,/the $t has listened all along.",
]


def q_poem():
    if chance(0.6):
        topic = pick(list(COUPLETS))
        lines = COUPLETS[topic] if chance(0.6) else COUPLETS[topic][:2]
    else:
        topic = pick(lex.THINGS + [r[0] for r in lex.ANIMALS] + [t[0] for t in lex.TOYS])
        chosen = sample(range(len(ANY_COUPLETS)), pick((2, 2, 3)))
        lines = [expand(ANY_COUPLETS[i], {"t": topic}) for i in sorted(chosen)]
    poem = "\n".join(line[0].upper() + line[1:] for couplet in lines for line in couplet.split("/"))
    what = (
        topic
        if topic
        in ("rain", "snow", "winter", "spring", "summer", "autumn", "night", "home", "love")
        else f"the {topic}" if topic in ("sun", "moon", "sea", "night") else a(topic)
    )
    return (
        say(
            f"{{Write {{a|a short|a little}} poem about {what}|Write me a poem about {what}|Can you write a poem about {what}?|A poem about {what}, please|Make a short poem about {what}|Tell me a poem about {what}|write a poem about {what}}}"
        )
        if chance(0.85)
        else say("{Write a short poem|Tell me a poem|Write a poem|Do you know a poem?}")
    ), poem


MATERIALS, PLACES_OF = facts.rows(facts.MATERIALS), facts.rows(facts.PLACES_OF)
KNOWN = (
    {r[0] for r in ANIMALS + USES + JOBS + DEFINITIONS}
    | {r[0].split()[-1] for r in COLOURS}
    | {w for items in facts.CATEGORIES.values() for w in items}
)
STRANGE_NOUNS = [n for n in lex.NOUNS if n not in KNOWN]
DONT_KNOW = [
    "I do not know.",
    "I am sorry, I do not know that.",
    "I do not know that. I am only a small model.",
    "I am not sure. I know only simple things.",
    "That I do not know.",
    "I am sorry, but I have not learned that.",
    "I do not know. Please ask someone who can look it up.",
    "Sorry, I have no idea.",
]
HARD = [
    "{Who invented|Who discovered|Who made the first} {the|a} NOUN?",
    "When was the {first |}NOUN {invented|made|built}?",
    "How {heavy|expensive|old|long|fast|deep|warm} is {a|the|this} NOUN?",
    "How many NOUNs are there {in the world|in COUNTRY|in this town}?",
    "What is the {largest|biggest|oldest|smallest|tallest|best|richest|most famous|most beautiful} {city|building|lake|company|school|song|football team|church|island|forest|restaurant} in {the world|COUNTRY|Europe|Asia|the town}?",
    "How many people live in {COUNTRY|CITY}?",
    "What is the population of {COUNTRY|CITY}?",
    "Who is the {king|queen|president|prime minister|mayor|boss} of {COUNTRY|CITY}?",
    "Who is NAME?",
    "Who was NAME {|SURNAME}?",
    "Tell me about NAME SURNAME",
    "Do you know NAME SURNAME?",
    "When was NAME SURNAME born?",
    "What does NAME like?",
    "Where is NAME?",
    "Where does NAME live?",
    "How old is NAME?",
    "What did NAME do yesterday?",
    "What is the currency of COUNTRY?",
    "What is the flag of COUNTRY like?",
    "When did COUNTRY become a country?",
    "How far is it from CITY to CITY?",
    "How do I {get|go|travel} from CITY to CITY?",
    "What is the weather like in CITY?",
    "What time is it in CITY?",
    "What is the phone number of the NOUN shop?",
    "How much does {a|an old|a new} NOUN cost?",
    "What is on television {tonight|today}?",
    "Who wrote the book about the ADJ NOUN?",
    "What is the name of the ADJ NOUN?",
    "What happened in {1066|1492|1789|1815|1914|1945|1984|2001}?",
    "What is {the history|the economy|the politics|the law} of COUNTRY?",
    "How does a NOUN work inside?",
    "What is the chemical formula of NOUN?",
    "Which {film|book|song|game} is the best?",
    "Who won the {race|game|prize|war} in {1920|1950|1999|2010|COUNTRY}?",
    "What is the {meaning|origin} of the name NAME?",
    "What is a WORD?",
    "What does WORD mean?",
    "Define WORD",
    "Who is the WORD?",
    "Explain WORD",
    "What is WORD?",
    "What do you know about WORD?",
    "How do I use a WORD?",
    "What is the capital of WORD?",
    "Where is WORD?",
]


def q_unknown():
    """A question about something that the model cannot know: it should say so."""
    text = pick(HARD)
    word = stories.worlds.made_up_name()
    while "WORD" in text and (len(word) < 5 or word.lower() in lex.NOUNS):
        word = stories.worlds.made_up_name()
    fill = {
        "NOUN": pick(STRANGE_NOUNS),
        "ADJ": pick(lex.ADJECTIVES),
        "WORD": word.lower() if chance(0.6) else word,
        "SURNAME": stories.worlds.made_up_name() if chance(0.5) else pick(lex.NOUNS).capitalize(),
    }
    asked = expand(text)
    for mark, value in fill.items():
        asked = asked.replace(mark, value)
    for mark, table in (
        ("COUNTRY", [c[0] for c in COUNTRIES]),
        ("CITY", [c[1] for c in COUNTRIES]),
        ("NAME", lex.GIRLS + lex.BOYS),
    ):
        while mark in asked:
            asked = asked.replace(mark, pick(table), 1)
    answer = pick(DONT_KNOW)
    if "WORD" in text and chance(0.6):
        answer = pick(
            (
                f"I do not know the word {fill['WORD']}.",
                f"I am sorry, I do not know what {fill['WORD']} is.",
                f"I have never heard of {fill['WORD']}.",
            )
        )
    elif "NAME" in text and "mean" not in text and chance(0.3):
        answer = pick(("I do not know this person.", "I am sorry, I do not know who that is."))
    return polish(asked), answer


def q_material():
    thing, made = pick(MATERIALS)
    return say(
        f"{{What is {thing} made of?|What do you make {thing} of?|Of what is {thing} made?}}"
    ), say(f"{thing} is {{made of|usually made of}} {made}.")


def q_where():
    thing, where = pick(PLACES_OF)
    return say(
        f"{{Where can I find {thing}?|Where do you find {thing}?|Where can I get {thing}?|Where would I look for {thing}?}}"
    ), say(f"You can find {thing} {where}.")


SKILLS = "swimmer runner cook baker singer dancer writer painter teacher student friend listener reader speaker player gardener driver parent musician".split()
TASKS = "a job interview|a test|a long trip|a party|my first day at work|my first day at school|a race|a wedding|a visit|a speech|an exam|a big game|moving to a new town|a date|my holidays|a camping trip|learning a language|a concert|a meeting".split(
    "|"
)


def q_tips():
    if chance(0.5):
        skill = pick(SKILLS)
        return (
            say(
                f"{{How can I become a better {skill}?|How do I become a good {skill}?|I want to be a {skill}. What should I do?|Give me tips to become a {skill}}}"
            ),
            say(
                "{Practice a little every day, learn from others, and do not give up.|Start with small steps, practice often, and ask someone who is good at it.|1. Practice every day.\n2. Learn from others.\n3. Be patient.\n4. Have fun.}"
            ),
        )
    task = pick(TASKS)
    return (
        say(
            f"{{Give me some advice for {task}|How do I prepare for {task}?|Do you have tips for {task}?|What should I think of before {task}?|Help me with {task}}}"
        ),
        say(
            "{Prepare well, sleep enough, and stay calm. I wish you good luck!|Make a list of what you need, start early, and ask for help if you need it.|1. Make a plan.\n2. Start early.\n3. Sleep well.\n4. Be calm and friendly.}"
        ),
    )


OPINIONS = [
    "reading books",
    "the rain",
    "music",
    "winter",
    "summer",
    "long walks",
    "chocolate",
    "cats",
    "dogs",
    "school",
    "swimming",
    "stories",
    "the sea",
    "trains",
    "flowers",
    "pizza",
    "football",
    "the moon",
    "snow",
    "cooking",
    "spiders",
    "robots",
    "Mondays",
    "birthdays",
    "riddles",
    "mountains",
    "old houses",
    "tea",
    "coffee",
    "computers",
    "games",
    "love",
    "friendship",
    "money",
    "war",
    "peace",
    "work",
    "holidays",
    "travelling",
    "art",
    "poems",
    "animals",
    "horses",
    "birds",
    "basketball",
    "tennis",
    "dancing",
    "singing",
    "painting",
    "films",
    "books",
    "the stars",
    "space",
    "science",
    "maths",
    "history",
    "politics",
    "fashion",
    "cars",
    "planes",
    "cheese",
    "soup",
    "fruit",
    "vegetables",
    "cake",
    "ice cream",
    "autumn",
    "spring",
    "the night",
    "the forest",
    "the city",
    "my town",
    "my school",
    "my new bike",
    "life",
    "dreams",
]


def q_opinion():
    what = pick(OPINIONS) if chance(0.6) else "the " + pick(lex.NOUNS)
    return (
        say(
            f"{{Do you like {what}?|What do you think about {what}?|I like {what}|I love {what}|I don't like {what}|Let us talk about {what}}}"
        ),
        say(
            f"{{I only know {what} from texts, but I like to talk about it. What do you like about it?|Many people like {what}. What do you think?|"
            f"As a program I cannot try it myself. Tell me more about {what} and you!|That is a good thing to talk about. When did you last think of {what}?}}"
        ),
    )


def q_repeat():
    words = " ".join(
        sample(
            lex.NOUNS
            + [r[0] for r in lex.ANIMALS]
            + lex.COLOURS
            + lex.ADJECTIVES
            + [stories.worlds.made_up_name()] * 40,
            pick((1, 1, 2, 3)),
        )
    )
    if chance(0.5):
        return say(
            f'{{Repeat after me: {words}|Say {words}|Repeat: {words}|Please say "{words}"}}'
        ), say(words + ".")
    word = pick(lex.NOUNS + lex.THINGS)
    return say(
        f'{{Make a sentence with the word {word}|Use the word "{word}" in a sentence|Write a sentence with {word}|Give me a sentence with the word {word}}}'
    ), say(
        f'{{Yesterday I saw the word {word} in a book|There was a {word} in my dream|The child drew a {word} on the wall|"Look, a {word}!" said the boy|My friend told me about a {word}|Nobody knew where the {word} came from}}.'
    )


SIMPLE = [
    (q_animal, 10),
    (q_yes_no_animal, 2),
    (q_use, 7),
    (q_colour, 5),
    (q_country, 8),
    (q_opposite, 6),
    (q_job, 4),
    (q_definition, 8),
    (q_category, 7),
    (q_rhyme, 2),
    (q_word, 4),
    (q_calendar, 4),
    (q_compare, 3),
    (q_sum, 11),
    (q_hard_sum, 2),
    (q_number, 5),
    (q_story_sum, 3),
    (q_joke, 2),
    (q_riddle, 2),
    (q_poem, 5),
    (q_opinion, 4),
    (q_repeat, 4),
    (q_unknown, 14),
    (q_material, 3),
    (q_where, 3),
    (q_tips, 4),
    (lambda: from_block("SCIENCE"), 17),
    (lambda: from_block("ADVICE"), 9),
    (lambda: from_block("HOWTO"), 3),
    (lambda: from_block("UNKNOWN"), 5),
    (lambda: from_block("ABOUT"), 9),
    (lambda: from_block("GREETINGS"), 5),
]
SIMPLE_BAG = [maker for maker, weight in SIMPLE for _ in range(weight)]
