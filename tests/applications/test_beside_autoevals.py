"""Our plain scorers give what autoevals' own code gives, in an environment of its own (make test-slow installs it)."""

import asyncio
import json
import random
from typing import Any

from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Scorer
from assaymark.applications.scorers import scorers_of
from tests.applications.oracles.locked import needs_oracle, oracle

N_CASES = 200


def some_text(draw: random.Random) -> str:
    """Return a short text, often like others."""
    return "".join(draw.choices("aab cÄ日😀", k=draw.randrange(12)))


def some_number(draw: random.Random) -> float:
    """Return a number of either sign, often a whole one or 0."""
    return draw.choice([0, draw.randrange(-9, 9), round(draw.uniform(-100, 100), 3), draw.randrange(10**12)])


def some_json(draw: random.Random, depth: int = 3) -> Any:
    """Return a JSON value with lists and objects inside, some of them as text."""
    kind = draw.randrange(9 if depth else 5)
    if kind >= 7:
        return {key: some_json(draw, depth - 1) for key in draw.sample("abcd", draw.randrange(4))}
    if kind >= 5:
        return [some_json(draw, depth - 1) for _ in range(draw.randrange(4))]
    text = json.dumps([some_text(draw), some_number(draw)]) if draw.random() < 0.2 else some_text(draw)
    return [text, some_number(draw), None, draw.random() < 0.5, some_text(draw)][kind]


def cases() -> list[tuple[str, Any, Any]]:
    """Return 200 cases of each scorer."""
    draw = random.Random(0)
    made: list[tuple[str, Any, Any]] = []
    for _ in range(N_CASES):
        made.append(("levenshtein", some_text(draw), some_text(draw)))
        made.append(("number", some_number(draw), some_number(draw)))
        # both objects of two keys, since ours takes the value out of a mapping with one entry where it compares texts
        made.append(("json", {"x": some_json(draw), "y": 0}, {"x": some_json(draw), "z": 1}))
        first, second = ([some_text(draw) for _ in range(draw.randrange(6))] for _ in range(2))
        made.append(("list", first, second))
        item, other = ([round(draw.uniform(0, 1), 3) for _ in range(3)] for _ in range(2))
        made.append(("embedding", item, other))
    return made


def ours(name: str, output: Any, expected: Any) -> float | None:
    """Return our score."""
    if name == "embedding":
        (made,) = scorers_of([{"embedding": {"function": json.loads}}])
        output, expected = json.dumps(output), json.dumps(expected)
    else:
        (made,) = scorers_of(name)
    assert isinstance(made, Scorer)
    (result,) = asyncio.run(made.score(Answered(Row("0", "q", expected), output)))
    return result.value


@needs_oracle("autoevals")
def test_scores_equal_those_of_autoevals() -> None:
    """On 200 generated cases of each scorer both give the same number."""
    scored = cases()
    theirs = oracle("autoevals", scored)
    assert None not in theirs
    differing = [
        (case, mine, other)
        for case, other in zip(scored, theirs, strict=True)
        if (mine := ours(*case)) is None or abs(mine - other) > 1e-9
    ]
    assert differing == []
    assert len({round(other, 3) for other in theirs}) > 100
