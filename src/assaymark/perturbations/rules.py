"""HELM's perturbations as functions of a text and a random generator, equal to HELM's text for text.

Source: stanford-crfm/helm@63754d05, src/helm/benchmark/augmentations (Apache-2.0). How often the generator is asked,
and in which order, is part of each rule, as is the order of the words: alternatives are tried, and phrases drawn, in
the order of the lists.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

# from NL-Augmenter (GEM-benchmark, MIT)
CONTRACTIONS: Mapping[str, str] = {
    "ain't": "is not", "aren't": "are not", "can't": "cannot", "can't've": "cannot have", "could've": "could have",
    "couldn't": "could not", "didn't": "did not", "doesn't": "does not", "don't": "do not", "hadn't": "had not",
    "hasn't": "has not", "haven't": "have not", "he'd": "he would", "he'd've": "he would have", "he'll": "he will",
    "he's": "he is", "how'd": "how did", "how'd'y": "how do you", "how'll": "how will", "how's": "how is",
    "I'd": "I would", "I'll": "I will", "I'm": "I am", "I've": "I have", "i'd": "i would", "i'll": "i will",
    "i'm": "i am", "i've": "i have", "isn't": "is not", "it'd": "it would", "it'll": "it will", "it's": "it is",
    "ma'am": "madam", "might've": "might have", "mightn't": "might not", "must've": "must have",
    "mustn't": "must not", "needn't": "need not", "oughtn't": "ought not", "shan't": "shall not",
    "she'd": "she would", "she'll": "she will", "she's": "she is", "should've": "should have",
    "shouldn't": "should not", "that'd": "that would", "that's": "that is", "there'd": "there would",
    "there's": "there is", "they'd": "they would", "they'll": "they will", "they're": "they are",
    "they've": "they have", "wasn't": "was not", "we'd": "we would", "we'll": "we will", "we're": "we are",
    "we've": "we have", "weren't": "were not", "what're": "what are", "what's": "what is", "when's": "when is",
    "where'd": "where did", "where's": "where is", "where've": "where have", "who'll": "who will", "who's": "who is",
    "who've": "who have", "why's": "why is", "won't": "will not", "would've": "would have", "wouldn't": "would not",
    "you'd": "you would", "you'd've": "you would have", "you'll": "you will", "you're": "you are",
    "you've": "you have",
}  # fmt: skip
# uncertainty from Kovatchev et al. 2021, the rest from Laserna et al. 2014; HELM's runs leave out its speakers' phrases
FILLERS: tuple[str, ...] = (
    "maybe", "perhaps", "probably", "possibly", "most likely", "uhm", "umm", "ahh", "err", "actually", "obviously",
    "naturally", "like", "you know",
)  # fmt: skip
# (neutral, female, male); from Garg et al. 2018, Bolukbasi et al. 2016, and HELM's additions
GENDER_TERMS: tuple[tuple[str, str, str], ...] = (
    ("child", "daughter", "son"), ("children", "daughters", "sons"), ("parent", "mother", "father"),
    ("parents", "mothers", "fathers"), ("kiddo", "girl", "boy"), ("kiddos", "girls", "boys"),
    ("person", "woman", "man"), ("people", "women", "men"), ("sibling", "sister", "brother"),
    ("siblings", "sisters", "brothers"), ("nibling", "niece", "nephew"), ("niblings", "nieces", "nephews"),
    ("monarch", "queen", "king"), ("monarchs", "queens", "kings"), ("server", "waitress", "waiter"),
    ("servers", "waitresses", "waiters"), ("parent", "mom", "dad"), ("parents", "moms", "dads"),
    ("stepchild", "stepdaughter", "stepson"), ("stepchildren", "stepdaughters", "stepsons"),
    ("stepparent", "stepmother", "stepfather"), ("stepparents", "stepmothers", "stepfathers"),
    ("stepparent", "stepmom", "stepdad"), ("stepparents", "stepmoms", "stepdads"),
    ("grandchild", "granddaughter", "grandson"), ("grandchildren", "granddaughters", "grandsons"),
    ("grandparent", "grandmother", "grandfather"), ("grandparents", "grandmothers", "grandfather"),
    ("grandparent", "grandma", "granddad"), ("grandparents", "grandmas", "granddads"), ("human", "female", "male"),
    ("humans", "females", "males"),
)  # fmt: skip
# from Lauscher et al. 2022; "her" and "his" are ambiguous, and the first pair that applies wins
GENDER_PRONOUNS: tuple[tuple[str, str, str], ...] = (
    ("they", "she", "he"), ("them", "her", "him"), ("their", "her", "his"), ("theirs", "hers", "his"),
    ("themselves", "herself", "himself"),
)  # fmt: skip
# letter -> the letters beside it on a QWERTY keyboard
NEIGHBOUR_KEYS: Mapping[str, str] = {
    "q": "was", "w": "qesad", "e": "wsdfr", "r": "edfgt", "t": "rfghy", "y": "tghju", "u": "yhjki", "i": "ujklo",
    "o": "iklp", "p": "ol", "a": "qwsz", "s": "weadzx", "d": "erfcxs", "f": "rtgvcd", "g": "tyhbvf", "h": "yujnbg",
    "j": "uikmnh", "k": "iolmj", "l": "opk", "z": "asx", "x": "sdcz", "c": "dfvx", "v": "fgbc", "b": "ghnv",
    "n": "hjmb", "m": "jkn",
}  # fmt: skip
MISSPELLINGS = Path(__file__).parent / "data" / "misspellings.json"
_EXPANSIONS = {expansion: contraction for contraction, expansion in CONTRACTIONS.items()}
_CONTRACTION = re.compile(rf"\b({'|'.join(CONTRACTIONS)})\b", re.IGNORECASE)
_EXPANSION = re.compile(rf"\b({'|'.join(_EXPANSIONS)})\b ", re.IGNORECASE)  # not at a sentence's end


def match_case(source: str, target: str) -> str:
    """Return `target` in lower case, in capitals or capitalised, as `source` is; else as it is."""
    if all(letter.islower() for letter in source):
        return target.lower()
    if all(letter.isupper() for letter in source):
        return target.upper()
    return target.capitalize() if source[:1].isupper() else target


def lowercase(text: str, _random: Random) -> str:
    """Return the text in lower case."""
    return text.lower()


def contract(text: str, _random: Random) -> str:
    """Contract every pair of words that can be, where a space follows: `she is a` becomes `she's a`."""
    return _EXPANSION.sub(lambda match: f"{_in_case(match[1], _EXPANSIONS)} ", text)


def expand(text: str, _random: Random) -> str:
    """Expand every contraction: `she's` becomes `she is`."""
    return _CONTRACTION.sub(lambda match: _in_case(match[0], CONTRACTIONS), text)


def _in_case(phrase: str, replacements: Mapping[str, str]) -> str:
    """Return a phrase's replacement in its case; the phrase itself where only an odd letter (ſ for s) made it match."""
    replacement = replacements.get(phrase, replacements.get(phrase.lower()))
    return phrase if replacement is None else match_case(phrase, replacement)


