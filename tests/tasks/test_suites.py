"""Suites: reading files, selecting members at their shots, missing members; arithmetic against published tables."""

import csv
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from assaymark.errors import DataError, PlanError, UnknownName, UsageError
from assaymark.statistics.board_scores import Part
from assaymark.tasks.catalog import LIBRARY, Catalog
from assaymark.tasks.suite_scores import MemberScore, column_parts, combine_columns, score_suite
from assaymark.tasks.suites import Suite, suite_from
from assaymark.tasks.yaml_files import read_suite
from tests.tasks.folders import task_spec, write_task


def own_suite(**changes: Any) -> dict[str, Any]:
    """Return the mapping of a suite of two tasks."""
    return {
        "name": "board",
        "members": [
            {"task": "sums", "shots": 2, "metric": "acc", "chance": "1/2", "column": "A"},
            {"task": "letters", "shots": 0, "metric": "acc_norm", "chance": 0.25, "column": "B"},
        ],
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tasks and a suite of them."""
    root = tmp_path / "mine"
    write_task(root, task_spec("sums"))
    write_task(root, task_spec("letters"))
    (root / "suites").mkdir()
    (root / "suites" / "board.yaml").write_text(yaml.safe_dump(own_suite(aliases=["the-board"])))
    return root


def library_suite(name: str) -> Suite:
    """Return a suite of the library."""
    return read_suite(LIBRARY / "suites" / f"{name}.yaml")


# ---------------------------------------------------------------------------------------- files


def test_a_changed_file_is_read_again(folder: Path) -> None:
    """The suite's own file, and one that it includes; a file that is as it was is the same suite."""
    path, common = folder / "suites" / "board.yaml", folder / "suites" / "common.inc"
    assert read_suite(path) is read_suite(path)
    path.write_text(yaml.safe_dump(own_suite(title="Another")))
    assert read_suite(path).title == "Another"
    common.write_text(yaml.safe_dump(own_suite(title="Included")))
    path.write_text("include: common.inc\n")
    assert read_suite(path).title == "Included"
    common.write_text(yaml.safe_dump(own_suite(title="Changed")))
    assert read_suite(path).title == "Changed"


def test_fractions_are_exact() -> None:
    """A chance such as 1/3 is the nearest float, not 0.333."""
    chances = [member.chance for member in library_suite("open-llm-v2").members if member.column == "MuSR"]
    assert chances == [1 / 2, 1 / 5, 1 / 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": []}, "at least one of `members`"),
        ({"members": 3}, "members is 3; expected a list"),
        ({"missing": "drop"}, "expected refuse: the composite needs all members"),
        ({"normalise": "percent"}, "normalise is 'percent'; expected one of none, chance, minmax"),
        ({"aggregate": "median"}, "expected one of mean, weighted, winrate, geometric"),
        ({"clip": "maybe"}, "clip is 'maybe'; expected true or false"),
        ({"at_most": 0.5}, "at_most is 0.5; expected a whole number"),
        ({"reproduced": 1}, "reproduced is 1; expected true or false"),
        ({"agregate": "mean"}, "unknown key 'agregate'"),
        ({"members": [{"task": "sums"}]}, "expected `task` and `metric`"),
        (
            {"members": [{"task": "sums", "metric": "acc", "chance": "2/1"}]},
            "chance is '2/1'; expected a number from 0",
        ),
        ({"members": [{"task": "sums", "metric": "acc", "shots": -1}]}, "shots is -1; expected 0 or more"),
        ({"members": [{"task": "sums", "metric": "acc", "range": [1, 1]}]}, "expected .lowest, highest."),
        ({"members": [{"task": "sums", "metric": "acc", "weight": 0}]}, "weight is 0; expected more than 0"),
        ({"members": [{"task": "sums", "metric": "acc"}], "normalise": "chance"}, "sums names no `chance`"),
        ({"aggregate": "weighted"}, "expected `column_weights` with A, B"),
        ({"aggregate": "weighted", "column_weights": {"A": 1}}, "expected more than 0 for each of"),
    ],
)
def test_faults_of_a_file_are_named(changes: Mapping[str, Any], message: str) -> None:
    """A suite file with a fault is refused with the key, the value and what was expected."""
    with pytest.raises(DataError, match=message):
        suite_from(own_suite(**changes))


