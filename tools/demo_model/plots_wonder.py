"""Plots of wonder: magic, mysteries, machines, treasure, castles, the sea and the stars."""

PLOTS = []


def plot(name, **beats):
    PLOTS.append(dict(beats, name=name))


plot(
    "magic_brush",
    place="out home town",
    who="child",
    moral="greedy kind enough",
    title=["The Magic {Paintbrush|Pencil}", "Painted Things"],
    topic=["a magic pencil", "magic", "drawing and painting"],
    vars={
        "tool": [
            {"n": "paintbrush", "do": "painted"},
            {"n": "pencil", "do": "drew"},
            {"n": "piece of chalk", "do": "drew"},
            {"n": "crayon", "do": "drew"},
        ],
        "draw": [
            {"n": "a bird", "did": "flew off the paper"},
            {"n": "a fish", "did": "swam in the air"},
            {"n": "a cat", "did": "stretched and said meow"},
            {"n": "a red ball", "did": "rolled away"},
            {"n": "a flower", "did": "began to smell sweet"},
        ],
        "wrong": [
            {"n": "a lion", "did": "roared and ran through the house"},
            {"n": "a huge cake", "did": "filled the whole room"},
            {"n": "a river", "did": "flooded the street"},
            {"n": "a rain cloud", "did": "made everything wet"},
        ],
    },
    open=[
        "<day>, $h found an old $tool.n $p.at. $h took a piece of paper and $tool.do $draw.n.",
        '$s.intro gave $h a $tool.n. "Use it well," said $s. At home $h $tool.do $draw.n.',
    ],
    trouble=[
        "And then, $draw.n $draw.did! <wonder:h> The $tool.n was magic. Now $h wanted more. $h.He $tool.do $wrong.n, and it $wrong.did.",
        '$draw.n $draw.did. It was real! "More!" <cried:h>, and $tool.do $wrong.n. But it $wrong.did.',
    ],
    feel=["<oh_no:h>"],
    tries=[
        "$h tried to catch it. It was too fast.",
        "$h tore up the paper. That did not change anything.",
    ],
    fix=[
        "<idea:h> $h took the $tool.n and $tool.do a big door. $wrong.n went through it, and $h closed the door quickly.",
        '$f.first came running. "What did you do?" <told:h,f> "Then rub it out," said $f. $h took an eraser and rubbed and rubbed, until everything was gone.',
    ],
    close=[
        "After that $h used the $tool.n only to help others: a blanket for one, a loaf of bread for another.",
        '$h gave the $tool.n back. "It is too strong for me," <said:h>.',
        "The last thing that $h made was a small sun for $e, who felt cold.",
    ],
    qa=[
        ("What was special about the $tool.n?", "Everything that $h $tool.do with it became real."),
        ("What went wrong?", "$h $tool.do $wrong.n, and it $wrong.did."),
    ],
    sum="how $h found a magic $tool.n",
)

plot(
    "treasure_map",
    place="water home",
    who="child animal fantasy",
    moral="friends enough curious",
    title=["The Treasure Map", "The Old Chest"],
    topic=["a treasure", "a treasure map", "pirates", "an island"],
    vars={
        "clue1": [
            "the tree with two trunks",
            "the rock like a face",
            "the red mill",
            "the sleeping lion of stone",
            "the dry fountain",
        ],
        "steps": "ten twenty thirty forty fifty".split(),
        "inside": [
            {
                "n": "old letters and pictures",
                "mean": "It was the story of someone who had lived here long ago",
            },
            {"n": "a hundred glass marbles", "mean": "There were enough for every child in town"},
            {
                "n": "seeds of every kind",
                "mean": "They planted them all, and in summer it was a sea of flowers",
            },
            {"n": "another map", "mean": "So the adventure could go on"},
            {
                "n": "a mirror with the words: the treasure is you",
                "mean": "They looked into it and laughed",
            },
            {"n": "gold coins", "mean": "They used the gold to build a new school"},
        ],
    },
    open=[
        "In an old book, $h found a map with a red cross on it.",
        "<day>, $h found a bottle $p.at. Inside was a map!",
    ],
    trouble=[
        '"A treasure!" <cried:h>. $f.first wanted to come along. The map said: Go to $clue1, then walk $steps steps to the {north|south|east|west}.',
        '$h showed it to $f.first. "Look, we have to go to $clue1. From there it is $steps steps," <said:h>.',
    ],
    feel=["Their hearts beat fast."],
    tries=[
        "They dug in the wrong place and found only an old shoe.",
        "They counted the steps, but $f had shorter legs than $h, so they came to two different spots.",
        "It began to rain, and the map got wet.",
    ],
    fix=[
        'They looked at the map once more. "We held it upside down!" laughed $f. They went to the right place and dug. Clonk! It was a chest. Inside there was $inside.n.',
        '"Let us measure it with a rope," said $h. This time it was right. The shovel hit something hard. They opened the chest, and inside there was $inside.n.',
    ],
    close=["$inside.mean.", '$inside.mean. "The best part was looking for it with you," said $f.'],
    qa=[
        ("What did $h find first?", "$h found a map."),
        ("What was inside the chest?", "Inside the chest there was $inside.n."),
        ("How many steps did they have to walk?", "They had to walk $steps steps."),
    ],
    sum="how $h and $f followed a treasure map",
)

