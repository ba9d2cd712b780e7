"""Words of the little world: who lives in it, what they own, where they go.

Plain tables; `world.py` turns their rows into entities. Every phrase is our own.
"""

GIRLS = """Mia Lily Emma Anna Zoe Ruby Nora Ella Lucy Grace Rosa Ivy Maya Sara Tina Amy Kate Jane Molly Poppy
Clara Alice Daisy Hazel Violet Olive Ada Eva Ida Nina Lena Mina Tara Leila Amina Priya Mei Yuki Sofia Elena Carmen
Ines Lola Bella Stella Freya Greta Heidi Ingrid Jade Kira Luna Marta Nadia Opal Paula Rita Sally Tessa Uma Wendy
Zara Beth Cora Dora Esme Fay Gina Hope June Kim Lara Mary Nell Penny Rose Sue Susie Vera Willa Abby Becky Cindy
Emily Hannah Chloe Julia Laura Sophie Polly Peggy Annie Betty Edith Flora Martha Matilda Harriet Zuri Aisha Zelda Elizabeth Patricia Jennifer Linda Barbara Jessica Karen Lisa Nancy Margaret Sandra Ashley
Donna Michelle Carol Amanda Melissa Rebecca Sharon Kathleen Angela Shirley Brenda Nicole Samantha Katherine Christine
Helen Rachel Carolyn Janet Maria Catherine Heather Diane Joyce Victoria Kelly Christina Joan Evelyn Lauren Olivia Isabella
Charlotte Sophia Amelia Scarlett Madison Eleanor Penelope Layla Lillian Aurora Savannah Audrey Claire Skylar Anya Olga
Irina Fatima Yasmin Naomi Ruth Esther Miriam Agnes Astrid Bianca Camila Daniela Elsa Fiona Gabriela Gloria Hilda Iris
Jasmine Josephine Juliet Lydia Mabel Natalie Noemi Ottilie Phoebe Ramona Sabrina Selma Sonja Tamara Thea Ursula Valerie
Vivian Winifred Xenia Yvonne Zora""".split()

BOYS = """Tom Ben Sam Max Leo Jack Tim Dan Finn Noah Liam Oscar Theo Hugo Felix Oliver Henry Adam Ali Amir Omar
Ravi Arjun Kenji Hiro Wei Chen Marco Luca Mateo Diego Pablo Carlos Ivan Nico Anton Emil Lars Otto Peter Paul Mark
Luke John James Joe Jim Bob Billy Bobby Charlie Danny Eddie Freddy George Harry Jimmy Kevin Larry Mike Nick Ned
Pete Ray Rob Roy Sid Ted Toby Will Zack Alex Andy Aaron Caleb David Eli Ethan Evan Gus Ian Isaac Jake Jonah Kai
Kofi Levi Miles Milo Nathan Owen Quinn Rory Ryan Seth Simon Victor Walter Wyatt Arthur Jasper Rufus Samir Tariq Robert Michael William Thomas Daniel Christopher
Matthew Anthony Steven Andrew Kenneth Brian Edward Ronald Timothy Jason Jeffrey Jacob Gary Nicholas Eric Jonathan Stephen
Justin Scott Brandon Benjamin Samuel Gregory Frank Patrick Raymond Dennis Jerry Tyler Alexander Richard Joseph Charles
Donald Joshua Dylan Logan Lucas Mason Elijah Gabriel Julian Lincoln Jordan Adrian Dominic Xavier Leon Axel Vincent Damian
Albert Bernard Bruno Cedric Conrad Cyril Desmond Edgar Edmund Ernest Ferdinand Gilbert Gustav Harold Herbert Horace Hubert
Ismail Joaquin Karl Kurt Leonard Lionel Magnus Marcel Maurice Mustafa Nigel Norman Oswald Pascal Percy Quentin Ralph
Reginald Roland Rupert Sebastian Stefan Sven Thaddeus Tobias Ulrich Viktor Wilbur Winston Yusuf Zachary""".split()

