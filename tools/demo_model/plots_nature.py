"""Plots of the woods, the farm and the water: kindness, pride, greed, weather, journeys."""

PLOTS = []


def plot(name, **beats):
    PLOTS.append(dict(beats, name=name))


plot(
    "kindness_repaid",
    place="woods out water",
    who="animal child",
    moral="kind",
    title=["The Kind $h.k", "A Small Kindness", "$h and the $c.k"],
    topic=["kindness", "helping a small animal", "a good deed"],
    vars={
        "trap": [
            {"n": "caught in a net", "free": "untied the net, knot by knot"},
            {"n": "stuck in the mud", "free": "pulled with a long stick"},
            {
                "n": "under a fallen branch",
                "free": "lifted the branch with all the strength of two arms",
            },
            {"n": "tangled in some thorns", "free": "bent the thorns aside, one by one"},
            {"n": "lying on the back and unable to get up", "free": "gave a gentle push"},
            {"n": "shivering in the cold rain", "free": "made a little roof of leaves"},
        ],
        "later": [
            {"n": "fell into a deep hole", "help": "dropped a long vine into the hole"},
            {"n": "got lost in the fog", "help": "went ahead and showed the way"},
            {"n": "dropped a key into the deep water", "help": "brought the key back up"},
            {
                "n": "was too weak to carry the winter wood home",
                "help": "came with a hundred friends, and each one carried a stick",
            },
            {"n": "could not find any food", "help": "knew a place full of berries"},
        ],
    },
    open=[
        "<day>, $h was walking $p.at. <weather>",
        "$h was on the way home. <weather> There was $p.see.",
    ],
    trouble=[
        'Then $h heard a tiny voice: "Help! Help!" It was $c.intro, $trap.n.',
        "Under a bush $h saw $c.intro. $c.He was $trap.n and could not get free.",
    ],
    feel=['"Poor thing," <said:h>.', "$h was late, but $h.he stopped."],
    tries=[
        "$g.first had walked by and not even looked.",
        '"Please don\'t hurt me," said $c. "I won\'t," <said:h>.',
    ],
    fix=[
        'Carefully, $h $trap.free. At last $c was free. <thanks:c,h> "One day I will help you." $h smiled. How could someone so small help? But some days later, $h $later.n. $h called for help. And who came? It was $c! $c.He $later.help.',
        '$h $trap.free, until $c was safe. Then $h gave $c some of $h.his food. They said goodbye. The winter came and went. Then, one day, $h $later.n. "I heard you," said a tiny voice. It was $c, who $later.help.',
    ],
    close=[
        '"You helped me, and now I have helped you," said $c.',
        '"No friend is too small," <said:h>.',
        "<end_friends:h,c>",
    ],
    qa=[
        ("Who did $h help?", "$h helped $c.a."),
        ("How did $h help?", "$h $trap.free."),
        ("What happened to $h later?", "Later $h $later.n."),
        ("How did the $c.k help $h?", "The $c.k $later.help."),
    ],
    sum="how $h helped $c.a and was helped in return",
)

plot(
    "proud_race",
    place="out woods farm",
    who="animal",
    moral="proud",
    title=["The Race", "The Fastest of All"],
    topic=["a race", "pride", "boasting"],
    vars={
        "stop": [
            "take a nap under a tree",
            "eat berries by the path",
            "look at the water",
            "tell a bird about the victory",
            "show off a few tricks",
        ],
        "goal": [
            "the old oak tree",
            "the wooden bridge",
            "the big white stone",
            "the gate of the farm",
            "the end of the meadow",
        ],
    },
    open=[
        "$h was fast and told everyone about it, every day.",
        '"Nobody is faster than I am," said $h every morning.',
    ],
    trouble=[
        '<day>, $f.first, who was slow, said, "Let us race to $goal." Everyone laughed, and $h laughed the loudest.',
        '"I am tired of your boasting," said $f.first. "Race me to $goal."',
    ],
    feel=['"This will be easy," <said:h>.'],
    tries=[
        "One, two, three, go! $h was far ahead in a moment.",
        "$f took one step after another, slow but steady.",
    ],
    fix=[
        "Halfway there, $h looked back. $f was so far behind! So $h stopped to eat berries and lay down for a moment. The sun was warm, and $h fell asleep. $f walked on and on, past the sleeping $h.k. When $h woke up and ran to $goal, $f was already there.",
        "$h ran so fast that $h.he did not look at the path, took the wrong turn and ended in a swamp. $f knew the way and did not hurry. When $h came at last, covered in mud, $f was sitting at $goal and waiting.",
    ],
    close=[
        '"Well done," said $h in a small voice. "You were better today."',
        "Everyone cheered for $f. $h thought about it for a long time.",
        '"Shall we walk home together?" asked $f. And they did, slowly.',
    ],
    qa=[
        ("Who won the race?", "$f won the race."),
        ("Why did $h lose?", "$h was too proud and did not take care."),
        ("Where did the race end?", "It ended at $goal."),
    ],
    sum="how $h was proud of being fast and lost a race to $f",
)

