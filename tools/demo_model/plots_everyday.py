"""Plots of everyday life: things lost and broken, friends, school, family, fears, lessons.

A plot is a dict of beats; each beat is a list of alternatives in the template language. `vars` are
picked once per story, so that a thing hidden 'under a bush' is found there too. `qa` holds
questions that the story answers.
"""

PLOTS = []


def plot(name, **beats):
    PLOTS.append(dict(beats, name=name))


plot(
    "lost_thing",
    object="toy",
    place="out water woods farm",
    who="child child animal",
    moral="careful help",
    title=["The Lost $o.n", "Where Is the $o.n?", "$h and the $o.a"],
    topic=["losing something", "a lost $o.n"],
    vars={
        "spot": [
            "under a bush",
            "behind a big rock",
            "in the tall grass",
            "next to an old log",
            "in a puddle",
            "under a pile of leaves",
            "between two roots",
            "at the foot of an old tree",
            "inside an empty flower pot",
        ]
    },
    open=[
        "$h had a $o.a. It was $h.his favourite thing in the world. <day>, $h took the $o.n $p.to and $o.did.",
        "For $h.his birthday, $h got a $o.a from $e. $h took it $p.to and $o.did.",
        "<day>, $h went $p.to with $h.his $o.a. <weather> $h $o.did and forgot everything else.",
    ],
    trouble=[
        "Then it was time to go home. $h looked around, but the $o.n was gone.",
        "$h put it down for a moment to look at $p.see. When $h.he came back, the $o.n was not there.",
        "Soon $h.he ran off to chase a butterfly. Later $h.he wanted the $o.n again, but where was it?",
    ],
    feel=['<oh_no:h> "My $o.n is gone!"', "<sad:h> {The $o.n had been a gift from $e.|}"],
    tries=[
        "$h looked {left and right|up and down|here and there}, but there was no $o.n.",
        "$h asked $c.first, but $c had not seen any $o.n.",
        "$h walked back the same way, step by step, and looked at the ground. No $o.n.",
        "$h called, as if the $o.n could answer. Of course it was silent.",
    ],
    fix=[
        '$f.first came by. <whats_wrong:f> <told:h,f> "Where did you have it last?" asked $f. $h thought. "I was looking at $p.see," $h.he said. They went there together, and there it was, $spot!',
        '$f.first came along. <told:h,f> <comfort:f,h> They looked for a long time. At last $f shouted, "I see something $o.adj!" It was the $o.n, $spot.',
        'Then $h met $s.intro. "Are you looking for a $o.a?" asked $s. "I saw one $spot." $h ran there, and $s was right.',
        'Then $h sat down and thought. "Where have I been?" In $h.his mind $h.he walked the whole way again. $h.He jumped up, ran back and looked $spot. There was the $o.n!',
    ],
    close=[
        "$h {hugged the $o.n|held the $o.n tight|picked up the $o.n and wiped it clean}. <glad:h>",
        '"I will never leave you alone again," $h said to the $o.n.',
    ],
    qa=[
        ("What did $h lose?", "$h lost $h.his $o.n."),
        ("Where was the $o.n?", "The $o.n was $spot."),
        ("What colour or kind was the $o.n?", "It was a $o.a."),
    ],
    sum="how $h lost a $o.a and found it again $spot",
)

plot(
    "broken_toy",
    object="toy",
    place="home out",
    who="child child animal",
    moral="help careful practice",
    title=["The Broken $o.n", "Good as New", "$h Fixes the $o.n"],
    topic=["something that broke", "a broken $o.n"],
    open=[
        "$h loved $h.his $o.a. Every day $h.he $o.did.",
        "<day>, $h and $f.first were $p.at. $h showed $f the $o.a, and they $o.did.",
        "$h had waited a long time for a $o.a, and now $h.he had one. All morning $h.he $o.did.",
    ],
    trouble=[
        "But {then|all at once|a little later}, there was a loud crack, and $o.broke.",
        "But $h was not careful, and $o.broke.",
        "Suddenly $h tripped over a stone. The $o.n fell, and $o.broke.",
    ],
    feel=["<oh_no:h> <sad:h>", '<sad:h> "It will never work again," $h.he said.'],
    tries=[
        "$h tried to push the pieces together, but they would not stay.",
        "$h tied it with a piece of grass. The grass broke at once.",
        "$h wished with closed eyes that the $o.n would be whole again. It was not.",
    ],
    fix=[
        '$h took the $o.n to $e. <told:h,e> "Let me see," said $e. Together they $o.mend. It took a while, but in the end the $o.n was as good as new.',
        '"I know how to fix that," said $f.first. They found some tools, and then they $o.mend. "Try it now," said $f. It worked!',
        '$h asked $s.intro for help. "First we look, then we think, then we work," said $s. They $o.mend. $h watched closely, so that next time $h.he could do it alone.',
    ],
    close=[
        "Now $h could $o.inf again. <glad:h>",
        "<thanks:h,e> The $o.n had a little scar now, but $h liked it even more.",
        "$h {used|played with} the $o.n again, but more gently than before.",
    ],
    qa=[
        ("What happened to the $o.n?", "It broke: $o.broke."),
        ("How was the $o.n fixed?", "They $o.mend."),
    ],
    sum="how $h's $o.n broke and was fixed again",
)

plot(
    "sharing",
    object="toy",
    place="out water home",
    who="child animal",
    moral="share friends",
    title=["$h Learns to Share", "One $o.n for Two"],
    topic=["sharing", "two friends and one $o.n", "learning to share"],
    open=[
        "$h had a new $o.a. $h.He carried it $p.to and $o.did.",
        "<day>, $h brought $h.his $o.a $p.to. Everyone looked at it.",
    ],
    trouble=[
        '$f.first came and looked at the $o.n. "May I try it too?" asked $f. "No!" said $h. "It is mine."',
        '$f.first wanted to $o.inf too. But $h held the $o.n tight and said, "Go away. You will break it."',
    ],
    feel=["<sad:f> $f walked away and sat alone.", "$f said nothing and went to play alone."],
    tries=[
        "$h played alone for a while. But there was nobody to laugh with, and soon it was boring.",
        "$h looked over at $f. $f was making something with sticks and stones, and it looked like fun.",
    ],
    fix=[
        '$e saw it and sat down beside $h. "How would you feel if $f did that to you?" $e asked. $h thought about it. "Sad," $h.he said. Then $h got up, went to $f and held out the $o.n. "You can have a turn," $h.he said. <sorry:h>',
        'After a time $h could not bear it any more. $h.He walked over to $f. "It is no fun alone," said $h. "Do you want to play with me? You can go first." <glad:f>',
        'Then $h saw that $f had a $t.a. $h wanted to hold it. $f gave it to $h at once. "Of course you can," said $f. $h felt ashamed. "Here," said $h, "take my $o.n. Let us share."',
    ],
    close=[
        "First $f had a turn, and then $h had a turn. <play>",
        "They took turns all afternoon. <play>",
        "With two, the game was twice as good. <play>",
    ],
    qa=[
        ("What did $f want?", "$f wanted to play with the $o.n."),
        ("What did $h learn?", "$h learned to share."),
    ],
    sum="how $h did not want to share a $o.a with $f at first, and then did",
)

