"""AGIEval's scores for choices: an item counts as right when the most likely choice is among its right ones."""


def best(scores: list[float]) -> int:
    """Return the index of the largest score; of several, the first."""
    return max(range(len(scores)), key=scores.__getitem__)


def process_results_choice(doc: dict, results: list) -> dict[str, float]:
    """Return acc, and acc_norm after division by the choice's length in characters."""
    likelihoods = [answer[0] for answer in results]
    per_character = [value / len(choice) for value, choice in zip(likelihoods, doc["choices"], strict=True)]
    return {
        "acc": float(best(likelihoods) in doc["gold"]),
        "acc_norm": float(best(per_character) in doc["gold"]),
    }