plot(
    "dragon_friend",
    place="out woods",
    who="child fantasy",
    moral="look kind brave",
    title=["The Dragon on the Hill", "The Friendly {Dragon|Monster}"],
    topic=["a dragon", "a monster", "a knight and a dragon", "a friendly dragon"],
    vars={
        "beast": [
            {"n": "dragon", "job": "light the lamps and bake the bread with its fire"},
            {"n": "giant", "job": "lift the church bell and build a bridge"},
            {"n": "monster", "job": "scare away the crows and the thieves"},
            {"n": "troll", "job": "guard the bridge and carry the sacks"},
        ],
        "cry": [
            "It was lonely",
            "It had a thorn in its foot",
            "It had a toothache",
            "It was cold",
            "Nobody had ever invited it to a party",
        ],
    },
    open=[
        "On the hill behind the village lived a $beast.n. Everyone was afraid of it.",
        "People said that a terrible $beast.n lived in the mountain. Nobody had ever spoken to it.",
    ],
    trouble=[
        "<day>, there was a loud roar. The people locked their doors. But $h thought that it sounded sad.",
        'Every night they heard it howl. "Somebody must go and look," said $h. Nobody moved. So $h went alone.',
    ],
    feel=["<scared:h> But $h.he went on."],
    tries=[
        "$h walked up the hill, step by step.",
        '"Go away!" roared the $beast.n. $h stayed.',
        '"Don\'t you run away?" asked the $beast.n. "Should I?" asked $h.',
    ],
    fix=[
        "There sat the $beast.n, and big tears fell on the ground. $cry. $h sat down beside it and listened. Then $h helped as well as $h.he could, and the $beast.n stopped crying.",
        '"Why do you howl?" asked $h. The $beast.n looked up. $cry. "That can be helped," <said:h>. And $h was right.',
    ],
    close=[
        "Together they went down to the village. At first the people were afraid. But now the $beast.n helps to $beast.job.",
        "From then on the $beast.n had a friend. In winter it was allowed to $beast.job.",
        '"You are not terrible at all," <said:h>. "And you are not small at all," said the $beast.n.',
    ],
    qa=[
        ("Who lived on the hill?", "It was a $beast.n."),
        ("Why did the $beast.n roar?", "$cry."),
        ("Was the $beast.n bad?", "No, the $beast.n was friendly."),
    ],
    sum="how $h made friends with a $beast.n",
)

plot(
    "robot_feel",
    meets=True,
    place="home town school",
    hero="robot",
    who="fantasy",
    moral="friends self kind",
    title=["The Robot Who Wanted to Laugh", "$h the Robot"],
    topic=["a robot", "a machine"],
    vars={
        "want": [
            {"n": "to laugh", "get": "Ha, ha, ha! It came out all by itself"},
            {"n": "to have a friend", "get": "A friend is someone who stays, thought the robot"},
            {"n": "to know what music is", "get": "Something warm went through all the wires"},
            {"n": "to dream", "get": "In the dream there was a blue meadow and no plug"},
            {"n": "to understand jokes", "get": "I have got it, said the robot one day later"},
        ]
    },
    open=[
        "$h could count to a million and clean a whole house in an hour. But $h had a wish: $want.n.",
        "All day $h worked and never got tired. But at night $h wished $want.n.",
    ],
    trouble=[
        '$h asked the toaster. The toaster did not know. $h asked the vacuum cleaner. It only said, "Vrrr."',
        '"Robots can\'t do that," said the people.',
    ],
    feel=["A small drop of oil ran down $h's face."],
    tries=[
        "$h read every book in the library. It took one minute and did not help.",
        "$h practiced in front of a mirror. It looked terrible.",
    ],
    fix=[
        "Then $h met $f.intro. $f was not afraid of $h. They spent the whole day together, they fell into a puddle, and they shared an umbrella. And then it happened. $want.get.",
        '$f.intro came to have a toy fixed. "Why are you so sad?" asked $f. Nobody had ever asked $h that. They talked until it was dark. $want.get.',
    ],
    close=[
        '"You are the strangest robot in the world," said $f. "Thank you," <said:h>.',
        "Since then $h has counted only the good days.",
        "<end_friends:h,f>",
    ],
    qa=[
        ("What did the robot wish for?", "The robot wished $want.n."),
        ("Who was $h?", "$h was a robot."),
    ],
    sum="a robot called $h who wished $want.n",
)

plot(
    "space_trip",
    meets=True,
    place="out home",
    who="child fantasy animal",
    moral="home curious brave",
    title=["A Trip to the {Moon|Stars}", "The Cardboard Rocket"],
    topic=["a trip to space", "the moon", "a rocket", "an alien", "the stars", "a planet"],
    vars={
        "star": [
            {"n": "a planet where everything was upside down", "do": "walked on their hands"},
            {"n": "a planet of ice cream", "do": "needed no spoon, only a warm coat"},
            {"n": "a planet where it rained music", "do": "danced without stopping"},
            {"n": "a very quiet planet", "do": "talked with their hands"},
            {
                "n": "a planet so small that you could walk around it in ten steps",
                "do": "said good morning and good night every minute",
            },
            {"n": "the moon", "do": "jumped as high as houses"},
        ],
        "broke": [
            "the engine made a funny noise and stopped",
            "a small stone hit the window",
            "there was no fuel left",
            "the steering wheel came off",
        ],
    },
    open=[
        '$h and $f.first had built a rocket out of {boxes|old pots|a bathtub}. "Three, two, one, go!" And it really flew!',
        '<day>, a small round ship landed $p.at. The door opened, and $f.intro looked out. "Do you want a ride?" asked $f. "Yes!" <cried:h>.',
    ],
    trouble=[
        "They flew past the clouds and past the moon, and landed on $star.n. There they $star.do. But when they wanted to go home, $broke.",
        "Up and up they went, until the earth was a small blue ball. They came to $star.n, where everyone $star.do. Then $broke.",
    ],
    feel=["<oh_no:h>", "It was very far from home. <scared:h>"],
    tries=[
        "$f pushed all the buttons at once. A lamp went on, and a lamp went off.",
        "They waved at a comet. It did not stop.",
    ],
    fix=[
        'A friendly alien with three eyes came by. "I see three problems," it said, "but I also have three hands." In no time everything was fixed.',
        '$h looked at everything calmly. "Let us use what we have," <said:h>. $h took a {hairpin|spoon|rubber band|shoelace}, and $f held the lamp. It worked!',
    ],
    close=[
        'They were home in time for dinner. "Where have you been?" asked $e. "Not far," <said:h>, and looked up at the stars.',
        "When they landed, there was star dust in $h's hair.",
        "That night $h waved at a small light in the sky. It blinked twice.",
    ],
    qa=[("Where did they fly?", "They flew to $star.n."), ("What went wrong?", "$broke.")],
    sum="how $h and $f flew to $star.n",
)