PET_NAMES = """Pip Dot Bun Coco Fluff Nibbles Buttons Pepper Ginger Patch Spot Shadow Sunny Misty Snowy Rusty Dusty
Biscuit Cookie Muffin Honey Maple Acorn Clover Fern Moss Bramble Thistle Pebble Sandy Rocky Twig Hazel Nutmeg Pickle
Bubbles Splash Skip Hop Zip Zig Tink Momo Kiki Lulu Bobo Gigi Titi Koko Pipkin Tumble Whisker Socks Boots Mittens
Flop Scout Ranger Bandit Rex Duke Bruno Bear Oso Nala Simba Taffy Toffee Bonbon Waffles Peanut Bean Sprout""".split()

# nouns of every kind: the model must learn to take up whatever word it is given
NOUNS = """airplane ambulance apricot apron armchair arrow avocado axe balcony banana bandage banjo barn barrel bathtub beach beard
bench berry bicycle blackboard boat bonfire bookshelf bowl bracelet branch brick bridge broom brush bucket bus bush cabin cactus
cake calendar candy canoe carpet carrot cart castle cave ceiling chair cheese cherry chest chimney church city closet cloud coat
coconut coffee computer cookie corner cottage cotton cradle crayon cupboard curtain cushion desert desk diamond dish doctor door
doorbell dragonfly drawer dress drum eagle earring egg elevator engine eraser factory farmer feather fence ferry fiddle finger fire
fireplace flag flagpole flute fog forest fork fountain fridge frying pan galaxy garage garlic gate genie ginger glacier glass glue
goblin golf ball grandfather grape guitar hallway hammock handbag handkerchief harbour harp hat helicopter hill honey hook horn
hospital hotel hurricane ice cube iceberg igloo ink island jacket jam jelly jewel jigsaw juice jungle keyboard kitchen knee knot lake
lamp post laptop laundry lawn leaf lemon lemonade letter box library lighthouse lollipop lunch box magician mango mat meadow melon
microphone microscope mill mirror mitten moon motorbike mountain mug mushroom musician nail napkin needle nest newspaper night notebook
nut oak ocean office onion orange orchard oven package paint painter palace pancake paper parachute parcel park path peach peanut
pear pebble pen pepper piano picnic pie pigeon pillar pilot pine pineapple pipe pizza planet plate plum pocket pond pool poster
potato printer puddle pumpkin pump puppet quilt raft railway rain raincoat raisin rake raspberry rice river road rocket roof room
rooster rug ruler saddle sail sailboat salad salt sandcastle sandwich saucer saxophone scarecrow school scissors screw sea seagull
seed shadow shampoo shelf shirt shoe shop shoelace sink skateboard skeleton skirt sky slipper smoke snowflake soap sock sofa soldier
soup spaceship spark spider web spinach sponge spoon stable stairs stamp star statue steam engine steamboat stick storm stove straw
strawberry stream street submarine subway sugar suitcase sun sunflower sweater swing sword table tail taxi tea teacher teacup
telephone television tent thief thimble throne ticket tiger tile toaster toilet tomato toothbrush torch towel tower toy tractor
train trailer tram treasure triangle truck trumpet trunk tub tulip tunnel turnip typewriter umbrella valley van vase vegetable
violin volcano wagon wall walnut wand wardrobe washing machine waterfall watermelon well wheel wheelbarrow whisper whistle wind
windmill window witch wool yarn zipper""".split()

# those of them that nobody can carry
LARGE = set(
    """airplane ambulance apricot tree balcony barn barrel bathtub beach bench blackboard boat bonfire bookshelf bridge bus bush cabin
cactus canoe carpet cart castle cave ceiling chimney church city closet cloud corner cottage cupboard desert desk doctor door dragonfly eagle
elevator engine factory farmer fence ferry finger fire fireplace flagpole fog forest fountain fridge galaxy garage gate genie glacier goblin
grandfather hallway hammock harbour helicopter hill hospital hotel hurricane ice iceberg igloo island jungle kitchen knee lake lawn library
lighthouse magician meadow mill moon motorbike mountain musician night oak ocean office orchard oven painter palace parachute park path piano
picnic pigeon pillar pilot pine pipe planet pond pool puddle pump raft railway rain rice river road rocket roof room rooster sail sailboat salt
sandcastle scarecrow school sea seagull shadow shelf shop sink skeleton sky smoke sofa soldier soup spaceship spark spider stable stairs star
statue steam steamboat stove storm stream street submarine subway sun swing table tail taxi tea teacher telephone television tent thief throne
tiger toaster toilet tower tractor train trailer tram truck trunk tub tunnel valley van volcano wall wardrobe washing machine waterfall well
whisper wind windmill window witch oven beard crayon cube knot light frying golf lamp post letter lunch engine""".split()
)
SMALL = [n for n in NOUNS if n not in LARGE]

