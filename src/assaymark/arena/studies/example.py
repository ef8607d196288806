"""An example of a study, written by `assaymark study init`."""

import json
from pathlib import Path

from assaymark.arena.studies.study_file import EXAMPLE
from assaymark.drafts import write_whole
from assaymark.errors import UsageError

__all__ = ["write_example"]

_ANSWERS = (
    ("How many piano tuners work in Chicago?", "Fermi", "About 100: 2.5 million people, one piano in 50 ...", "Seven."),
    ("Write a line about rain.", "writing", "Rain on the tin roof: a small drum for a large sky.", "Rain."),
    ("Would a cubic Moon change the tides?", "counterfactual", "Hardly: mass and distance decide.", "Yes, a lot."),
    ("What can I do with stale bread?", "generic", "Toast it, make crumbs, a pudding or a soup.", "Nothing."),
)  # fmt: skip


def write_example(folder: Path) -> Path:
    """Write `study.yaml` and `answers.jsonl`; return the former. Raises: UsageError if one of them exists."""
    study, answers = folder / "study.yaml", folder / "answers.jsonl"
    for path in (study, answers):
        if path.exists():
            raise UsageError(f"{path} exists; name a folder without it")
    rows = [
        {"instruction": prompt, "category": category, "generator": name, "output": text}
        for prompt, category, *texts in _ANSWERS
        for name, text in zip(("careful", "brief"), texts, strict=True)
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(answers, "".join(f"{json.dumps(row)}\n" for row in rows))
        write_whole(study, EXAMPLE)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error}; name another folder") from error
    return study
