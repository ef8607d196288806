"""pass@k of answers that are programs: each is run with its tests where the run's plan says (`scoring.run_code`).

Task files name these functions; lm-evaluation-harness can call them as well, and then they use the sandbox there is.
"""

from collections.abc import Sequence

from assaymark.scoring.run_code import Limits, run_programs
from assaymark.statistics.pass_at_k import pass_at_k as chance_of_any

LIMITS = Limits()


def pass_at_k(
    references: Sequence[str], predictions: Sequence[Sequence[str]], k: int | Sequence[int]
) -> dict[str, float]:
    """Return `pass@<k>` for each k: the chance that one of k answers passes the tests, the mean over problems.

    Args:
        references: one text of tests per problem, run after the answer.
        predictions: the programs that answer each problem.
        k: one number or several; left out where a problem has fewer answers.

    Raises: PlanError where nothing can run programs.
    Source: Chen et al. 2021 (arXiv 2107.03374); the metric code_eval of Hugging Face evaluate.
    """
    counts = []
    for tests, programs in zip(references, predictions, strict=True):
        outcomes = run_programs(programs, LIMITS, tests=tests)
        counts.append((len(outcomes), sum(outcome.passed for outcome in outcomes)))
    least = min(n for n, _ in counts)
    wanted = [k] if isinstance(k, int) else list(k)
    return {
        f"pass@{size}": sum(chance_of_any(n, right, size) for n, right in counts) / len(counts)
        for size in wanted
        if size <= least
    }


def pass_at_1(references: Sequence[str], predictions: Sequence[str] | Sequence[Sequence[str]]) -> float:
    """Return the share of answers that pass their tests; an answer may be one program or a list of programs."""
    lists = [[one] if isinstance(one, str) else list(one) for one in predictions]
    return pass_at_k(references, lists, 1)["pass@1"]
