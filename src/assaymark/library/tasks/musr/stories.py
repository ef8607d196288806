"""MuSR's prompt: the story, the question, and the choices numbered from 1 (`choices` is the text of a Python list)."""

import ast


def numbered(row: dict) -> str:
    """Return the prompt."""
    choices = "".join(f"{i} - {choice}\n" for i, choice in enumerate(ast.literal_eval(row["choices"]), start=1))
    return f"{row['narrative']}\n\n{row['question']}\n\n{choices}\nAnswer:"
