"""Pages show no folder of this machine, no host name and no process id."""

import platform
import socket
from pathlib import Path

import httpx
import pytest

from assaymark.store import Store
from assaymark.web.shown_paths import without_folders
from tests.web.conftest import Served


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("assaymark run --tasks /tmp/a/h.csv,/tmp/b/i.csv --limit 3", "assaymark run --tasks h.csv,i.csv --limit 3"),
        ("--store=~/runs/x.sqlite --model_args path=/data/models/m", "--store=x.sqlite --model_args path=m"),
        ("--tasks 'data/of me/h.csv' '/my own/h.csv' '/tmp/with space/i.csv'", None),
        ("sqlite:////home/me/runs.sqlite", "sqlite:runs.sqlite"),
        ("/tmp/with space/i.csv", "i.csv"),
        ("../x/y/z.yaml, data/z.yaml", "z.yaml, z.yaml"),
        (r"C:\Users\me\h.csv", "h.csv"),
        ("{'h': '/tmp/x/h.csv'}", "{'h': 'h.csv'}"),
        ("h:/tmp/x/h.csv", "h:h.csv"),
        ("postgresql://me:secret@db.example.org/runs", "postgresql://db.example.org/runs"),
        ("base_url=http://localhost:8000/v1/completions", "base_url=http://localhost:8000/v1/completions"),
        ("pretrained=org/model,dtype=bfloat16", "pretrained=org/model,dtype=bfloat16"),
        ("/no_think and yes/no or 1/2", "/no_think and yes/no or 1/2"),
    ],
)
def test_only_the_last_part_of_paths(text: str, shown: str | None) -> None:
    """Paths lose their folders; names of models, URLs and plain text stay."""
    found = without_folders(text)
    assert shown is None or found == shown
    for part in ("/tmp", "/home", "secret", "Users", "/data", "with space", "my own"):
        assert part not in found


def test_parts_of_json_are_shortened() -> None:
    """Values and keys, at any depth."""
    assert without_folders({"files": {"/a/b/h": ["/a/b/h.csv", 3, None]}}) == {"files": {"h": ["h.csv", 3, None]}}


def test_no_page_tells_where_files_are_or_which_machine_it_was(client: httpx.Client, served: Served) -> None:
    """The run's page and its twin, and every other page of the run; the command and file names are shown."""
    folder = str(Path(served.store).parent)
    first, second, third = served.run_ids
    for path in (f"/run/{first}", f"/run/{second}", f"/compare?runs={second},{third}", "/boards", "/board/exam/about",
                 f"/run/{first}/samples/plain", f"/run/{first}/samples/plain/3", "/task/plain",
                 "/run/none/samples/plain"):  # fmt: skip
        stem, _, query = path.partition("?")
        for address in (path, f"{stem}.json?{query}"):
            text = client.get(address).text
            assert folder not in text, address
            assert socket.gethostname() not in text, address
            assert platform.platform() not in text, address
            assert "process_id" not in text, address
    page = client.get(f"/run/{first}").text
    assert "plain.csv" in page
    stored = Store.open_to_read(served.store).run(first).command
    assert stored is not None  # of the process that ran the tests
    assert client.get(f"/run/{first}.json").json()["command"] == without_folders(stored)
