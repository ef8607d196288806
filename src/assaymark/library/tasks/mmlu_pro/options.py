"""MMLU-Pro's prompts: a question with up to ten lettered options, and the worked answers of its validation split."""

import re
from functools import partial

LETTERS = "ABCDEFGHIJ"
STEP_BY_STEP = "Let's think step by step."
SAID = (  # the authors' three ways to find the letter, tried in this order
    re.compile(r"answer is \(?([A-J])\)?"),
    re.compile(r".*[aA]nswer:\s*([A-J])"),
    re.compile(r"\b([A-J])\b(?!.*\b[A-J]\b)", re.DOTALL),
)


def lettered(row: dict) -> str:
    """Return the question as Open LLM Leaderboard v2 put it: options as they are, no reasoning."""
    options = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, row["options"], strict=False))
    return f"{row['question']}\n{options}Answer:"


def letters(row: dict) -> list[str]:
    """Return as many letters as the question has options."""
    return list(LETTERS[: len(row["options"])])


def question(row: dict) -> str:
    """Return the question as its authors put it: options without space around them, ending where reasoning begins."""
    options = "".join(f"{letter}. {option.strip()}\n" for letter, option in zip(LETTERS, row["options"], strict=False))
    return f"Question:\n{row['question']}\nOptions:\n{options}Answer: {STEP_BY_STEP}"


def reasoning(row: dict) -> str:
    """Return a validation row's worked answer without its opening, which stands in the question already."""
    return row["cot_content"].replace(f"A: {STEP_BY_STEP} ", "")


def asked(row: dict) -> str:
    """Return the question as the authors' script puts it: real options only, as they are."""
    real = [option for option in row["options"] if option != "N/A"]
    options = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, real, strict=False))
    return f"Question:\n{row['question']}\nOptions:\n{options}Answer: {STEP_BY_STEP}"


def worked(row: dict) -> str:
    """Return a validation row's worked answer as it goes on after the question, its space included."""
    return row["cot_content"].replace(f"A: {STEP_BY_STEP}", "")


def right_or_drawn(doc: dict, results: list) -> dict[str, float]:
    """Return whether the letter found is right; an answer without one counts 0, or as much as a random option earns."""
    found = next((match for pattern in SAID if (match := pattern.search(results[0]))), None)
    if found is None:
        return {"acc_or_drawn": 1 / sum(option != "N/A" for option in doc["options"]), "exact_match": 0.0}
    right = float(found.group(1) == doc["answer"])
    return {"acc_or_drawn": right, "exact_match": right}


def of_category(rows, category: str):
    """Return the rows of one category."""
    if hasattr(rows, "filter"):
        return rows.filter(lambda row: row["category"] == category)
    return [row for row in rows if row["category"] == category]


biology = partial(of_category, category="biology")
business = partial(of_category, category="business")
chemistry = partial(of_category, category="chemistry")
computer_science = partial(of_category, category="computer science")
economics = partial(of_category, category="economics")
engineering = partial(of_category, category="engineering")
health = partial(of_category, category="health")
history = partial(of_category, category="history")
law = partial(of_category, category="law")
math = partial(of_category, category="math")
other = partial(of_category, category="other")
philosophy = partial(of_category, category="philosophy")
physics = partial(of_category, category="physics")
psychology = partial(of_category, category="psychology")