# adjectives for anyone and anything
ADJECTIVES = """brave kind clever lonely happy sad tiny huge old young shy proud lazy hungry sleepy angry curious funny silly gentle
wise noisy quiet strong weak fast slow clumsy careful grumpy cheerful friendly magical strange famous poor rich honest greedy
polite rude nervous calm wild tame tall short beautiful lost broken forgotten golden silver purple pink red blue green
yellow orange black white grey striped spotted fluffy shiny rusty dusty dirty clean soft hard warm cold wet dry bright dark invisible
flying talking singing dancing dreaming sick tired bored worried excited jealous stubborn patient impatient helpful naughty playful
thoughtful fearless foolish mysterious secret round square little big small""".split()

# adjectives for people
MANNERS = """brave kind clever lonely happy sad tiny young shy proud lazy hungry sleepy angry curious funny silly gentle wise noisy
quiet strong fast slow clumsy careful grumpy cheerful friendly famous poor rich honest polite nervous calm tall lost forgetful tired
bored worried excited jealous stubborn patient impatient helpful naughty playful thoughtful fearless foolish little small dreamy
hardworking lucky unlucky restless dancing singing""".split()

# animal, home, little adjectives, what it is good at (infinitive), what it likes to eat
ANIMALS = [
    ("rabbit", "a cosy burrow", "white|brown|small|fluffy|quick", "hop very fast", "carrots"),
    ("fox", "a den under an old tree", "red|clever|young|small", "make clever plans", "berries"),
    ("bear", "a warm cave", "big|brown|gentle|sleepy", "lift heavy things", "honey"),
    (
        "mouse",
        "a tiny hole in the wall",
        "tiny|grey|small|quick",
        "squeeze through small holes",
        "cheese",
    ),
    ("squirrel", "a hollow tree", "red|grey|quick|little", "climb tall trees", "nuts"),
    ("hedgehog", "a pile of dry leaves", "small|shy|brown|round", "roll into a ball", "apples"),
    ("owl", "a nest at the top of a tall tree", "wise|old|grey|quiet", "see in the dark", "nuts"),
    ("duck", "a nest by the pond", "yellow|white|little|noisy", "swim across the water", "bread"),
    (
        "frog",
        "a pond with green lily pads",
        "green|little|noisy|cheerful",
        "jump over puddles",
        "flies",
    ),
    (
        "turtle",
        "a quiet corner of the pond",
        "slow|old|green|patient",
        "swim for a long time",
        "leaves",
    ),
    (
        "bird",
        "a nest in the oak tree",
        "blue|little|yellow|cheerful",
        "fly high above the trees",
        "seeds",
    ),
    ("cat", "a soft basket by the fire", "black|grey|orange|soft", "walk without a sound", "fish"),
    (
        "dog",
        "a little wooden house in the yard",
        "brown|big|friendly|young",
        "follow a smell",
        "bones",
    ),
    (
        "puppy",
        "a soft bed in the kitchen",
        "playful|brown|little|spotted",
        "sniff things out",
        "biscuits",
    ),
    (
        "kitten",
        "a box full of blankets",
        "grey|tiny|curious|striped",
        "climb on everything",
        "milk",
    ),
    ("pig", "a muddy pen on the farm", "pink|round|cheerful|muddy", "dig in the mud", "corn"),
    ("cow", "a red barn", "brown|gentle|spotted|big", "carry heavy loads", "grass"),
    ("horse", "a stable on the farm", "brown|fast|strong|white", "run like the wind", "oats"),
    ("sheep", "a green field", "white|woolly|gentle|shy", "keep others warm", "grass"),
    ("lamb", "a green field", "white|little|woolly|playful", "jump and skip", "grass"),
    ("goat", "a hut on a rocky hill", "white|stubborn|young|grey", "climb steep rocks", "leaves"),
    ("hen", "a small wooden house", "red|busy|plump|white", "find seeds in the grass", "corn"),
    (
        "elephant",
        "the warm plains",
        "big|grey|gentle|young",
        "carry logs with a long trunk",
        "bananas",
    ),
    ("lion", "a rocky den", "proud|golden|strong|young", "roar very loudly", "meat"),
    ("tiger", "the deep jungle", "striped|strong|young|proud", "swim across rivers", "meat"),
    (
        "monkey",
        "a tall jungle tree",
        "funny|little|brown|clever",
        "swing from branch to branch",
        "bananas",
    ),
    (
        "giraffe",
        "the warm plains",
        "tall|gentle|spotted|young",
        "reach the highest leaves",
        "leaves",
    ),
    ("zebra", "the warm plains", "striped|quick|young|shy", "run far and fast", "grass"),
    ("kangaroo", "the dry red plains", "brown|strong|young|bouncy", "jump very far", "grass"),
    ("koala", "a tall gum tree", "grey|sleepy|soft|gentle", "hold on tight", "leaves"),
    (
        "panda",
        "a bamboo forest",
        "black and white|round|gentle|hungry",
        "climb slowly and safely",
        "bamboo",
    ),
    (
        "penguin",
        "the land of cold white ice",
        "little|cheerful|funny|young",
        "slide on the ice",
        "fish",
    ),
    ("seal", "a cave by the rocky beach", "grey|playful|round|young", "dive deep down", "fish"),
    (
        "whale",
        "the wide blue sea",
        "huge|gentle|blue|old",
        "sing songs that travel far",
        "tiny shrimp",
    ),
    ("dolphin", "the warm sea", "grey|playful|friendly|clever", "leap over the waves", "fish"),
    (
        "fish",
        "a clear blue lake",
        "orange|little|shiny|quick",
        "swim into narrow caves",
        "water plants",
    ),
    (
        "crab",
        "a hole in the sand",
        "red|small|grumpy|funny",
        "hold things with strong claws",
        "seaweed",
    ),
    (
        "octopus",
        "a cave under the sea",
        "purple|shy|clever|kind",
        "do eight things at once",
        "shrimp",
    ),
    (
        "snail",
        "a crack in the garden wall",
        "slow|little|patient|quiet",
        "carry a house everywhere",
        "lettuce",
    ),
    ("ant", "a busy ant hill", "tiny|busy|strong|black", "carry crumbs all day", "crumbs"),
    ("bee", "a golden hive", "busy|little|golden|cheerful", "find the sweetest flowers", "honey"),
    (
        "butterfly",
        "a garden full of flowers",
        "yellow|blue|pretty|gentle",
        "fly softly",
        "flower juice",
    ),
    (
        "ladybug",
        "a garden full of green leaves",
        "red|tiny|spotted|cheerful",
        "count to ten",
        "green bugs",
    ),
    (
        "caterpillar",
        "a bush with big green leaves",
        "green|hungry|tiny|slow",
        "eat all day",
        "leaves",
    ),
    ("spider", "a web in the corner", "small|black|clever|shy", "make fine silk thread", "flies"),
    ("deer", "the quiet woods", "brown|shy|gentle|young", "run through the trees", "grass"),
    ("wolf", "a cave in the hills", "grey|lonely|young|strong", "hear the smallest sound", "meat"),
    ("raccoon", "a hollow log", "grey|curious|clever|sneaky", "open any box", "apples"),
    ("beaver", "a dam in the river", "busy|brown|strong|young", "build with wood", "bark"),
    (
        "otter",
        "a hole in the bank of a river",
        "playful|brown|funny|quick",
        "swim on its back",
        "fish",
    ),
    ("mole", "a tunnel under the meadow", "small|shy|black|busy", "dig long tunnels", "worms"),
    ("badger", "a deep hole in the woods", "old|striped|grumpy|strong", "dig very fast", "roots"),
    ("donkey", "a small stable", "grey|stubborn|patient|old", "carry heavy bags", "hay"),
    (
        "camel",
        "the hot desert",
        "tall|patient|brown|old",
        "walk for days without water",
        "dry grass",
    ),
    ("parrot", "a tree in the jungle", "green|noisy|bright|funny", "repeat every word", "seeds"),
    ("chick", "a nest full of straw", "yellow|tiny|fluffy|curious", "peep loudly", "seeds"),
    ("swan", "a quiet lake", "white|proud|graceful|kind", "glide over the water", "water plants"),
    ("bat", "a dark cave", "small|black|shy|young", "fly at night", "fruit"),
    ("lizard", "a crack in a warm rock", "green|quick|little|sleepy", "run up walls", "flies"),
    ("hamster", "a cage with a wheel", "golden|round|little|busy", "run in a wheel", "seeds"),
    (
        "pony",
        "a stable with a red door",
        "small|brown|gentle|stubborn",
        "trot over the hills",
        "apples",
    ),
]