plot(
    "mystery_cookies",
    place="home",
    who="child animal",
    moral="honest look curious",
    title=["The Cookie Mystery", "Detective $h"],
    topic=["a mystery", "a detective", "a thief", "missing cookies"],
    vars={
        "gone": [
            {"n": "cookies", "from": "the jar"},
            {"n": "socks", "from": "the line"},
            {"n": "apples", "from": "the basket"},
            {"n": "spoons", "from": "the drawer"},
            {"n": "sausages", "from": "the plate"},
            {"n": "buttons", "from": "the box"},
        ],
        "thief": [
            {
                "n": "a magpie",
                "clue": "a black and white feather",
                "why": "had made a shiny nest for her babies",
            },
            {
                "n": "the puppy",
                "clue": "tiny tooth marks",
                "why": "had hidden them all under his blanket",
            },
            {
                "n": "a raccoon",
                "clue": "small muddy hand prints",
                "why": "was hungry because it was winter",
            },
            {
                "n": "grandpa",
                "clue": "a pair of glasses on the floor",
                "why": "walked in his sleep",
            },
            {
                "n": "a squirrel",
                "clue": "a piece of nut shell",
                "why": "thought that it was a gift for everyone",
            },
        ],
    },
    open=[
        '<day>, $e looked into $gone.from and cried, "The $gone.n are gone!"',
        "Every morning some $gone.n were missing from $gone.from. Nobody knew why.",
    ],
    trouble=[
        '"It was $f.first!" said $g.first. "It was not me!" said $f. $h put on a big hat. "I will find out," $h.he said. "I am a detective."',
        "$g.first blamed $f.first. $h wanted to know the truth. $h.He took a magnifying glass and looked at the floor.",
    ],
    feel=['"Hmm," <said:h>.'],
    tries=[
        'First $h asked everybody, "Where were you last night?" All of them had been asleep.',
        "$h looked for crumbs but found only dust.",
    ],
    fix=[
        "Then $h found a clue: $thief.clue! That night $h hid behind the door and waited. At midnight there was a sound. $h turned on the light. It was $thief.n!",
        "There it was, right by the window: $thief.clue. $h followed the trail out of the house and around the corner. At the end of the trail was $thief.n.",
    ],
    close=[
        "It turned out that $thief.n $thief.why. Nobody could be angry.",
        '"I am sorry that I blamed you," said $g to $f. And $thief.n? It $thief.why.',
        '"The case is closed," <said:h>. It was simple: $thief.n $thief.why.',
    ],
    qa=[
        ("What was missing?", "The $gone.n were missing."),
        ("Who took the $gone.n?", "It was $thief.n."),
        ("What clue did $h find?", "$h found $thief.clue."),
    ],
    sum="how $h found out who took the $gone.n",
)

plot(
    "tiny_or_big",
    place="out home",
    who="child",
    moral="look enough home",
    title=["Small as a Thumb", "The Day $h Was {Tiny|Small}"],
    topic=["becoming very small", "being tiny", "magic"],
    vars={
        "cause": [
            "drank from a small blue bottle",
            "ate a red mushroom",
            "sneezed three times in a row",
            "wore a strange ring",
            "said a magic word by accident",
        ],
        "danger": [
            {"n": "a cat", "safe": "tickled its nose, so that it sneezed and ran away"},
            {"n": "a huge raindrop", "safe": "jumped under a mushroom"},
            {"n": "the vacuum cleaner", "safe": "held on to the leg of the table"},
            {"n": "a hungry hen", "safe": "hid in an empty nut shell"},
        ],
    },
    open=[
        "<day>, $h $cause. Then everything around $h.him began to grow, or so it seemed.",
        "It began when $h $cause. The table grew and grew. No, it was $h who got smaller!",
    ],
    trouble=[
        "Now $h was as small as a thumb. A blade of grass was like a tree. And then came $danger.n!",
        "$h was not bigger than a mouse. It was fun at first. But then $h saw $danger.n coming.",
    ],
    feel=["<scared:h>"],
    tries=[
        "$h called for $e, but $h.his voice was too small.",
        "$h ran, but with such short legs it took forever.",
    ],
    fix=[
        '$h thought quickly and $danger.safe. Then an ant came by. "If you want to be big again," said the ant, "you must do a big deed." So $h helped the ants to carry a heavy crumb up a whole hill. And with each step $h grew.',
        "$h $danger.safe. $c.first had seen it all and let $h ride home. There $h did everything once more, but backwards. It worked!",
    ],
    close=[
        "When $h was big again, $h.he looked where $h.he put $h.his feet.",
        '"Where were you?" asked $e. "Down there," <said:h>.',
        "Sometimes $h still leaves a crumb for the ants.",
    ],
    qa=[
        ("Why did $h become small?", "$h $cause."),
        ("What danger was there?", "There was $danger.n."),
    ],
    sum="how $h became as small as a thumb",
)

