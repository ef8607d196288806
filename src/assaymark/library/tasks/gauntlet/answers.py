"""The Gauntlet's reading of a written answer: it is right if it begins with what was wanted.

Source: mosaicml/llm-foundry 8c8dd48f, `InContextLearningGenerationExactMatchAccuracy`; normal form after TriviaQA's
published evaluation (Joshi et al. 2017).
"""

import re
import string

ARTICLES = re.compile(r"\b(a|an|the)\b")
TO_SPACE = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))
LAST = "The answer is "


def normal(text: str) -> str:
    """Return a text in small letters, punctuation as spaces, without articles and double spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(TO_SPACE)).split())


def begins_with_a_name(doc: dict, results: list) -> dict[str, float]:
    """Return whether the answer begins with a name of the right one, both in normal form."""
    names = {normal(name) for name in [doc["answer"], *(doc.get("aliases") or [])]}
    return {"prefix_match": float(any(normal(results[0]).startswith(name) for name in names))}


def ends_with_the_number(doc: dict, results: list) -> dict[str, float]:
    """Return whether the number follows the last "The answer is "; without one, whether the answer begins with it."""
    final = results[0].split(LAST)[-1].strip()
    return {"prefix_match": float(final.startswith(doc["answer"].strip()))}