# fantasy hero, home, adjectives, good at, likes to eat
FANTASY = [
    (
        "dragon",
        "a cave in the mountain",
        "small|green|friendly|young|red",
        "breathe warm fire",
        "roasted corn",
    ),
    (
        "robot",
        "a workshop full of tools",
        "little|shiny|silver|kind|old",
        "count very fast",
        "a drop of oil",
    ),
    (
        "fairy",
        "a flower in the garden",
        "tiny|kind|cheerful|young",
        "make things glow",
        "sweet dew",
    ),
    ("wizard", "a crooked tower", "young|forgetful|old|kind", "mix magic drinks", "pea soup"),
    ("knight", "a stone castle", "brave|young|small|honest", "ride a horse", "bread and cheese"),
    (
        "princess",
        "a castle on the hill",
        "kind|brave|young|clever",
        "solve hard riddles",
        "strawberry cake",
    ),
    ("prince", "a castle by the sea", "shy|kind|young|brave", "play the flute", "apple pie"),
    (
        "giant",
        "a house as big as a hill",
        "gentle|lonely|huge|kind",
        "carry whole trees",
        "a barrel of soup",
    ),
    (
        "mermaid",
        "a palace of shells",
        "kind|curious|young|cheerful",
        "sing under water",
        "sea grapes",
    ),
    ("unicorn", "a silver forest", "white|shy|gentle|young", "heal sick plants", "clover"),
    ("pirate", "an old wooden ship", "funny|brave|young|jolly", "read maps", "fish stew"),
    (
        "ghost",
        "an old empty house",
        "shy|friendly|little|lonely",
        "float through walls",
        "cold pudding",
    ),
    ("gnome", "a mushroom house", "tiny|grumpy|old|busy", "grow giant vegetables", "mushroom soup"),
    ("witch", "a hut in the woods", "kind|young|clumsy|cheerful", "fly on a broom", "pumpkin pie"),
    (
        "alien",
        "a round silver ship",
        "green|friendly|little|curious",
        "talk to the stars",
        "moon cheese",
    ),
    ("snowman", "a snowy garden", "cheerful|round|cold|kind", "stand still for hours", "ice cream"),
    (
        "monster",
        "a cave under the stairs",
        "purple|shy|friendly|furry",
        "make funny faces",
        "old socks",
    ),
    (
        "queen",
        "a palace with tall towers",
        "wise|kind|young|busy",
        "give good advice",
        "cherry tarts",
    ),
    (
        "king",
        "a palace with golden gates",
        "kind|old|bored|proud",
        "give long speeches",
        "roast chicken",
    ),
]