def misspell(text: str, random: Random, probability: float) -> str:
    """Replace each word of Wikipedia's list of common misspellings by one of them, with a probability."""
    misspellings, pattern = _misspellings()

    def misspelt(match: re.Match[str]) -> str:
        word = match[1]
        return match_case(word, random.choice(misspellings[word])) if random.random() < probability else word

    return pattern.sub(misspelt, text)


@cache
def _misspellings() -> tuple[Mapping[str, Sequence[str]], re.Pattern[str]]:
    """Return the list and a pattern of its keys.

    Of keys that match at one position the first in the list's order counts. Alternatives are grouped by their first
    letter, which keeps that order and spares trying thousands of them at each word.
    """
    misspellings: dict[str, list[str]] = json.loads(MISSPELLINGS.read_text(encoding="utf-8"))
    by_letter: dict[str, list[str]] = {}
    for word in misspellings:
        by_letter.setdefault(word[0], []).append(word[1:])
    groups = (f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_letter.items())
    return misspellings, re.compile(rf"\b({'|'.join(groups)})\b")


def typos(text: str, random: Random, probability: float) -> str:
    """Replace each letter a-z by a neighbour on the keyboard, with a probability; case is kept."""

    def typed(letter: str) -> str:
        small = letter.lower()
        if small in NEIGHBOUR_KEYS and random.random() < probability:
            small = random.choice(NEIGHBOUR_KEYS[small])
        return small if letter.lower() == letter else small.upper()

    return "".join(map(typed, text))


