"""What the model may know: tables of simple facts, from which chat.py makes questions and answers."""

# animal: class | where it lives | what it eats | sound (or -) | legs | its young | one more fact
ANIMALS = """
cat|mammal|in houses|fish and meat|says meow|4|kitten|A cat can see well in the dark.
dog|mammal|in houses|meat and dog food|barks|4|puppy|A dog can smell much better than a person.
cow|mammal|on farms|grass|says moo|4|calf|Cows give us milk.
horse|mammal|on farms and in stables|grass and hay|neighs|4|foal|A horse can sleep standing up.
sheep|mammal|on farms|grass|says baa|4|lamb|We get wool from sheep.
goat|mammal|on farms and in the mountains|grass and leaves|bleats|4|kid|Goats are very good at climbing.
pig|mammal|on farms|almost everything|oinks|4|piglet|Pigs are very clever animals.
hen|bird|on farms|seeds and corn|clucks|2|chick|A hen lays eggs.
rooster|bird|on farms|seeds and corn|crows|2|chick|A rooster crows early in the morning.
duck|bird|near ponds and lakes|water plants and insects|quacks|2|duckling|Ducks have feathers that keep out the water.
goose|bird|near lakes and on farms|grass|honks|2|gosling|Geese fly in the shape of a V.
swan|bird|on lakes and rivers|water plants|hisses|2|cygnet|A swan has a long white neck.
owl|bird|in forests|mice|hoots|2|owlet|Owls hunt at night.
eagle|bird|in the mountains|fish and small animals|screams|2|eaglet|An eagle can see very far.
penguin|bird|in the cold south|fish|calls loudly|2|chick|Penguins cannot fly, but they swim very well.
parrot|bird|in warm forests|seeds and fruit|squawks|2|chick|Some parrots can learn to say words.
crow|bird|in towns and fields|almost everything|caws|2|chick|Crows are very clever birds.
ostrich|bird|on the plains of Africa|plants|booms|2|chick|The ostrich is the largest bird in the world.
flamingo|bird|near warm lakes|tiny shrimp|honks|2|chick|Flamingos are pink because of their food.
mouse|mammal|in fields and houses|seeds and grain|squeaks|4|pup|A mouse can squeeze through very small holes.
rat|mammal|in towns and fields|almost everything|squeaks|4|pup|Rats are good swimmers.
rabbit|mammal|in burrows in fields|grass and carrots|-|4|kit|Rabbits have long ears and can hop fast.
hare|mammal|in fields|grass|-|4|leveret|Hares are faster than rabbits.
squirrel|mammal|in trees|nuts and seeds|chatters|4|kit|Squirrels hide nuts for the winter.
hedgehog|mammal|in gardens and woods|insects and snails|snuffles|4|hoglet|A hedgehog rolls into a ball when it is afraid.
fox|mammal|in forests and fields|mice and berries|yelps|4|cub|A fox has a long bushy tail.
wolf|mammal|in forests|meat|howls|4|pup|Wolves live in groups called packs.
bear|mammal|in forests and mountains|fish, berries and honey|growls|4|cub|Many bears sleep through the winter.
polar bear|mammal|in the Arctic|seals|growls|4|cub|Polar bears have black skin under their white fur.
panda|mammal|in the forests of China|bamboo|bleats|4|cub|A panda eats for many hours every day.
deer|mammal|in forests|grass and leaves|-|4|fawn|Male deer grow new antlers every year.
moose|mammal|in cold forests|leaves and twigs|bellows|4|calf|The moose is the largest kind of deer.
lion|mammal|on the plains of Africa|meat|roars|4|cub|Lions live in groups called prides.
tiger|mammal|in the forests of Asia|meat|roars|4|cub|Every tiger has its own pattern of stripes.
leopard|mammal|in Africa and Asia|meat|growls|4|cub|Leopards are very good at climbing trees.
cheetah|mammal|on the plains of Africa|meat|purrs|4|cub|The cheetah is the fastest animal on land.
elephant|mammal|in Africa and Asia|grass and leaves|trumpets|4|calf|The elephant is the largest animal on land.
giraffe|mammal|on the plains of Africa|leaves|hums|4|calf|The giraffe is the tallest animal in the world.
zebra|mammal|on the plains of Africa|grass|barks|4|foal|A zebra has black and white stripes.
rhino|mammal|in Africa and Asia|grass and leaves|snorts|4|calf|A rhino has one or two horns on its nose.
hippo|mammal|in rivers and lakes of Africa|grass|grunts|4|calf|A hippo spends most of the day in the water.
monkey|mammal|in warm forests|fruit and leaves|chatters|4|infant|Many monkeys use their tail like a hand.
gorilla|mammal|in the forests of Africa|leaves and fruit|grunts|4|infant|The gorilla is the largest ape.
kangaroo|mammal|in Australia|grass|-|4|joey|A kangaroo carries its baby in a pouch.
koala|mammal|in Australia|leaves of gum trees|grunts|4|joey|A koala sleeps up to twenty hours a day.
camel|mammal|in deserts|dry grass|grunts|4|calf|A camel can live for days without water.
donkey|mammal|on farms|grass and hay|brays|4|foal|Donkeys can carry heavy loads.
bat|mammal|in caves and old houses|insects and fruit|squeaks|2|pup|A bat finds its way by listening to echoes.
whale|mammal|in the sea|fish and tiny shrimp|sings|0|calf|The blue whale is the largest animal that has ever lived.
dolphin|mammal|in the sea|fish|clicks and whistles|0|calf|Dolphins breathe air, although they live in water.
seal|mammal|near cold coasts|fish|barks|0|pup|Seals are slow on land and fast in the water.
otter|mammal|in rivers and on coasts|fish and crabs|whistles|4|pup|Sea otters hold hands when they sleep.
beaver|mammal|in rivers|bark and plants|-|4|kit|Beavers build dams from wood.
mole|mammal|under the ground|worms|-|4|pup|A mole can hardly see.
shark|fish|in the sea|fish and other animals|-|0|pup|Sharks grow new teeth all their life.
goldfish|fish|in ponds and tanks|small plants and fish food|-|0|fry|A goldfish never closes its eyes.
salmon|fish|in rivers and in the sea|small fish and shrimp|-|0|fry|Salmon swim back to the river where they were born.
octopus|sea animal without bones|in the sea|crabs|-|8|larva|An octopus has three hearts and eight arms.
crab|sea animal with a shell|on beaches and in the sea|almost everything|-|10|larva|A crab walks sideways.
frog|amphibian|in ponds|insects|croaks|4|tadpole|A frog begins its life as a tadpole.
turtle|reptile|in water and on land|plants and small animals|-|4|hatchling|Some turtles live for more than a hundred years.
snake|reptile|in forests, deserts and fields|mice and other animals|hisses|0|hatchling|A snake smells with its tongue.
lizard|reptile|in warm places|insects|-|4|hatchling|Some lizards can lose their tail and grow a new one.
crocodile|reptile|in warm rivers|meat|growls|4|hatchling|Crocodiles have been on earth since the time of the dinosaurs.
bee|insect|in hives|nectar and pollen|buzzes|6|larva|Bees make honey.
ant|insect|in ant hills|almost everything|-|6|larva|An ant can carry much more than its own weight.
butterfly|insect|in gardens and fields|nectar|-|6|caterpillar|A butterfly was once a caterpillar.
ladybug|insect|on plants|tiny green bugs|-|6|larva|A ladybug is red with black spots.
fly|insect|almost everywhere|almost everything|buzzes|6|maggot|A fly can walk on the ceiling.
spider|arachnid|in webs and corners|insects|-|8|spiderling|A spider is not an insect, because it has eight legs.
snail|mollusc|in gardens|leaves|-|0|young snail|A snail carries its house on its back.
worm|animal without bones|in the ground|dead leaves|-|0|young worm|Worms make the soil good for plants.
"""