plot(
    "fight_makeup",
    place="out water home school",
    who="child animal",
    moral="friends kind",
    title=["The Quarrel", "$h and $f Make Up"],
    topic=["two friends who fight", "saying sorry", "a quarrel"],
    vars={
        "build": [
            "a tower of blocks",
            "a house of sticks",
            "a sand castle",
            "a boat of bark",
            "a tent of blankets",
            "a long wall of stones",
            "a snow fort",
            "a secret den",
        ]
    },
    open=[
        "$h and $f.first were good friends. <day>, they were building $build $p.at.",
        "$h had a best friend, $f.first. They wanted to make $build together.",
    ],
    trouble=[
        '"I want it to be tall," said $h. "And I want it to be long," said $f. They pulled and pushed, and everything fell down.',
        'But $h stepped on it by accident, and it fell down. "You did that on purpose!" cried $f. "I did not!" shouted $h.',
        "$f wanted to be the boss. $h wanted to be the boss too. Soon they were shouting, and $f kicked it over.",
    ],
    feel=[
        "<cross:h> <cross:f> They both went home.",
        '"I will never play with you again!" said $h, and $f said the same.',
    ],
    tries=[
        "$h tried to play alone, but it was not the same.",
        "$h told $h.self that it was all $f.s fault, but it did not feel right.",
        "At home $f looked out of the window and missed $h.",
    ],
    fix=[
        'The next day they met by chance. Both looked at their feet. "I am sorry," they said at the same time. Then they had to laugh.',
        '<whats_wrong:e> <told:h,e> "Is being right more important than your friend?" asked $e. $h shook $h.his head and ran to $f.s home. <sorry:h> <forgive:f>',
        "$h made a card with a red heart and put it at $f.s door. A little later there was a knock. <sorry:f> <forgive:h>",
    ],
    close=[
        "Then they built $build again. This time it was tall and long. <play>",
        "They made $build once more, and it was better than the first one.",
        "<hug:h,f> <play>",
    ],
    qa=[
        ("Who did $h have a fight with?", "$h had a fight with $f."),
        ("What did they build?", "They built $build."),
    ],
    sum="two friends, $h and $f, who had a fight and made up again",
)

plot(
    "lie_honest",
    place="home",
    who="child child animal",
    moral="honest",
    title=["The Truth", "$h Tells the Truth", "The Broken Vase"],
    topic=["telling the truth", "honesty", "a lie"],
    vars={
        "vase": [
            "the blue vase",
            "the big window",
            "the best plate",
            "the kitchen lamp",
            "the old clock",
            "the glass bowl",
            "the mirror in the hall",
            "the flower pot",
        ],
        "liar": ["the cat", "the wind", "a bird", "the dog from next door", "a ghost"],
    },
    open=[
        "$e had told $h not to play ball inside. But it was raining, and $h was bored.",
        "<day>, $h was running around inside the house, faster and faster.",
        "$h was alone for a moment. $h.He threw a ball up and caught it, up and down.",
    ],
    trouble=[
        "There was a crash. $vase lay on the floor in pieces.",
        "Bang! $h hit $vase, and it broke.",
        "Then $h slipped and knocked over $vase.",
    ],
    feel=[
        "<scared:h> $h hid the pieces {under the bed|behind the sofa|in a box}.",
        "<oh_no:h> $h did not want anyone to know.",
    ],
    tries=[
        '"What happened to $vase?" asked $e. "It was $liar," said $h quickly. $e looked at $h for a long time and said nothing.',
        'When $e came in, $h said, "I think $liar did it." But $h.his face was hot and $h.his tummy hurt.',
    ],
    fix=[
        'At dinner $h could not eat. The lie felt like a stone inside. At last $h said, "It was not $liar. I broke $vase. <sorry:h>"',
        'That night $h could not sleep. $h.He got up and went to $e. "I told a lie," said $h. "I broke $vase myself."',
        'Then $h saw that $e was about to shut the door so that $liar could not get in again. That was not fair. "Stop," said $h. "It was me."',
    ],
    close=[
        '"I am sad about it," said $e, "but I am glad that you told me the truth." They swept up the pieces together.',
        "<forgive:e> The next day, $h helped to clean the whole house to make up for it.",
        '$e hugged $h. "Things can be bought again," said $e. "Trust cannot."',
    ],
    qa=[
        ("What did $h break?", "$h broke $vase."),
        ("Who did $h blame?", "$h said that it was $liar."),
        ("Did $h tell the truth in the end?", "Yes, in the end $h told $e the truth."),
    ],
    sum="how $h broke $vase, told a lie, and then told the truth",
)

plot(
    "dark_fear",
    place="home",
    who="child animal",
    moral="brave",
    title=["Afraid of the Dark", "The Noise at Night"],
    topic=["being afraid of the dark", "bedtime", "the night"],
    vars={
        "noise": [
            {"n": "a scratching sound", "was": "a branch that touched the window"},
            {"n": "a low growl", "was": "the dog, who was snoring"},
            {"n": "a tap, tap, tap", "was": "water dripping in the sink"},
            {"n": "a soft step on the stairs", "was": "the cat going down to eat"},
            {"n": "a long whistle", "was": "the wind in the chimney"},
            {"n": "a rustling noise", "was": "a little mouse in a paper bag"},
            {"n": "a loud creak", "was": "the old door moving in the wind"},
        ]
    },
    open=[
        "$h was afraid of the dark. Every night, $h.he asked for a light.",
        "It was bedtime. $e said good night and turned off the light.",
        "$h did not like the night. In the dark, the chair looked like a {bear|monster|giant}.",
    ],
    trouble=[
        "Then $h heard $noise.n.",
        "In the middle of the night $h woke up. There was $noise.n!",
        "All was quiet. Then, from far away, came $noise.n.",
    ],
    feel=[
        "<scared:h> $h pulled the blanket over $h.his head.",
        '<scared:h> "Who is there?" whispered $h. Nobody answered.',
    ],
    tries=[
        "$h counted to ten, but the sound was still there.",
        "$h sang a song very quietly. It helped a little, but not much.",
        "$h held $h.his {pillow|teddy bear} tight and waited.",
    ],
    fix=[
        '"I want to know what it is," thought $h. $h.He took a lamp and walked slowly, one step after the other. And what was it? It was only $noise.was! $h laughed out loud.',
        '$h called for $e. $e came and took $h by the hand. "Let us look together," said $e. They looked and found it: $noise.was. That was all!',
        '$h got up and opened the door a tiny bit. Then $h.he saw it: $noise.was. "So that is what you are," said $h, and $h.his heart grew calm.',
    ],
    close=[
        "$h went back to bed. The dark was just the dark now, soft and quiet.",
        '$e showed $h the stars at the window. "Without the dark we could not see them," said $e.',
        "After that $h needed only a very small light, and later none at all.",
    ],
    qa=[
        ("What did $h hear?", "$h heard $noise.n."),
        ("What made the noise?", "It was $noise.was."),
        ("What was $h afraid of?", "$h was afraid of the dark."),
    ],
    sum="how $h heard $noise.n in the night and found out that it was only $noise.was",
)

