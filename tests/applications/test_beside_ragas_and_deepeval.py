"""Our scorers give what RAGAS' and DeepEval's own code gives, where it needs no model or its verdicts are given."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, JudgedScorer, Scorer
from assaymark.applications.scorers import scorers_of
from tests.applications.oracles.locked import needs_oracle, oracle

N_CASES = 200


def some_calls(draw: random.Random, n: int) -> list[dict[str, Any]]:
    """Return calls of few names with few arguments, no two alike."""
    names = [draw.choice(("add", "search")) for _ in range(n)]
    calls: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        arguments: dict[str, Any] = {key: draw.randrange(2) for key in draw.sample("abc", draw.randrange(4))}
        if draw.random() < 0.3:
            arguments["more"] = {"x": draw.randrange(2), "y": draw.randrange(2)}
        # DeepEval counts equal calls once, however often they were made: a place keeps them apart
        calls.append({"name": name, "args": {**arguments, "place": at}})
    return calls


def pairs_of_calls(draw: random.Random) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return made and expected calls, often of the same names in order."""
    pairs = []
    for _ in range(N_CASES):
        expected = some_calls(draw, draw.randrange(4))
        made = some_calls(draw, draw.randrange(4))
        if draw.random() < 0.6:
            made = [{"name": wanted["name"], "args": each["args"]}
                    for wanted, each in zip(expected, some_calls(draw, len(expected)), strict=True)]  # fmt: skip
        pairs.append((made, expected))
    return pairs


def ours(settings: dict[str, Any], made: list[dict[str, Any]], expected: list[dict[str, Any]]) -> float | None:
    """Return our score of tool calls."""
    (scorer,) = scorers_of([{"tool_calls": settings}])
    assert isinstance(scorer, Scorer)
    row = Row("0", "q", {"expected_tools": expected})
    (result,) = asyncio.run(scorer.score(Answered(row, {"tool_calls": made})))
    return result.value


def judged(scorer: Any, replies: list[Any], contexts: tuple[str, ...] = ("a", "b")) -> float | None:
    """Return our judged score with given replies."""
    (made,) = scorers_of([scorer])
    assert isinstance(made, JudgedScorer)
    steps = made.steps(Answered(Row("0", "the question", "reference", contexts), "answer"))
    next(steps)
    try:
        for reply in replies:
            steps.send(json.dumps(reply))
    except StopIteration as ended:
        return ended.value[0].value  # type: ignore[no-any-return]
    raise AssertionError("the scorer waits for more replies")


def differing(ours_: list[float | None], theirs: list[float | None], cases: list[Any]) -> list[Any]:
    """Return the cases whose scores differ."""
    return [
        (case, entry, other)
        for case, entry, other in zip(cases, ours_, theirs, strict=True)
        if (entry is None) != (other is None) or (entry is not None and other is not None and abs(entry - other) > 1e-8)
    ]


@needs_oracle("ragas")
def test_scores_equal_those_of_ragas(tmp_path: Path) -> None:
    """Tool calls, and judged scores of the same verdicts, on 200 cases each."""
    draw = random.Random(0)
    cases: list[tuple[str, Any]] = [("tool_calls", pair) for pair in pairs_of_calls(draw)]
    values: list[float | None] = [ours({"match": "sequence"}, *pair) for _, pair in cases]
    for _ in range(N_CASES):
        verdicts = [draw.random() < 0.5 for _ in range(draw.randrange(6))]
        words = {"verdicts": ["yes" if each else "no" for each in verdicts]}
        statements = {"statements": [f"s{at}" for at in range(len(verdicts))]}
        replies = [statements, *([words] if verdicts else [])]
        for name in ("faithfulness", "context_recall"):
            cases.append((name, verdicts))
            values.append(judged(name, replies))
        if verdicts:
            cases.append(("context_precision", verdicts))
            values.append(judged("context_precision", [words], tuple(f"c{at}" for at in range(len(verdicts)))))
        vectors = {text: [draw.random() for _ in range(4)] for text in ("the question", "q0", "q1", "q2")}
        is_evasive = draw.random() < 0.2
        cases.append(("question_similarity", (["q0", "q1", "q2"], vectors, is_evasive)))
        reply = {"questions": ["q0", "q1", "q2"], "evasive": "yes" if is_evasive else "no"}
        values.append(judged({"question_similarity": {"function": vectors.__getitem__}}, [reply]))
    theirs = oracle("ragas", cases, tmp_path)
    assert differing(values, theirs, cases) == []
    assert len({round(each, 3) for each in theirs if each is not None}) > 100


@needs_oracle("deepeval")
def test_scores_equal_those_of_deepeval(tmp_path: Path) -> None:
    """Tool correctness in its three ways of matching, of names and with arguments, on 200 cases each."""
    draw = random.Random(1)
    cases = [
        (match, has_arguments, made, expected)
        for match in ("exact", "order", "any")
        for has_arguments in (False, True)
        for made, expected in pairs_of_calls(draw)
    ]
    values = [ours({"match": match, "arguments": arguments}, made, wanted) for match, arguments, made, wanted in cases]
    theirs = oracle("deepeval", cases, tmp_path)
    assert differing(values, theirs, cases) == []
    assert len({round(each, 3) for each in theirs}) > 10