USES = """
scissors|cut paper
knife|cut food
spoon|eat soup
fork|pick up food
cup|drink from
pen|write
pencil|write and draw
eraser|rub out mistakes
ruler|measure and draw straight lines
hammer|hit nails
saw|cut wood
screwdriver|turn screws
shovel|dig holes
rake|gather leaves
broom|sweep the floor
mop|clean the floor with water
bucket|carry water
sponge|wash things
soap|wash your hands
towel|dry yourself
toothbrush|brush your teeth
comb|tidy your hair
mirror|see yourself
lamp|light a room
candle|give light
clock|tell the time
watch|tell the time
calendar|see what day it is
umbrella|stay dry in the rain
coat|stay warm
hat|keep the sun or the cold off your head
glove|keep your hands warm
scarf|keep your neck warm
boot|keep your feet dry
bed|sleep
pillow|rest your head
blanket|keep warm in bed
chair|sit
table|eat or work at
oven|bake bread and cakes
fridge|keep food cold
stove|cook food
pot|cook soup
pan|fry food
kettle|boil water
plate|put food on
key|open a lock
lock|keep a door closed
door|go in and out of a room
window|let in light and air
ladder|climb up high
rope|tie things together
needle|sew
thread|sew
button|close a shirt
glue|stick things together
tape|stick things together
map|find the way
compass|find north
telescope|look at the stars
microscope|see very small things
magnifying glass|make small things look bigger
camera|take pictures
phone|talk to people far away
radio|listen to music and news
computer|write, calculate and find information
book|read
dictionary|find out what words mean
car|travel on roads
bus|carry many people
train|travel on rails
plane|travel through the air
boat|travel on water
bicycle|ride with your own power
bridge|cross a river
wheel|make things roll
brush|paint or clean
paint|give things colour
drum|make music
piano|make music
violin|make music
thermometer|measure how warm or cold it is
scale|measure how heavy something is
battery|give power to small machines
magnet|pick up things made of iron
basket|carry things
bag|carry things
box|keep things in
wallet|keep money in
coin|pay for things
stamp|send a letter
envelope|put a letter in
bell|make a ringing sound
whistle|make a loud sound
tent|sleep outdoors
flashlight|see in the dark
helmet|protect your head
belt|hold up your trousers
glasses|see better
bandage|cover a wound
medicine|get well again
fence|keep animals in or out
net|catch fish
wheelbarrow|move heavy things in the garden
seed|grow a plant
nest|keep eggs safe
"""