TRAITS = """kind curious brave shy cheerful gentle clever careful playful quiet busy patient funny polite helpful
friendly honest lively thoughtful dreamy stubborn proud""".split()

# toy, what one did with it (past), infinitive, how it broke, how it was mended
TOYS = [
    (
        "kite",
        "flew it high in the sky",
        "fly it",
        "the string snapped",
        "tied on a strong new string",
    ),
    (
        "ball",
        "kicked it across the grass",
        "play with it",
        "all the air came out of it",
        "put a patch on the hole and pumped it up",
    ),
    (
        "boat",
        "sailed it on the water",
        "sail it",
        "the little mast broke off",
        "glued the mast back in its place",
    ),
    (
        "doll",
        "dressed it in tiny clothes",
        "play with it",
        "one arm came off",
        "sewed the arm back on with strong thread",
    ),
    (
        "toy car",
        "raced it over the floor",
        "race it",
        "one wheel fell off",
        "put the wheel back with a small screw",
    ),
    (
        "toy train",
        "pushed it around the room",
        "play with it",
        "the front wheel cracked",
        "glued the wheel until it was strong again",
    ),
    ("teddy bear", "hugged it all day", "hug it", "one ear was torn off", "sewed the ear back on"),
    (
        "drum",
        "tapped it with two sticks",
        "play it",
        "the skin of the drum split",
        "stretched a new skin over the top",
    ),
    (
        "whistle",
        "blew it on the way home",
        "blow it",
        "a crack ran down its side",
        "filled the crack with wax",
    ),
    (
        "bicycle",
        "rode it up and down the road",
        "ride it",
        "the chain came off",
        "put the chain back and oiled it",
    ),
    (
        "scooter",
        "rode it down the path",
        "ride it",
        "the handle came loose",
        "tightened the handle with a tool",
    ),
    (
        "wagon",
        "pulled it along the path",
        "pull it",
        "a wheel came off",
        "hammered the wheel back on",
    ),
    (
        "toy plane",
        "threw it into the wind",
        "fly it",
        "a wing snapped off",
        "fixed the wing with tape and glue",
    ),
    (
        "puppet",
        "made it dance and bow",
        "play with it",
        "its strings got into a knot",
        "slowly untied every knot",
    ),
    (
        "puzzle",
        "put the pieces together",
        "work on it",
        "one piece was bent",
        "flattened the piece under a heavy book",
    ),
    (
        "spinning top",
        "made it spin and hum",
        "spin it",
        "the tip broke off",
        "carved a new tip from wood",
    ),
    (
        "music box",
        "listened to its song",
        "listen to it",
        "it stopped playing",
        "cleaned the dust out of the tiny gears",
    ),
    (
        "toy robot",
        "made it walk in circles",
        "play with it",
        "it would not move any more",
        "put a new battery inside",
    ),
    (
        "skipping rope",
        "jumped with it a hundred times",
        "jump with it",
        "it tore in the middle",
        "tied the two ends together in a tight knot",
    ),
    (
        "paper lantern",
        "hung it by the window",
        "look at it",
        "the paper ripped",
        "pasted new paper over the hole",
    ),
    (
        "sled",
        "raced it down the snowy hill",
        "ride it",
        "one runner cracked",
        "tied a piece of wood under the crack",
    ),
    (
        "storybook",
        "read it again and again",
        "read it",
        "a page was torn out",
        "taped the page back in",
    ),
    (
        "toy castle",
        "played king and queen with it",
        "play with it",
        "the tower fell off",
        "glued the tower back on top",
    ),
    (
        "wooden horse",
        "rode it around the yard",
        "ride it",
        "its leg cracked",
        "tied the leg with wire and painted it over",
    ),
    (
        "little telescope",
        "looked at the moon with it",
        "look through it",
        "the glass got loose",
        "pressed the glass back into its ring",
    ),
    (
        "guitar",
        "played simple songs on it",
        "play it",
        "a string snapped",
        "put on a shiny new string",
    ),
    (
        "yo-yo",
        "made it go up and down",
        "play with it",
        "the string got worn and broke",
        "wound a new string around it",
    ),
]

