"""Checkpoints of one training as a series, with the demo's models in the place of checkpoints."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.series import find_series, series_names
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.tasks.catalog import LIBRARY
from assaymark.web.app import create_app
from tests.served import running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Site:
    """Return a site over runs of two checkpoints: the small model, then the large one."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("series")
    place = str(folder / "store.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        for name, step in (("small", 900), ("large", 1000)):
            model = folder / "train" / f"checkpoint-{step}"
            shutil.copytree(LIBRARY / "demo_models" / name, model)
            words = ["--model_args", f"pretrained={model}", "--tasks", "demo_who", "--limit", "40", "--store", place]
            assert main(["run", *words]) == 0
    return Site([], StoredRuns(Store.open_to_read(place)))


def test_checkpoints_are_ordered_by_step_and_paired_with_the_first(site: Site) -> None:
    """Steps are numbers, not texts; values are the runs' estimates; differences are second minus first."""
    assert series_names(site.stored_runs()) == {"train": 2}
    result = find_series(site, "train")
    assert [checkpoint.step for checkpoint in result.checkpoints] == [900, 1000]
    (line,) = result.lines
    stored = {
        run.model: estimate.value
        for run in site.stored_runs()
        for estimate in run.estimates
        if estimate.details.get("primary")
    }
    assert [(step, number.value) for step, number in line.points] == [
        (step, stored[f"train/checkpoint-{step}"]) for step in (900, 1000)
    ]
    assert result.checkpoints[0].against_first is None
    pair = result.checkpoints[1].against_first
    assert pair is not None
    assert pair.overall is not None
    assert pair.overall.difference == pytest.approx(line.points[1][1].value - line.points[0][1].value, abs=1e-12)


@pytest.fixture(scope="module")
def pages(site: Site) -> Iterator[httpx.Client]:
    """Return a client of a server of the site."""
    with running(create_app([board_feature(site)])) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


def test_the_page_draws_the_series_and_its_twin_has_its_numbers(pages: httpx.Client) -> None:
    """One SVG per benchmark with a text for screen readers; the JSON has each step."""
    page = pages.get("/series/train")
    assert page.status_code == 200
    assert 'aria-label="demo_who against the step, with 95% intervals"' in page.text
    result = pages.get("/series/train.json").json()
    assert [each["step"] for each in result["benchmarks"][0]["points"]] == [900, 1000]
    assert pages.get("/series/trian").status_code == 404
    assert "nearest: train" in pages.get("/series/trian").text
