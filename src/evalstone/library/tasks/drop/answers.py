"""DROP's scores: exact match and F1 over the best pairing of the answer's spans with the given ones.

Source: Dua et al. 2019, section 5 and its published evaluation. An answer is a number, a date or spans; what several
readers answered counts alike, and the best match is taken.
"""

import re
import string

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def spans_of(answer: dict) -> tuple[str, ...]:
    """Return an answer's texts: its number, else its spans, else its date."""
    if answer["number"] != "":
        return (str(answer["number"]),)
    if answer["spans"]:
        return tuple(answer["spans"])
    date = answer["date"]
    return (f"{date['day']} {date['month']} {date['year']}".strip(),)


def with_answers(row: dict) -> dict:
    """Return the fields that a prompt and its scores are made of; answers given twice are kept once."""
    others = row["validated_answers"]
    given = [
        {"number": number, "date": date, "spans": spans}
        for number, date, spans in zip(others["number"], others["date"], others["spans"], strict=True)
    ]
    answers = dict.fromkeys(spans_of(answer) for answer in [row["answer"], *given])
    return {
        "id": row["query_id"],
        "passage": row["passage"],
        "question": row["question"],
        "answers": [list(answer) for answer in answers],
    }


def process_docs(rows):
    """Return the rows with `answers`: one list of texts per different answer."""
    return rows.map(with_answers) if hasattr(rows, "map") else [{**row, **with_answers(row)} for row in rows]


def is_number(text: str) -> bool:
    """Tell whether Python reads `text` as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def word(token: str) -> str:
    """Return one word as compared: lower case, numbers as numbers, else without punctuation and articles."""
    token = token.lower()
    if not is_number(token):
        token = token.translate(PUNCTUATION)
    token = str(float(token)) if is_number(token) else token
    return " ".join(ARTICLES.sub(" ", token).split())


def normal(text: str) -> str:
    """Return a span as compared; words end at spaces and hyphens."""
    return " ".join(filter(None, map(word, re.split(r"[ -]", text))))


def f1_of_words(given: set[str], right: set[str]) -> float:
    """Return the F1 of two sets of words; 0 where the right one has numbers and none of them is given."""
    numbers = {item for item in right if is_number(item)}
    if numbers and not numbers & given:
        return 0.0
    shared = len(given & right)
    precision = shared / len(given) if given else 1.0
    recall = shared / len(right) if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1(given: list[set[str]], right: list[set[str]]) -> float:
    """Return the mean F1 over the best one-to-one pairing; spans without a partner count 0. Rounded to two digits."""
    table = [[f1_of_words(a, b) for a in given] for b in right]
    if len(given) == 1:  # what a model writes is one span: no pairing to search for
        best = max(row[0] for row in table)
    else:
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(table, maximize=True)
        best = sum(table[row][column] for row, column in zip(rows, columns, strict=True))
    return round(best / max(len(given), len(right)), 2)


def process_results(doc: dict, results: list) -> dict[str, float]:
    """Return the best exact match and F1 over the answers that readers gave."""
    given = [normal(text) for text in results]
    em = best = 0.0
    for answer in doc["answers"]:
        if not answer[0].strip():
            continue
        right = [normal(text) for text in answer]
        em = max(em, float(set(given) == set(right) and len(given) == len(right)))
        best = max(best, f1([set(text.split()) for text in given], [set(text.split()) for text in right]))
    return {"em": em, "f1": best}