# things that can be carried, found, lost, given: any of them fits 'a X'
THINGS = """button|shell|key|feather|coin|lamp|clock|mirror|bell|basket|blanket|scarf|hat|ring|pearl|map|bottle|box|book|pencil|
paintbrush|umbrella|flute|candle|crown|necklace|bracelet|spoon|teapot|cup|pillow|ribbon|stone|marble|lantern|whistle|compass|
magnet|balloon|flag|medal|mitten|boot|backpack|watch|picture|letter|violin|trumpet|crystal|flower|seed|acorn|pumpkin|pine cone|
toy soldier|jar|hammer|shovel|net|rope|camera|radio|computer|phone|tablet|globe|notebook|trophy|mask|fan|glove|helmet|kettle|ladder""".replace(
    "\n", ""
).split(
    "|"
)

COLOURS = "red blue green yellow orange purple pink white black brown golden silver".split()
SIZES = "little|tiny|big|small|old|new|shiny|pretty|bright|strange|soft|smooth|heavy|round|lovely|dusty".split(
    "|"
)

FOODS = """apple pie|chocolate cake|pancakes|vegetable soup|bread with jam|strawberry jam|cookies|popcorn|fruit salad|cheese
sandwiches|apple juice|hot cocoa|warm milk|ice cream|honey cakes|pumpkin soup|tomato soup|rice pudding|banana bread|lemonade|
nut cake|berry tarts|porridge|noodles|pizza|pears|cherries|plums""".replace(
    "\n", " "
).split(
    "|"
)

