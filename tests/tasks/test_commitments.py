"""Commitments to rows, against the formulas on their page computed by hand; hostile files are refused in one line."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.store.sealed_tasks import is_in_preview
from assaymark.tasks.commitments import (
    Secret,
    commit,
    open_rows,
    read_commitment,
    read_opened,
    read_secret,
    verify_opened,
)

ROWS: list[Any] = [{"question": "Which court?", "answer": "B"}, {"answer": "Ü", "n": 1.5}, {"question": "Which court?"}]
SECRET = Secret("law", "sha256:0", "ab" * 32, version="2", public_fraction=0.5, sealed_at="2026-01-01")


def test_the_hashes_are_those_of_the_formulas() -> None:
    """Salts, commitments and the root equal HMAC and SHA-256 of the bytes that the docstring names."""
    made = commit(SECRET, ROWS)
    leaves = []
    for index, row in enumerate(ROWS):
        text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        salt = hmac.digest(bytes.fromhex("ab" * 32), b"row\x00" + str(index).encode(), "sha256")
        leaves.append(hashlib.sha256(b"\x00" + salt + text.encode()).hexdigest())
    assert list(made.rows) == leaves
    listed = json.dumps(leaves, separators=(",", ":"))
    content = (f'{{"format":"assaymark commitment 2","n_rows":3,"public_fraction":0.5,"rows":{listed},'
               '"sealed_at":"2026-01-01","task":"law","valid_until":"","version":"2"}')  # fmt: skip
    assert made.root == "sha256:" + hashlib.sha256(b"\x01" + content.encode()).hexdigest()
    first = commit(replace(SECRET, format=1), ROWS)
    content = f'{{"n_rows":3,"rows":{listed},"task":"law","version":"2"}}'
    assert first.root == "sha256:" + hashlib.sha256(b"\x01" + content.encode()).hexdigest()


def test_equal_rows_have_different_commitments_and_other_secrets_others() -> None:
    """Nobody sees that two rows are equal, or tests a candidate row without the salt."""
    rows = [ROWS[0], ROWS[0]]
    first, second = commit(SECRET, rows), commit(Secret("law", "sha256:0"), rows)
    assert first.rows[0] != first.rows[1]
    assert set(first.rows).isdisjoint(second.rows)
    plain = hashlib.sha256(json.dumps(ROWS[0], sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert plain not in (*first.rows, first.root)


def test_single_rows_can_be_opened_and_changed_ones_are_found() -> None:
    """A part of the rows verifies; another row, another salt and a swapped position do not."""
    made = commit(SECRET, ROWS)
    (opened,) = open_rows(SECRET, [ROWS[1]], [1])
    assert verify_opened(made, [opened]).is_sound
    assert verify_opened(made, [opened]).n_opened == 1
    first, _, third = open_rows(SECRET, ROWS)
    assert verify_opened(made, [type(first)(0, first.salt, third.row)]).wrong == (0,)
    assert verify_opened(made, [type(first)(0, third.salt, first.row)]).wrong == (0,)
    assert verify_opened(made, [type(first)(2, first.salt, first.row)]).wrong == (2,)
    with pytest.raises(DataError, match="is there twice"):
        verify_opened(made, [opened, opened])
    with pytest.raises(DataError, match="none of 3 committed rows"):
        verify_opened(made, [type(first)(3, first.salt, first.row)])


def test_files_round_trip(tmp_path: Path) -> None:
    """What is written is read as it was, and a changed commitment does not verify itself."""
    made = commit(SECRET, ROWS)
    (tmp_path / "c.json").write_text(made.to_text())
    (tmp_path / "s.json").write_text(SECRET.to_text())
    (tmp_path / "r.jsonl").write_text("".join(row.to_line() for row in open_rows(SECRET, ROWS)))
    assert read_commitment(tmp_path / "c.json") == made
    assert read_secret(tmp_path / "s.json") == SECRET
    assert verify_opened(made, read_opened(tmp_path / "r.jsonl")).n_opened == 3
    (tmp_path / "c.json").write_text(made.to_text().replace(made.rows[0], "0" * 64))
    with pytest.raises(DataError, match="its root is not the hash of its rows"):
        read_commitment(tmp_path / "c.json")


@pytest.mark.parametrize(
    "change", [{"sealed_at": "2020-01-01"}, {"valid_until": "2099-01-01"}, {"public_fraction": 0.25}, {"version": "3"}]
)
def test_the_root_covers_everything_that_is_published(tmp_path: Path, change: dict[str, Any]) -> None:
    """A changed date, share or version is found; in a file of the first format only rows and version are covered."""
    for form in (2, 1):
        path = tmp_path / f"{form}.json"
        made = commit(replace(SECRET, format=form), ROWS)
        path.write_text(json.dumps({**json.loads(made.to_text()), **change}))
        if form == 1 and "version" not in change:
            read = read_commitment(path)
            assert set(change) <= set(read.uncovered)
            assert set(change) <= set(verify_opened(read, open_rows(SECRET, ROWS)).uncovered)
        else:
            assert made.uncovered == (() if form == 2 else ("public_fraction", "valid_until", "sealed_at"))
            with pytest.raises(DataError, match="the file was changed"):
                read_commitment(path)


def test_files_of_the_first_format_round_trip(tmp_path: Path) -> None:
    """A seal of an earlier version makes the commitment that was published then."""
    secret = replace(SECRET, format=1)
    (tmp_path / "s.json").write_text(secret.to_text())
    assert json.loads(secret.to_text())["format"] == "assaymark seal 1"
    assert read_secret(tmp_path / "s.json") == secret
    (tmp_path / "c.json").write_text(commit(secret, ROWS).to_text())
    assert read_commitment(tmp_path / "c.json") == commit(read_secret(tmp_path / "s.json"), ROWS)


def test_no_row_verifies_nothing() -> None:
    """An empty file of revealed rows is an error."""
    with pytest.raises(DataError, match="no row was revealed"):
        verify_opened(commit(SECRET, ROWS), [])


FORM = "assaymark commitment 1"
HOSTILE = (
    "",
    "[]",
    "{}",
    "{" * 5000,
    json.dumps({"format": FORM}),
    json.dumps({"format": FORM, "rows": [1]}),
    json.dumps({"format": FORM, "rows": [], "version": {}}),
    json.dumps({"format": "assaymark seal 1", "secret": "zz"}),
    json.dumps({"format": "assaymark seal 1", "secret": "ab" * 32, "public_fraction": 2}),
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("read", [read_commitment, read_secret])
def test_hostile_files_are_refused(tmp_path: Path, text: str, read: Callable[[Path], Any]) -> None:
    """Whatever a file holds, reading it ends in an error of ours that names it."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"x\.json"):
        read(path)


def test_a_line_of_opened_rows_is_named(tmp_path: Path) -> None:
    """A faulty line is named by its number."""
    path = tmp_path / "r.jsonl"
    good = next(open_rows(SECRET, ROWS)).to_line()
    path.write_text(good + '{"index": true, "salt": "", "row": 1}\n')
    with pytest.raises(DataError, match="line 2: expected index, salt and row"):
        list(read_opened(path))


def test_a_preview_grows_with_its_share_and_depends_on_the_key() -> None:
    """The share is met, a larger one has all rows of a smaller one, and another key draws others."""
    hashes = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(4000)]
    small = {row for row in hashes if is_in_preview("ab" * 32, row, 0.2)}
    large = {row for row in hashes if is_in_preview("ab" * 32, row, 0.5)}
    other = {row for row in hashes if is_in_preview("cd" * 32, row, 0.2)}
    assert small < large
    assert abs(len(small) / 4000 - 0.2) < 4 * (0.16 / 4000) ** 0.5
    assert abs(len(small & other) / 4000 - 0.04) < 4 * (0.04 * 0.96 / 4000) ** 0.5
    assert not any(is_in_preview("ab" * 32, row, 0.0) for row in hashes)