plot(
    "learn_skill",
    place="out water home school",
    who="child animal",
    moral="practice patient",
    title=["$h Learns to $skill.short", "Try Again", "Practice, Practice"],
    topic=["learning something new", "not giving up", "practice"],
    vars={
        "skill": [
            {
                "n": "ride a bicycle",
                "short": "Ride",
                "fail": "fell into the grass",
                "tip": "look ahead and not at your feet",
                "did": "rode all the way around the house",
            },
            {
                "n": "swim",
                "short": "Swim",
                "fail": "went under and coughed",
                "tip": "kick your legs and breathe slowly",
                "did": "swam from one side to the other",
            },
            {
                "n": "whistle",
                "short": "Whistle",
                "fail": "only blew air",
                "tip": "make your lips small and round",
                "did": "whistled a whole song",
            },
            {
                "n": "tie a knot",
                "short": "Tie a Knot",
                "fail": "made a big mess of string",
                "tip": "make one loop first and go around it",
                "did": "tied a perfect knot",
            },
            {
                "n": "play the flute",
                "short": "Play the Flute",
                "fail": "made a terrible squeak",
                "tip": "blow as softly as you can",
                "did": "played a sweet little tune",
            },
            {
                "n": "skate on the ice",
                "short": "Skate",
                "fail": "sat down hard on the ice",
                "tip": "bend your knees a little",
                "did": "glided over the ice like a swan",
            },
            {
                "n": "read",
                "short": "Read",
                "fail": "mixed up all the letters",
                "tip": "go one letter at a time",
                "did": "read a whole page aloud",
            },
            {
                "n": "juggle",
                "short": "Juggle",
                "fail": "dropped every ball",
                "tip": "start with just one ball",
                "did": "kept three balls in the air",
            },
            {
                "n": "bake bread",
                "short": "Bake",
                "fail": "made bread as hard as a brick",
                "tip": "let the dough rest in a warm place",
                "did": "baked a soft golden loaf",
            },
            {
                "n": "draw a horse",
                "short": "Draw",
                "fail": "drew something that looked like a potato",
                "tip": "begin with simple circles",
                "did": "drew a fine horse with a long tail",
            },
            {
                "n": "dance",
                "short": "Dance",
                "fail": "stepped on everyone's feet",
                "tip": "listen to the music and count to four",
                "did": "danced across the whole floor",
            },
        ]
    },
    open=[
        "$h wanted to learn to $skill.n. All $h.his friends could do it.",
        '<day>, $h saw $f.first $p.at. $f could $skill.n, and it looked so easy. "I want to do that too," said $h.',
    ],
    trouble=[
        "$h tried it at once. But $h.he $skill.fail.",
        "The first time, $h $skill.fail. The second time was not better.",
        "It was much harder than it looked. Again and again, $h $skill.fail.",
    ],
    feel=[
        '<cross:h> "I can\'t do it," $h.he said.',
        '<sad:h> "I will never learn it."',
        "$g.first laughed, and $h turned red.",
    ],
    tries=[
        "$h tried with closed eyes. That was even worse.",
        "$h tried it very fast. It did not work.",
        "$h watched how others did it, and tried again. It was a tiny bit better.",
    ],
    fix=[
        '$e had watched. "May I give you some advice?" $e asked. "You should $skill.tip." $h tried it that way. It was better! $h practiced every day, and after {a week|ten days|a month} $h.he $skill.did.',
        '"It took me a long time too," said $f.first. "The trick is to $skill.tip." They practiced together, day after day. And one morning, $h $skill.did.',
        "$h decided to practice a little every day. On Monday it went badly. On Tuesday it went a little better. $h remembered to $skill.tip. And on Sunday, $h $skill.did!",
    ],
    close=[
        '"Look! Look at me!" <cried:h>. <glad:h>',
        "Everyone clapped. <glad:h>",
        "Soon $h was teaching $g.first how to $skill.n.",
    ],
    qa=[
        ("What did $h want to learn?", "$h wanted to learn to $skill.n."),
        ("What advice did $h get?", "The advice was to $skill.tip."),
        ("Did $h give up?", "No, $h kept trying until it worked."),
    ],
    sum="how $h learned to $skill.n",
)

plot(
    "new_kid",
    meets=True,
    place="school out",
    who="child",
    moral="kind friends look",
    title=["The New {Boy|Girl}", "A New Friend"],
    topic=["a new child at school", "making a new friend", "the first day of school"],
    vars={
        "from": [
            "a far country",
            "a town by the sea",
            "the mountains",
            "a big city",
            "an island",
            "the other side of the river",
        ],
        "like": [
            "drawing",
            "football",
            "telling stories",
            "singing",
            "stars and planets",
            "insects",
            "chess",
            "baking",
        ],
    },
    open=[
        "<day>, a new child came to the class. It was $f.intro, from $from.",
        "$f.intro had just moved here from $from. It was the first day at school, and $f knew nobody.",
    ],
    trouble=[
        "$f sat alone {at lunch|under a tree|in the last row}. Nobody talked to $f.him.",
        "At playtime all the others ran off. $f stood by the wall and watched.",
        "$f talked a little differently, and some children laughed.",
    ],
    feel=[
        '$h saw it. "I would feel so lonely," thought $h.',
        "<sad:f> $h looked at $f and felt sorry.",
    ],
    tries=[
        "$h smiled at $f, but $f looked away.",
        '"Hi," said $h. $f answered so quietly that nobody could hear.',
    ],
    fix=[
        'Then $h took $h.his lunch and sat down next to $f. "Do you like $like?" asked $h. $f looked up. "I love $like!" said $f. And so they began to talk.',
        '$h had an idea. $h.He went over and said, "We need one more for our game. Will you play with us?" $f nodded. Soon $h found out that they both liked $like.',
        '$h drew a map of the school and gave it to $f. "Here is the best tree, and here the softest grass," said $h. <glad:f> "Thank you," said $f. "Do you like $like?" It turned out that they both did.',
    ],
    close=[
        "From then on they walked to school together.",
        '"This is the best first day ever," said $f.',
        "Soon the other children wanted to play with them too. <play>",
    ],
    qa=[
        ("Where did $f come from?", "$f came from $from."),
        ("What did $h and $f both like?", "They both liked $like."),
        ("Who was new at school?", "$f was new at school."),
    ],
    sum="how $h made friends with $f, who was new",
)