# ------------------------------------------------------------------------------------- selecting


def test_a_suite_is_selected_by_name_alias_prefix_and_path(folder: Path) -> None:
    """Its name, an alias, the prefix `suite:` and its file all select the same tasks at the same shots."""
    catalog = Catalog.open([folder], lm_eval=False)
    for name in ("board", "the-board", "suite:board", str(folder / "suites" / "board.yaml")):
        selection = catalog.select([name])
        assert [task.name for task in selection.tasks] == ["sums", "letters"]
        assert selection.shots == (("sums", 2), ("letters", 0))
        (chosen,) = selection.suites
        assert (chosen.suite.name, chosen.leaves, chosen.missing) == ("board", (("sums",), ("letters",)), ())


def test_the_suites_of_the_library_are_selected() -> None:
    """open-llm-v1 and its alias: 62 tasks, ARC at 25 shots, MMLU's 57 subjects at 5, TruthfulQA at 0."""
    catalog = Catalog.open(lm_eval=False)
    for name in ("open-llm-v1", "open-llm-leaderboard", "open_llm_leaderboard"):
        selection = catalog.select([name])
        shots = dict(selection.shots)
        assert len(selection.tasks) == len(shots) == 62
        assert [shots[t] for t in ("arc_challenge", "hellaswag", "mmlu_virology", "gsm8k_2023")] == [25, 10, 5, 5]
        assert len(selection.suites[0].leaves[2]) == 57
    assert len(catalog.select(["nous"]).tasks) == 34
    assert len(catalog.select(["gpt4all"]).tasks) == 7


def test_a_group_of_a_suites_name_comes_first_in_tasks() -> None:
    """`--tasks bbh` is the group; `--suite bbh` (suite:bbh) is the suite."""
    catalog = Catalog.open(lm_eval=False)
    assert not catalog.select(["bbh"]).suites
    assert catalog.select(["suite:bbh"]).suites[0].suite.name == "bbh"


def test_suites_are_listed_with_what_is_not_reproduced(folder: Path) -> None:
    """Every suite is an entry of the kind suite; one that is not reproduced has a reason."""
    entries = {e.name: e for e in Catalog.open([folder], lm_eval=False).entries() if e.kind == "suite"}
    assert {"open-llm-v1", "open-llm-v2", "nous", "gpt4all", "agieval", "bbh", "mmlu-pro", "board"} <= set(entries)
    assert entries["open-llm-v1"].reason is None
    assert "not reproduced: what stood between MBPP's three examples" in (entries["code"].reason or "")
    assert "not reproduced: its prompts are not shown to equal the board's" in (entries["board"].reason or "")
    assert (entries["open-llm-v1"].n_tasks, entries["board"].origin) == (6, "user")


def test_missing_members_are_refused_with_a_list(folder: Path) -> None:
    """A member that does not exist is an error that names it; `partial` omits it and records what is missing."""
    members = [*own_suite()["members"], {"task": "absent", "metric": "acc", "chance": 0, "column": "C"}]
    (folder / "suites" / "board.yaml").write_text(yaml.safe_dump(own_suite(members=members)))
    catalog = Catalog.open([folder], lm_eval=False)
    with pytest.raises(PlanError, match=r"1 of its tasks cannot be evaluated(.|\n)*absent: unknown task"):
        catalog.select(["board"])
    (chosen,) = catalog.select(["board"], partial=True).suites
    assert [name for name, _ in chosen.missing] == ["absent"]
    entry = next(e for e in catalog.entries() if e.name == "board" and e.kind == "suite")
    assert not entry.runnable_here
    assert "absent" in (entry.reason or "")


def test_one_task_at_two_numbers_of_shots_is_refused() -> None:
    """Two suites with one task at different shots cannot be one run; an unknown suite's error names the nearest."""
    catalog = Catalog.open(lm_eval=False)
    with pytest.raises(UsageError, match="'hellaswag' is requested at 10 and at 0 shots"):
        catalog.select(["open-llm-v1", "gpt4all"])
    with pytest.raises(UnknownName, match="unknown suite 'open-llm-v3'; nearest: open-llm-v"):
        catalog.select(["suite:open-llm-v3"])