plot(
    "king_bored",
    place="town out",
    who="child",
    moral="enough kind curious",
    title=["The Bored King", "The Sad {Queen|Princess}"],
    topic=["a king", "a queen", "a princess", "a castle"],
    vars={
        "royal": [
            {"n": "the king", "he": "he", "his": "his", "him": "him"},
            {"n": "the queen", "he": "she", "his": "her", "him": "her"},
            {"n": "the princess", "he": "she", "his": "her", "him": "her"},
            {"n": "the prince", "he": "he", "his": "his", "him": "him"},
        ],
        "gift": [
            "a golden horse",
            "a clown with ten hats",
            "a fountain of juice",
            "a bed of feathers",
            "a singing clock",
        ],
        "simple": [
            {"n": "how to skip a stone over the water", "say": "One, two, three, four"},
            {"n": "how to whistle on a blade of grass", "say": "Pfffft"},
            {"n": "how to bake a simple bread", "say": "Mmm"},
            {"n": "how to plant a bean", "say": "So this is how it begins"},
            {"n": "how to fly a kite", "say": "Higher, higher"},
        ],
    },
    open=[
        "In a land far away, $royal.n was always bored. Nothing could make $royal.him laugh.",
        'Long ago $royal.n sat on a golden chair and yawned. "Who can make me happy?" asked $royal.n. "I will give a bag of gold for it."',
    ],
    trouble=[
        'Many people came. One brought $gift. "Boring," said $royal.n. Another one stood on his head. "Boring!"',
        "First there came $gift. $royal.n looked at it for a minute and yawned again.",
    ],
    feel=["Nobody knew what to do."],
    tries=[
        'A wizard made a cloud of butterflies. "I have seen that before," said $royal.n.',
        "A hundred singers sang a hundred songs. $royal.n fell asleep.",
    ],
    fix=[
        'Then $h came, in old shoes. "I have nothing to give," <said:h>. "But I can show you $simple.n." $royal.n went outside with $h, for the first time in years. "$simple.say!" said $royal.n, and a smile came.',
        '$h did not know about the gold. $h was just sitting by the road, busy with something. "What are you doing?" asked $royal.n. "I can teach you $simple.n," <said:h>. They sat in the grass together. "$simple.say!" laughed $royal.n.',
    ],
    close=[
        '"Here is your gold," said $royal.n. "Thank you," <said:h>, "but I would rather have a friend."',
        "From then on $royal.n left the palace every day and was never bored again.",
        "And the golden chair? The hens sleep on it now.",
    ],
    qa=[
        ("Who was bored?", "It was $royal.n."),
        ("What did $h show $royal.n?", "$h showed $royal.n $simple.n."),
    ],
    sum="how $h made $royal.n smile",
)

plot(
    "toy_night",
    place="home",
    who="child",
    moral="friends kind home",
    object="toy",
    title=["When the Toys Wake Up", "The Night of the Toys"],
    topic=["toys that come alive", "toys at night"],
    vars={
        "lead": [
            "the tin soldier",
            "the old teddy bear",
            "the wooden duck",
            "the rag doll",
            "the toy lion",
        ],
        "fell": [
            "had fallen behind the shelf",
            "was stuck in the box",
            "had lost a button eye",
            "was left out in the rain",
        ],
    },
    open=[
        "Every night, when $h was asleep, the toys woke up.",
        "At midnight the clock struck twelve, and in $h's room the toys began to move.",
    ],
    trouble=[
        '"Is everyone here?" asked $lead. "The $o.n is missing!" It $fell.',
        "They wanted to dance. But where was the $o.a? It $fell.",
    ],
    feel=["The toys were worried.", '"Nobody is left behind," said $lead.'],
    tries=[
        "They stood on each other to make a tower, but the tower fell.",
        "They pulled with a shoelace. The shoelace broke.",
    ],
    fix=[
        '"All together!" said $lead. The cars pushed, the dolls pulled, and the blocks made stairs. At last the $o.n was back.',
        "$lead had an idea. They tied all the scarves together to a rope. One climbed down, and the others pulled. Up came the $o.n!",
    ],
    close=[
        'In the morning $h woke up. "How strange," said $h. "I was sure that I had left it somewhere else." $lead winked.',
        "They danced until the sun came up, and then they lay still as always.",
        "$h found the $o.n in bed and held it tight. Only the toys knew why.",
    ],
    qa=[
        ("Which toy was missing?", "The $o.n was missing."),
        ("Who led the toys?", "It was $lead."),
    ],
    sum="how the toys of $h saved the $o.n one night",
)

plot(
    "invention",
    place="home school town",
    who="child animal",
    moral="practice help self curious",
    title=["The Great Invention", "$h's Machine"],
    topic=["an invention", "a machine", "an inventor", "science"],
    vars={
        "machine": [
            {
                "n": "a machine that makes breakfast",
                "bug": "threw the toast at the wall",
                "end": "made perfect toast with a smile on it",
            },
            {
                "n": "a machine that cleans the room",
                "bug": "put everything into the fish tank",
                "end": "cleaned the room in one minute",
            },
            {
                "n": "a machine that can find lost things",
                "bug": "found only old gum",
                "end": "found even $e's glasses, which were on $e's nose",
            },
            {
                "n": "a flying bicycle",
                "bug": "flew backwards into a haystack",
                "end": "flew once around the house",
            },
            {
                "n": "a hat that keeps off the rain",
                "bug": "made its own rain",
                "end": "kept everyone dry",
            },
            {
                "n": "an alarm clock that tickles",
                "bug": "tickled everyone except $h",
                "end": "woke up the whole street with laughter",
            },
        ],
        "part": ["a spring", "a small wheel", "a rubber band", "a screw", "a battery", "a wire"],
    },
    open=[
        "$h loved to build things. <day>, $h.he had an idea: $machine.n!",
        'In $h\'s room there were wheels, wires and boxes. "I am building $machine.n," <said:h>.',
    ],
    trouble=[
        "After a week it was ready. $h pushed the button. But it $machine.bug.",
        "All the neighbours came to look. $h pushed the button, and the machine $machine.bug.",
    ],
    feel=["Some people laughed. $h turned red.", "<sad:h>"],
    tries=[
        "$h turned one screw. Now it was even worse.",
        "$h took everything apart and put it together again. Two parts were left over.",
        '"Maybe you should stop," said $g.first.',
    ],
    fix=[
        '$f.first looked at it. "Something is missing here," said $f. It was $part! They put it in, and this time the machine $machine.end.',
        "$h did not sleep much that night, drew a new plan and found the mistake: $part was in the wrong place. The next day it $machine.end.",
    ],
    close=[
        '"Every mistake showed me something," <said:h>.',
        "$h got a medal made of cardboard, and it was the best medal in the world.",
        "The next day $h had a new idea. But that is another story.",
    ],
    qa=[
        ("What did $h build?", "$h built $machine.n."),
        ("What happened at first?", "At first it $machine.bug."),
        ("What was missing or wrong?", "It was $part."),
    ],
    sum="how $h built $machine.n",
)