plot(
    "get_lost",
    place="woods town out farm",
    who="child animal",
    moral="listen home",
    title=["Lost!", "The Way Home", "$h Is Lost"],
    topic=["getting lost", "finding the way home"],
    vars={
        "lure": [
            "a blue butterfly",
            "a bright balloon",
            "the sound of music",
            "a striped cat",
            "a trail of tiny footprints",
            "a sweet smell",
            "a rolling ball",
            "a rainbow",
        ],
        "sign": [
            "the old oak tree",
            "a red roof",
            "the church bell",
            "the smoke from the chimney",
            "the little bridge",
            "the white gate",
            "a row of tall poplars",
        ],
    },
    open=[
        '<day>, $h went $p.to with $e. "Stay close to me," said $e.',
        "$h was out $p.at with $e. <weather>",
        '"Do not go too far," $e had said. But $h did not listen.',
    ],
    trouble=[
        "Then $h saw $lure. $h.He followed it, on and on. When $h looked up, nothing looked the same.",
        "$lure made $h forget everything. $h.He ran after it, around one corner and then another. Then $h stopped. Where was $e?",
    ],
    feel=['<scared:h> "$e.call! Where are you?" <cried:h>.', "<sad:h> $h was all alone."],
    tries=[
        "$h went left, but the path ended at a {wall|ditch|thick hedge}.",
        "$h ran this way and that way, and only got more lost.",
        "$h called as loud as $h.he could, but only the echo came back.",
    ],
    fix=[
        'Then $h remembered what $e had said: "If you are lost, stay where you are." So $h sat down on a {stone|bench|log} and waited. After a while $h.he heard a voice. It was $e!',
        '$s.intro came by. <whats_wrong:s,h> <told:h,s> "What do you remember about your way?" asked $s. "I remember $sign," said $h. "I know where that is," said $s. "Come with me." Soon $h saw $sign, and there stood $e.',
        '$h climbed up on a {rock|wall|fence} and looked around. Far away $h.he saw $sign. "That is near home!" $h walked straight towards it, and there was $e, looking everywhere.',
    ],
    close=[
        '$e hugged $h so tightly that $h could hardly breathe. "I was so worried," said $e.',
        '"I am sorry I ran away," said $h. "I am just glad you are safe," said $e.',
        "Hand in hand they went home and ate $w.",
    ],
    qa=[
        ("Why did $h get lost?", "$h followed $lure and went too far."),
        ("Who was looking for $h?", "It was $e."),
    ],
    sum="how $h followed $lure, got lost and found the way home",
)

plot(
    "birthday",
    place="home",
    who="child animal",
    moral="friends kind",
    title=["The Birthday Surprise", "Nobody Remembered", "A Surprise for $h"],
    topic=["a birthday", "a surprise party", "a birthday party"],
    vars={
        "age": "four five six seven eight nine ten".split(),
        "spot": [
            "behind the house",
            "in the barn",
            "in the garden",
            "under the big tree",
            "in the living room",
        ],
    },
    open=[
        "It was $h's birthday. Today $h.he was $age years old.",
        '$h woke up very early. "Today I am $age!" $h.he said.',
    ],
    trouble=[
        'But nobody said "Happy birthday". $e just said, "Good morning. Eat your breakfast."',
        '$h waited and waited, but nobody said a word about it. Even $f.first only said, "I am busy today."',
    ],
    feel=['<sad:h> "They all forgot," thought $h.', "$h sat down by the window and sighed."],
    tries=[
        '"Do you know what day it is?" $h asked. "It is {Monday|Tuesday|Friday|Saturday}," said $e.',
        "$h went to see $g.first, but nobody was at home.",
        "$h looked for presents everywhere, but there was nothing.",
    ],
    fix=[
        'In the afternoon $e said, "Please bring me the basket. It is $spot." $h went there slowly. "SURPRISE!" They were all there: $f.first and $g.first and many others. There was a big cake with $age candles.',
        'Then there was a knock at the door. It was $f.first. "Close your eyes and come with me," said $f. When $h opened $h.his eyes, they were $spot, and there were balloons and a cake and all $h.his friends. "Happy birthday, $h.call!"',
    ],
    close=[
        "$f gave $h a $o.a. <glad:h>",
        '"I thought you forgot," said $h. "How could we ever forget you?" said $e.',
        "$h blew out the candles and made a wish. It was a secret, of course. Then they ate the cake and danced.",
    ],
    qa=[
        ("How old was $h?", "$h was $age years old."),
        ("Where was the party?", "The party was $spot."),
        ("Why was $h sad at first?", "$h thought that everyone had forgotten $h.his birthday."),
    ],
    sum="how $h thought that everyone had forgotten $h.his birthday, until there was a surprise",
)

plot(
    "baking",
    place="home",
    who="child animal",
    moral="help patient listen",
    title=["The Cake", "$h Bakes", "Too Much Salt"],
    topic=["baking a cake", "cooking", "a kitchen"],
    vars={
        "cake": [
            "an apple pie",
            "a chocolate cake",
            "a pot of soup",
            "a big bread",
            "honey cookies",
            "a carrot cake",
            "a plum tart",
            "a pile of pancakes",
        ],
        "bad": [
            {"n": "salt instead of sugar", "taste": "terribly salty"},
            {"n": "pepper instead of cinnamon", "taste": "so hot that it burned"},
            {"n": "vinegar instead of milk", "taste": "awfully sour"},
            {"n": "ten spoons of flour too much", "taste": "as dry as sand"},
            {"n": "mustard instead of butter", "taste": "very strange"},
        ],
    },
    open=[
        "<day>, $h wanted to make $cake for $e.",
        "$h had a friend, $f.first, whose birthday was soon. $h wanted to bring $cake.",
        '$h was hungry. "I will make $cake all by myself," $h.he said.',
    ],
    trouble=[
        "$h did not read the recipe. $h.He put in $bad.n.",
        "$h was in a hurry and mixed up the jars. Into the bowl went $bad.n.",
    ],
    feel=[
        "$h tasted it. It was $bad.taste! <sad:h>",
        "It looked fine. But when $h took a bite, it was $bad.taste. <oh_no:h>",
    ],
    tries=[
        "$h added some water. Now it was wet and still $bad.taste.",
        "$h put honey on top, but it did not help.",
        "$h gave some to the dog. Even the dog walked away.",
    ],
    fix=[
        '$e came in and saw the mess. <told:h,e> $e laughed, but in a kind way. "Let us read the recipe together," said $e. They measured everything, stirred and waited. Soon the whole house smelled good.',
        'Just then $f.first came by. "I can help," said $f. "You read, and I will measure." Step by step they did it again. This time they looked at every jar twice.',
    ],
    close=[
        "This time it was delicious. They ate it all up.",
        "Everyone wanted a second piece. <glad:h>",
        '"This is the best I have ever had," said $e. <glad:h>',
    ],
    qa=[
        ("What did $h want to make?", "$h wanted to make $cake."),
        ("What went wrong?", "$h put in $bad.n."),
        ("How did it taste the first time?", "It was $bad.taste."),
    ],
    sum="how $h made $cake with $bad.n, and then made it again the right way",
)