plot(
    "greedy_find",
    place="woods out farm",
    who="animal",
    moral="greedy share",
    title=["Too Much", "The Greedy $h.k"],
    topic=["greed", "wanting too much", "food for the winter"],
    vars={
        "food2": [
            {"n": "a tree full of ripe pears", "one": "pear"},
            {"n": "a field of sweet strawberries", "one": "strawberry"},
            {"n": "a hollow log full of honey", "one": "drop of honey"},
            {"n": "a bush heavy with blueberries", "one": "blueberry"},
            {"n": "a heap of nuts", "one": "nut"},
            {"n": "a cart full of apples that someone had left", "one": "apple"},
        ]
    },
    open=[
        "<day>, $h found $food2.n $p.at.",
        "$h was hungry. $h.He walked $p.to, and there was $food2.n!",
    ],
    trouble=[
        '"All mine!" <cried:h>. $f.first came and asked for just one $food2.one. "No," said $h. "I found it first."',
        '$h did not tell anyone. $h.He ate and ate, and when $f.first asked, "Is there some for me?" $h said, "Not even one $food2.one."',
    ],
    feel=["<sad:f> $f went away hungry."],
    tries=[
        "$h ate until $h.his belly was as round as a ball.",
        "$h tried to carry everything home at once and dropped half of it.",
    ],
    fix=[
        'Then $h wanted to go home, but $h.he was too full to fit through the door. $h was stuck. "Help!" <cried:h>. Nobody wanted to come. But $f came and pulled and pulled until $h was free. <sorry:h>',
        'In the night $h\'s belly hurt so much that $h.he could not sleep. $f heard the crying and brought some tea of herbs. $h felt ashamed. "You are good to me, and I was not good to you," <said:h>.',
    ],
    close=[
        "The next day they went there together, and there was enough for everyone.",
        '"Take as much as you like," said $h. And they shared it to the last $food2.one.',
        "$h has never been so greedy again.",
    ],
    qa=[
        ("What did $h find?", "$h found $food2.n."),
        ("Did $h share at first?", "No, at first $h wanted to keep everything."),
        ("Who helped $h?", "$f helped $h."),
    ],
    sum="how $h found $food2.n and was too greedy to share",
)

plot(
    "storm",
    place="woods out water farm",
    who="animal child",
    moral="friends kind help",
    title=["The Storm", "The Big Wind"],
    topic=["a storm", "thunder", "bad weather"],
    vars={
        "shelter": [
            "a dry cave",
            "a hollow tree",
            "an old barn",
            "a hut of stones",
            "the space under a big rock",
        ],
        "damage": [
            "the roof of $f's home had blown away",
            "a tree had fallen on $f's home",
            "the water had come into $f's home",
            "the bridge was broken",
        ],
    },
    open=[
        "<day>, $h and $f.first were playing $p.at. <weather>",
        "$h was collecting sticks $p.at. $f.first was there too.",
    ],
    trouble=[
        "Suddenly the sky became dark. The wind began to howl, and there was thunder. Boom!",
        "Big black clouds came over the hill. First one drop fell, then ten, then thousands. There was lightning.",
    ],
    feel=["<scared:h> <scared:f>"],
    tries=[
        'They ran under a tree. "Not here!" cried $f. "Trees are dangerous in a storm."',
        "They wanted to run home, but the path was under water.",
    ],
    fix=[
        '$h remembered $shelter that was not far away. "Follow me!" They ran, hand in hand, and got there just in time. $c.first was there too, all wet. They made room and told stories until the storm was over.',
        '"Over here!" called a voice. It was $s.first, sitting in $shelter. "There is room for all of us." Outside it crashed and roared, but inside it was warm.',
    ],
    close=[
        'In the morning the sun came out, but $damage. "Don\'t worry," said $h. "We will build it again." All the neighbours came, and by evening it was done.',
        "When they came out, there was a rainbow over the hills.",
        "The storm had washed the world clean. <play>",
    ],
    qa=[
        ("Where did they hide?", "They hid in $shelter."),
        ("What was the weather like?", "There was a big storm with thunder."),
    ],
    sum="how $h and $f hid in $shelter during a big storm",
)

plot(
    "different_look",
    place="woods out water farm",
    who="animal",
    moral="self look",
    title=["Different", "The Odd One", "The $h.k with the $odd.n"],
    topic=["being different", "being yourself"],
    vars={
        "odd": [
            {"n": "long ears", "use": "heard the danger before anyone else"},
            {"n": "big feet", "use": "stamped out the small fire before it could grow"},
            {"n": "loud voice", "use": "called so loudly that help came from far away"},
            {"n": "long nose", "use": "smelled the smoke while all the others were asleep"},
            {"n": "bright spots", "use": "could be seen in the thick fog and led everyone home"},
            {"n": "small size", "use": "crept through the hole and opened the gate from inside"},
            {"n": "crooked tail", "use": "hung from the branch and reached down to the others"},
        ]
    },
    open=[
        "$h was not like the others, because of $h.his $odd.n.",
        "All the others looked the same. Only $h had $h.his $odd.n.",
    ],
    trouble=[
        '"Look at the $odd.n!" the others laughed. $g.first laughed the most.',
        'Nobody wanted to play with $h. "You look funny," said $g.first.',
    ],
    feel=[
        '<sad:h> "Why can\'t I be like the others?"',
        "$h hid at home and did not want to be seen.",
    ],
    tries=[
        "$h tried to hide $h.his $odd.n with leaves. It looked even funnier.",
        "$h asked the moon for help. The moon said nothing.",
        '"I like you as you are," said $f.first. But $h did not believe it.',
    ],
    fix=[
        "Then, one night, there was danger. All the others ran around and did not know what to do. But $h $odd.use. Everyone was safe, thanks to $h.",
        "<day>, something terrible happened. The little ones were in danger, and nobody could help. Nobody but $h, who $odd.use. Everyone looked at $h with new eyes.",
    ],
    close=[
        '"I am sorry that I laughed," said $g. <forgive:h>',
        "From that day on nobody laughed at the $odd.n again.",
        "$h looked into the pond and smiled at what $h.he saw.",
    ],
    qa=[
        ("Why was $h different?", "$h was different because of $h.his $odd.n."),
        ("How did $h save the others?", "$h $odd.use."),
    ],
    sum="how $h was laughed at for $h.his $odd.n and then saved everyone",
)