COLOURS = """
the sky on a clear day|blue
grass|green
snow|white
a banana|yellow
a strawberry|red
a lemon|yellow
coal|black
milk|white
blood|red
a carrot|orange
a pumpkin|orange
a cucumber|green
a ripe tomato|red
chocolate|brown
the sun in most drawings|yellow
a fire truck|red
the sea|blue
a lime|green
an elephant|grey
a flamingo|pink
a polar bear|white
a frog|usually green
a raven|black
a plum|purple
an eggplant|purple
a school bus in many countries|yellow
the night sky|black
a leaf in summer|green
a leaf in autumn|red, orange or yellow
a cloud on a rainy day|grey
salt|white
sugar|white
an egg yolk|yellow
a cherry|red
a blueberry|blue
gold|yellow and shiny
silver|grey and shiny
a stop sign|red
a pig|pink
honey|golden
a chick|yellow
a crow|black
wood|brown
spinach|green
an orange|orange
"""

# country | capital | continent | language
COUNTRIES = """
France|Paris|Europe|French
Germany|Berlin|Europe|German
Italy|Rome|Europe|Italian
Spain|Madrid|Europe|Spanish
Portugal|Lisbon|Europe|Portuguese
England|London|Europe|English
the United Kingdom|London|Europe|English
Scotland|Edinburgh|Europe|English
Ireland|Dublin|Europe|English and Irish
Austria|Vienna|Europe|German
Switzerland|Bern|Europe|German, French, Italian and Romansh
the Netherlands|Amsterdam|Europe|Dutch
Belgium|Brussels|Europe|Dutch, French and German
Denmark|Copenhagen|Europe|Danish
Sweden|Stockholm|Europe|Swedish
Norway|Oslo|Europe|Norwegian
Finland|Helsinki|Europe|Finnish and Swedish
Iceland|Reykjavik|Europe|Icelandic
Poland|Warsaw|Europe|Polish
Hungary|Budapest|Europe|Hungarian
Greece|Athens|Europe|Greek
Romania|Bucharest|Europe|Romanian
Bulgaria|Sofia|Europe|Bulgarian
Ukraine|Kyiv|Europe|Ukrainian
Russia|Moscow|Europe and Asia|Russian
the Czech Republic|Prague|Europe|Czech
Slovakia|Bratislava|Europe|Slovak
Croatia|Zagreb|Europe|Croatian
Serbia|Belgrade|Europe|Serbian
Turkey|Ankara|Asia and Europe|Turkish
China|Beijing|Asia|Chinese
Japan|Tokyo|Asia|Japanese
South Korea|Seoul|Asia|Korean
India|New Delhi|Asia|Hindi and English
Pakistan|Islamabad|Asia|Urdu and English
Thailand|Bangkok|Asia|Thai
Vietnam|Hanoi|Asia|Vietnamese
Indonesia|Jakarta|Asia|Indonesian
the Philippines|Manila|Asia|Filipino and English
Malaysia|Kuala Lumpur|Asia|Malay
Nepal|Kathmandu|Asia|Nepali
Mongolia|Ulaanbaatar|Asia|Mongolian
Iran|Tehran|Asia|Persian
Iraq|Baghdad|Asia|Arabic and Kurdish
Saudi Arabia|Riyadh|Asia|Arabic
Egypt|Cairo|Africa|Arabic
Morocco|Rabat|Africa|Arabic and Berber
Kenya|Nairobi|Africa|Swahili and English
Nigeria|Abuja|Africa|English
Ethiopia|Addis Ababa|Africa|Amharic
Ghana|Accra|Africa|English
Senegal|Dakar|Africa|French
Algeria|Algiers|Africa|Arabic and Berber
Tunisia|Tunis|Africa|Arabic
the United States|Washington, D.C.|North America|English
America|Washington, D.C.|North America|English
Canada|Ottawa|North America|English and French
Mexico|Mexico City|North America|Spanish
Cuba|Havana|North America|Spanish
Brazil|Brasilia|South America|Portuguese
Argentina|Buenos Aires|South America|Spanish
Chile|Santiago|South America|Spanish
Peru|Lima|South America|Spanish
Colombia|Bogota|South America|Spanish
Venezuela|Caracas|South America|Spanish
Ecuador|Quito|South America|Spanish
Australia|Canberra|Australia|English
New Zealand|Wellington|Oceania|English and Maori
"""