plot(
    "grow_plant",
    place="out",
    who="child animal",
    moral="patient kind",
    title=["The Little Seed", "Wait and See", "$h's Garden"],
    topic=["growing a plant", "a seed", "a garden", "patience"],
    vars={
        "plant": [
            {"n": "sunflower", "end": "as tall as a house"},
            {"n": "tomato plant", "end": "full of red tomatoes"},
            {"n": "bean plant", "end": "climbing up to the roof"},
            {"n": "pumpkin", "end": "so big that two had to carry it"},
            {"n": "rose", "end": "covered in red flowers"},
            {"n": "apple tree", "end": "as high as $h.his knee"},
            {"n": "carrot", "end": "long and orange and sweet"},
            {"n": "strawberry plant", "end": "full of sweet berries"},
        ]
    },
    open=[
        '$e gave $h a tiny seed. "It will become a $plant.n," said $e.',
        "<day>, $h found a seed and put it in the ground.",
        "$h wanted to grow a $plant.n. $h.He made a hole, put in a seed and covered it with earth.",
    ],
    trouble=[
        "$h gave it water and sat down to watch. Nothing happened. An hour went by, and still nothing.",
        "The next day $h ran out to look. There was only brown earth. On the second day, too.",
        '"Grow!" said $h to the ground. "Grow now!" But it did not grow.',
    ],
    feel=['"It is a bad seed," said $h. <cross:h>', '<sad:h> "Maybe it does not like me."'],
    tries=[
        "$h sang to it. Nothing.",
        "$h gave it so much water that there was a puddle. That was not good.",
        '$h wanted to dig it up to look. "No, no," said $e. "It needs to rest."',
    ],
    fix=[
        '"A seed needs water, sun and time," said $e. So $h gave it a little water each day and waited. One week went by, then two. And one morning there was a small green leaf!',
        '$f.first said, "My plant took three weeks." So $h waited. $h.He watered it, pulled the weeds and waited some more. Then, after a warm rain, something green came out of the earth.',
    ],
    close=[
        "Every day it grew a little more. By the end of summer, it was $plant.end.",
        '"Hello, little one," said $h. In the end it was $plant.end. <glad:h>',
    ],
    qa=[
        ("What did $h plant?", "$h planted a seed that became a $plant.n."),
        ("What does a seed need?", "A seed needs water, sun and time."),
    ],
    sum="how $h planted a seed and learned to wait",
)

plot(
    "messy_room",
    place="home",
    who="child",
    moral="tidy",
    object="toy",
    title=["The Messy Room", "Where Are My Things?"],
    topic=["a messy room", "cleaning up", "being tidy"],
    vars={
        "event": [
            "go to the fair",
            "meet $f at the park",
            "leave for school",
            "go to the beach",
            "play in the big game",
            "visit $h.his cousins",
        ]
    },
    open=[
        "$h's room was a mess. There were socks on the lamp and books under the bed.",
        '$h never cleaned up. "I will do it tomorrow," $h.he always said.',
    ],
    trouble=[
        "<day>, $h wanted to $event. But $h.he could not find $h.his $o.n anywhere.",
        "It was time to $event, and $h needed the $o.a. But where was it in all that mess?",
    ],
    feel=["<oh_no:h> Everyone was waiting.", "<cross:h>"],
    tries=[
        "$h looked under the bed. There was an old sandwich. Yuck!",
        "$h looked in the closet, and a mountain of things fell on $h.him.",
        "$h looked behind the door and found only one green sock.",
    ],
    fix=[
        '"There is only one way," said $e. "We clean up." They put books with books, socks with socks and toys with toys. At the very bottom lay the $o.n.',
        '$f.first came in. "Wow," said $f. "Let us make it a game: who finds more red things?" They laughed and worked, and the pile got smaller and smaller. And there was the $o.n!',
    ],
    close=[
        "Now the room was clean, and $h could even dance in it.",
        '"So that is what my floor looks like," said $h, and everybody laughed.',
        "They were only a little late.",
    ],
    qa=[
        ("What could $h not find?", "$h could not find the $o.n."),
        ("Why could $h not find it?", "Because the room was a mess."),
    ],
    sum="how $h could not find the $o.n in a messy room and learned to be tidy",
)

plot(
    "sick_friend",
    place="home out",
    who="child animal",
    moral="kind friends",
    title=["$f Is Sick", "Get Well Soon"],
    topic=["a sick friend", "getting well", "visiting someone who is ill"],
    vars={
        "ill": [
            "a bad cold",
            "a fever",
            "a sore throat",
            "a broken leg",
            "a tummy ache",
            "red spots everywhere",
        ],
        "gift": [
            "a bunch of flowers",
            "a pot of warm soup",
            "a funny picture",
            "a jar of honey",
            "a soft scarf",
            "a book with riddles",
        ],
    },
    open=[
        "$h and $f.first wanted to play $p.at today.",
        "<day>, $h waited $p.at for $f.first, but nobody came.",
    ],
    trouble=[
        "But $f was in bed with $ill.",
        "Then $h heard the news: $f had $ill and had to stay in bed.",
    ],
    feel=['"Poor $f," said $h.', "<sad:h> All alone it was no fun."],
    tries=[
        '$h asked if $f could come out just for a little while. "No," said the doctor. "Rest is best."'
    ],
    fix=[
        '$h thought, "What would I like if I were sick?" Then $h got $gift and went to see $f. $f was pale, but when $h came in, $f.he smiled.',
        "<idea:h> $h made $gift, stood under the window of $f, sang a silly song and made faces. $f laughed so much that the bed shook.",
    ],
    close=[
        "Every day $h came back. On the {fifth|sixth|seventh} day $f was well again. <play>",
        '"You are the best medicine," said $f. And soon $f was up and running again.',
        "A week later it was $h who had $ill. And who came to visit? $f, of course.",
    ],
    qa=[("What was wrong with $f?", "$f had $ill."), ("What did $h bring?", "$h brought $gift.")],
    sum="how $h cheered up $f, who had $ill",
)

