"""HellaSwag's rows made askable: a question of activity and context, endings without WikiHow's markup.

The clean-up is the one all published HellaSwag scores rest on (Rowan Zellers' rows carry `[title]`, `[step]` and the
like).
"""

import re

BRACKETED = re.compile(r"\[.*?\]")


def without_markup(text: str) -> str:
    """Return `text` with a title mark made a full stop, other marks dropped and double spaces halved once."""
    return BRACKETED.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def askable(row: dict) -> dict:
    """Return the fields that the prompt is made of."""
    context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return {
        "query": without_markup(context),
        "choices": [without_markup(ending) for ending in row["endings"]],
        "gold": int(row["label"]),
    }


def process_docs(rows):
    """Return the rows with the askable fields added: a list for a list, a Dataset for a Dataset."""
    return rows.map(askable) if hasattr(rows, "map") else [{**row, **askable(row)} for row in rows]
