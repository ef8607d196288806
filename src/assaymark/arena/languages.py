"""The language of a prompt, derived from its text when ratings are computed: votes and hashes do not contain it.

A language is known only if langdetect is nearly certain and the text has enough letters, or if its characters are those
of Chinese, Japanese or Korean.
Names are those of LMArena's published votes. The language of an erased prompt is not known.
Source: langdetect 1.0.9, a port of Nakatani Shuyo's language-detection (character n-grams, profiles of 55 languages).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from assaymark.arena.arena_rows import VoteRow
from assaymark.scoring.instructions.text_units import language_probabilities

CERTAIN = 0.95
FEWEST_LETTERS = 24
FEWEST_SIGNS = 8  # of Han, kana or Hangul, which are syllables or words
LONGEST_READ = 2_000  # characters: more would only take more time
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\$\$.*?\$\$|https?://\S+", re.DOTALL)
_KANA, _HAN = re.compile(r"[\u3040-\u30ff]"), re.compile(r"[\u3400-\u9fff]")
_HANGUL = re.compile(r"[\uac00-\ud7af]")

NAMES: Mapping[str, str] = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "kn": "Kannada",
    "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi",
    "ne": "Nepali", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "so": "Somali", "sq": "Albanian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh-cn": "Chinese", "zh-tw": "Chinese",
}  # fmt: skip


@lru_cache(maxsize=50_000)  # many votes are on one prompt, and each batch asks again
def language_of(text: str) -> str | None:
    """Return the English name of a text's language, None if it is not clear; code and addresses do not count.

    Raises: MissingExtra without the package langdetect.
    """
    words = _CODE.sub(" ", text[:LONGEST_READ])
    n_letters = sum(map(str.isalpha, words))
    kana, han, hangul = (len(script.findall(words)) for script in (_KANA, _HAN, _HANGUL))
    if kana + han + hangul > n_letters / 2:  # the script tells these three apart, n-grams of short texts do not
        if kana + han + hangul < FEWEST_SIGNS:
            return None
        return "Korean" if hangul > kana + han else "Japanese" if kana else "Chinese"
    if n_letters < FEWEST_LETTERS:
        return None
    by_name: dict[str, float] = {}
    for code, probability in language_probabilities(words).items():
        name = NAMES.get(code, code)
        by_name[name] = by_name.get(name, 0.0) + probability  # Chinese is written in two ways
    best = max(by_name, key=by_name.__getitem__, default=None)
    return best if best is not None and by_name[best] >= CERTAIN else None


def languages_of(votes: Iterable[VoteRow], texts: Mapping[str, str]) -> dict[str, str]:
    """Return languages by the prompts' commitments, of votes whose prompt is stored and clear.

    texts: by commitment.

    Raises: MissingExtra without the package langdetect.
    """
    languages: dict[str, str] = {}
    for commitment in {vote.prompt_commitment for vote in votes}:
        if (text := texts.get(commitment)) and (language := language_of(text)) is not None:
            languages[commitment] = language
    return languages