plot(
    "lost_baby",
    place="woods out water farm",
    who="child animal",
    moral="kind home",
    title=["The Lost $c.k", "A Long Way Home"],
    topic=["a lost baby animal", "a lost $c.k", "bringing someone home"],
    vars={
        "clue": [
            {"n": "a feather", "lead": "to a tall tree with a nest"},
            {"n": "small footprints", "lead": "to a hole under the roots"},
            {"n": "a far call", "lead": "to the other side of the water"},
            {"n": "the smell of fresh hay", "lead": "to an old barn"},
            {"n": "a song in the wind", "lead": "to a clearing full of flowers"},
        ]
    },
    open=["<day>, $h was playing $p.at.", "$h sat $p.at and ate $w."],
    trouble=[
        'There was a small sound. It was $c.intro, who sat there and cried. "I want my mother," said $c.',
        '$c.intro came out of the grass. "I can\'t find my way home," $c.he sobbed.',
    ],
    feel=["<comfort:h,c>"],
    tries=[
        "They asked $g.first, but $g had seen nothing.",
        "They went to the {bridge|big rock|well} first, but no mother was there.",
        '"What does your home look like?" asked $h. "It looks like home," said $c.',
    ],
    fix=[
        'Then $h found $clue.n. "This is a sign!" They followed it, and it led them $clue.lead. "My baby!" cried a voice. It was the mother.',
        "$f.first came to help. Together they searched until they noticed $clue.n. It led them $clue.lead, and there sat the mother, who had been looking for hours.",
    ],
    close=[
        "The mother and the baby held each other for a long time. <glad:h>",
        "<thanks:c,h>",
        "$h waved until they were out of sight. Then $h ran home and hugged $e.",
    ],
    qa=[
        ("Who was lost?", "It was $c.a."),
        ("How did they find the mother?", "They followed $clue.n, and it led them $clue.lead."),
    ],
    sum="how $h helped $c.a to find the way home",
)

plot(
    "three_gifts",
    place="woods out",
    who="animal child fantasy",
    moral="kind share help",
    title=["Three Gifts", "The Long Road", "The Road to the $goal.k"],
    topic=["a long journey", "a journey", "an adventure"],
    vars={
        "goal": [
            {"n": "the top of the mountain", "k": "Mountain", "why": "to see the sunrise"},
            {"n": "the sea", "k": "Sea", "why": "to hear the waves just once"},
            {"n": "the end of the rainbow", "k": "Rainbow", "why": "to see what was there"},
            {"n": "the old lighthouse", "k": "Lighthouse", "why": "to bring the keeper a letter"},
            {"n": "grandmother's house", "k": "House", "why": "to bring her some soup"},
        ],
        "g1": [
            {
                "n": "a piece of bread",
                "to": "a hungry bird",
                "back": "flew ahead and found the way in the fog",
            },
            {
                "n": "half of the water",
                "to": "a thirsty donkey",
                "back": "carried $h over the steep rocks",
            },
            {
                "n": "a warm scarf",
                "to": "a freezing mole",
                "back": "dug a tunnel under the high wall",
            },
            {"n": "an apple", "to": "a tired horse", "back": "carried $h across the plain"},
            {"n": "a kind word", "to": "a grumpy badger", "back": "showed $h a secret path"},
        ],
        "wall": [
            "a river without a bridge",
            "a gate that was locked",
            "a wall of thorns",
            "a deep dark valley",
        ],
    },
    open=[
        "$h had one big wish. $h.He wanted to go to $goal.n, $goal.why.",
        "<day>, $h packed a bag and set out for $goal.n, $goal.why.",
    ],
    trouble=[
        "On the way $h met $g1.to. $h gave $g1.n away, although $h.he had not much left.",
        "After an hour there was $g1.to by the road. $h stopped and shared $g1.n.",
    ],
    feel=[
        '"Thank you," said the stranger. "I will remember it."',
        "Then $h walked on with a light heart.",
    ],
    tries=[
        "It began to rain, and the road became steep.",
        "At night $h slept under a tree and dreamed of $goal.n.",
        '$g.first came the other way and said, "It is too far. Turn around!" But $h walked on.',
    ],
    fix=[
        'But then there was no way to go on: there was $wall. $h sat down. "So near, and yet so far." Then someone came. It was the friend from the road, who $g1.back.',
        'Suddenly $h stood before $wall. "I can\'t do this alone," <said:h>. "You are not alone," said a voice behind $h.him. It was the one $h had helped, who $g1.back.',
    ],
    close=[
        "And there it was: $goal.n. $h had no words. They looked at it together.",
        "When the sun went down, $h reached $goal.n. It was even better than in $h.his dreams.",
        "$h stayed there for one whole day. Then they walked home together, and the way back was short.",
    ],
    qa=[
        ("Where did $h want to go?", "$h wanted to go to $goal.n."),
        ("Why did $h go there?", "$h went there $goal.why."),
        ("What did $h give away?", "$h gave away $g1.n."),
    ],
    sum="how $h travelled to $goal.n",
)

