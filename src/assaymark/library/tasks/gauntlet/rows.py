"""Benchmarks that one file holds by category: Jeopardy's five and MMLU's 57, each a task with shots of its own."""

from functools import partial


def of(rows, category: str):
    """Return the rows of a category: a list for a list, a Dataset for a Dataset."""
    if hasattr(rows, "filter"):
        return rows.filter(lambda row: row["category"] == category)
    return [row for row in rows if row["category"] == category]


def __getattr__(name: str):
    """Return what keeps the rows of the category called `name`, so that `rows.science` needs no line of its own."""
    if name.startswith("_"):
        raise AttributeError(name)
    return partial(of, category=name)