@pytest.mark.slow
def test_names_of_results_files_carry_their_shots() -> None:
    """`harness|hellaswag|10` is hellaswag at 10 shots, with colons, subjects and all."""
    catalog = Catalog.open(lm_eval=False)
    assert catalog.select(["harness|hellaswag|10"]).shots == (("hellaswag", 10),)
    assert catalog.select(["harness|arc:challenge|25"]).shots == (("arc_challenge", 25),)
    assert catalog.select(["harness|truthfulqa:mc|0"]).shots == (("truthfulqa_mc2", 0),)
    assert catalog.select(["harness|hendrycksTest-anatomy|5"]).shots == (("mmlu_anatomy", 5),)
    subjects = catalog.select(["harness|hendrycksTest-*|5"])
    assert len(subjects.tasks) == 57
    assert set(dict(subjects.shots).values()) == {5}
    assert len(catalog.select(["hendrycksTest-high_school*"]).tasks) == 14


# ------------------------------------------------------------------------------------ arithmetic


def scores(suite: Suite, values: Mapping[str, float]) -> list[MemberScore | None]:
    """Return scores by task, without samples; a task without a value is missing."""
    return [
        MemberScore(Part(values[m.task]), m.chance if isinstance(m.chance, float) else None)
        if m.task in values
        else None
        for m in suite.members
    ]


def test_the_aggregates_by_hand() -> None:
    """Two columns of 0.75 and 0.5, combined by each aggregate."""
    values = {"sums": 0.75, "letters": 0.5}
    for changes, expected in (
        ({}, 0.625),
        ({"normalise": "chance"}, (0.5 + 1 / 3) / 2),
        ({"normalise": "minmax"}, 0.625),
        ({"aggregate": "weighted", "column_weights": {"A": 3, "B": 1}}, (3 * 0.75 + 0.5) / 4),
        ({"aggregate": "geometric"}, (0.75 * 0.5) ** 0.5),
    ):
        suite = suite_from(own_suite(**changes))
        result = score_suite(suite, scores(suite, values)).value
        assert result is not None
        assert result.value == pytest.approx(expected)
    rates = suite_from(own_suite(aggregate="winrate"))
    why = score_suite(rates, scores(rates, values)).why
    assert why == "a win rate is among several runs: assaymark compare RUN RUN"


def test_minmax_uses_the_members_range() -> None:
    """A grade of 7 on a scale from 1 to 10 is two thirds."""
    suite = suite_from(
        {"name": "b", "normalise": "minmax", "members": [{"task": "t", "metric": "m", "range": [1, 10]}]}
    )
    result = score_suite(suite, [MemberScore(Part(7.0))]).value
    assert result is not None
    assert result.value == pytest.approx(2 / 3)


def test_clipping_is_per_member_before_columns() -> None:
    """v2: a subtask below chance counts as 0 and does not lower its column further; unclipped it does."""
    suite = library_suite("open-llm-v2")
    values = {m.task: 0.5 for m in suite.members} | {"leaderboard_bbh_snarks_2024": 0.1}
    whole = score_suite(suite, scores(suite, values))
    columns = dict(whole.columns)
    bbh = [m for m in suite.members if m.column == "BBH"]
    gains = [max(0.0, (values[m.task] - float(m.chance or 0)) / (1 - float(m.chance or 0))) for m in bbh]
    assert columns["BBH"].value == pytest.approx(sum(gains) / 24)
    assert whole.value is not None
    assert whole.unclipped is not None
    assert whole.value.value - whole.unclipped.value == pytest.approx(0.8 / 24 / 6)


def test_a_missing_member_leaves_the_composite_undefined() -> None:
    """The composite is None with a reason, never an average over the others; complete columns are still shown."""
    suite = library_suite("nous")
    values = {m.task: 0.5 for m in suite.members if m.task != "boolq"}
    whole = score_suite(suite, scores(suite, values))
    assert (whole.value, whole.why) == (None, "no score of boolq")
    assert [name for name, _ in whole.columns] == ["AGIEval", "TruthfulQA", "Bigbench"]
    with pytest.raises(DataError, match="the columns GPT4All are missing"):
        combine_columns(suite, column_parts(suite, scores(suite, values), clip=False))