plot(
    "trick_fox",
    place="woods farm",
    who="animal",
    moral="listen proud friends",
    title=["The Clever $h.k", "Tricked!"],
    topic=["a clever trick", "a trick", "a $h.k and a wolf"],
    vars={
        "foe": [
            {"n": "the wolf", "a": "a hungry wolf"},
            {"n": "the fox", "a": "a sly fox"},
            {"n": "the hawk", "a": "a fierce hawk"},
            {"n": "the snake", "a": "a long snake"},
            {"n": "the big cat", "a": "a big cat"},
        ],
        "trick": [
            {
                "say": "You cannot eat me before you sing. Every great hunter sings first",
                "then": "closed both eyes and sang",
                "out": "ran as fast as possible",
            },
            {
                "say": "I am so thin. My fat cousin is coming down this road in an hour",
                "then": "sat down to wait",
                "out": "walked away, and no cousin ever came",
            },
            {
                "say": "I bet you cannot fit into this sack",
                "then": "crawled right into it",
                "out": "tied the sack with a strong rope",
            },
            {
                "say": "Look, there is one who is bigger than you, down there in the well",
                "then": "looked down and roared at the reflection",
                "out": "slipped away through the bushes",
            },
            {
                "say": "I am sick, and whoever eats me will have a belly ache for a year",
                "then": "took a step back and frowned",
                "out": "coughed three times and limped quickly home",
            },
        ],
    },
    open=["<day>, $h was looking for $food $p.at.", "$h was alone $p.at. <weather>"],
    trouble=[
        'Suddenly $foe.a jumped out. "I will eat you!" said $foe.n.',
        'There stood $foe.a with shining eyes. "What a nice breakfast," said $foe.n.',
    ],
    feel=["<scared:h> But $h.he did not show it."],
    tries=[
        '"Please let me go," said $h. $foe.n only laughed.',
        "$h looked left and right. There was no way out.",
    ],
    fix=[
        'Then $h had an idea. "$trick.say," <said:h>. $foe.n $trick.then. In that moment, $h $trick.out.',
        '$h thought quickly. $h.He smiled and said, "$trick.say." "Is that so?" said $foe.n, and $trick.then. And $h $trick.out.',
    ],
    close=[
        "When $foe.n understood the trick, it was too late.",
        "At home $h told $f.first about it, and they laughed until they cried.",
        '"It is better to be clever than to be strong," <said:h>.',
        "Since then, $foe.n has never come near again.",
    ],
    qa=[
        ("Who wanted to eat $h?", "It was $foe.n."),
        ("How did $h get away?", "$h tricked $foe.n and $trick.out."),
    ],
    sum="how $h tricked $foe.n",
    nomoral=True,
)

plot(
    "winter_store",
    place="woods farm",
    who="animal",
    moral="help kind listen",
    title=["Before the Snow", "The Long Winter"],
    topic=["winter", "getting ready for winter", "working hard and being lazy"],
    vars={
        "fun": [
            "sang songs",
            "lay in the sun",
            "danced with the butterflies",
            "floated on the water",
            "told jokes all day",
        ]
    },
    open=[
        "All summer long $h worked. $h.He gathered {nuts|seeds|hay|roots and berries} and carried everything home.",
        "It was a warm summer. $h was busy: every day $h.he brought home a little food for the winter.",
    ],
    trouble=[
        '$f.first only $fun. "Why do you work so hard?" asked $f. "Winter is far away."',
        '"Come and play!" said $f.first, who $fun. "Later," said $h. "First I have to fill my store."',
    ],
    feel=["$f laughed and went away."],
    tries=[
        "In autumn the leaves fell, and $f still had nothing.",
        '"You should start now," said $h. "Tomorrow," said $f.',
    ],
    fix=[
        'Then the snow came. Everything was white and hard. $f was cold and hungry and knocked at $h.s door. $h looked at $f. It would have been easy to say no. "Come in," said $h. "But in spring you will help me." "I promise," said $f.',
        'One morning the whole world was white. $f searched for food and found nothing. $f was too ashamed to ask. But $h came through the snow with a full basket. "I knew you would forget," <said:h>.',
    ],
    close=[
        "They spent the winter together. $f told stories every evening, and the time went by quickly.",
        "When spring came, $f was the first to start working.",
        "And in summer there were two who worked, and two who sang.",
    ],
    qa=[
        ("What did $h do all summer?", "$h gathered food for the winter."),
        ("What did $f do?", "$f $fun."),
        ("Did $h help $f?", "Yes, $h shared food with $f."),
    ],
    sum="how $h worked all summer while $f $fun",
)

