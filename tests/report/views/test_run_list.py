"""The list of runs keeps ids whole in a narrow terminal."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import assaymark
from assaymark.report.views.run_list import run_list_table


@pytest.mark.parametrize("width", [60, 80, 120])
def test_ids_are_never_shortened(width: int, tmp_path: Path) -> None:
    """A long status folds instead, since an id that is cut cannot be used."""
    run = assaymark.evaluate("fake", "demo_facts", limit=2, store=str(tmp_path / "s.sqlite"))
    row = replace(run.row, status="incomplete", n_failed=12_345)
    printed = StringIO()
    Console(file=printed, width=width).print(run_list_table([row]))
    assert row.short_id in printed.getvalue()
    assert max(map(len, printed.getvalue().splitlines())) <= width
