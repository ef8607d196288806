"""MMLU-Pro's prompts: a question with up to ten lettered options, and the worked answers of its validation split."""

from functools import partial

LETTERS = "ABCDEFGHIJ"
STEP_BY_STEP = "Let's think step by step."


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
