"""What a served board makes public: the runs that its file chooses, at every address, and no other run of the store."""

from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running


@pytest.fixture
def place(tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a store with a run of each of two models, and write a board of the first one."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    place = str(tmp_path / "runs.sqlite")
    for seed in ("1", "2"):
        words = ["run", "--model", "fake", "--model_args", f"seed={seed}", "--tasks", "demo_sums", "--store", place]
        assert main([*words, "--limit", "8", "--quiet"]) == 0
    assert main(["run", "--model", "fake", "--tasks", "demo_orders", "--limit", "8", "--quiet", "--store", place]) == 0
    (tmp_path / "board.yaml").write_text("tasks: [demo_sums]\nruns: {only: [fake-random-1]}\n")
    return place


def statuses(url: str, runs: dict[tuple[str, str], str]) -> dict[str, int]:
    """Return the status of each address of the runs that are not on the board."""
    own, other, task = (runs[each] for each in (
        ("fake-random-1", "demo_sums"), ("fake-random-2", "demo_sums"), ("fake-random-0", "demo_orders"),
    ))  # fmt: skip
    paths = [f"/run/{other}", f"/run/{other[:6]}", f"/run/{other}.json", f"/run/{other}/samples/demo_sums",
             f"/run/{other}/samples/demo_sums/0", f"/run/{task}", "/model/fake-random-2", "/model/fake-random-0.json",
             f"/compare?runs={own},{other}"]  # fmt: skip
    with httpx.Client(base_url=url, timeout=20) as client:
        results = {path.replace(other, "OTHER").replace(task, "TASK"): client.get(path).status_code for path in paths}
        assert client.get(f"/run/{own}/samples/demo_sums/0").status_code == 200
        assert client.get(f"/run/{own[:6]}").status_code == 200
        results["names"] = sum(
            text in client.get(path).text
            for text in ("fake-random-2", other[:8], task[:8])
            for path in ("/compare", "/task/demo_sums", "/task/demo_sums.json", f"/run/{own}/samples/demo_sums/0",
                         "/recommend?for=demo_sums", "/run/" + other[:5] + "0", "/model/fake-random")
        )  # fmt: skip
    return results


def test_a_board_shows_the_runs_that_its_file_chooses(place: str, tmp_path: Path) -> None:
    """With `runs: {only: ...}` no address leads to another run of the store; --all_runs opens the rest."""
    with Store.open_to_read(place) as store:
        runs = {(run.model, run.tasks[0]): run.run_id for run in store.runs()}
    board = (str(tmp_path / "board.yaml"),)
    with running(create_app([board_feature(open_site(board, place))])) as url:
        result = statuses(url, runs)
        assert result.pop("names") == 0
        assert set(result.values()) == {404}, result
    with running(create_app([board_feature(open_site(board, place, all_runs=True))])) as url:
        result = statuses(url, runs)
        assert result.pop("names") > 0
        assert set(result.values()) == {200}, result