def test_nous_is_the_mean_of_four_columns() -> None:
    """Not of 34 tasks: each column has the same weight, however many tasks it has."""
    suite = library_suite("nous")
    generator = random.Random(0)
    values = {m.task: generator.random() for m in suite.members}
    columns = {c: [values[m.task] for m in suite.members if m.column == c] for c in suite.columns}
    assert {c: len(v) for c, v in columns.items()} == {"AGIEval": 8, "GPT4All": 7, "TruthfulQA": 1, "Bigbench": 18}
    result = score_suite(suite, scores(suite, values)).value
    assert result is not None
    assert result.value == pytest.approx(sum(sum(v) / len(v) for v in columns.values()) / 4)


def test_gauntlet_rules_can_be_written_in_a_file() -> None:
    """Chance-corrected, not clipped, averaged by category, categories averaged: Gauntlet v0.3's rules, by hand."""
    suite = suite_from(
        {
            "name": "gauntlet",
            "normalise": "chance",
            "members": [
                {"task": "arc_easy", "metric": "acc", "chance": 0.25, "column": "world knowledge"},
                {"task": "jeopardy", "metric": "acc", "chance": 0, "column": "world knowledge"},
                {"task": "copa", "metric": "acc", "chance": 0.5, "column": "commonsense reasoning"},
            ],
        }
    )
    result = score_suite(suite, scores(suite, {"arc_easy": 0.7, "jeopardy": 0.4, "copa": 0.45})).value
    assert result is not None
    assert result.value == pytest.approx(((0.45 / 0.75 + 0.4) / 2 + (0.45 - 0.5) / 0.5) / 2)


# ------------------------------------------------------------------------------- published tables


def table(shared_dir: Path, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a published table."""
    path = shared_dir / "data" / "arena" / "openllm" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


V1 = {"ARC": "arc", "HellaSwag": "hellaswag", "MMLU": "mmlu", "TruthfulQA": "truthfulqa", "Winogrande": "winogrande",
      "GSM8K": "gsm8k"}  # fmt: skip
V2 = {"IFEval": "ifeval", "BBH": "bbh", "MATH Lvl 5": "math", "GPQA": "gpqa", "MuSR": "musr", "MMLU-PRO": "mmlu_pro"}
ALONE = ("IFEval", "MATH Lvl 5", "GPQA", "MMLU-PRO")  # one member each: the table has its raw score


def test_every_row_of_the_v1_table_is_reproduced(shared_dir: Path) -> None:
    """7,169 published averages follow from their six columns, within the rounding of what was published."""
    suite = library_suite("open-llm-v1")
    n, worst = 0, 0.0
    for row in table(shared_dir, "open_llm_v1_2024-07-13.csv"):
        members = [MemberScore(Part(float(row[V1[member.column]]) / 100)) for member in suite.members]
        result = score_suite(suite, members).value
        assert result is not None
        worst = max(worst, abs(100 * result.value - float(row["average"])))
        n += 1
    assert n == 7169
    assert worst < 0.01


@pytest.mark.parametrize(
    ("name", "count"), [("open_llm_v2_2025-03-21.csv", 4576), ("merged_v2_arena_2025-06-06.csv", 62)]
)
def test_every_row_of_the_v2_tables_is_reproduced(shared_dir: Path, name: str, count: int) -> None:
    """Four columns follow from their raw scores and the average from all six, to 1e-9; BBH and MuSR have subtasks."""
    suite = library_suite("open-llm-v2")
    n = 0
    for row in table(shared_dir, name):
        inputs: list[MemberScore | None] = [
            MemberScore(
                Part(float(row[f"evaluations_{V2[m.column]}_value"])), m.chance if isinstance(m.chance, float) else None
            )
            if m.column in ALONE
            else None
            for m in suite.members
        ]
        columns = column_parts(suite, inputs, clip=True)
        for column in ALONE:
            published = float(row[f"evaluations_{V2[column]}_normalized_score"])
            assert 100 * columns[column].value == pytest.approx(published, abs=1e-9), (row["model_name"], column)
        for column in ("BBH", "MuSR"):
            columns[column] = Part(float(row[f"evaluations_{V2[column]}_normalized_score"]) / 100)
        whole = combine_columns(suite, columns)
        assert whole is not None
        assert 100 * whole.value == pytest.approx(float(row["model_average_score"]), abs=1e-9), row["model_name"]
        n += 1
    assert n == count