OCCASIONS = """Christmas|Easter|Halloween|New Year's Eve|Thanksgiving|Carnival|the harvest festival|the summer holidays|the school trip|the big feast|
Valentine's Day|Mother's Day|Hanukkah|Diwali|the first day of school|the wedding|the parade|the village fair""".replace(
    "\n", ""
).split(
    "|"
)

# kind (out, water, woods, home, school, town, farm, snow); noun; 'at' phrase; 'to' phrase; things seen there
PLACES = [
    (
        "out",
        "park",
        "in the park",
        "to the park",
        "the tall trees|the swings|children on the slide|a squirrel on a bench",
    ),
    (
        "out",
        "garden",
        "in the garden",
        "to the garden",
        "red roses|a busy bee|the apple tree|rows of beans",
    ),
    (
        "out",
        "meadow",
        "in the meadow",
        "to the meadow",
        "yellow flowers|white clouds|tall grass in the wind|a dancing butterfly",
    ),
    (
        "out",
        "hill",
        "on the hill",
        "to the top of the hill",
        "the village far below|the wide sky|little houses like toys|a row of white sheep",
    ),
    (
        "out",
        "playground",
        "at the playground",
        "to the playground",
        "the big slide|the sandbox|two swings|a climbing frame",
    ),
    (
        "out",
        "yard",
        "in the yard",
        "out into the yard",
        "a row of flower pots|an old fence|washing on the line|a pile of leaves",
    ),
    (
        "out",
        "valley",
        "in the valley",
        "down into the valley",
        "a winding path|wild flowers|a stone bridge|soft green grass",
    ),
    (
        "water",
        "river",
        "by the river",
        "to the river",
        "smooth stones|little silver fish|a wooden bridge|ducks in a row",
    ),
    (
        "water",
        "lake",
        "by the lake",
        "to the lake",
        "small boats|the blue water|tall reeds|a pair of swans",
    ),
    (
        "water",
        "pond",
        "by the pond",
        "to the pond",
        "green lily pads|a fat frog|dragonflies|ripples on the water",
    ),
    (
        "water",
        "beach",
        "at the beach",
        "to the beach",
        "white waves|pink shells|a sand castle|a crab walking sideways",
    ),
    (
        "water",
        "stream",
        "by the stream",
        "to the stream",
        "clear water|mossy stones|a jumping fish|a fallen log",
    ),
    (
        "woods",
        "forest",
        "in the forest",
        "into the forest",
        "tall pine trees|soft green moss|a shy deer|red mushrooms",
    ),
    (
        "woods",
        "woods",
        "in the woods",
        "into the woods",
        "old oak trees|dry leaves|a winding path|a woodpecker at work",
    ),
    (
        "home",
        "kitchen",
        "in the kitchen",
        "to the kitchen",
        "the big table|a bowl of apples|the warm oven|pots on the wall",
    ),
    (
        "home",
        "living room",
        "in the living room",
        "to the living room",
        "the soft sofa|the old clock|a shelf of books|the round rug",
    ),
    (
        "home",
        "bedroom",
        "in the bedroom",
        "to the bedroom",
        "the little lamp|the toy box|a pile of pillows|stars on the ceiling",
    ),
    (
        "home",
        "attic",
        "in the attic",
        "up to the attic",
        "dusty boxes|an old trunk|a spider web|a small round window",
    ),
    (
        "school",
        "school",
        "at school",
        "to school",
        "rows of desks|a map on the wall|a box of chalk|pictures on the wall",
    ),
    (
        "school",
        "library",
        "in the library",
        "to the library",
        "shelves full of books|a quiet corner|a big globe|a soft red chair",
    ),
    (
        "town",
        "market",
        "at the market",
        "to the market",
        "baskets of fruit|bright scarves|a man selling fish|warm bread",
    ),
    (
        "town",
        "village square",
        "in the village square",
        "to the village square",
        "the old well|a row of shops|a stone fountain|grey pigeons",
    ),
    (
        "town",
        "train station",
        "at the train station",
        "to the train station",
        "a long green train|a big clock|people with bags|shiny rails",
    ),
    (
        "town",
        "fair",
        "at the fair",
        "to the fair",
        "a big wheel|bright flags|a man with balloons|painted horses",
    ),
    (
        "town",
        "museum",
        "in the museum",
        "to the museum",
        "old bones|a golden mask|big paintings|a huge stone lion",
    ),
    ("farm", "farm", "on the farm", "to the farm", "a red barn|fat hens|a muddy pig|stacks of hay"),
    (
        "farm",
        "orchard",
        "in the orchard",
        "to the orchard",
        "ripe apples|long ladders|full baskets|sleepy bees",
    ),
    (
        "farm",
        "field",
        "in the field",
        "out to the field",
        "golden wheat|an old tractor|a scarecrow|black crows",
    ),
]

