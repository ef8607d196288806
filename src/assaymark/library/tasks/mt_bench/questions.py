"""MT-bench's questions under either name that their column has."""


def turns(doc):
    """Return what the user says: `prompt` in the Hub's data set, `turns` in FastChat's own file."""
    return list(doc["prompt"] if "prompt" in doc else doc["turns"])
