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
import xxhash

from assaymark.records import LoglikelihoodQuery
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.profiles import find_profile
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.yaml_files import read_suite
from tests.library.test_with_own_reader import NOUS
from tests.tasks import golden
from tests.tasks.test_golden_prompts import FIXTURES, rows_of

BOARDS = {  # a file has a profile's tasks and its name, or names the profile of its suite
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((golden.FOLDER / "boards").glob("*.json"))
}
SUITES = Path(__file__).resolve().parents[2] / "src" / "assaymark" / "library" / "suites"


def asked(catalog: Catalog, name: str, profile: str, kept: dict[str, Any], shared_dir: Path) -> list[golden.Requests]:
    """Return our requests for a task's first samples under a leaderboard's rules."""
    (task,) = catalog.select([f"assaymark:{name}"]).tasks
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


@pytest.mark.slow
def test_only_suites_with_verified_prompts_are_reproduced() -> None:
    """A suite is `reproduced` if and only if its tasks are all in its profile's golden file, at the suite's shots."""
    catalog = Catalog.open(lm_eval=False)
    for path in SUITES.glob("*.yaml"):
        suite = read_suite(path)
        selection = catalog.select([f"suite:{suite.name}"], partial=True)  # a member that is missing has no prompts
        results = {
            name: kept["shots"]
            for board, held in BOARDS.items()
            if profile_of(board) == suite.profile
            for name, kept in held["tasks"].items()
        }
        if suite.profile == "nous":
            results |= {f"nous_bigbench_{name}": 0 for name in NOUS}
        shots = dict(selection.shots)
        own = {task.name: shots.get(task.name, task.num_fewshot or 0) for task in selection.tasks}
        is_whole = not any(chosen.missing for chosen in selection.suites)
        assert suite.reproduced == (is_whole and own.items() <= results.items()), suite.name


HASHES = {  # task: shots and `hash_full_prompts`, as the first leaderboard's results files have them in `summary_tasks`
    "arc_challenge": (25, "045cbb916e5145c6"),
    "mmlu_abstract_algebra": (5, "2f776a367d23aea2"),
    "mmlu_anatomy": (5, "516f74bef25df620"),
    "mmlu_astronomy": (5, "faf4e80f65de93ca"),
    "truthfulqa_mc2_2023": (0, "36a6d90e75d92d4a"),
    "winogrande": (5, "c8655cbd12de8409"),
    "gsm8k_2023": (5, "41d55e83abc0e02d"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HASHES)
def test_all_prompts_have_the_hash_that_the_leaderboard_published(
    name: str, shared_dir: Path, catalog: Catalog
) -> None:
    """XXH64 over the sorted hashes of all samples' prompts; of WinoGrande's two contexts, that of the right answer."""
    shots, published = HASHES[name]
    (task,) = catalog.select([f"assaymark:{name}"]).tasks
    options = BindOptions(num_fewshot=shots, data_dir=shared_dir / "data", profile=find_profile("open-llm-v1"))
    bound = bind(task, options)
    hashes = []
    for request, sample in zip(bound.requests(), bound.samples(), strict=True):
        query = request.queries[int(sample.row["answer"]) - 1 if name == "winogrande" else 0]
        own = query.segments if isinstance(query, LoglikelihoodQuery) else None
        hashes.append(xxhash.xxh64("".join(own or request.segments).encode()).hexdigest())
    assert xxhash.xxh64("".join(sorted(hashes)).encode()).hexdigest() == published


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
            assert (result := MBPP_FORM.fullmatch(example))
            assert result["code"].endswith("\n[DONE]")
        assert (result := MBPP_FORM.fullmatch(f"You are{question}"))
        assert result["code"] == ""
