"""Perturbed texts equal those of HELM's own code (helm_texts.jsonl and helm_synonyms.jsonl, by write_helm_*.py)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.perturbations.named import Perturbation, perturbations_of
from tests.perturbations.write_helm_texts import contrasts, hash_of

HEAD, *ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "helm_texts.jsonl").read_text(encoding="utf-8").splitlines()
]

SYNONYM_HEAD, *SYNONYM_ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "helm_synonyms.jsonl").read_text(encoding="utf-8").splitlines()
]


def _named(label: str) -> Perturbation:
    changed = [
        json.dumps({"id": at, "row": {"question": text, "options": references}})
        for at, (_, question, options) in enumerate(HEAD["questions"])
        for text, references in contrasts(at, question, options)
    ]
    lists = {
        "dialect": json.dumps(HEAD["dialect"]),
        "person_name": "\n".join(HEAD["names"]),
        "contrast_sets": "\n".join(changed),
    }
    name, _, strength = label.partition(":")
    if name not in lists:
        return perturbations_of(label)[0]
    if name == "contrast_sets":
        return Perturbation(name, None, lists[name])
    return Perturbation(name, float(strength or 1.0), lists[name])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['label']}, seed {row['seed']}")
def test_texts_equal_helms(row: dict[str, Any]) -> None:
    """Question and options of 160 instances are HELM's, letter for letter."""
    perturbation = _named(row["label"])
    made = []
    for at, (sample_id, question, options) in enumerate(HEAD["questions"]):
        if perturbation.is_of_rows:
            own = {"question": question, "options": options}
            new = {**own, **(perturbation.row_of(sample_id, at, own, row["seed"]) or {})}
            made.append([new["question"], new["options"]])
            continue
        references, (text,) = perturbation.texts(sample_id, options, [question], row["seed"])
        made.append([text, references])
    assert made[: len(row["texts"])] == row["texts"]
    assert [hash_of(each) for each in made] == row["hashes"]


@pytest.mark.parametrize("row", SYNONYM_ROWS, ids=lambda row: f"{row['strength']}, seed {row['seed']}")
def test_synonyms_equal_helms(row: dict[str, Any]) -> None:
    """By the same list the texts of 160 instances are those of HELM's class with spaCy's tokens and parts of speech."""
    perturbation = Perturbation("synonym", row["strength"], json.dumps(SYNONYM_HEAD["synonyms"]))
    made = []
    for sample_id, question, options in HEAD["questions"]:
        references, (text,) = perturbation.texts(sample_id, options, [question], row["seed"])
        made.append([text, references])
    assert made[: len(row["texts"])] == row["texts"]
    assert [hash_of(each) for each in made] == row["hashes"]
    unchanged = [hash_of([question, options]) for _, question, options in HEAD["questions"]]
    n_changed = sum(a != b for a, b in zip(row["hashes"], unchanged, strict=True))
    assert n_changed > len(unchanged) / 5


def test_words_of_a_list_with_hyphens_are_replaced_whole() -> None:
    """A compound of the list is one word; others are replaced by their parts, and contractions as HELM divides them."""
    replacements = {"well-known": ["famed"], "don't": ["dont"], "known": ["seen"], "mother": ["mum"], "does": ["did"]}
    synonym = Perturbation("synonym", 1.0, json.dumps(replacements))
    _, (text,) = synonym.texts("id0", (), ["Well-known and half-known: my mother's boats don't, it doesn’t"], None)
    assert text == "Famed and half-seen: my mum's boats dont, it didn’t"


def test_every_rule_changes_some_texts_and_keeps_others() -> None:
    """The comparison has something to compare: each rule changes a fifth of the questions or more, and most not all."""
    unchanged = [hash_of([question, options]) for _, question, options in HEAD["questions"]]
    for row in ROWS:
        n_changed = sum(a != b for a, b in zip(row["hashes"], unchanged, strict=True))
        assert n_changed >= len(unchanged) / 5, row["label"]


def test_another_seed_or_id_makes_other_texts() -> None:
    """The generator is seeded by seed and id."""
    typos = replace(_named("typos"), strength=0.3)
    text = HEAD["questions"][0][1]
    made = {typos.texts(sample_id, (), [text], seed)[1][0] for sample_id in ("id0", "id1") for seed in (None, 1)}
    assert len(made) == 4
