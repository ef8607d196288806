"""The address of a group's samples lists its tasks."""

from pathlib import Path

import httpx

from assaymark.cli.main import main
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running


def test_a_group_lists_its_tasks(tmp_path: Path) -> None:
    """Each listed task leads to its samples; a name that the run does not have is not found."""
    store = str(tmp_path / "runs.sqlite")
    assert main(["run", "--model", "fake", "--tasks", "demo", "--limit", "3", "--store", store]) == 0
    runs = StoredRuns(Store.open_to_read(store))
    run = runs.runs()[0]
    groups = {estimate.task for estimate in run.estimates if estimate.details.get("kind") == "group"}
    assert groups
    with running(create_app([board_feature(Site([], runs))])) as url, httpx.Client(base_url=url, timeout=20) as client:
        for group in groups:
            address = f"/run/{run.run_id}/samples/{group}"
            page = client.get(address)
            assert page.status_code == 200
            members = client.get(f"{address}.json").json()["members"]
            assert len(members) > 1
            for task in members:
                link = f"/run/{run.run_id}/samples/{task}"
                assert f'href="{link}"' in page.text
                assert client.get(link).status_code == 200
        assert client.get(f"/run/{run.run_id}/samples/no_such_task").status_code == 404
