"""Run in the environment of `autoevals.txt`: score the cases on standard input with autoevals' own code.

Reads a JSON list of [scorer, output, expected]; writes the JSON list of scores, null where autoevals raised.
"""

import json
import sys

from autoevals import JSONDiff, Levenshtein, ListContains, NumericDiff
from autoevals.string import EmbeddingSimilarity

SCORERS = {"levenshtein": Levenshtein(), "number": NumericDiff(), "json": JSONDiff(), "list": ListContains()}


def main() -> None:
    """Score every case."""
    scores: list[float | None] = []
    for name, output, expected in json.load(sys.stdin):
        try:
            if name == "embedding":
                cosine = EmbeddingSimilarity.cosine_similarity(output, expected)
                scores.append(EmbeddingSimilarity.scale_score(cosine, 0.7))
            else:
                scores.append(SCORERS[name].eval(output, expected).score)
        except (TypeError, ValueError, ZeroDivisionError):
            scores.append(None)
    json.dump(scores, sys.stdout)


if __name__ == "__main__":
    main()