plot(
    "bottle_letter",
    named=True,
    meets=True,
    place="water",
    who="child animal",
    moral="friends patient curious",
    title=["A Letter in a Bottle", "The Message"],
    topic=["a letter", "a message in a bottle", "the sea", "a pen friend"],
    vars={
        "far": [
            "an island",
            "the other side of the sea",
            "a lighthouse",
            "a ship",
            "a cold land in the north",
        ],
        "msg": [
            "I am alone. Who is my friend",
            "Hello, is somebody there",
            "Tell me about your home",
            "What do you see when you look out of your window",
        ],
    },
    open=[
        "<day>, $h sat $p.at and felt bored. Then $h saw a green bottle in the water.",
        "The waves brought something to the shore. $h ran to look. It was a bottle.",
    ],
    trouble=[
        'In the bottle was a letter. It said: "$msg?" It was from $f.intro, from $far.',
        '$h pulled out the paper. "$msg?" it said. And below: "My name is $f, and I live on $far."',
    ],
    feel=["<wonder:h>"],
    tries=[
        "$h wrote an answer and threw the bottle into the water. The waves brought it back.",
        "$h waited for a boat, but no boat came.",
    ],
    fix=[
        "$h wrote a long letter and gave it to $s.first, who travelled a lot. Many weeks went by. Then an answer came. And so it went on, letter after letter, for a whole year.",
        'A gull landed next to $h. "I fly that way," it said. $h tied a small letter to its leg. Ten days later the gull was back, with an answer from $f.',
    ],
    close=[
        'And then, one summer day, a boat came. Someone jumped out and waved. It was $f. "You look just like your letters," <said:h>.',
        "They have never met, but they know everything about each other.",
        "$h keeps all the letters in a box under the bed.",
    ],
    qa=[
        ("What was in the bottle?", "There was a letter in the bottle."),
        ("Where did $f live?", "$f lived on $far."),
        ("Who wrote the letter?", "$f wrote the letter."),
    ],
    sum="how $h found a letter in a bottle",
)

plot(
    "lost_colours",
    place="town out",
    who="child fantasy",
    moral="curious kind help",
    title=["The Day the Colours Went Away", "The Grey Town"],
    topic=["colours", "a rainbow", "a grey town"],
    vars={
        "lost": [
            {
                "n": "all the colours",
                "miss": "The apples were grey, and the sky was grey",
                "back": "red and blue and yellow",
            },
            {
                "n": "all the sounds",
                "miss": "The birds opened their beaks, but no song came out",
                "back": "songs and bells and laughter",
            },
            {
                "n": "all the smiles",
                "miss": "Everyone looked down at the ground",
                "back": "one smile after another",
            },
            {
                "n": "all the stars",
                "miss": "The night was as black as coal",
                "back": "one star after another",
            },
        ],
        "who2": [
            "a sad cloud",
            "an old witch",
            "a lonely giant",
            "the north wind",
            "a grumpy gnome",
        ],
    },
    open=[
        "One morning $h woke up, and $lost.n were gone. $lost.miss.",
        "Something strange had happened in the town of $h. $lost.n had gone away. $lost.miss.",
    ],
    trouble=[
        '"Who took them?" <asked:h>. "It was $who2," said $f.first. "I saw it in the night."',
        "Nobody knew what to do. Only $h and $f.first went to find out. Behind the hills they found $who2 with a big sack.",
    ],
    feel=["$h was not afraid, only curious."],
    tries=[
        '"Give it back!" cried $f. $who2 only shook its head.',
        "They pulled at the sack. It was tied too tightly.",
    ],
    fix=[
        '"Why did you take them?" <asked:h>. "Because I have none of my own," was the answer. $h thought about it. "If you give them back, you can share them with all of us," <said:h>. The sack was opened, and out came $lost.back.',
        "$h sat down and began to tell a story, a funny one. $who2 listened and came nearer. At the end there was a laugh, and the sack fell open. Out came $lost.back!",
    ],
    close=[
        "And $who2 moved to the town and was never lonely again.",
        "They painted the biggest picture in the world to celebrate.",
        "From then on everyone looked more closely at what they had.",
    ],
    qa=[("What was gone?", "$lost.n were gone."), ("Who had taken it?", "It was $who2.")],
    sum="how $h brought back $lost.n",
)

plot(
    "wizard_pupil",
    place="home woods",
    who="child fantasy",
    moral="listen practice careful",
    title=["The Wizard's Helper", "The Wrong Spell"],
    topic=["a wizard", "a witch", "a spell", "magic"],
    vars={
        "spell": [
            {
                "n": "make the broom sweep",
                "wrong": "the broom swept the wizard out of the house",
                "word": "Sweepety sweep",
            },
            {
                "n": "make the soup cook by itself",
                "wrong": "the soup grew and ran out of the door and down the hill",
                "word": "Bubbledy bub",
            },
            {
                "n": "turn a stone into bread",
                "wrong": "the whole house turned into bread, and the mice came",
                "word": "Crumbledy crust",
            },
            {
                "n": "make a frog talk",
                "wrong": "the frog would not stop talking",
                "word": "Ribbledy rib",
            },
            {
                "n": "make it rain on the garden",
                "wrong": "it rained inside the house",
                "word": "Drippety drop",
            },
            {
                "n": "make a hat fly",
                "wrong": "the hat flew away with the wizard's beard",
                "word": "Flappety flop",
            },
        ]
    },
    open=[
        '$h was the helper of an old wizard. "Do not touch my book," said the wizard, and went to town.',
        'An old wizard taught $h magic. "First listen, then speak," he always said.',
    ],
    trouble=[
        'But $h wanted to $spell.n. $h.He opened the book and said, "$spell.word!" It worked. But then $spell.wrong.',
        '<day>, $h was alone. "$spell.word!" <said:h>, in order to $spell.n. At first it went well. Then $spell.wrong.',
    ],
    feel=["<oh_no:h>"],
    tries=[
        '"Stop!" <cried:h>. It did not stop.',
        "$h said the word once more. Now it was twice as bad.",
        "$h looked in the book for the right word, but the page was missing.",
    ],
    fix=[
        '$f.first looked in through the window. "What if you say it backwards?" asked $f. $h tried it, slowly, from the last letter to the first. There was a puff of smoke, and all was quiet.',
        'At last $h called the wizard. He did not shout. He said only one word: "Please." And at once everything was as before. "That word is in no book," said the wizard, "but it is the strongest one."',
    ],
    close=[
        "It took $h three days to clean up.",
        '"Now you have learned more than in a whole year," said the wizard.',
        "After that $h read every page twice.",
    ],
    qa=[
        ("What did $h want to do?", "$h wanted to $spell.n."),
        ("What was the magic word?", 'The magic word was "$spell.word".'),
        ("What went wrong?", "$spell.wrong."),
    ],
    sum="how the helper of a wizard said the wrong spell",
)