# season, month phrase, weather lines (outdoor mornings)
SEASONS = [
    (
        "spring",
        "The first flowers were {out|opening|blooming}.|A {soft|warm} rain had washed the {trees|roads} clean.|{Little birds|The birds} were building nests.|The air smelled of {new grass|wet earth|blossom}.",
    ),
    (
        "summer",
        "The sun was {hot|high} and the sky was {clear and blue|bright blue}.|It was the {hottest|longest} day of the year.|Bees hummed in the {flowers|clover}.|The grass was {warm|dry} under everyone's feet.",
    ),
    (
        "autumn",
        "The leaves were {red and gold|falling one by one|turning yellow}.|A {cool|strong} wind blew the leaves {around|across the road}.|{Mist|Fog} lay over the fields.|There was a smell of {apples|smoke and leaves} in the air.",
    ),
    (
        "winter",
        "Snow {covered everything|lay on the roofs|was falling softly}.|It was {so cold that breath looked like smoke|very cold}.|There was ice on the {pond|windows}.|The world was white and {still|quiet}.",
    ),
]

STRANGERS = [  # helper met by chance in the human world: noun, pronoun, what they do
    ("an old man", "he", "old man", "feeding the birds"),
    ("an old woman", "she", "old woman", "carrying a basket"),
    ("a farmer", "he", "farmer", "mending a fence"),
    ("a baker", "she", "baker", "carrying fresh bread"),
    ("a policeman", "he", "policeman", "walking down the street"),
    ("a gardener", "she", "gardener", "planting tulips"),
    ("a fisherman", "he", "fisherman", "mending a net"),
    ("a postman", "he", "postman", "pushing a bicycle"),
    ("a doctor", "she", "doctor", "walking home"),
    ("a painter", "she", "painter", "painting a bridge"),
    ("a shopkeeper", "he", "shopkeeper", "sweeping the steps"),
    ("a bus driver", "she", "bus driver", "drinking tea"),
    ("a sailor", "he", "sailor", "tying a boat"),
    ("a teacher", "she", "teacher", "reading a book on a bench"),
    ("a carpenter", "he", "carpenter", "cutting wood"),
    ("a tailor", "he", "tailor", "sewing by the window"),
    ("a librarian", "she", "librarian", "putting books in order"),
    ("a firefighter", "she", "firefighter", "washing a red truck"),
]