OPPOSITES = """hot cold|big small|tall short|fast slow|happy sad|day night|black white|up down|in out|open closed|old young|old new|
hard soft|light dark|light heavy|wet dry|clean dirty|full empty|loud quiet|near far|early late|first last|good bad|right wrong|right left|
rich poor|strong weak|thick thin|wide narrow|high low|deep shallow|long short|rough smooth|sharp dull|sweet sour|brave afraid|kind mean|
awake asleep|alive dead|begin end|start stop|give take|push pull|buy sell|love hate|laugh cry|win lose|find lose|remember forget|
question answer|friend enemy|summer winter|north south|east west|morning evening|yes no|true false|always never|everything nothing|
inside outside|above below|before after|more less|many few|top bottom|front back|come go|arrive leave|easy difficult|simple complicated|
safe dangerous|beautiful ugly|cheap expensive|interesting boring|polite rude|careful careless|patient impatient|possible impossible|
tight loose|straight crooked|warm cool|bright dim|same different|together alone|war peace|noisy silent|lazy hardworking|
generous greedy|honest dishonest|healthy sick|hungry full|land sea|sky ground|boy girl|man woman|king queen|teacher student""".replace(
    "\n", ""
)

JOBS = """baker|bakes bread and cakes
teacher|helps people learn at school
doctor|helps sick people get well
nurse|takes care of sick people
dentist|takes care of teeth
farmer|grows food and keeps animals
firefighter|puts out fires and saves people
police officer|keeps people safe
pilot|flies planes
sailor|works on a ship
fisherman|catches fish
cook|prepares food in a kitchen
waiter|brings food to people in a restaurant
gardener|takes care of plants
carpenter|makes things out of wood
plumber|repairs water pipes
electrician|works with electric wires
mechanic|repairs cars and machines
painter|paints pictures or walls
singer|sings songs
musician|plays music
writer|writes books and stories
librarian|takes care of books in a library
scientist|tries to find out how the world works
engineer|designs machines, bridges and other things
programmer|writes programs for computers
astronaut|travels into space
vet|helps sick animals
tailor|makes and mends clothes
shoemaker|makes and repairs shoes
butcher|sells meat
hairdresser|cuts hair
judge|decides in a court
mail carrier|brings letters and parcels
bus driver|drives a bus
builder|builds houses
photographer|takes pictures
actor|plays a part in films or in the theatre
dancer|dances for other people
clown|makes people laugh
detective|solves mysteries
miner|digs for coal or metal under the ground
blacksmith|makes things from hot iron
astronomer|studies the stars and planets
beekeeper|keeps bees and collects honey"""

