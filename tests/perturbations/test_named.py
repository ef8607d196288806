"""Perturbations are named, parsed and refused by name."""

import json
from pathlib import Path

import pytest

from assaymark.errors import AssaymarkError, UnknownName
from assaymark.perturbations.named import perturbation_from, perturbations_of

NAMES = "Adam,first_name,race,white_american,gender,male\nDarnell,first_name,race,black_american,gender,male\n"


def _labels(named: str) -> list[str]:
    return [each.label for each in perturbations_of(named)]


def test_groups_are_helms(tmp_path: Path) -> None:
    """A group is replaced by its members, in HELM's order, and lists may stand beside it."""
    words, names = tmp_path / "words.json", tmp_path / "names.txt"
    words.write_text('{"with": ["wit"]}')
    names.write_text(NAMES)
    assert _labels("robustness") == ["mild_mix"]
    assert _labels(f"fairness,dialect={words},person_name={names}") == ["dialect", "gender", "person_name"]
    assert _labels(f"robustness_all,synonym={words}")[-2:] == ["synonym", "typos"]
    assert _labels("typos, typos:0.05,typos:0.01,space:2") == ["typos", "typos:0.05", "space:2"]


def test_content_makes_the_same_texts_without_the_file(tmp_path: Path) -> None:
    """What a plan stores recreates a perturbation with its list."""
    words = tmp_path / "words.json"
    words.write_text('{"With": ["wit"]}')
    (own,) = perturbations_of(f"dialect={words}")
    words.unlink()
    again = perturbation_from(json.loads(json.dumps(own.content)))
    assert again == own
    assert again.texts("id0", ["is with him"], ["come With me"]) == (["is wit him"], ["come Wit me"])


@pytest.mark.parametrize(
    ("named", "part"),
    [
        ("", "perturbation ''"),
        ("typo", "nearest: typos"),
        ("contrast_sets", 'add contrast_sets=FILE (contrast_sets: lines such as {"id": 7'),
        ("fairness", "add dialect=FILE,person_name=FILE"),
        ("synonym", "add synonym=FILE"),
        ("typos:2", "a probability above 0, at most 1"),
        ("typos:nan", "a probability above 0, at most 1"),
        ("space:1.5", "a whole number from 1 to 100"),
        ("space:inf", "a whole number from 1 to 100"),
        ("mild_mix:0.2", "has none"),
        ("typos=words.json", "takes no list"),
        ("dialect=nowhere.json", "cannot be read"),
    ],
)
def test_bad_names_are_refused_in_one_line(named: str, part: str) -> None:
    """Each message names what was wrong and what was expected."""
    with pytest.raises(AssaymarkError) as raised:
        perturbations_of(named)
    assert part in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unknown_names_have_their_kind() -> None:
    """An unknown name is one."""
    with pytest.raises(UnknownName):
        perturbations_of("rot13")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dialect", "[]"),
        ("dialect", "{"),
        ("dialect", "{}"),
        ("dialect", '{"a": []}'),
        ("dialect", '{"a": "b"}'),
        ("dialect", '{"": ["b"]}'),
        ("dialect", "[" * 100_000),
        ("person_name", "Adam"),
        ("person_name", "Adam,first_name,race"),
        ("person_name", "Adam,first_name,race,white_american,gender,male"),
        ("person_name", NAMES.replace(",gender,male", "")),
        ("contrast_sets", ""),
        ("contrast_sets", "[]"),
        ("contrast_sets", '{"id": 1}'),
        ("contrast_sets", '{"id": -1, "row": {"a": 1}}'),
        ("contrast_sets", '{"id": true, "row": {"a": 1}}'),
        ("contrast_sets", '{"id": 1, "row": {}}'),
        ("contrast_sets", '{"where": {}, "row": {"a": 1}}'),
        ("contrast_sets", '{"id": 1, "where": {"a": 1}, "row": {"a": 1}}'),
        ("contrast_sets", '{"id": 1, "row": {"a": 1}}\n{'),
        ("synonym", '{"a": [' + '"b",' * 300_000 + '"b"]}'),
    ],
)
def test_lists_of_users_are_checked(tmp_path: Path, name: str, text: str) -> None:
    """A file that is not a list is refused before a run is stored, with its name and the expected form."""
    path = tmp_path / "list.txt"
    path.write_text(text)
    with pytest.raises(AssaymarkError, match="expected") as raised:
        perturbations_of(f"{name}={path}")
    assert "list.txt" in str(raised.value)
    assert len(str(raised.value)) < 400