plot(
    "balloon_trip",
    place="out farm",
    who="child animal",
    moral="curious home brave",
    title=["Up, Up and Away", "The Balloon"],
    topic=["a hot air balloon", "flying", "a trip in the air"],
    vars={
        "vehicle": [
            {"n": "a hot air balloon", "part": "the basket"},
            {"n": "a cloud", "part": "the soft middle"},
            {"n": "a giant bird", "part": "the warm feathers"},
            {"n": "a flying carpet", "part": "the fringe"},
        ],
        "over": [
            "over the sea with its tiny ships",
            "over the city with its thousand lights",
            "over a forest that looked like moss",
            "over mountains with white hats",
        ],
        "trouble2": [
            "a storm came up",
            "a flock of geese blocked the way",
            "they could not get down any more",
            "it began to sink",
        ],
    },
    open=[
        '<day>, $h saw $vehicle.n $p.at. "Get in," said a voice. It was $f.first.',
        "$h had always wanted to fly. And one morning there was $vehicle.n, right in front of the door.",
    ],
    trouble=[
        "$h sat down in $vehicle.part, and up they went, $over. But all at once, $trouble2.",
        "They rose higher and higher and flew $over. But then $trouble2.",
    ],
    feel=["<scared:h>", "<wonder:h>"],
    tries=[
        "They waved with both arms. It did not help.",
        "They threw out everything they did not need: a pot, a coat, an umbrella.",
    ],
    fix=[
        '$h remembered what $e had told $h.him: "Stay calm and look around." $h saw a small church far below and steered towards it. Slowly, slowly they came down, right into a heap of hay.',
        "$h whistled, and $c.first heard it. With its help they found a calm wind that carried them down to a green field.",
    ],
    close=[
        'A farmer came running. "Where do you come from?" he asked. "From up there," <said:h>.',
        'They were back before dark. "How was your day?" asked $e. "High," <said:h>.',
        "$h drew a map of everything that $h.he had seen.",
    ],
    qa=[
        ("How did $h fly?", "$h flew with $vehicle.n."),
        ("Where did they fly?", "They flew $over."),
    ],
    sum="how $h flew with $vehicle.n",
)

plot(
    "old_clock",
    place="town home",
    who="child",
    moral="help curious patient kind",
    title=["The Clock That Stopped", "Time Stands Still"],
    topic=["a clock", "time", "an old clock"],
    vars={
        "why": [
            {"n": "a bird had built a nest in it", "do": "waited until the little birds could fly"},
            {
                "n": "a tooth of a wheel was broken",
                "do": "asked the blacksmith to make a new wheel",
            },
            {
                "n": "nobody had thanked it for a hundred years",
                "do": "cleaned its face and said thank you",
            },
            {"n": "it was full of dust", "do": "brushed every wheel with a feather"},
            {"n": "a mouse was asleep on the big wheel", "do": "made a better bed for the mouse"},
        ]
    },
    open=[
        "In the middle of the town there was a tower with an old clock. <day>, it stopped at {three|four|nine|noon}.",
        "The big clock had told the time for two hundred years. One day it was silent.",
    ],
    trouble=[
        "Now nobody knew when to get up. The baker baked at night, and the teacher came at noon.",
        'Everyone was late or early. People ran around and asked each other, "What time is it?"',
    ],
    feel=['"Someone has to climb up there," <said:h>.'],
    tries=[
        "The mayor hit it with a stick. Nothing.",
        "A strong man turned the hands, but they went back.",
        "There were two hundred steps, and $h counted every one.",
    ],
    fix=[
        "$h climbed up the dark stairs with a lamp. At the top $h saw what was wrong: $why.n. $h $why.do. Tick, said the clock. Tock.",
        '$h and $f.first went up together. "Look!" whispered $f. $why.n. So they $why.do. Then the clock began to go again.',
    ],
    close=[
        "Bong! All the people looked up and cheered.",
        "From that day on $h visited the clock every Sunday.",
        '"What time is it?" asked $e. "The right time," <said:h>.',
    ],
    qa=[
        ("What stopped?", "The old clock stopped."),
        ("Why did the clock stop?", "It stopped because $why.n."),
    ],
    sum="how $h found out why the old clock had stopped",
)

