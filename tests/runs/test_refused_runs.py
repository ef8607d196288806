"""Runs that end before their first answer."""

from pathlib import Path

import pytest

import assaymark
from assaymark.errors import UsageError
from assaymark.store import Store


def test_a_run_that_cannot_begin_is_not_stored(tmp_path: Path) -> None:
    """What was typed cannot run, so no run is listed that could be shown or continued."""
    place = str(tmp_path / "runs.sqlite")
    model = f"pretrained={assaymark.demo_model('small')},enable_thinking=True"
    with pytest.raises(UsageError):
        assaymark.evaluate("hf", "demo_who", limit=2, model_args=model, store=place)
    with Store.open(place) as store:
        assert store.runs() == []
