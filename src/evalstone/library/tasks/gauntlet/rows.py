"""Jeopardy's five categories, each a task with shots of its own."""


def of(rows, category: str):
    """Return the rows of a category: a list for a list, a Dataset for a Dataset."""
    if hasattr(rows, "filter"):
        return rows.filter(lambda row: row["category"] == category)
    return [row for row in rows if row["category"] == category]


def american_history(rows):
    """Return the rows on American history."""
    return of(rows, "american_history")


def literature(rows):
    """Return the rows on literature."""
    return of(rows, "literature")


def science(rows):
    """Return the rows on science."""
    return of(rows, "science")


def word_origins(rows):
    """Return the rows on where words come from."""
    return of(rows, "word_origins")


def world_history(rows):
    """Return the rows on world history."""
    return of(rows, "world_history")