plot(
    "ghost_house",
    place="town woods",
    who="child",
    moral="brave look friends",
    title=["The House at the End of the Street", "The Shy Ghost"],
    topic=["a ghost", "a scary house", "halloween", "an old house"],
    vars={
        "real": [
            {"n": "a shy ghost", "want": "wanted someone to play chess with"},
            {
                "n": "an old lady with a hundred cats",
                "want": "could not carry her shopping any more",
            },
            {"n": "a family of owls", "want": "only wanted to sleep by day"},
            {"n": "an old piano player", "want": "played at night, because then nobody laughed"},
        ]
    },
    open=[
        'At the end of the street stood an old house. "It is haunted," said all the children.',
        "Nobody dared to go near the old house. At night you could hear strange sounds.",
    ],
    trouble=[
        '"I dare you to knock at the door," said $g.first. $h did not want to look afraid. So $h.he went.',
        "<day>, $h's ball flew over the wall, right into the garden of the old house. $h had to get it.",
    ],
    feel=["<scared:h>"],
    tries=[
        "The gate creaked. The steps creaked. The door opened by itself.",
        '"Come with me, please," $h said to $f.first. They held hands.',
        "There were spider webs everywhere.",
    ],
    fix=[
        '"Who is there?" asked a voice that shook. It was more afraid than $h! Out of the dark came not a monster, but $real.n. "Please don\'t go," said the voice. It turned out that it was $real.n who $real.want.',
        "$h lifted the lamp, and there it was: $real.n. That was all! $h began to laugh. They talked, and $h understood: it was $real.n who $real.want.",
    ],
    close=[
        "Now $h visits the house every {Friday|Sunday}. The others still don't believe it.",
        '"Were you not afraid?" asked the others. "Only until I knew," <said:h>.',
        "Soon there was light in the windows again.",
    ],
    qa=[
        ("Who lived in the old house?", "It was $real.n."),
        ("Was $h afraid?", "Yes, at first $h was afraid."),
    ],
    sum="how $h found out who lived in the old house",
)

plot(
    "sea_adventure",
    place="water",
    hero="mermaid|fish|dolphin|octopus|crab|seal|whale|pirate",
    who="fantasy animal",
    moral="friends kind help brave",
    title=["Under the Sea", "The Ship at the Bottom"],
    topic=["the sea", "the ocean", "a mermaid", "a fish", "a whale"],
    vars={
        "lost2": [
            "a silver bell",
            "a glowing pearl",
            "a singing shell",
            "a golden comb",
            "a small anchor",
        ],
        "dark": [
            "a dark cave",
            "an old sunken ship",
            "a forest of seaweed",
            "a deep crack in the sea floor",
        ],
        "guard": [
            {"n": "a grumpy crab", "want": "wanted to be asked nicely"},
            {"n": "an old eel", "want": "wanted to hear a new song"},
            {"n": "a big shark", "want": "had a hook in the mouth and needed help"},
            {"n": "a giant octopus", "want": "wanted to play hide and seek"},
        ],
    },
    open=[
        "Deep under the sea, $h was looking for $lost2. Without it the water was dark and quiet.",
        "<day>, a strong wave carried away $lost2, the treasure of the sea. $h wanted to bring it back.",
    ],
    trouble=[
        'The way led into $dark. There sat $guard.n. "Nobody gets past me!"',
        "In $dark $h saw something shine. But $guard.n lay in front of it.",
    ],
    feel=["<scared:h>"],
    tries=[
        "$h tried to swim past very fast. A big arm stopped $h.him.",
        "$h waited until night. But $guard.n did not sleep.",
    ],
    fix=[
        '"What do you need?" <asked:h>. Nobody had ever asked that. It turned out that $guard.n $guard.want. $h was glad to do it. "You may pass," was the answer.',
        '$f.first said, "Let us not fight. Let us talk." And so they found out that $guard.n $guard.want. That was easy. And $h got $lost2.',
    ],
    close=[
        "Then the sea was bright again, and all the fish danced.",
        "From then on $guard.n was a friend.",
        "$h sang about it for a hundred years.",
    ],
    qa=[
        ("What was $h looking for?", "$h was looking for $lost2."),
        ("Who was in the way?", "It was $guard.n."),
        ("Where was it hidden?", "It was in $dark."),
    ],
    sum="how $h looked for $lost2 under the sea",
)

plot(
    "talking_tree",
    place="woods out",
    who="child animal",
    moral="kind listen enough",
    title=["The Talking Tree", "The Old Oak"],
    topic=["a tree", "a talking tree", "the forest", "saving a tree"],
    vars={
        "give": [
            "shade in summer",
            "apples in autumn",
            "a branch for the swing",
            "a home for the birds",
            "dry leaves for a bed",
        ],
        "save": [
            {
                "n": "some men came with saws",
                "do": "hung a sign with a hundred names on it and asked the men to stop. They did",
            },
            {"n": "a long dry summer came", "do": "carried a bucket of water every evening"},
            {
                "n": "a road was to be built there",
                "do": "showed the builders how the road could go around it",
            },
        ],
    },
    open=[
        "There was an old tree $p.at. $h came every day and leaned against it.",
        '<day>, $h sat under an old tree. "You are heavy," said a deep voice. The tree could talk!',
    ],
    trouble=[
        "The tree gave $h everything: $give and good advice. But then $save.n.",
        "They became friends. The tree told stories that were older than the town. Then $save.n.",
    ],
    feel=[
        '"You have to help me," said the tree. "I can\'t run away."',
        "The leaves of the tree began to shake.",
    ],
    tries=[
        '$h asked $g.first for help. "It is just a tree," said $g.',
        "$h stood before the tree with open arms.",
    ],
    fix=[
        "$h told everyone about the tree. $f.first came, and then others. Together they $save.do.",
        "$h thought all night long. In the morning $h got $f.first. The two of them $save.do.",
    ],
    close=[
        "The tree is still there. When the wind blows, you can hear it say $h's name.",
        "In autumn the tree threw one golden leaf into $h's hand.",
        "And $h's children will sit under that tree one day.",
    ],
    qa=[("Who could talk?", "The old tree could talk."), ("What was the danger?", "$save.n.")],
    sum="how $h saved an old tree that could talk",
)

