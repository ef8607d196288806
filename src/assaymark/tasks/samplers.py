"""Draw shots with a task's own sampler class, through the interface of lm-evaluation-harness."""

from collections.abc import Callable, Sequence
from typing import Any

from assaymark.errors import PlanError
from assaymark.prompts.few_shot import DrawRules, Shots
from assaymark.records import Sample


def draw_with_class(
    sampler: Callable[..., Any], samples: Sequence[Sample], pool: list[Any], rules: DrawRules
) -> list[Shots]:
    """Return the shots of each sample as indices in the pool; rows that are not in the pool are appended to it.

    Raises: PlanError if the class fails when used as lm-evaluation-harness uses it.
    """
    try:
        drawer = sampler(list(pool), rnd=None)
        drawer.set_rnd(rules.seed)
        drawn = [drawer.sample(n=rules.n_shots, eval_doc=s.row if rules.exclude else None) for s in samples]
    except (TypeError, AttributeError, NotImplementedError, AssertionError, ValueError) as error:
        raise PlanError(f"the task's sampler {sampler!r} failed: {type(error).__name__}: {error}") from error
    indices = {id(row): index for index, row in enumerate(pool)}
    shots = []
    for rows in drawn:
        for row in rows:
            if id(row) not in indices:
                indices[id(row)] = len(pool)
                pool.append(row)
        shots.append(tuple(indices[id(row)] for row in rows))
    return shots