plot(
    "river_rescue",
    place="water",
    who="animal child",
    moral="brave help friends",
    title=["Into the Water!", "The Rescue"],
    topic=["a rescue", "being brave", "falling into the water"],
    vars={"tool": ["a long branch", "a rope", "an old plank", "a fishing net", "a vine"]},
    open=[
        "<day>, $h and $f.first were playing $p.at. <weather>",
        "$h and $f.first were jumping from stone to stone $p.at.",
    ],
    trouble=[
        'Suddenly $f slipped and fell into the water. "Help!" cried $f. The water was deep and fast.',
        "There was a splash. $c.first had fallen in and could not swim!",
    ],
    feel=["<scared:h> But there was no time to be afraid."],
    tries=["$h reached out a hand, but it was too far.", "$h called for help. Nobody heard."],
    fix=[
        '$h looked around and saw $tool. $h.He held it out over the water. "Hold on to it!" $h pulled with all $h.his strength, step by step, until they were both on the bank.',
        '"$s.call!" shouted $h, because $s.first was just coming along the bank. Together they threw $tool into the water and pulled, one, two, three, until it was done. Everyone was safe, wet and cold.',
    ],
    close=[
        "They sat in the sun until they were dry.",
        '"You saved a life today," said $e later. <glad:h>',
        "The next week everyone learned how to swim.",
    ],
    qa=[
        ("What did $h use for the rescue?", "$h used $tool."),
        ("What happened?", "Someone fell into the water."),
    ],
    sum="how $h was brave and helped someone who had fallen into the water",
)

plot(
    "first_flight",
    place="woods out farm",
    who="animal",
    moral="brave practice self",
    title=["The First Flight", "The Little One Who Could Not Fly"],
    topic=["learning to fly", "a little bird"],
    hero="bird|owl|duck|chick|butterfly|bee|bat|swan|parrot",
    vars={
        "reason": [
            {"n": "the wind was too strong", "cure": "The wind carries you. It is your friend"},
            {
                "n": "the ground was so far away",
                "cure": "Don't look down. Look where you want to go",
            },
            {"n": "$h.his wings were too small", "cure": "Wings grow when you use them"},
        ]
    },
    open=[
        "All the brothers and sisters of $h could fly. Only $h stayed at home.",
        "$h sat on a branch and looked at the sky. Today was the day to learn to fly.",
    ],
    trouble=[
        "But $h thought that $reason.n.",
        '"I can\'t," <said:h>. "What if I fall?" $h was sure that $reason.n.',
    ],
    feel=["<scared:h>"],
    tries=[
        "$h flapped once and sat down again.",
        "$h jumped from a small stone and landed on $h.his nose.",
        "$h asked if it was possible to walk everywhere. It was possible, but very slow.",
    ],
    fix=[
        '$e sat down next to $h. "$reason.cure," said $e. $h closed $h.his eyes, opened them again and jumped. For a moment $h.he fell. Then the air held $h.him. $h was flying!',
        'Then a cry came from below. $f.first was in trouble! $h forgot to be afraid and jumped. Only when $h had reached $f, $h noticed: "I flew!"',
    ],
    close=[
        "$h flew over the trees, over the river, and into the sun.",
        "In the evening nobody could get $h to come down.",
        '"I knew it," said $e.',
    ],
    qa=[
        ("What was $h afraid of?", "$h thought that $reason.n."),
        ("What did $h learn to do?", "$h learned to fly."),
    ],
    sum="how $h learned to fly",
)

plot(
    "nest_home",
    place="woods out farm water",
    who="animal",
    moral="help practice home",
    title=["A New Home", "The Perfect House"],
    topic=["looking for a home", "building a house", "a new home"],
    vars={
        "bad": [
            {"n": "a cave", "what": "was too wet"},
            {"n": "an old boot", "what": "smelled of feet"},
            {"n": "a bucket", "what": "had a hole"},
            {"n": "a hollow stone", "what": "was too hard"},
            {"n": "an empty bottle", "what": "was too loud when it rained"},
            {"n": "a hat", "what": "was blown away by the wind"},
        ]
    },
    open=[
        "$h needed a new home, because the old one was {too small|broken|washed away by the rain}.",
        "The wind had blown down $h's home. $h.He had to find a new one before night.",
    ],
    trouble=[
        "$h looked at $bad.n, but it $bad.what.",
        "First $h found $bad.n. $h.He moved in at once, but it $bad.what.",
    ],
    feel=['"This is not a home," <said:h>.', "<tired:h>"],
    tries=[
        '$h asked $g.first, "May I live with you?" But there was hardly room for one.',
        "Then $h tried a hole in the ground, but $c.first already lived there.",
        "$h tried to sleep in the open air. It rained.",
    ],
    fix=[
        '"If you can\'t find a home, you can build one," said $f.first. They brought sticks and moss and leaves. $h wove the walls, and $f made the roof. By evening it was ready.',
        "At last $h came to a quiet place $p.at. There was $p.see, and it smelled of moss. $h began to build. It took three days. $f.first came and brought a soft pillow of feathers.",
    ],
    close=[
        "It was small and warm and just right.",
        "The first night it rained, and not a drop came in.",
        '<thanks:h,f> "You will always have a place by my fire."',
    ],
    qa=[
        ("Why did $h need a new home?", "The old home was no good any more."),
        ("What was wrong with the first place?", "It $bad.what."),
    ],
    sum="how $h looked for a new home",
)

