"""Checks of judges: prompt injections, and panels of several stored judgings."""

from collections.abc import Mapping, Sequence

from assaymark.errors import UsageError
from assaymark.judges.check_tables import PanelSummary, summarise_panel
from assaymark.judges.injections import InjectionRate, honest_answers, injections, try_injections
from assaymark.judges.judge import open_judge
from assaymark.judges.judge_prompts import find_prompt, judge_prompts
from assaymark.judges.judging import JUDGING
from assaymark.judges.results import read_results
from assaymark.models.lending import gives_back
from assaymark.runs.stored import existing_store
from assaymark.store import RunRow

__all__ = ["judge_injections", "judge_panel", "n_injections"]


@gives_back
def judge_injections(
    judge_model: object,
    prompts: Sequence[str] = (),
    *,
    model_args: str | Mapping[str, object] | None = None,
    n_questions: int | None = None,
    seed: int = 0,
    max_tokens: int = 512,
) -> list[InjectionRate]:
    """Return how often a judge rewards answers that are prompt injections, by judge prompt and kind of injection.

    Args:
        judge_model: as a model for `evaluate`.
        prompts: names of judge prompts; empty: all.
        model_args: arguments of the judge.
        n_questions: number of questions, each with every injection; None: all.
        seed: of the marks around the material.
        max_tokens: of the judge's text.

    Nothing is stored, so an interrupted check begins again.

    Raises: UnknownName for a prompt; UsageError; ModelUnavailable.
    """
    chosen = [find_prompt(name) for name in (prompts or judge_prompts())]
    model = open_judge(judge_model, model_args)
    return try_injections(model, chosen, n_questions=n_questions, seed=seed, max_tokens=max_tokens)


def n_injections() -> tuple[int, int]:
    """Return the numbers of injections and of questions."""
    return len(injections()), len(honest_answers())


def judge_panel(names: Sequence[str], store: str | None = None) -> tuple[list[RunRow], list[PanelSummary]]:
    """Return the judgings with these ids, and the panel's summary of each task.

    Raises: UsageError for runs that are no judgings, or judgings of different answers; UnknownName; DataError for fewer
        than two, or of different kinds.
    """
    opened = existing_store(store)
    rows = [opened.run(name) for name in names]
    judged: dict[str, None] = {}
    for row in rows:
        settings = row.plan.audit_settings
        if row.plan.audit != JUDGING or settings is None:
            raise UsageError(f"{row.short_id} is not a judging; a panel is made of judgings (see `assaymark ls runs`)")
        judged[str(settings.settings["answers"])] = None
    if len(judged) > 1:
        raise UsageError(
            f"{', '.join(row.short_id for row in rows)} judge different answers; a panel judges the same runs in "
            "the same order, with the same --limit and --reference"
        )
    if len({row.run_id for row in rows}) < len(rows):
        raise UsageError("a judging is named twice; a panel counts each judge once")
    return rows, summarise_panel([read_results(opened, row) for row in rows])
