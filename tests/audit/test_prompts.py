"""The audit of prompt variants and option order, on models with known behaviour."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.audit.auditing import audit_prompts
from assaymark.audit.option_orders import option_orders
from assaymark.audit.prompts import OWN, VARIANTS, apply_variant, rank_changes
from assaymark.errors import DataError
from assaymark.models.fake import FakeModel
from assaymark.models.model import OutputCache
from assaymark.prompts.rotations import rotated
from assaymark.records import LoglikelihoodQuery, ModelIdentity, Output, Request
from tests.tasks.folders import task_spec, write_rows, write_task

ROWS = [
    {"question": f"Which lamp is number {i}?", "choices": [f"red{i}", f"blue{i}", f"green{i}"], "answer": i % 3}
    for i in range(24)
]


class HabitModel(FakeModel):
    """Picks by a rule: always the first option, or the correct answer if the answers are letters."""

    def __init__(self, habit: str) -> None:
        super().__init__()
        self.habit = habit

    @property
    def identity(self) -> ModelIdentity:
        """Return an identity that depends on the habit."""
        return replace(super().identity, name=self.habit, content_hash=self.habit)

    def answer(self, requests: Sequence[Request], *, cache: OutputCache | None = None, **_: Any) -> Iterator[Output]:
        """Yield 0 nats for the pick, -5 for the others."""
        for request in requests:
            for query in request.queries:
                if isinstance(query, LoglikelihoodQuery):
                    yield Output(request.id, query.index, total_nats=0.0 if self._picks(request, query) else -5.0)

    def _picks(self, request: Request, query: LoglikelihoodQuery) -> bool:
        if self.habit == "first":
            return query.index == 0
        right = ROWS[request.sample_index]["choices"][ROWS[request.sample_index]["answer"]]  # type: ignore[index]
        lines = [line for line in request.prompt.splitlines() if line.endswith(right)]
        lettered = bool(lines) and not lines[0].startswith("- ")
        if lettered:
            return query.continuation.strip(" ()") in lines[0].split(right)[0]
        return query.index == 0


@pytest.fixture
def task(tmp_path: Path) -> str:
    """Return a task of 24 questions with three options; gold answers are spread evenly over the positions."""
    write_rows(tmp_path, ROWS, ROWS)
    return str(write_task(tmp_path, task_spec("lamps")))


def test_there_are_at_least_eight_prompt_variants_and_each_shows_the_question() -> None:
    """Every variant contains the question, and has a different answer for each option."""
    assert len(VARIANTS) >= 8
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    for variant in VARIANTS:
        made = apply_variant(variant, "Why {o} and {a}?", ["one", "two", "three"])
        assert made is not None
        prompt, answers = made
        assert "Why {o} and {a}?" in prompt
        assert len(set(answers)) == 3
        assert all(option in prompt + "".join(answers) for option in ("one", "two", "three"))


def test_too_many_options_for_a_variants_markers_give_none() -> None:
    """Ten options cannot each have a one-digit number."""
    numbers = next(variant for variant in VARIANTS if variant.markers.startswith("1"))
    assert apply_variant(numbers, "q", [str(i) for i in range(10)]) is None


def test_rotation_moves_every_option_to_every_position() -> None:
    """Over k shifts each option is once in each position."""
    rotations = [rotated("abcd", shift) for shift in range(4)]
    assert rotations[0] == list("abcd")
    assert all(sorted(column) == list("abcd") for column in zip(*rotations, strict=True))


@pytest.mark.slow
def test_a_model_that_always_picks_the_first_option_is_detected(task: str) -> None:
    """Such a model has accuracy 1/3, circular accuracy 0, and all its picks at A."""
    (result,) = audit_prompts([HabitModel("first")], task)
    orders = result.orders
    assert orders is not None
    assert orders.accuracy == pytest.approx(1 / 3)
    assert orders.circular_accuracy == 0.0
    assert orders.consistency == 0.0
    assert orders.picked_share == (1.0, 0.0, 0.0)
    assert orders.position_p is not None
    assert orders.position_p < 1e-6
    assert result.spread.spread == 0.0
    assert result.spread.p == 1.0
    assert result.systems  # four system prompts, none of which changes it


def test_a_model_that_knows_by_letter_only_spreads(task: str) -> None:
    """Correct with letters and at chance with cloze: the spread is far above its null, except among the letters."""
    (result,) = audit_prompts([HabitModel("letters")], task, ())
    assert result.orders is not None
    assert result.orders.circular_accuracy == 1.0
    assert result.orders.position_p == pytest.approx(1.0)
    assert result.spread.spread == pytest.approx(2 / 3)
    assert result.spread.p < 0.001
    assert result.letter_spread is not None
    assert result.letter_spread.spread == 0.0
    own = "cloze: Answer"  # the task's own wording: evaluated once
    assert {form.name for form in result.forms} == {OWN, *(variant.name for variant in VARIANTS)} - {own}
    assert result.systems == ()


@pytest.mark.slow
def test_models_that_change_ranks_are_reported(task: str) -> None:
    """Between a model that knows by letter and one that does not, the order depends on the prompt variant."""
    result = audit_prompts([HabitModel("letters"), HabitModel("first")], task, ())
    (change,) = rank_changes(result)
    assert change.agreement.n_orders == 2
    assert change.agreement.best[0] == 1


def test_a_task_without_choices_is_refused(tmp_path: Path) -> None:
    """A generation task has no options to reorder, and the error says so."""
    write_rows(tmp_path, ROWS, ROWS)
    spec = task_spec(
        "written", output_type="generate_until", doc_to_choice=..., metric_list=[{"metric": "exact_match"}]
    )
    with pytest.raises(DataError, match="multiple-choice"):
        audit_prompts([FakeModel()], str(write_task(tmp_path, spec)))


def test_uneven_numbers_of_options_count_each_sample_in_its_own_orders() -> None:
    """Samples with two and three options are summarised together."""
    result = option_orders([[0, 1], [0, 1, 2], [0, 0]], [frozenset({0}), frozenset({0}), frozenset({0})])
    assert result.circular_accuracy == pytest.approx(2 / 3)
    assert result.accuracy == pytest.approx(np.mean([1.0, 1.0, 0.5]))