plot(
    "well_wish",
    place="out farm town",
    who="child animal",
    moral="enough kind",
    title=["The Old Well", "The Wish"],
    topic=["a wish", "a wishing well"],
    vars={
        "wish": [
            {"n": "to be very tall", "bad": "hit $h.his head on every door"},
            {"n": "to have all the sweets in the world", "bad": "got a terrible tummy ache"},
            {"n": "that it would never rain again", "bad": "saw all the flowers dry up"},
            {
                "n": "that everything would turn to gold",
                "bad": "could not eat the hard golden bread",
            },
            {"n": "to be invisible", "bad": "called $f, but $f looked right through $h.him"},
            {"n": "that it would always be night", "bad": "missed the sun and the birds"},
            {"n": "to be the strongest in the world", "bad": "broke everything $h.he touched"},
        ]
    },
    open=[
        "There was an old well $p.at. People said it could grant one wish.",
        '<day>, $h found an old coin and threw it into the well. "What do you wish for?" asked a deep voice from below.',
    ],
    trouble=[
        "$h did not think for long. $h.He wished $wish.n. And it came true! But soon $h $wish.bad.",
        '"I wish $wish.n!" <cried:h>. There was a flash of light. At first it was fun. Then $h $wish.bad.',
    ],
    feel=["<oh_no:h>", "<sad:h> It was not what $h had thought."],
    tries=[
        "$h tried to get used to it. It got worse each day.",
        "$h asked $f.first what to do. But $f did not know.",
    ],
    fix=[
        '$h ran back to the well. "Please make everything as it was!" "Are you sure?" asked the voice. "Very sure," <said:h>. There was another flash, and everything was as before.',
        '$h had one more coin. $h.He could have wished for anything. "I wish for things to be as they were," <said:h>, and dropped it into the dark water. Plop!',
    ],
    close=[
        "$h went home and looked at everything: the table, the bread, $e. It was all just right.",
        '"What did you wish for?" asked $e. "For this," <said:h>.',
        "The well never spoke again.",
    ],
    qa=[("What did $h wish for?", "$h wished $wish.n."), ("What went wrong?", "$h $wish.bad.")],
    sum="how $h made a wish at a well: $h.he wished $wish.n",
)

plot(
    "farm_morning",
    place="farm",
    who="animal",
    moral="help friends listen",
    title=["Who Woke the Sun?", "A Day on the Farm"],
    topic=["a farm", "farm animals", "a rooster"],
    vars={
        "sick": [
            "had lost his voice",
            "was still asleep",
            "had a cold",
            "had gone to visit his aunt",
        ],
        "call": ["mooed", "barked", "honked", "meowed", "brayed", "beat on a bucket"],
    },
    open=[
        "Every morning the rooster woke up the farm with his loud cry.",
        "On the farm where $h lived, everyone got up when the rooster crowed.",
    ],
    trouble=[
        "But <day>, it was quiet. The rooster $sick.",
        "But this morning no cry was heard. The rooster $sick, and everyone slept on and on.",
    ],
    feel=[
        '$h opened one eye. "Something is wrong," <said:h>.',
        "The cows were not milked, and the hens were not fed.",
    ],
    tries=[
        "$h tried to crow. It sounded like a rusty door.",
        "$h knocked at the farmer's window, but he only turned over.",
    ],
    fix=[
        '<idea:h> $h got $f.first and $g.first. "All together!" they said. They $call and stamped and sang. The farmer jumped out of bed with his hat on his feet.',
        "$h climbed on the roof of the barn and $call as loud as possible. $f.first did the same. One after the other, all the animals joined in, until the whole farm was awake.",
    ],
    close=[
        '"What a choir!" laughed the farmer, and gave everyone an extra breakfast.',
        "The next day the rooster was back. But once a week they still sang together, just for fun.",
        '"And I thought that I made the sun rise," said the rooster, and he was a little less proud.',
    ],
    qa=[
        ("What was wrong with the rooster?", "The rooster $sick."),
        ("Where does the story happen?", "It happens on a farm."),
    ],
    sum="how $h woke up the whole farm because the rooster $sick",
)

plot(
    "snow_day",
    place="out woods",
    who="child animal",
    moral="friends kind enough",
    title=["The First Snow", "The Snowman"],
    topic=["snow", "a snowman", "winter"],
    vars={
        "nose": ["a carrot", "a pine cone", "a red pepper", "a stick", "a potato"],
        "need": [
            "$c.first was hungry and looked at the nose",
            "$c.first was freezing and looked at the scarf",
            "the wind took away the hat",
        ],
    },
    open=[
        "$h looked out of the window. Everything was white! It was the first snow of the year.",
        "In the night it had snowed. $h put on {boots|a warm coat} and ran out.",
    ],
    trouble=[
        "$h wanted to build a snowman, but the ball of snow became too heavy.",
        "$h rolled a big ball of snow. It rolled down the hill, faster and faster, and broke into pieces.",
    ],
    feel=['"Alone I can\'t do it," <said:h>.'],
    tries=[
        "$h pushed with both hands. The ball did not move at all.",
        "$h made a very small snowman. He was as big as a cup.",
    ],
    fix=[
        "$f.first came out too. Together they pushed, one, two, three! They made a big round body, a smaller one, and a head. For the nose they took $nose.",
        '"We need more hands," said $f.first, and got $g.first. With three it was easy. They lifted up the head and gave the snowman a hat and $nose for a nose.',
    ],
    close=[
        'In the evening $need. "Take it," said $h. "The snowman will not mind." And it really looked as if the snowman smiled.',
        "In the warm room they drank hot cocoa and waved to the snowman.",
        'After a week the sun came, and the snowman got smaller. "See you next year," said $h.',
    ],
    qa=[
        ("What did they build?", "They built a snowman."),
        ("What did they use for the nose?", "They used $nose."),
    ],
    sum="how $h and $f built a snowman",
)