plot(
    "train_trip",
    meets=True,
    place="town",
    who="child animal",
    moral="curious friends patient",
    object="thing",
    title=["The Night Train", "A Long Journey"],
    topic=["a train", "a journey by train", "travelling", "a trip"],
    vars={
        "dest": [
            "the mountains",
            "the sea",
            "the big city",
            "the land of snow",
            "the house of an old friend",
        ],
        "stop": [
            "snow lay on the rails",
            "a cow stood on the rails",
            "the engine needed water",
            "a tree had fallen across the rails",
        ],
    },
    open=[
        "<day>, $h and $e got on a train to $dest.",
        "$h had never been on a train before. Now it whistled, and the journey to $dest began.",
    ],
    trouble=[
        "They saw fields and rivers and small stations. In the seat across from them sat $f.intro with a $o.a. Suddenly the train stopped, because $stop.",
        "In the night the train stopped in the middle of nowhere, because $stop. Everyone grumbled. Only $f.first was not angry and held a $o.a.",
    ],
    feel=['"Will we ever get there?" <asked:h>.'],
    tries=[
        "Everyone looked out of the windows. The driver scratched his head.",
        "They waited for an hour. A baby cried, and a man complained.",
    ],
    fix=[
        '"Let us all get out and help," <said:h>. All the people lent a hand, and soon the way was free. They sang while they worked, and nobody was angry any more.',
        '$f stood up. "I have a story," said $f, "about this $o.n." All the people listened. And when the story was over, the train was moving again, and nobody had noticed.',
    ],
    close=[
        'At the end $f gave $h the $o.n. "So that you remember," said $f.',
        "When they came to $dest, all of them were friends.",
        "$h fell asleep and dreamed that the train could fly.",
    ],
    qa=[
        ("Where did the train go?", "The train went to $dest."),
        ("Why did the train stop?", "The train stopped because $stop."),
    ],
    sum="a journey by train to $dest",
)

plot(
    "simple_thing",
    place="out town woods farm home",
    who="child animal fantasy",
    moral="curious share kind enough",
    object="thing",
    title=["The $o.n", "$h and the $o.n", "The {Strange|Wonderful} $o.n"],
    topic=["a $o.n", "finding a $o.n", "a $o.a"],
    vars={
        "power": [
            {
                "n": "made a soft sound when someone was sad",
                "end": "So $h always knew who needed a friend",
            },
            {
                "n": "was warm when the right way was near",
                "end": "With it, nobody in the village got lost any more",
            },
            {
                "n": "glowed in the dark",
                "end": "Now even the smallest child was not afraid at night",
            },
            {
                "n": "was not magic at all, but very dear to somebody",
                "end": "A thing can be small and still mean the whole world",
            },
            {
                "n": "showed what the weather would be",
                "end": "After that the farmers always asked $h first",
            },
            {
                "n": "could be many things at once: a boat, a hat, a bed for a doll",
                "end": '"All you need is an idea," said $h',
            },
        ]
    },
    open=[
        "<day>, $h found a $o.a $p.at. Nobody knew where it came from.",
        '$h found a $o.a in an old box. "What is it good for?" <asked:h>.',
    ],
    trouble=[
        '$h showed it to $g.first. "It is just an old $o.n," said $g. "Throw it away."',
        '"Whose $o.n is this?" $h asked everyone $p.at. Nobody knew.',
    ],
    feel=["But $h had a feeling that it was special."],
    tries=[
        "$h shook it. Nothing happened.",
        "$h put it under the pillow and slept on it.",
        '$h took it to the market. "I will give you one coin for it," said a man. $h said no.',
    ],
    fix=[
        'Then $f.first looked at it closely. "Be quiet and wait," said $f. And they found out: the $o.n $power.n.',
        "A few days later $h noticed something. The $o.n $power.n! <wonder:h> $h ran to show it to $f.first.",
        '$e saw it and smiled. "I had one like that when I was young," said $e. "Mine $power.n."',
    ],
    close=[
        "$power.end.",
        "$h did not keep it just for $h.self. $h showed it to everyone who asked.",
        "In the end $h gave the $o.n to $c.first, who needed it more.",
    ],
    qa=[
        ("What did $h find?", "$h found a $o.a."),
        ("What was special about the $o.n?", "The $o.n $power.n."),
    ],
    sum="how $h found a $o.a",
)

plot(
    "gift_for",
    place="town home out",
    who="child animal",
    moral="kind share enough",
    object="thing",
    title=["The Best Gift", "A Gift for $e.call"],
    topic=["a present", "a gift", "giving a $o.n"],
    vars={
        "made": [
            "a picture of the two of them",
            "a chain of acorns",
            "a song with three verses",
            "a garden in a box",
            "a book with only one story in it",
            "a lantern made of paper",
        ]
    },
    open=[
        "Tomorrow was the birthday of $e. $h wanted to give $e a $o.a.",
        '$h saw a $o.a $p.at and thought, "That is the right gift for $e!"',
    ],
    trouble=[
        "But the $o.n cost too much. $h had only two coins.",
        "But when $h came back to get it, someone else had bought the $o.n.",
    ],
    feel=["<sad:h>", '"Now I have nothing to give," <said:h>.'],
    tries=[
        "$h offered to trade an old shoe for it. The shopkeeper laughed.",
        "$h asked $g.first to lend some money. $g had none.",
    ],
    fix=[
        '$f.first came along. <whats_wrong:f> <told:h,f> "Make something yourself," said $f. "Nobody can buy that." So $h stayed up late and made $made.',
        "$h looked at what was there: some paper, some string, some time. And $h.he began. When the sun came up, $h had made $made.",
    ],
    close=[
        '$e opened the parcel and was quiet for a moment. "This is the best gift I have ever got," said $e.',
        "$e had tears in $e.his eyes, but they were happy tears.",
        "Later $e showed $h a box. In it was every gift that $h had ever made.",
    ],
    qa=[
        ("Who was the gift for?", "The gift was for $e."),
        ("What did $h make?", "$h made $made."),
        ("What did $h want to buy?", "$h wanted to buy a $o.a."),
    ],
    sum="how $h made a gift for $e",
)
