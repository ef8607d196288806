"""What the task files of DROP and SQuAD name: rows with their answers, and the scores of one answer.

The functions take what lm-evaluation-harness hands to a task's functions, so DROP's file runs there as well.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from assaymark.records import Row
from assaymark.scoring.reading import drop_answers, score_drop, score_squad


def drop_rows(rows: Any) -> Any:
    """Return DROP's rows with `answers`, one list of texts per different answer: a list for a list, else the same."""
    if isinstance(rows, list):
        return [{**row, **_drop_row(row)} for row in rows]
    return rows.map(_drop_row)


def drop_results(doc: Row, results: Sequence[str]) -> dict[str, float | None]:
    """Return the best exact match and F1 over the answers that readers gave."""
    return {name: score.value for name, score in score_drop(results, doc["answers"]).items()}


def squad_results(doc: Row, results: Sequence[Any]) -> dict[str, Any]:
    """Return SQuAD 2.0's numbers from the written answer and the log-likelihood of " unanswerable".

    `best_exact` and `best_f1` are over all questions, so of one question they are what the threshold is chosen by:
    score, probability of no answer, whether there is one, and whether one was given.
    """
    answer, (no_answer_nats, _) = results
    references = doc["answers"]["text"]
    scores = {name: score.value for name, score in score_squad(answer, references).items()}
    chosen_by = [math.exp(no_answer_nats), bool(references), bool(answer)]
    return scores | {f"best_{name}": [scores[name], *chosen_by] for name in ("exact", "f1")}


def _drop_row(row: Mapping[str, object]) -> dict[str, object]:
    return {
        "id": row["query_id"],
        "passage": row["passage"],
        "question": row["question"],
        "answers": [list(answer) for answer in drop_answers(row)],
    }