plot(
    "found_money",
    place="town out school",
    who="child",
    moral="honest kind",
    title=["The Lost Purse", "Finders Keepers?"],
    topic=["finding something valuable", "honesty", "a lost purse"],
    vars={
        "find": [
            "a purse full of coins",
            "a gold ring",
            "a silver watch",
            "a wallet",
            "a bag with money",
            "a pearl necklace",
        ],
        "want": [
            "a new bicycle",
            "a hundred ice creams",
            "a puppy",
            "the big toy in the shop window",
        ],
    },
    open=["<day>, $h was walking $p.to. <weather>", "$h was on the way $p.to with $f.first."],
    trouble=[
        "Something was lying on the ground. It was $find!",
        "$h saw something under a bench and picked it up. It was $find.",
    ],
    feel=[
        '<wonder:h> "With this I could buy $want!" thought $h.',
        "$h looked around. Nobody had seen it. <wonder:h>",
    ],
    tries=[
        "$h put it in $h.his pocket. But with every step it felt heavier.",
        '"Finders keepers," whispered a small voice in $h\'s head. But another voice said, "It is not yours."',
    ],
    fix=[
        'Then $h saw $s.intro. $s.He looked worried and was searching the ground. "Is this yours?" asked $h. "Yes! Oh, thank you!" said $s. "I thought it was gone forever."',
        '$h went to the police station and gave it to the officer. "That is very honest," said the officer. In the evening there was a knock at the door. It was the owner, $s.first, who wanted to say thank you.',
    ],
    close=[
        '"You have a good heart," said $s, and gave $h a $o.a. That was worth more than $want.',
        "$h felt as light as a feather. It was better than having $want.",
        "$e heard about it and was very proud.",
    ],
    qa=[("What did $h find?", "$h found $find."), ("Did $h keep it?", "No, $h gave it back.")],
    sum="how $h found $find and gave it back",
)

plot(
    "team_game",
    place="out school farm",
    who="child animal",
    moral="help friends practice",
    title=["The Big Game", "One Team", "The Last Minute"],
    topic=["a game", "working as a team", "football", "sports"],
    vars={
        "game": [
            "football",
            "the relay race",
            "basketball",
            "tug of war",
            "the sack race",
            "hockey",
        ],
        "bad": ["too small", "too slow", "too shy", "too clumsy", "too young"],
    },
    open=[
        "<day>, there was a big game: $game. All the others already had a team.",
        "$h wanted to play $game with the others.",
    ],
    trouble=[
        '"You are $bad," said $g.first. "You can watch."',
        'But $h was $bad, or so the others said, and nobody picked $h.him. "Not you," said $g.first.',
    ],
    feel=["<sad:h>", "$h bit $h.his lip and sat down at the side."],
    tries=[
        '"I can run and I can think," said $h. But nobody listened.',
        "$h cheered for the others. They were losing.",
    ],
    fix=[
        'Then $f.first hurt a foot, and one player was missing. "Let $h play!" said $f. $h stepped in. $h.He saw that everyone played alone. "We must work together!" <cried:h>. They did, and in the last minute they won.',
        '$f.first, the captain, came over. "We need a plan," said $f. $h had watched everything and knew what was wrong. "They always go left," said $h. "Let us wait for them there." The plan worked, and the team won.',
    ],
    close=[
        "They lifted $h up and cheered. <glad:h>",
        '"You are not $bad at all," said $g. "I am sorry."',
        "After that, $h was always picked first.",
    ],
    qa=[
        ("What game did they play?", "They played $game."),
        ("Why did nobody want $h in the team?", "They thought that $h was $bad."),
    ],
    sum="how $h, who was called $bad, helped the team to win",
)

plot(
    "cant_sleep",
    named=True,
    place="home",
    who="child animal",
    moral="patient home",
    title=["$h Cannot Sleep", "Counting Stars"],
    topic=["not being able to sleep", "bedtime", "going to sleep"],
    vars={
        "tomorrow": [
            "the school trip",
            "the first day of the holidays",
            "a birthday",
            "a long journey",
            "the big race",
            "the first snow",
        ]
    },
    open=[
        "It was late, but $h could not sleep. Tomorrow was $tomorrow.",
        "The moon was high. Everyone was asleep, only $h was awake and thought of $tomorrow.",
    ],
    trouble=[
        "$h turned to the left. $h turned to the right. The pillow was too hot, and the blanket was too short.",
        "The more $h wanted to sleep, the more awake $h.he was.",
    ],
    feel=['"I will never fall asleep," <said:h>.', "<cross:h>"],
    tries=[
        "$h counted sheep. At ninety-nine the sheep began to dance.",
        "$h drank a glass of water. Then $h.he had to go to the bathroom.",
        "$h closed $h.his eyes very tight. That did not help at all.",
    ],
    fix=[
        '$e heard the noise and sat down on the bed. "Think of a quiet place," said $e. "A lake, with small waves. They come, and they go. They come, and they go." $h listened. The waves came and went, and $h was asleep.',
        "$h looked out of the window and began to give each star a name. One was called $f, and one was called $g. Before $h.he came to the tenth star, $h.his eyes closed.",
        "$e told a very long and very boring story about a stone that lay on the ground. It lay there on Monday. It lay there on Tuesday. On Wednesday $h was asleep.",
    ],
    close=[
        "And in the morning $h was the last one to wake up.",
        "The moon smiled through the window.",
        '"Good night, $h.call," whispered $e.',
    ],
    qa=[("Why could $h not sleep?", "$h was thinking of $tomorrow.")],
    sum="how $h could not sleep before $tomorrow",
)