DEFINITIONS = """island|a piece of land with water all around it
river|a long stream of water that flows to the sea or a lake
mountain|a very high hill
valley|the low land between hills or mountains
desert|a very dry place where few plants grow
forest|a large place full of trees
ocean|a very large sea
lake|a lot of water with land all around it
volcano|a mountain that can throw out hot melted rock
cloud|many tiny drops of water floating in the sky
rain|water that falls from clouds
snow|frozen water that falls in soft white flakes
ice|frozen water
fog|a cloud that lies close to the ground
wind|air that moves
storm|very bad weather with strong wind
rainbow|a band of colours that you see when the sun shines through rain
thunder|the loud sound that follows lightning
lightning|a big spark of electricity in the sky
star|a huge hot ball of gas that shines in the sky
planet|a large round body that goes around a star
moon|a round body that goes around a planet
sun|the star that gives us light and warmth
earthquake|a strong shaking of the ground
shadow|a dark shape that you see when something blocks the light
echo|a sound that comes back to you from a wall or a mountain
seed|the small part of a plant from which a new plant grows
root|the part of a plant that is in the ground and takes in water
flower|the colourful part of a plant
fruit|the part of a plant that holds the seeds and that we often eat
vegetable|a plant or a part of a plant that we eat
tree|a tall plant with a trunk made of wood
insect|a small animal with six legs
mammal|an animal that feeds its babies with milk
bird|an animal with feathers, two wings and a beak
fish|an animal that lives in water and breathes through gills
reptile|an animal with dry scales, like a snake or a lizard
friend|a person whom you like and trust
family|the people you belong to, like parents, brothers and sisters
neighbour|a person who lives next to you
school|a place where people learn
library|a place where you can read and borrow books
hospital|a place where sick people are helped
museum|a place where you can look at old or interesting things
market|a place where people buy and sell things
farm|a place where people grow food and keep animals
castle|a big old building with strong walls and towers
bridge|something that you can walk or drive on to cross a river or a road
lighthouse|a tower with a bright light that shows ships the way
map|a drawing that shows where places are
book|many pages with words or pictures, bound together
story|words that tell about things that happened, real or made up
poem|a short text with rhythm and often with rhymes
rhyme|two words that end with the same sound
word|a group of letters that means something
sentence|a group of words that says something complete
letter|a sign for a sound, or a message on paper
number|something that tells how many
triangle|a shape with three sides
square|a shape with four equal sides
circle|a round shape
cube|a solid shape with six square sides
clock|a thing that shows the time
calendar|a list of the days, weeks and months of a year
century|a time of one hundred years
decade|a time of ten years
computer|a machine that can calculate and follow instructions
robot|a machine that can move and do work
program|a list of instructions for a computer
language model|a program that has learned to guess the next word of a text
computer program|a list of instructions for a computer
internet|a network that connects computers all over the world
electricity|a kind of energy that makes lamps and machines work
energy|what is needed to move, heat or change things
magnet|a piece of metal that pulls iron
gravity|the force that pulls things down to the ground
light|what we need in order to see
sound|a movement of the air that we can hear
heart|the part of the body that pumps the blood
brain|the part of the body that thinks
bone|a hard part inside the body
stomach|the part of the body where food goes first
lungs|the parts of the body with which we breathe
skin|the outside of the body
dream|pictures and stories that you see when you sleep
secret|something that you do not tell everybody
promise|when you say that you will surely do something
joke|a short story or a sentence that makes people laugh
gift|something that you give to someone to make them happy
hero|a person who is very brave and helps others
courage|being brave when something is hard or frightening
patience|being able to wait without getting angry
honesty|telling the truth
kindness|being good to others
friendship|what is between people who like and trust each other
happiness|the good feeling when you are glad
sadness|the feeling that you have when something hurts your heart
anger|a strong feeling when something seems wrong or unfair
fear|the feeling that you have when you think there is danger
love|a very strong and warm feeling for someone
hope|the feeling that good things can happen
war|a fight between countries
peace|a time without war
money|coins, notes and numbers with which we pay
music|sounds that are put together in a beautiful way
art|things that people make to show ideas or beauty, like pictures and songs
game|something that you play for fun
sport|moving your body in a game or to stay strong
holiday|a time when you do not have to work or go to school
birthday|the day on which a person was born
breakfast|the first meal of the day
lunch|the meal in the middle of the day
dinner|the main meal of the evening
recipe|a list of steps that tells how to cook something
unicorn|a horse with one horn that exists only in stories
dragon|a big animal from stories that can often fly and breathe fire
fairy|a small magic being from stories
pirate|a person who robs ships at sea
knight|a soldier on a horse in the old days
king|a man who rules a country
queen|a woman who rules a country or the wife of a king
giant|a very big person in stories
mermaid|a being from stories that is half woman and half fish
dinosaur|an animal that lived on earth millions of years ago"""

