"""A sentence with a gap and two names: the two contexts differ, the text after the gap is what is scored."""


def gold_index(doc):
    """Return which of the two options is right; an integer here tells the reader that contexts are the choices."""
    return int(doc["answer"]) - 1


def text_after_gap(doc):
    """Return what follows the gap, which every context is asked to continue with."""
    return doc["sentence"].split("_")[1].strip()


def texts_before_and_name(doc):
    """Return the sentence up to the gap with either name in it."""
    before = doc["sentence"].split("_")[0]
    return [before + doc["option1"], before + doc["option2"]]