plot(
    "pet_new",
    place="home out",
    who="child",
    moral="patient kind",
    title=["$h's New Pet", "The Shy {Kitten|Puppy}"],
    topic=["a new pet", "a dog", "a cat", "an animal from the shelter"],
    vars={
        "pet": [
            {"n": "a puppy", "k": "puppy", "like": "a rubber ball"},
            {"n": "a kitten", "k": "kitten", "like": "a piece of string"},
            {"n": "an old dog", "k": "dog", "like": "a scratch behind the ears"},
            {"n": "a grey rabbit", "k": "rabbit", "like": "a fresh carrot"},
            {"n": "a parrot", "k": "parrot", "like": "a song"},
            {"n": "a hamster", "k": "hamster", "like": "a sunflower seed"},
        ],
        "pname": "Rex Bella Max Luna Coco Rocky Daisy Oscar Ginger Shadow Lucky Biscuit Smoky Pepper".split(),
    },
    open=[
        "$h had always wanted a pet. <day>, $e came home with $pet.n.",
        'At the animal shelter $h saw $pet.n in the last corner. "This one," <said:h>.',
    ],
    trouble=[
        "But the $pet.k was afraid. It hid under the bed and did not come out.",
        "$h called it $pname. But $pname sat in the corner and shook.",
    ],
    feel=['"It does not like me," <said:h>. <sad:h>'],
    tries=[
        "$h pulled at the blanket. That only scared the $pet.k more.",
        "$h talked and talked. The $pet.k covered its ears.",
    ],
    fix=[
        '"Give it time," said $e. So $h sat down on the floor and read a book, very quietly. After a long while $h felt something soft. The $pet.k had come out and put its head on $h.his knee.',
        '$f.first, who knew a lot about animals, said, "Don\'t go to it. Let it come to you." $h put down $pet.like and waited. The first day nothing happened. On the third day the $pet.k came, sniffed and stayed.',
    ],
    close=[
        "They called it $pname. $h and $pname went everywhere together.",
        "It turned out that $pet.like made it very happy.",
        "That night $pname slept at the foot of $h's bed.",
    ],
    qa=[
        ("What pet did $h get?", "$h got $pet.n."),
        ("What was the name of the pet?", "The $pet.k was called $pname."),
        ("What did the $pet.k do at first?", "It was afraid and hid."),
    ],
    sum="how $h got $pet.n called $pname and won its trust",
)

plot(
    "bee_apology",
    place="out farm",
    who="child animal",
    moral="kind curious look",
    title=["The Bee's Lesson", "Little Helpers"],
    topic=["insects", "a bee", "nature", "being kind to small animals"],
    vars={
        "bug": [
            {
                "n": "bees",
                "one": "bee",
                "good": "bring the flowers their dust, so that apples can grow",
            },
            {
                "n": "worms",
                "one": "worm",
                "good": "make the earth soft, so that plants can breathe",
            },
            {"n": "spiders", "one": "spider", "good": "catch the flies that bother us"},
            {"n": "ants", "one": "ant", "good": "carry seeds and clean the forest floor"},
            {"n": "ladybugs", "one": "ladybug", "good": "eat the bugs that hurt the roses"},
        ]
    },
    open=[
        '$h did not like $bug.n. "They are ugly and no good," $h.he said.',
        "<day>, $h was $p.at and saw a $bug.one.",
    ],
    trouble=[
        "$h wanted to chase all the $bug.n away with a stick.",
        '"Go away!" <cried:h>, and $h.he stamped $h.his foot.',
    ],
    feel=["The $bug.one stopped and looked very small."],
    tries=['"Why do you do that?" asked $f.first. "Because I don\'t like them," said $h.'],
    fix=[
        '"Wait," said $e. "Do you know what $bug.n do? They $bug.good." $h had not known that. $h.He knelt down and looked closely. The tiny legs, the tiny eyes: it was wonderful.',
        'That night $h had a dream. $h was as small as a $bug.one, and a huge foot came down. "Stop!" cried $h, and woke up. In the morning $e told $h.him that $bug.n $bug.good.',
    ],
    close=[
        "From then on $h walked around every $bug.one.",
        '$h made a sign: "Please be careful. $bug.n at work."',
        "$h drew a picture of a $bug.one and hung it over the bed.",
    ],
    qa=[
        ("What did $h not like?", "$h did not like $bug.n."),
        ("Why are $bug.n useful?", "They $bug.good."),
    ],
    sum="how $h learned that $bug.n are useful",
)

