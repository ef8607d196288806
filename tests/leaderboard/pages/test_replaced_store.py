"""A server notices that its store's file was removed or replaced."""

import shutil
from pathlib import Path

import httpx
import pytest

from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import Served, running


def copy(store: str, to: Path) -> None:
    """Copy a store with what is in its log."""
    for ending in ("", "-wal", "-shm"):
        if Path(store + ending).exists():
            shutil.copy(store + ending, f"{to}{ending}")


def test_a_removed_store_is_reported_and_its_replacement_shown(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """503 with one line, without the folder, while it is away, and the log says where; then what the new file holds."""
    path = tmp_path / "runs.sqlite"
    copy(served.store, path)
    board = read_board(Path(served.store).parent / "exam.yaml")
    first = served.run_ids[0]
    app = create_app([board_feature(Site([board], StoredRuns(Store.open_to_read(str(path)))))])
    with running(app) as url, httpx.Client(base_url=url, timeout=20) as client:
        assert client.get(f"/run/{first}").status_code == 200
        assert "fake-random-2" in client.get("/board/exam").text
        for ending in ("", "-wal", "-shm"):
            file = Path(f"{path}{ending}")
            if file.exists():
                file.rename(f"{path}.old{ending}")
        for page in (f"/run/{first}", "/board/exam", f"/run/{first}/samples/plain"):
            response = client.get(page)
            assert response.status_code == 503, page
            assert "store cannot be used now" in response.text
            assert str(tmp_path) not in response.text
            logged = capsys.readouterr().err
            assert f"GET {page}: " in logged
            assert str(path) in logged
        with Store.open(str(tmp_path / "new.sqlite")):
            pass
        (tmp_path / "new.sqlite").rename(path)
        assert client.get(f"/run/{first}").status_code == 404
        board_page = client.get("/board/exam")
        assert board_page.status_code == 200
        assert "fake-random-2" not in board_page.text
        copy(served.store, tmp_path / "again.sqlite")
        path.unlink()
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        for ending in ("", "-wal", "-shm"):
            file = tmp_path / f"again.sqlite{ending}"
            if file.exists():
                file.rename(f"{path}{ending}")
        assert client.get(f"/run/{first}").status_code == 200
        assert "fake-random-2" in client.get("/board/exam").text