def respace(text: str, random: Random, most: int) -> str:
    """Replace each run of spaces by one to `most` spaces."""
    return re.sub(r" +", lambda _match: " " * random.randint(1, most), text)


def fill(text: str, random: Random, probability: float) -> str:
    """Insert a filler before each word, with a probability."""
    words: list[str] = []
    for word in text.split(" "):
        if random.random() <= probability:
            words.append(random.choice(FILLERS))
        words.append(word)
    return " ".join(words)


def mild_mix(text: str, random: Random) -> str:
    """Apply HELM's canonical mix: lower case, contractions, misspellings (.1), up to three spaces."""
    return respace(misspell(contract(lowercase(text, random), random), random, 0.1), random, 3)


def swap_words(text: str, random: Random, pairs: Sequence[tuple[str, str]], probability: float) -> str:
    """Replace words one pair after the other; a word at the very beginning or end of the text is not matched."""
    for word, other in pairs:
        replaced = _within(random, probability, partial(_always, other))
        text = re.sub(rf"[^\w]({word})[^\w]", replaced, text, flags=re.IGNORECASE)
    return text


def _always(other: str, _word: str) -> str:
    return other


def replace_between_marks(
    text: str, random: Random, replacements: Mapping[str, Sequence[str]], probability: float
) -> str:
    """Replace words by drawn ones in one pass; a word beside a hyphen, or at an end of the text, is not matched.

    replacements: keys in lower case.
    """
    pattern = rf"[^\w-]({'|'.join(map(re.escape, replacements))})[^\w-]"

    def drawn(word: str) -> str:
        own = replacements.get(word.lower())
        return word if own is None else random.choice(own)

    return re.sub(pattern, _within(random, probability, drawn), text, flags=re.IGNORECASE)


def _within(random: Random, probability: float, other: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    """Return a function that replaces the word of a match and keeps the marks around it."""

    def replaced(match: re.Match[str]) -> str:
        if random.uniform(0, 1) >= probability:
            return match[0]
        return match[0].replace(match[1], match_case(match[1], other(match[1])))

    return replaced


def replace_words(text: str, random: Random, replacements: Mapping[str, Sequence[str]], probability: float) -> str:
    """Replace each word that has replacements by a drawn one, with a probability.

    A word with hyphens or apostrophes is replaced as a whole where the list has it, else by its parts, as HELM's
    tokenizer divides it (`well-known`, `mother's`, `do` of `don't`). HELM's synonyms depend on parts of speech and base
    forms too; these depend on the word alone.
    """

    def replaced(word: str) -> str:
        own = [each for each in replacements.get(word.lower(), ()) if each != word.lower()]
        return match_case(word, random.choice(own)) if own and random.uniform(0, 1) < probability else word

    def divided(match: re.Match[str]) -> str:
        if match[0].lower() in replacements:
            return replaced(match[0])
        return re.sub(r"\w+?(?=n['’]t\b)|\w+", lambda part: replaced(part[0]), match[0], flags=re.IGNORECASE)

    return re.sub(r"\w+(?:['’-]\w+)*", divided, text)
