"""The words of the perturbations, as HELM has them in its code (stanford-crfm/helm, Apache-2.0).

Their order is part of the rules: alternatives are tried, and phrases drawn, in the order of the lists.
"""

from collections.abc import Mapping

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
