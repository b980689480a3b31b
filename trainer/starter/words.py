"""The words of the starter: plain English ones kept for the tutorial, and invented ones for its demonstrations."""

from __future__ import annotations

import random
import string
from typing import Final


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TUTORIAL_WORDS: Final = _listed(
    """
    amber anchor apple apron arrow aspen attic autumn badge bagel bamboo banjo barley basil basket beacon beaver berry
    birch bison blanket blossom bottle branch brick bridge bronze brook bucket butter button cabin cactus camel candle
    canoe canyon carpet carrot castle cedar cherry chess cider cinder citrus clover cobalt cocoa comet copper coral
    cotton cougar crane crater cricket crystal curtain daisy dolphin donkey dragon drum eagle ember engine falcon
    feather fennel ferry fiddle finch flint flute forest fossil fountain fox gander garden garlic garnet geyser ginger
    glacier goblet granite grape gravel guitar hammer harbor hazel helmet heron hickory honey horse hotel island ivory
    jacket jaguar jasmine jungle juniper kettle kitten koala ladder lagoon lantern lemon lentil lily linen lizard
    llama lotus magnet mango maple marble meadow melon mint mirror mitten monkey moose mosaic mountain muffin mustard
    napkin nectar needle nickel nutmeg oasis ocean olive onion opal orange orchid otter oyster paddle panda panther
    paper parrot peach pebble pelican pencil pepper piano pigeon pillow pine planet plum pocket pony poppy potato
    prairie puffin pumpkin puzzle quail quartz rabbit raccoon radish raven ribbon river robin rocket rose ruby saddle
    saffron salmon sandal sapphire saturn scarf seal shadow silver sparrow spider spruce squid stone summer sunset
    swan tablet teapot temple thistle thunder tiger timber tomato topaz tulip tundra turtle umbra valley vanilla
    velvet violet violin walnut walrus whistle willow window winter wolf yarrow zebra zinc
    """
)
"""Names and words of the tutorial tasks; the demonstrations never use them."""

TUTORIAL_ENDINGS: Final = ('txt', 'md', 'log', 'csv')
DEMO_ENDINGS: Final = ('txt', 'md', 'log', 'csv', 'txt', 'md', 'log', 'csv', 'json', 'cfg', 'dat', 'ini')

_ONSETS: Final = _listed(
    'b c d f g h j k l m n p r s t v w y z bl br ch cl cr dr fl fr gl gr pl pr qu sc sh sp st tr th'
)
_VOWELS: Final = _listed('a e i o u a e i o u ai ea ee oo ou y')
_CODAS: Final = ('', *_listed('b ck d ff l ll m mp n nd ng nt p r rd rn rt s ss st t x'))
_COMMON: Final = _listed(
    """
    create file word write make called that says into new rename give name should change copy keep duplicate read find
    look same append line last there replace with swap delete remove leave alone needed folder inside count many number
    function returns define hello pass echo touch mkdir system user assistant done exit code wrote bytes tools
    """
)
_AVOIDED: Final = frozenset((*TUTORIAL_WORDS, 'hello', 'pass'))


def invented_word(rng: random.Random) -> str:
    """A word of the demonstrations: syllables, random letters or bits of common words, rarely a number at the end."""
    while True:
        word = rng.choices((_syllables, _letters, _bits), (45, 25, 30))[0](rng)
        if rng.random() < 0.1:
            word += str(rng.randrange(100))
        if 2 < len(word) < 11 and word not in _AVOIDED:
            return word


def _letters(rng: random.Random) -> str:
    return ''.join(rng.choices(string.ascii_lowercase, k=rng.randrange(3, 8)))


def _syllables(rng: random.Random) -> str:
    parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
    return rng.choice(_CODAS).join(parts) + rng.choice(_CODAS)


def _bits(rng: random.Random) -> str:
    """Pieces of words that requests are made of: the tokenizer knows these, so names must be seen to hold them."""
    return ''.join(_bit(rng) for _ in range(rng.choice((1, 2, 2, 3)))) + rng.choice(_CODAS)


def _bit(rng: random.Random) -> str:
    word = rng.choice(_COMMON)
    start = rng.randrange(len(word) - 1)
    return word[start : start + rng.choice((2, 3, 4, 5))]