plot(
    "moon_reach",
    place="out water woods",
    who="animal child",
    moral="enough friends curious",
    title=["$h and the Moon", "To Catch the Moon"],
    topic=["the moon", "the stars", "the night sky"],
    vars={
        "try1": [
            "climbed the tallest tree",
            "built a tower of stones",
            "jumped from the highest rock",
            "tied three ladders together",
        ],
        "light": [
            "the round reflection in the water",
            "the silver light on $h.his own hands",
            "the moon in a bowl of water",
        ],
    },
    open=[
        "Every night $h looked up at the moon. It was so round and bright.",
        '"I want to touch the moon," $h said <day>.',
    ],
    trouble=[
        "$h $try1. But the moon was still far away.",
        "So $h $try1, reached up as high as possible and touched only air.",
    ],
    feel=['"It runs away from me," <said:h>.'],
    tries=[
        "$h ran after the moon over the fields. The moon ran too.",
        '$h called, "Come down!" The moon did not answer.',
        '$g.first laughed. "Nobody can touch the moon."',
    ],
    fix=[
        'Then $f.first said, "Look!" And $h saw $light. $h put a finger into the light. It was as if the moon touched $h.him back.',
        '$e took a bowl of water and put it on the grass. "Look inside," said $e. There was the moon, round and small, right in front of $h. "Now it is in our garden," $h whispered.',
    ],
    close=[
        "$h did not need to own the moon any more. It was there every night, for everyone.",
        "They sat side by side and looked up until they fell asleep.",
        '"Good night, moon," <said:h>.',
    ],
    qa=[
        ("What did $h want to touch?", "$h wanted to touch the moon."),
        ("What did $h do first?", "$h $try1."),
    ],
    sum="how $h wanted to touch the moon",
)

plot(
    "echo",
    place="out woods",
    who="child animal",
    moral="kind curious listen",
    title=["The Voice in the Mountain", "The Echo"],
    topic=["an echo", "a voice in the mountains"],
    vars={
        "bad": ["Go away", "You are silly", "I don't like you", "Be quiet"],
        "good": ["I like you", "Be my friend", "You are nice", "Good morning"],
    },
    open=[
        "<day>, $h climbed up between the high rocks.",
        "$h and $e were walking in the mountains.",
    ],
    trouble=[
        '"Hello!" <cried:h>. "Hello!" called a voice. "Who are you?" "Who are you?" $h became angry. "$bad!" $h.he shouted. "$bad!" the voice shouted back.',
        '$h stumbled and shouted, "Ouch!" And from far away someone shouted, "Ouch!" "$bad!" cried $h. "$bad!" it came back.',
    ],
    feel=["<cross:h>", "<scared:h>"],
    tries=[
        "$h threw a stone. The stone clattered, and then another one clattered, far away.",
        "$h looked behind the rocks. Nobody was there.",
    ],
    fix=[
        '<told:h,e> $e smiled. "Try to say something nice." So $h called, "$good!" And the voice answered, "$good!" $h laughed, and the mountain laughed too. "It is an echo," said $e. "It gives back what you give."',
        '$s.first heard it. "That is the echo," said $s. "Your voice hits the rock and comes back. Call something kind, and you will see." "$good!" called $h. "$good!" said the mountain.',
    ],
    close=[
        "And $h thought that it is the same with people.",
        "$h called many kind words that day, and all of them came back.",
        "On the way home $h said good morning to everyone, and everyone said good morning to $h.",
    ],
    qa=[
        ("What was the voice?", "The voice was an echo."),
        ("What did $h shout first?", '$h shouted, "$bad!"'),
    ],
    sum="how $h heard an echo in the mountains",
    nomoral=True,
)

plot(
    "stubborn_two",
    meets=True,
    place="water out",
    who="animal",
    moral="kind share listen",
    title=["Two on a Bridge", "Nobody Gives Way"],
    topic=["being stubborn", "two on a narrow bridge"],
    vars={
        "way": [
            "a narrow bridge",
            "a thin log over the stream",
            "a small path on the side of the hill",
            "a narrow tunnel",
        ]
    },
    open=[
        "<day>, $h came to $way. From the other side came $f.intro.",
        "There was $way. $h was in the middle of it when $f.first came from the other end.",
    ],
    trouble=[
        '"I was here first. Go back!" said $h. "No, you go back," said $f. Neither of them moved.',
        'They met in the middle. There was no room for two. "Let me pass!" said $h. "No, let me pass!" said $f.',
    ],
    feel=["<cross:h> <cross:f>"],
    tries=[
        "They stood there for an hour. Then for two hours.",
        "$h pushed. $f pushed back. The stones began to fall.",
        "It got dark, and they were both hungry.",
    ],
    fix=[
        '$c.first wanted to get past too. "Why don\'t you just lie down," said $c to $h, "and $f steps over you? Then it is done." They looked at each other. It was so simple! $h lay down, and $f stepped over, very carefully.',
        'Then $h began to laugh. "We could have been home long ago," <said:h>. "I will go back. You can pass first." "No, I will go back," said $f. And then they nearly had a fight again, but a friendly one.',
    ],
    close=[
        'After that, when they met there, they bowed and said, "After you!"',
        '"Where were you going?" asked $h. "To see you," said $f.',
        "They shared $w on the other side.",
    ],
    qa=[
        ("Where did they meet?", "They met on $way."),
        ("What was the problem?", "There was no room for two, and nobody wanted to go back."),
    ],
    sum="how $h and $f met on $way and nobody wanted to go back",
)