# thing | what it is made of
MATERIALS = """
a chair|wood, plastic or metal
a bottle|glass or plastic
a coin|metal
a shirt|cotton or other cloth
a sweater|wool
a shoe|leather or cloth
a book|paper
a newspaper|paper
a house|bricks, stone or wood
a wall|stone or brick
a nail|iron
a ring|gold or silver
a tyre|rubber
a candle|wax
a bridge|stone, steel or wood
a cup|clay, porcelain or glass
a plate|clay or porcelain
a key|metal
a spoon|metal or wood
a pencil|wood and graphite
a rope|fibres that are twisted together
a sail|strong cloth
a bell|metal
a snowman|snow
a cloud|tiny drops of water
butter|cream from milk
pasta|flour and water
jam|fruit and sugar
ketchup|tomatoes, sugar and vinegar
wine|grapes
an omelette|eggs
ice cream|milk or cream and sugar
a sandwich|two slices of bread with something between them
"""

# thing | where you find or buy it
PLACES_OF = """
bread|in a bakery
books|in a library or in a book shop
a doctor|in a hospital or in a doctor's office
medicine|in a pharmacy
a teacher|in a school
animals from all over the world|in a zoo
old paintings|in a museum
a train|at a train station
a plane|at an airport
a ship|in a harbour
sand|on a beach or in a desert
shells|on a beach
fish|in rivers, lakes and the sea
mushrooms|in the forest
apples|on apple trees and in shops
vegetables|in a garden or at the market
stars|in the sky at night
money|in a bank
a letter|in a letter box
a bed|in a bedroom
an oven|in a kitchen
a bathtub|in a bathroom
cows|on a farm
milk|in a fridge or in a shop
flowers|in a garden or in a flower shop
toys|in a toy shop
a stage|in a theatre
films|in a cinema
ice|in cold places and in the freezer
"""

