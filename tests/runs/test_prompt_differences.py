"""`diff-prompts`: which prompts differ between two runs, and how the differences are reported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import assaymark
from assaymark.cli.main import cli
from assaymark.records import LoglikelihoodQuery, Output, Request
from assaymark.runs.prompt_diff import TaskDifferences, differing_pieces, prompt_differences
from assaymark.store.rows import SampleRecord
from tests.tasks.folders import task_spec, write_rows, write_task


def record(index: int = 0, text: str = "Q: a?\nA:", n_context: int = 5, **changes: Any) -> SampleRecord:
    """Return a stored sample of one question with two choices."""
    queries = (LoglikelihoodQuery(0, " yes"), LoglikelihoodQuery(1, " no"))
    request = Request("t", index, f"sha{index}", (text,), queries)
    outputs = tuple(Output(request.id, i, total_nats=-1.0, n_context_tokens=n_context, n_tokens=1) for i in (0, 1))
    return SampleRecord(None, replace(request, **changes), outputs, ())


def diff(first: SampleRecord, second: SampleRecord) -> TaskDifferences:
    """Return the differences between two samples."""
    return prompt_differences("t", [first], [second])


def test_joined_pieces_are_the_texts() -> None:
    """For any two texts the joined pieces give both, and the changes are found."""
    texts = ("Question: one two\n three\nAnswer:", "Question: one 2 two\n three!\nAnswer: ", "", "x")
    for first in texts:
        for second in texts:
            pieces = list(differing_pieces(first, second))
            assert "".join(piece.first for piece in pieces) == first
            assert "".join(piece.second for piece in pieces) == second
    changed = [piece for piece in differing_pieces(texts[0], texts[1]) if not piece.is_same]
    assert [piece.second.strip() for piece in changed] == ["2", "three!", ""]


def test_equal_prompts_do_not_differ() -> None:
    """Equal requests and tokens are no difference, whatever the answers."""
    assert diff(record(), record()).differences == ()


def test_each_kind_of_difference_is_named() -> None:
    """Differences of wording, choices and tokens are distinguished."""
    other_choices = (LoglikelihoodQuery(0, " Yes"), LoglikelihoodQuery(1, " no"))
    cases = {
        "question": record(text="Q: b?\nA:"),
        "choices": record(queries=other_choices),
        "tokens": record(n_context=6),
    }
    for kind, second in cases.items():
        (result,) = diff(record(), second).differences
        assert result.kinds == (kind,)
    (result,) = diff(record(), cases["tokens"]).differences
    assert "BOS" in result.lines[0]


def test_unknown_numbers_of_tokens_are_no_difference() -> None:
    """Files of lm-eval hold no numbers of tokens; their prompts equal ours where the texts do."""
    imported = record(n_context=0)
    unknown = replace(imported, outputs=tuple(replace(each, n_tokens=0) for each in imported.outputs))
    assert diff(record(), unknown).differences == ()
    assert diff(unknown, record()).differences == ()
    assert diff(record(), replace(unknown, request=replace(unknown.request, segments=("Q: b?",)))).counts() == {
        "question": 1
    }


def test_samples_are_paired_by_content() -> None:
    """A sample at another position in the other run is compared with itself; unpaired samples are counted."""
    result = prompt_differences("t", [record(0), record(1)], [record(1), record(2)])
    assert (result.n, result.n_first_only, result.n_second_only) == (1, 1, 1)
    assert result.differences == ()


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """Return two stored runs of one task, without and with a shot."""
    rows = [{"question": f"{i}?", "choices": ["a", "b"], "answer": i % 2} for i in range(6)]
    write_rows(tmp_path, rows, [{**row, "question": f"shot {row['question']}"} for row in rows])
    path = str(write_task(tmp_path, task_spec("small")))
    made = [assaymark.evaluate("fake", path, num_fewshot=shots) for shots in (0, 1)]
    return made[0].short_id, made[1].short_id


def test_the_command_shows_shots_and_tokens(runs: tuple[str, str]) -> None:
    """`diff-prompts A B` reports that the shots differ and marks them; a run compared with itself is identical."""
    result = CliRunner().invoke(cli, ["diff-prompts", *runs])
    assert "shots 6" in result.output
    assert "{+shot" in result.output
    actual = json.loads(CliRunner().invoke(cli, ["diff-prompts", *runs, "--json"]).output)
    assert actual["n_differing"] == 6
    assert actual["tasks"][0]["counts"] == {"shots": 6}
    same = CliRunner().invoke(cli, ["diff-prompts", runs[0], runs[0]], standalone_mode=False)
    assert "identical" in same.output
    assert same.return_value == 0
