"""What MATH's task files name: rows with their answers taken out of the solutions, and both boards' scores.

The functions take what lm-evaluation-harness hands to a task's functions, so the files run there as well.
"""

from collections.abc import Sequence
from typing import Any

from assaymark.records import Row
from assaymark.scoring.mathematics import (
    INVALID_ANSWER,
    is_equal_mathematics,
    is_equal_to_latex,
    last_boxed,
    minerva_answer,
    normalise_minerva,
    normalise_published,
    score_minerva,
)


def process_docs(rows: Any) -> Any:
    """Return the rows with the key `answer`, in normal form."""
    return _mapped(rows, lambda row: {**row, "answer": normalise_minerva(_boxed(row["solution"]))})


def process_docs_hard(rows: Any) -> Any:
    """Return the rows of level 5 with the key `answer`, as it is written."""
    return _mapped(rows, lambda row: {**row, "answer": _boxed(row["solution"])}, lambda row: row["level"] == "Level 5")


def process_results(doc: Row, results: Sequence[str]) -> dict[str, float | None]:
    """Return minerva_math's `exact_match` and `math_verify`."""
    return {name: score.value for name, score in score_minerva(doc["solution"], results[0]).items()}


def process_results_hard(doc: Row, results: Sequence[str]) -> dict[str, float]:
    """Return the second leaderboard's two numbers: equal by value, and its first rule, equal in normal form.

    Source: lm-evaluation-harness 0.4.13, leaderboard_math_hard.
    """
    final = normalise_published(minerva_answer(results[0]))
    gold = normalise_published(doc["answer"])
    same = final != INVALID_ANSWER and (
        final.strip() == gold.strip() or is_equal_mathematics(f"${gold}$", f"${final}$", timeout_seconds=1)
    )
    return {"exact_match": float(is_equal_to_latex(doc["solution"], results[0])), "exact_match_original": float(same)}


def _boxed(solution: str) -> str:
    found = last_boxed(solution)
    return INVALID_ANSWER if found is None else found


def _mapped(rows: Any, change: Any, keep: Any = None) -> Any:
    """Change rows one by one, be they a list or a `datasets.Dataset`."""
    if isinstance(rows, list):
        return [change(row) for row in rows if keep is None or keep(row)]
    return (rows if keep is None else rows.filter(keep)).map(change)