CATEGORIES = {
    "fruit": "apple banana pear orange lemon cherry plum peach grape strawberry mango pineapple melon kiwi blueberry apricot".split(),
    "vegetable": "carrot potato onion cabbage spinach pea bean cucumber broccoli pepper lettuce radish leek celery".split(),
    "colour": "red blue green yellow orange purple pink brown black white grey".split(),
    "farm animal": "cow horse pig sheep goat hen duck donkey".split(),
    "wild animal": "lion tiger bear wolf fox elephant giraffe zebra deer monkey".split(),
    "pet": "dog cat hamster rabbit goldfish parrot".split(),
    "bird": "owl eagle duck swan parrot crow penguin robin sparrow".split(),
    "insect": "bee ant fly butterfly ladybug beetle mosquito".split(),
    "sea animal": "whale dolphin shark octopus crab seal starfish".split(),
    "vehicle": "car bus train plane boat bicycle truck ship tram".split(),
    "tool": "hammer saw screwdriver shovel rake drill axe".split(),
    "musical instrument": "piano guitar violin drum flute trumpet harp".split(),
    "piece of clothing": "shirt coat hat sock glove scarf sweater dress".split(),
    "piece of furniture": "table chair bed sofa shelf cupboard desk".split(),
    "sport": "football tennis basketball swimming running skiing hockey".split(),
    "drink": "water milk juice tea coffee lemonade".split(),
    "shape": "circle square triangle rectangle oval star".split(),
    "planet": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "part of the body": "head arm leg hand foot nose ear eye mouth knee".split(),
    "flower": "rose tulip daisy lily sunflower violet".split(),
    "tree": "oak pine birch maple willow apple".split(),
    "month": "January February March April May June July August September October November December".split(),
    "day of the week": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "season": "spring summer autumn winter".split(),
    "continent": "Africa Asia Europe Australia Antarctica".split(),
    "feeling": "happiness sadness anger fear surprise pride love".split(),
}
PLURALS = {
    "piece of clothing": "pieces of clothing",
    "piece of furniture": "pieces of furniture",
    "part of the body": "parts of the body",
    "day of the week": "days of the week",
}

RHYMES = """cat hat mat bat rat sat|dog fog log frog|tree bee sea free knee me|sun fun run one|moon soon spoon tune|star far car jar|house mouse|
night light bright kite white|day play way say grey|snow go slow know glow|king ring sing spring wing|book look cook hook|ball tall fall wall small|
cake lake make snake|rain train brain chain|sky fly high why pie|bear chair hair pear|fish dish wish|bed red head bread|nose rose toes goes|
boat coat goat|fox box socks rocks|hill still mill|tail snail sail whale|heart part start art|love dove above glove|blue shoe two you true|
door floor more four|mouth south|hand sand land|stone bone alone phone|song long strong|dream stream team|flower tower hour|gold cold old told""".replace(
    "\n", ""
)

PAST = """go went|come came|see saw|eat ate|drink drank|run ran|swim swam|sing sang|give gave|take took|make made|find found|think thought|buy bought|
bring brought|write wrote|read read|ride rode|drive drove|fly flew|grow grew|know knew|throw threw|draw drew|sleep slept|keep kept|feel felt|
leave left|lose lost|tell told|say said|sell sold|stand stood|sit sat|win won|begin began|break broke|speak spoke|wake woke|fall fell|
build built|send sent|catch caught|teach taught|play played|walk walked|jump jumped|laugh laughed|help helped|look looked""".replace(
    "\n", ""
)

IRREGULAR_PLURALS = """mouse mice|child children|foot feet|tooth teeth|man men|woman women|goose geese|sheep sheep|fish fish|leaf leaves|knife knives|
wolf wolves|baby babies|city cities|story stories|box boxes|bus buses|dog dogs|cat cats|tree trees|house houses|book books|potato potatoes|
tomato tomatoes|cherry cherries|butterfly butterflies|person people|deer deer|half halves|lady ladies""".replace(
    "\n", ""
)

# bigger and bigger
SIZES = "an ant|a bee|a mouse|a frog|a cat|a dog|a sheep|a pig|a horse|an elephant|a whale|a ship|a mountain|the moon|the earth|the sun".split(
    "|"
)
SPEEDS = "a snail|a turtle|a walking person|a running dog|a bicycle|a horse|a car|a train|a plane|a rocket|light".split(
    "|"
)
SPELL = """cat dog sun moon star tree book fish bird house mouse horse apple bread water milk green blue red black white happy friend school
garden winter summer flower table chair window door river stone cloud light night day rain snow king queen ship boat train""".split()


def rows(table):
    """Lines of a table, split at the bars."""
    return [line.split("|") for line in table.strip().splitlines()]
