"""The leaderboards' own prompts: the first hundred of each leaderboard's pinned harness, byte for byte.

The goldens were made by running the leaderboards' original code, or are inputs that their authors published (source
and commit are in each file), on the rows of `../shared/data`, or on fixture rows where those are absent; `rows`
records which. A sample's requests are compared in any order: one harness sent "yes" before "no".
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalstone.tasks.bind import bind
from evalstone.tasks.bound import BindOptions
from evalstone.tasks.catalog import Catalog
from evalstone.tasks.profiles import find_profile
from evalstone.tasks.suite_files import read_suite
from tests.library.test_with_own_reader import NOUS
from tests.tasks import golden
from tests.tasks.test_golden_prompts import FIXTURES, rows_of

BOARDS = {  # a file has a profile's tasks and its name, or names the profile of its suite
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((golden.FOLDER / "boards").glob("*.json"))
}
SUITES = Path(__file__).resolve().parents[2] / "src" / "evalstone" / "library" / "suites"


def asked(catalog: Catalog, name: str, profile: str, kept: dict[str, Any], shared_dir: Path) -> list[golden.Requests]:
    """Return our requests for a task's first samples under a leaderboard's rules."""
    (task,) = catalog.select([f"evalstone:{name}"]).tasks
    options = BindOptions(
        num_fewshot=kept["shots"],
        limit=golden.N_SAMPLES,
        data_dir=rows_of(kept, shared_dir),
        profile=find_profile(profile),
    )
    return [sorted(golden.queries_of(request), key=str) for request in bind(task, options).requests()]


def profile_of(board: str) -> str:
    """Return the profile under which a golden file's tasks are evaluated."""
    return str(BOARDS[board].get("profile", board))


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_prompts_equal_the_leaderboards(board: str, shared_dir: Path, catalog: Catalog) -> None:
    """Samples in the leaderboard's order, with its shots, choices and stop texts, equal those of its harness."""
    wrong, profile = [], profile_of(board)
    for name, kept in BOARDS[board]["tasks"].items():
        got = golden.digest(asked(catalog, name, profile, kept, shared_dir), short=True)
        if got != {key: kept[key] for key in got}:
            wrong.append(name)
    assert wrong == []


def test_only_suites_with_verified_prompts_are_reproduced() -> None:
    """A suite is `reproduced` if and only if its tasks are all in its profile's golden file, at the suite's shots."""
    catalog = Catalog.open(lm_eval=False)
    for path in SUITES.glob("*.yaml"):
        suite = read_suite(path)
        selection = catalog.select([f"suite:{suite.name}"])
        shown = {
            name: kept["shots"]
            for board, held in BOARDS.items()
            if profile_of(board) == suite.profile
            for name, kept in held["tasks"].items()
        }
        if suite.profile == "nous":
            shown |= {f"nous_bigbench_{name}": 0 for name in NOUS}
        shots = dict(selection.shots)
        own = {task.name: shots.get(task.name, task.num_fewshot or 0) for task in selection.tasks}
        assert suite.reproduced == (own.items() <= shown.items()), suite.name


MBPP_FORM = re.compile(  # google-research/google-research 30adf0ec, mbpp/README.md
    r"You are an expert Python programmer, and here is your task: [^\n]+ Your code should pass these tests:\n\n"
    r"(?:assert [^\n]+\n){3}\[BEGIN\]\n(?P<code>.*)",
    re.DOTALL,
)


def test_each_example_of_mbpp_has_its_authors_format(catalog: Catalog) -> None:
    """Three worked examples end in [DONE] and the question in [BEGIN]; the text between them is not published."""
    (task,) = catalog.select(["mbpp"]).tasks
    options = BindOptions(limit=3, data_dir=FIXTURES, profile=find_profile("lm-eval-0.4.13"))
    for request in bind(task, options).requests():
        *worked, question = "".join(request.segments).split("\n\nYou are")
        assert len(worked) == 3
        for example in (worked[0], *(f"You are{rest}" for rest in worked[1:])):
            assert (found := MBPP_FORM.fullmatch(example))
            assert found["code"].endswith("\n[DONE]")
        assert (found := MBPP_FORM.fullmatch(f"You are{question}"))
        assert found["code"] == ""