plot(
    "jealous_sibling",
    place="home",
    who="child animal",
    moral="kind friends home",
    title=["The New Baby", "Big {Brother|Sister}"],
    topic=["a new baby", "a little brother or sister", "being jealous"],
    vars={
        "baby": [
            {"n": "a baby brother", "k": "little brother", "he": "he", "him": "him"},
            {"n": "a baby sister", "k": "little sister", "he": "she", "him": "her"},
        ],
        "do": ["makes a funny face", "sings a song", "plays peekaboo", "shakes a rattle"],
    },
    open=[
        "<day>, there was big news: $h had $baby.n now.",
        "$h used to be the only child. Then $baby.n was born.",
    ],
    trouble=[
        "Everyone came to see the baby. Nobody looked at $h.",
        "The baby cried all day, and everyone had to be quiet. Nobody had time to play with $h.",
    ],
    feel=[
        '<cross:h> "I don\'t like the baby," <said:h>.',
        '<sad:h> "They don\'t love me any more."',
    ],
    tries=[
        '$h made a lot of noise. "Shh!" said everyone.',
        "$h climbed into the baby's bed. It was far too small.",
        '"Can we give the baby back?" asked $h. They could not.',
    ],
    fix=[
        "Then one day the baby cried and cried, and nobody could stop it. $h came near and sang a silly song. The baby stopped crying, looked at $h and laughed. It was the very first laugh.",
        '$e took $h in $e.his arms. "My love for you did not get smaller," said $e. "A heart grows when a baby comes." Then the baby took $h\'s finger and held it tight.',
    ],
    close=[
        '"I think $baby.he likes me," said $h. From then on $h was proud to have a $baby.k.',
        "$h told the baby about all the games they would play one day.",
        'Now $h tells everyone, "That is my $baby.k!"',
    ],
    qa=[
        ("Who was new in the family?", "$h had $baby.n."),
        ("How did $h feel at first?", "At first $h felt jealous."),
    ],
    sum="how $h got $baby.n, felt jealous at first and was proud in the end",
)

plot(
    "doctor_visit",
    place="town home",
    who="child animal",
    moral="brave",
    title=["The Wobbly Tooth", "At the Doctor"],
    topic=["going to the doctor", "a loose tooth", "the dentist"],
    vars={
        "ache": [
            {"n": "a tooth hurt", "do": "looked at the tooth and cleaned it", "who": "dentist"},
            {"n": "one ear hurt", "do": "looked into the ear with a little lamp", "who": "doctor"},
            {
                "n": "there was a thorn in one foot",
                "do": "pulled out the thorn with small tweezers",
                "who": "doctor",
            },
            {"n": "one eye was red", "do": "put two drops into the eye", "who": "doctor"},
            {
                "n": "$h.his throat hurt",
                "do": "looked down the throat and gave $h some sweet syrup",
                "who": "doctor",
            },
        ]
    },
    open=["<day>, $h woke up, and $ache.n.", "$h did not want to eat breakfast, because $ache.n."],
    trouble=[
        '"We should go to the $ache.who," said $e. "No!" said $h. "It will hurt."',
        "$e called the $ache.who. But $h hid under the table and did not want to go.",
    ],
    feel=["<scared:h>"],
    tries=[
        '"It is already better," said $h. But it was not.',
        "$h put on a scarf and a hat so that nobody would know $h.him.",
    ],
    fix=[
        '$e held $h\'s hand all the way. The $ache.who had a kind voice and told a joke. Then the $ache.who $ache.do. "All done," said the $ache.who. $h had hardly felt it.',
        '$f.first came along. "I was there last week," said $f. "You can squeeze my hand." The $ache.who $ache.do. "Is that all?" asked $h. "That is all," said the $ache.who.',
    ],
    close=[
        "$h got a sticker with a lion on it, for being brave.",
        "The next day the pain was gone.",
        '"It was not so bad," <said:h>.',
    ],
    qa=[("What was wrong with $h?", "$ache.n."), ("Who helped $h?", "The $ache.who helped $h.")],
    sum="how $h was afraid of the $ache.who and was brave",
)

plot(
    "save_money",
    place="town",
    who="child",
    moral="patient enough kind",
    object="thing",
    title=["The $o.n in the Window", "Ten Coins"],
    topic=["saving money", "wanting to buy a $o.n"],
    vars={
        "job": [
            "washed cars",
            "watered plants for the neighbours",
            "carried bags at the market",
            "sold lemonade",
            "walked dogs",
            "swept the steps",
            "picked apples",
        ],
        "cost": "ten twelve fifteen twenty thirty".split(),
        "has": "two three four five".split(),
    },
    open=[
        "In the window of the toy shop there was a $o.a. $h looked at it every day.",
        '<day>, $h saw a $o.a at the market. "I want it!" <said:h>.',
    ],
    trouble=[
        "It cost $cost coins, but $h had only $has.",
        '"$cost coins, please," said the shopkeeper. $h had only $has in $h.his pocket.',
    ],
    feel=["<sad:h>", '"That is so much," <said:h>.'],
    tries=[
        '$h asked $e for money. "You can earn it," said $e.',
        "$h looked under the sofa and found one coin. It was not enough.",
    ],
    fix=[
        "So $h worked. Every day after school $h.he $job. One coin, and another, and another. In the end there were $cost coins in the jar.",
        "$h and $f.first had an idea. Together they $job. It was hard work, but they sang while they did it, and soon they had enough.",
    ],
    close=[
        "$h went to the shop, and the $o.n was still there. It felt better than a gift, because $h had earned it. <glad:h>",
        "On the way to the shop $h saw $s.intro, who had lost everything in a fire. $h stopped. Then $h gave half of the coins away. The $o.n could wait. $h felt richer than before.",
        'The shopkeeper smiled. "You came back," he said, and wrapped the $o.n in blue paper.',
    ],
    qa=[
        ("What did $h want to buy?", "$h wanted to buy a $o.a."),
        ("How much did it cost?", "It cost $cost coins."),
        ("How did $h earn money?", "$h $job."),
    ],
    sum="how $h saved $cost coins for a $o.a",
)

plot(
    "rainy_day",
    place="home",
    who="child animal",
    moral="curious friends",
    title=["A Rainy Day", "Nothing to Do"],
    topic=["a rainy day", "being bored", "the rain"],
    vars={
        "game": [
            {
                "n": "a ship",
                "from": "the sofa and two brooms",
                "adv": "sailed over the wide sea and met a whale",
            },
            {
                "n": "a castle",
                "from": "blankets and chairs",
                "adv": "fought a terrible dragon with wooden spoons",
            },
            {
                "n": "a rocket",
                "from": "a big cardboard box",
                "adv": "flew to the moon and back before dinner",
            },
            {
                "n": "a train",
                "from": "all the chairs in a row",
                "adv": "travelled around the whole world",
            },
            {
                "n": "a shop",
                "from": "a table and some boxes",
                "adv": "sold pebbles, buttons and jokes",
            },
            {
                "n": "a theatre",
                "from": "a curtain and a lamp",
                "adv": "played a funny show for everyone",
            },
        ]
    },
    open=[
        "It was raining. It had rained yesterday, and it rained today.",
        "<day>, big drops ran down the window. $h had wanted to go out with $f.first.",
    ],
    trouble=[
        '"I am so bored," <said:h>. "There is nothing to do."',
        "$h sat at the window and counted the drops. It was the most boring day ever.",
    ],
    feel=["<cross:h>", "$h sighed ten times."],
    tries=[
        "$h looked at all the toys. None of them was any fun.",
        '"Read a book," said $e. But $h did not want to.',
    ],
    fix=[
        '<idea:h> "Let us make $game.n!" $h.He took $game.from, and soon it was ready. $f.first got in too. They $game.adv.',
        'There was a knock. It was $f.first, wet from head to toe. "I know a game," said $f. With $game.from they made $game.n. Then they $game.adv.',
    ],
    close=[
        'Suddenly $e said, "Look, the sun is out!" "Not now," said $h. "We are busy."',
        "When the rain stopped, nobody noticed. <play>",
        '"I hope it rains tomorrow too," <said:h>.',
    ],
    qa=[
        ("What was the weather like?", "It was raining."),
        ("What did they make?", "They made $game.n from $game.from."),
    ],
    sum="how $h and $f made $game.n on a rainy day",
)

