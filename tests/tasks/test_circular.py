"""Tasks bound for CircularEval: the rotated prompts are those of rotated rows, on real data."""

from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.prompts.rotations import rotated
from assaymark.records import LoglikelihoodQuery, Request, Sample, rotations_of
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.styled_tasks import styled_task


def bound(name: str, data: Path, *, shots: int = 0, style: bool = False, circular: bool = True) -> BoundTask:
    """Return a task of the library bound to the real rows."""
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    options = BindOptions(num_fewshot=shots, data_dir=data, circular=circular, limit=60)
    return bind(styled_task(task, "letter") if style else task, options)


def contexts(request: Request, queries: list[LoglikelihoodQuery]) -> list[str]:
    """Return the whole text before each of these queries' continuations."""
    return ["".join(request.segments if query.segments is None else query.segments) for query in queries]


@pytest.mark.parametrize(("name", "shots"), [("mmlu_anatomy", 0), ("mmlu_college_mathematics", 5)])
def test_a_rotation_is_the_prompt_of_the_rotated_row(shared_dir: Path, name: str, shots: int) -> None:
    """Every rotated prompt of MMLU equals the one rendered from a row whose options are rotated, shots unchanged."""
    circular = bound(name, shared_dir / "data", shots=shots)
    plain = bound(name, shared_dir / "data", shots=shots, circular=False)
    for sample in circular.samples():
        request = circular.request(sample)
        rotations = rotations_of(request)
        assert len(rotations) == 3
        for shift, queries in enumerate(rotations, start=1):
            row = {**sample.row, "choices": rotated(sample.row["choices"], shift)}
            expected = plain.request(replace(sample, row=row)).prompt
            assert contexts(request, queries) == [expected] * 4
            assert [query.continuation for query in queries] == [f" {letter}" for letter in "ABCD"]


def test_the_order_of_the_file_is_asked_as_without_the_option(shared_dir: Path) -> None:
    """The first queries, the prompt's hash and the target are those of a plain run."""
    circular, plain = (bound("mmlu_anatomy", shared_dir / "data", circular=each) for each in (True, False))
    for entry, other in zip(circular.requests(), plain.requests(), strict=True):
        assert entry.queries[:4] == other.queries
        assert (entry.prompt, entry.target, entry.segments) == (other.prompt, other.target, other.segments)


def test_a_style_that_lists_the_options_makes_any_task_circular(shared_dir: Path) -> None:
    """ARC's own prompt shows no options; in style letter every row can be rotated, also those with three or five."""
    assert "prompt_style letter" in str(bound("arc_challenge", shared_dir / "data").not_circular)
    styled = bound("arc_challenge", shared_dir / "data", style=True)
    assert styled.not_circular is None
    for request in styled.requests():
        n_choices = sum(isinstance(q, LoglikelihoodQuery) and q.role == "choice" for q in request.queries)
        assert len(rotations_of(request)) == n_choices - 1


def test_lettered_tasks_can_be_rotated(shared_dir: Path) -> None:
    """No row of a task whose choices are letters fails, and a rotation has the characters of the original."""
    names = ["mmlu_professional_law", "mmlu_high_school_computer_science", "mmlu_formal_logic", "demo_letters_people"]
    for name in names:
        item = bound(name, shared_dir / "data")
        assert item.not_circular is None, (name, item.not_circular)
        for request in item.requests():
            results = {text for query in rotations_of(request) for text in contexts(request, query)}
            assert len({"".join(sorted(text)) for text in (request.prompt, *results)}) == 1  # only the order differs


def test_a_scored_rotation_uses_the_gold_answer_where_it_stands(shared_dir: Path) -> None:
    """A model that knows the gold option's text is right in every rotation of every sample."""
    from assaymark.models.fake import FakeModel

    item = bound("mmlu_anatomy", shared_dir / "data")
    samples: dict[int, Sample] = {sample.index: sample for sample in item.samples()}
    requests = list(item.requests())
    outputs = list(FakeModel(mode="gold").answer(requests))
    for request in requests:
        own = [output for output in outputs if output.request_id == request.id]
        scores = {s.metric: s.value for s in item.score(request, samples[request.sample_index], own)}
        assert (scores["acc"], scores["circular_acc"], scores["acc_rotations"]) == (1.0, 1.0, 1.0)
