"""Pages show no folder of this machine, no host name and no process id."""

import pytest

from assaymark.limits.shown_paths import without_folders


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
        ("postgresql://me:secret@db.example.org/runs", "the database"),
        ("base_url=http://localhost:8000/v1/completions", "base_url=http://localhost:8000/v1/completions"),
        ("pretrained=org/model,dtype=bfloat16", "pretrained=org/model,dtype=bfloat16"),
        ("/no_think and yes/no or 1/2", "/no_think and yes/no or 1/2"),
    ],
)
def test_only_the_last_part_of_paths(text: str, shown: str | None) -> None:
    """Paths lose their folders; names of models, URLs and plain text stay."""
    result = without_folders(text)
    assert shown is None or result == shown
    for part in ("/tmp", "/home", "secret", "Users", "/data", "with space", "my own"):
        assert part not in result


def test_parts_of_json_are_shortened() -> None:
    """Values and keys, at any depth."""
    assert without_folders({"files": {"/a/b/h": ["/a/b/h.csv", 3, None]}}) == {"files": {"h": ["h.csv", 3, None]}}


@pytest.mark.parametrize(
    "address",
    ["postgresql://board:secret@10.0.0.5:5432/runs", "postgresql+psycopg://db.internal/runs"],
)
def test_addresses_of_databases_are_left_out(address: str) -> None:
    """A database's address names a host inside the operator's network; nothing of it is shown."""
    result = without_folders(f"store {address} is read-only; check its permissions")
    assert result == "store the database is read-only; check its permissions"