plot(
    "show_stage",
    place="school town",
    who="child animal",
    moral="brave friends practice",
    title=["On the Stage", "The School Play"],
    topic=["a school play", "stage fright", "singing in front of people"],
    vars={
        "act": [
            {
                "n": "sing a song",
                "did": "sang, first softly and then loud and clear",
                "err": "forgot the first word",
            },
            {
                "n": "play the part of a tree",
                "did": "waved the branches just at the right moment",
                "err": "lost one branch",
            },
            {
                "n": "tell a poem",
                "did": "said the whole poem without a mistake",
                "err": "could not remember the first line",
            },
            {
                "n": "dance",
                "did": "danced as if nobody was watching",
                "err": "put on two left shoes",
            },
            {
                "n": "play the violin",
                "did": "played the song to the very last note",
                "err": "dropped the bow",
            },
            {
                "n": "do a magic trick",
                "did": "pulled a scarf out of an empty hat",
                "err": "dropped the magic cards",
            },
        ]
    },
    open=[
        "There was going to be a show, and $h was to $act.n.",
        '"In one week we have a show," said the teacher. "$h, you will $act.n."',
    ],
    trouble=[
        "On the evening of the show $h looked through the curtain. So many people! <scared:h>",
        "$h stepped on the stage, saw all the faces and $act.err.",
    ],
    feel=['"I can\'t do it," <said:h>.', "$h wanted to sink into the floor."],
    tries=["$h thought about running home.", "$h drank some water, but $h.his mouth stayed dry."],
    fix=[
        '$f.first came close. "Look only at me," said $f. "Do it as you do it at home." $h looked at $f and at nobody else. Then $h $act.did.',
        "In the first row sat $e, who nodded and smiled. $h took a deep breath, counted to three and began. $h.He $act.did.",
    ],
    close=[
        "For a moment it was quiet. Then everyone clapped and clapped. <glad:h>",
        '"Bravo!" they shouted. $h took a bow. <glad:h>',
        '"Can I do it again tomorrow?" asked $h.',
    ],
    qa=[
        ("What did $h have to do?", "$h had to $act.n."),
        ("Who helped $h to be brave?", "Someone $h trusted was there and gave $h courage."),
    ],
    sum="how $h was afraid to $act.n on the stage and did it all the same",
)

plot(
    "move_house",
    named=True,
    meets=True,
    place="home out",
    who="child animal",
    moral="home friends brave",
    title=["The New House", "Moving Day"],
    topic=["moving to a new house", "a new home"],
    vars={
        "miss": [
            "the old apple tree",
            "the creaking stairs",
            "the window with the view of the sea",
            "the neighbour's cat",
            "the smell of the old kitchen",
        ],
        "found": [
            "a secret door under the stairs",
            "a tree that was good for climbing",
            "a round window with coloured glass",
            "an old swing in the garden",
            "marks on a door that showed how tall other children had been",
        ],
    },
    open=[
        "$h had to move to a new home far away.",
        "All $h's things were in boxes. Today was moving day.",
    ],
    trouble=[
        "In the new house everything was strange. $h missed $miss.",
        'The rooms were empty, and every sound was new. "I miss $miss," <said:h>.',
    ],
    feel=["<sad:h>", '"I want to go home," said $h. "This is home now," said $e.'],
    tries=[
        "$h did not want to open the boxes.",
        "$h drew a picture of the old house and looked at it all day.",
    ],
    fix=[
        'Then $h went to look around, and found $found. "Maybe this house has secrets," thought $h. There was a voice behind the fence. "Hello, I am $f. Did you find it? I can show you more!" $h followed $f.him.',
        'On the second day there was a knock. There stood $f.intro. "Welcome," said $f. "I brought you $w. Do you want to see something?" And $f showed $h $found.',
    ],
    close=[
        "That evening $h opened the first box. The next day the second one. And then it was home.",
        '$h wrote a letter to the old house: "I am fine. I miss you a little."',
        "<play>",
    ],
    qa=[
        ("What did $h miss?", "$h missed $miss."),
        ("What did $h find in the new home?", "$h found $found."),
    ],
    sum="how $h moved to a new house, missed $miss and found $found",
)

plot(
    "wait_turn",
    place="town out",
    who="child",
    moral="patient listen kind",
    title=["No Time!", "The Slow Day"],
    topic=["being in a hurry", "patience"],
    vars={
        "goal": [
            "the ice cream van",
            "the last bus",
            "the start of the circus",
            "the opening of the new playground",
            "the big parade",
        ]
    },
    open=[
        "$h was always in a hurry. <day>, $h.he wanted to get to $goal.",
        '"Quick, quick!" said $h. "I must not miss $goal!"',
    ],
    trouble=[
        "$h ran so fast that $h.he put on two different shoes, forgot the money and left the door open.",
        "$h ran and ran, and fell over a stone. Now $h.his knee was bleeding, and $h.his trousers were torn.",
    ],
    feel=["<oh_no:h>"],
    tries=[
        "$h wanted to run on, but $h.his shoes came off.",
        "$h took a short cut. It ended in a {muddy field|locked gate|big puddle}.",
    ],
    fix=[
        '$h stopped and took a breath. "One thing after another," $h.he said. First $h put everything right. Then $h.he walked, quickly but carefully, and got there just in time.',
        'Then $s.first dropped a bag, and everything rolled over the street. $h looked at $goal far away, and then at $s. Then $h knelt down and helped to pick everything up. "You are a good child," said $s. "I am going there too, and I have a {cart|car|carriage}. Come along!"',
    ],
    close=[
        '"Slow is smooth," thought $h, "and smooth is fast."',
        "There was even time to look at the clouds.",
        "<glad:h>",
    ],
    qa=[("Where did $h want to go?", "$h wanted to get to $goal.")],
    sum="how $h, who was always in a hurry, learned to slow down",
)
