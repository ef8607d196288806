"""A WinoGrande sentence cut at its blank: what stands before it, filled with either option, and what follows it."""

BLANK = "_"


def right_context(row: dict) -> int:
    """Return 0 or 1: which option is right ("1" or "2" in the data)."""
    return {"1": 0, "2": 1}[row["answer"]]


def contexts(row: dict) -> list[str]:
    """Return the sentence up to the blank, ended by each of the two options."""
    before = row["sentence"][: row["sentence"].index(BLANK)]
    return [before + row["option1"], before + row["option2"]]


def ending(row: dict) -> str:
    """Return what follows the blank, without space around it."""
    return row["sentence"][row["sentence"].index(BLANK) + len(BLANK) :].strip()
