"""The file of a store's name: a name is a URL only if it has ://, else a path."""

from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import StoreError
from assaymark.store import Store
from tests.store import examples

NAMES = [
    "a?1.db",
    "a?2.db",
    "a#b.db",
    "100%.db",
    "a%3F1.db",
    "a b&c=d.db",
    "user:word@host.db",
    "ä\u2028ö.db",
    "'q\".db",
]


def test_every_character_of_a_path_counts(tmp_path: Path) -> None:
    """Names that a URL would truncate or decode are files of their own, each with its own run."""
    for name in NAMES:
        with Store.open(str(tmp_path / name)) as store:
            examples.fill(store, examples.plan(content=name))
            assert store.url == f"sqlite:///{tmp_path / name}"
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.is_file()) == sorted(NAMES)
    for name in NAMES:
        assert Store.exists(str(tmp_path / name))
        with Store.open(str(tmp_path / name), read_only=True) as store:
            (run,) = store.runs()
            assert run.plan == examples.plan(content=name)
            assert store.verify() == []


def test_the_command_line_means_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--store` and ASSAYMARK_STORE accept a path with a question mark unchanged."""
    with Store.open(str(tmp_path / "a?1.db")) as store:
        run_id = examples.fill(store, examples.plan())
    assert main(["ls", "runs", "--store", str(tmp_path / "a?1.db")]) == 0
    assert run_id[:8] in capsys.readouterr().out
    assert main(["ls", "runs", "--store", str(tmp_path / "a?2.db")]) == 2
    assert run_id[:8] not in capsys.readouterr().out
    assert not (tmp_path / "a").exists()


def test_a_url_with_a_query_is_refused(tmp_path: Path) -> None:
    """A file's URL with a query is refused, never truncated silently."""
    with pytest.raises(StoreError, match=r"has a query after '\?'.*expected a plain path"):
        Store.open(f"sqlite:///{tmp_path}/a.db?mode=ro")
    assert list(tmp_path.iterdir()) == [] or not any(entry.suffix == ".db" for entry in tmp_path.iterdir())
