"""Score reading comprehension: SQuAD's and DROP's exact match and F1 over words.

Both compare bags of words after normalising case, punctuation and articles, by different rules. DROP's answers may be
several spans, which are matched one to one before scoring.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from assaymark.records import Row
from assaymark.scoring.metric import ScoreValue

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# ------------------------------------------------------------------------------------------------ SQuAD


def normalise_squad(text: str) -> str:
    """Return the text in lower case without punctuation, articles and repeated spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_f1(prediction: str, reference: str) -> float:
    """Return the F1 of shared words, counted with repetition; if one text is empty, 1.0 only if both are.

    Source: Rajpurkar et al. 2016, section 6.1, and the official evaluation script of version 2.0.
    """
    predicted, wanted = normalise_squad(prediction).split(), normalise_squad(reference).split()
    if not predicted or not wanted:
        return float(predicted == wanted)
    shared = sum((Counter(predicted) & Counter(wanted)).values())
    return 2.0 * shared / (len(predicted) + len(wanted))


def squad_exact(prediction: str, reference: str) -> float:
    """Return whether both are equal after normalising."""
    return float(normalise_squad(prediction) == normalise_squad(reference))


def score_squad(prediction: str, references: Sequence[str]) -> dict[str, ScoreValue]:
    """Score one answer by its best reference; without references the correct answer is an empty one.

    Values are shares (the official script prints percent). `HasAns_*` and `NoAns_*` are None where they do not apply.
    """
    known = [text for text in references if normalise_squad(text)]
    golds = known or [""]
    values = {
        "exact": max(squad_exact(prediction, gold) for gold in golds),
        "f1": max(squad_f1(prediction, gold) for gold in golds),
    }
    result = {name: ScoreValue(value) for name, value in values.items()}
    for name, value in values.items():
        result[f"HasAns_{name}"] = ScoreValue(value if known else None)
        result[f"NoAns_{name}"] = ScoreValue(None if known else value)
    return result


# ------------------------------------------------------------------------------------------------- DROP


def normalise_drop(text: str) -> str:
    """Return the text as DROP compares it: split at spaces and hyphens, numbers as floats, without articles."""
    words = (_normalise_word(word) for word in re.split(r" |-", text))
    return " ".join(word for word in words if word.strip()).strip()


def drop_answers(row: Row) -> list[tuple[str, ...]]:
    """Return a row's distinct references, the first annotator's first: a number, spans, or a date."""
    validated = row["validated_answers"]
    candidates = [row["answer"]]
    for number, date, spans in zip(validated["number"], validated["date"], validated["spans"], strict=True):
        candidates.append({"number": number, "date": date, "spans": spans})
    return list(dict.fromkeys(_one_answer(candidate) for candidate in candidates))


def drop_scores(prediction: str | Sequence[str], reference: str | Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of one answer against one reference.

    Exact match: the same normalised spans, and as many. F1: spans are matched one to one for the greatest sum, words
    counted once; a span with numbers matches only one that shares a number; the sum is divided by the larger number of
    spans and rounded to two digits, as in the official script.

    Source: Dua et al. 2019, section 5.2, and the official script drop_eval.py.
    """
    predicted, wanted = _spans(prediction), _spans(reference)
    exact = float(set(predicted) == set(wanted) and len(predicted) == len(wanted))
    table = [[_bag_f1(set(p.split()), set(w.split())) for p in predicted] for w in wanted]
    return exact, round(best_assignment(table) / max(len(predicted), len(wanted)), 2)


def score_drop(prediction: str | Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, ScoreValue]:
    """Score one answer by its best reference; blank references are ignored."""
    scores = [drop_scores(prediction, reference) for reference in references if reference[0].strip()]
    return {
        "em": ScoreValue(max((exact for exact, _ in scores), default=0.0)),
        "f1": ScoreValue(max((f1 for _, f1 in scores), default=0.0)),
    }


def _one_answer(answer: Row) -> tuple[str, ...]:
    if answer["number"] != "":
        return (str(answer["number"]),)
    if len(answer["spans"]):
        return tuple(answer["spans"])
    date = answer["date"]
    return (" ".join([date["day"], date["month"], date["year"]]).strip(),)


def _spans(answer: str | Sequence[str]) -> list[str]:
    return [normalise_drop(span) for span in ([answer] if isinstance(answer, str) else answer)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _normalise_word(word: str) -> str:
    word = word.lower()
    if not _is_number(word):
        word = word.translate(_PUNCTUATION)
    if _is_number(word):
        word = str(float(word))
    return " ".join(_ARTICLES.sub(" ", word).split())


def _bag_f1(predicted: set[str], wanted: set[str]) -> float:
    numbers = {word for word in wanted if _is_number(word)}
    if numbers and not numbers & predicted:
        return 0.0
    shared = len(predicted & wanted)
    precision = shared / len(predicted) if predicted else 1.0
    recall = shared / len(wanted) if wanted else 1.0
    return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def best_assignment(gains: Sequence[Sequence[float]]) -> float:
    """Return the greatest sum of gains when each row is assigned at most one column, and each column one row.

    Source: Kuhn 1955 and Munkres 1957, in the form of shortest augmenting paths (Jonker and Volgenant 1987).
    """
    rows = [list(row) for row in gains]
    if not rows or not rows[0]:
        return 0.0
    if len(rows) > len(rows[0]):
        rows = [list(column) for column in zip(*rows, strict=True)]
    n, m = len(rows), len(rows[0])
    row_price, column_price = [0.0] * (n + 1), [0.0] * (m + 1)
    owner = [0] * (m + 1)  # the row (from 1) that has a column; 0: none
    for row in range(1, n + 1):
        owner[0] = row
        _augment(rows, row_price, column_price, owner)
    return sum(rows[owner[j] - 1][j - 1] for j in range(1, m + 1) if owner[j])


def _augment(gains: list[list[float]], row_price: list[float], column_price: list[float], owner: list[int]) -> None:
    """Assign a column to the row in owner[0], reassigning others along the cheapest path."""
    m = len(column_price) - 1
    distance, before, used = [float("inf")] * (m + 1), [0] * (m + 1), [False] * (m + 1)
    here = 0
    while True:
        used[here] = True
        row = owner[here]
        for j in range(1, m + 1):
            reach = -gains[row - 1][j - 1] - row_price[row] - column_price[j]
            if not used[j] and reach < distance[j]:
                distance[j], before[j] = reach, here
        step, following = min((distance[j], j) for j in range(1, m + 1) if not used[j])
        for j in range(m + 1):
            if used[j]:
                row_price[owner[j]] += step
                column_price[j] -= step
            else:
                distance[j] -= step
        here = following
        if owner[here] == 0:
            break
    while here:
        owner[here] = owner[before[here]]
        here = before[here]
