"""Runs that end before their first answer."""

from pathlib import Path

import pytest

import assaymark
from assaymark.errors import DataError, UsageError
from assaymark.store import Store


def test_a_run_that_cannot_begin_is_not_stored(tmp_path: Path) -> None:
    """What was typed cannot run, so no run is listed that could be shown or continued."""
    place = str(tmp_path / "runs.sqlite")
    model = f"pretrained={assaymark.demo_model('small')},enable_thinking=True"
    with pytest.raises(UsageError):
        assaymark.evaluate("hf", "demo_who", limit=2, model_args=model, store=place)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Who?", "answer": "me"}\n')
    task = tmp_path / "asked.yaml"
    task.write_text(
        f"task: asked\ndataset_path: json\ndataset_kwargs: {{data_files: {rows}}}\ntest_split: train\n"
        "output_type: generate_until\ndoc_to_text: '{{question.no.more}}'\ndoc_to_target: '{{answer}}'\n"
    )
    with pytest.raises(DataError):  # found when the first prompt is made, after the run was opened
        assaymark.evaluate("fake", str(task), store=place)
    with Store.open(place) as store:
        assert store.runs() == []
