"""Recommendations from stored runs and published tables, against values computed here by other means."""

import csv
from math import erf, sqrt
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.evidence import OWN_RUNS, EvidenceTable, sources_of
from assaymark.leaderboard.guide import FILE, capabilities, capabilities_of_task, find_capability
from assaymark.leaderboard.published import board_of_table
from assaymark.leaderboard.recommend import ModelRanking, Requested, probability_better, recommend
from assaymark.leaderboard.rows import IntervalValue
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.limits.yaml_documents import load_yaml
from assaymark.store import Store
from assaymark.tasks.catalog import LIBRARY

TABLE = """model,params,license,gsm8k,MATH Lvl 5,IFEval,BoolQ
a/both,7,apache-2.0,60,40,80,50
b/chat,3,apache-2.0,50,30,90,50
c/mit,7,mit,90,90,90,50
d/large,70,apache-2.0,95,95,95,50
e/part,7,apache-2.0,99,,99,50
f/unknown,,apache-2.0,99,99,99,50
g/open,7,,99,99,99,50
"""


@pytest.fixture
def sources(tmp_path: Path) -> list[EvidenceTable]:
    """Return a published table with known sizes."""
    (tmp_path / "scores.csv").write_text(TABLE)
    (tmp_path / "board.yaml").write_text(
        "title: Known\ntable:\n  file: scores.csv\n  format: csv\n"
        "  columns: {GSM8K: gsm8k, MATH Lvl 5: MATH Lvl 5, IFEval: IFEval, BoolQ: BoolQ}\n"
        "  sizes: {GSM8K: 1319, MATH Lvl 5: 1324, IFEval: 541, BoolQ: 3270}\n"
    )
    return sources_of(Site([read_board(tmp_path / "board.yaml")]))


def only(sources: list[EvidenceTable], *names: str, max_params: float | None = None, licence: str = "") -> ModelRanking:
    """Return the one ranking."""
    (result,) = recommend(sources, Requested(names, max_params, licence)).rankings
    return result


def test_values_are_means_over_capabilities_of_means_over_benchmarks(sources: list[EvidenceTable]) -> None:
    """Two benchmarks of mathematics count half as much each as the one of instructions; errors add in squares."""
    result = only(sources, "maths", "instructions", max_params=8, licence="apache-2.0")
    assert {each.column: each.share for each in result.used} == {"gsm8k": 0.25, "math-lvl-5": 0.25, "ifeval": 0.5}
    assert [model.row.model for model in result.models] == ["a/both", "b/chat"]
    first, second = result.models
    assert first.value.value == pytest.approx((0.6 + 0.4) / 4 + 0.8 / 2, abs=1e-12)
    assert second.value.value == pytest.approx((0.5 + 0.3) / 4 + 0.9 / 2, abs=1e-12)
    shares = {"gsm8k": 0.25, "math-lvl-5": 0.25, "ifeval": 0.5}
    errors = [sqrt(sum((share * (item.cells[key].number.stderr or 0.0)) ** 2 for key, share in shares.items()))
              for item in (first, second)]  # fmt: skip
    assert first.value.stderr == pytest.approx(errors[0], rel=1e-12)
    p = 0.5 * (1.0 + erf(0.0 / sqrt(2.0)))  # both are 0.65
    assert first.better_than_next == pytest.approx(p, abs=1e-9)
    assert second.better_than_next is None
    assert "GSM8K 60.0" in first.reason
    assert "IFEval 80.0" in first.reason


def test_what_cannot_be_judged_is_counted_and_not_ranked(sources: list[EvidenceTable]) -> None:
    """A model without a benchmark, a size or a licence is left out with the reason; one too large silently."""
    result = only(sources, "maths", "instructions", max_params=8, licence="apache-2.0")
    assert result.n_ranked == 2
    assert result.excluded == {
        "number of parameters not stated": 1,
        "licence not stated": 1,
        "not evaluated on every benchmark used": 1,
    }


def test_the_best_of_each_size_is_named(sources: list[EvidenceTable]) -> None:
    """Classes are from the smallest to the largest, then those whose size is not stated."""
    result = only(sources, "instructions")
    assert [(each.title, each.best.row.model, each.n_models) for each in result.by_size] == [
        ("2 to 4 B", "b/chat", 1),
        ("4 to 9 B", "e/part", 4),
        ("45 to 70 B", "d/large", 1),
        ("size not stated", "f/unknown", 1),
    ]


def test_nothing_is_recommended_without_evidence(sources: list[EvidenceTable]) -> None:
    """What no benchmark measures is reported with the command that would give evidence, alone or beside others."""
    actual = recommend(sources, Requested(("code",)))
    assert actual.rankings == ()
    assert [each.demand.key for each in actual.no_evidence] == ["code"]
    assert actual.no_evidence[0].command.endswith("--tasks humaneval")
    both = recommend(sources, Requested(("code", "reading")))
    assert [item.column for item in both.rankings[0].used] == ["boolq"]
    assert [result.key for result in both.rankings[0].no_evidence] == ["code"]


@pytest.mark.parametrize(
    ("name", "key"),
    [("coding in Rust", "code"), ("rust", "code"), ("German", "languages"), ("translation in german", "languages"),
     ("RAG", "reading")],
)  # fmt: skip
def test_languages_stand_for_a_capability(sources: list[EvidenceTable], name: str, key: str) -> None:
    """Programming languages for code, others for languages; a benchmark of that name comes first."""
    assert [demand.key for demand in recommend(sources, Requested((name,))).demands] == [key]


def test_a_benchmark_can_be_requested_by_its_name(sources: list[EvidenceTable]) -> None:
    """A column's title stands for itself, whatever its case."""
    result = only(sources, "gsm8K")
    assert [each.column for each in result.used] == ["gsm8k"]
    assert result.models[0].row.model in {"e/part", "f/unknown", "g/open"}


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (("mathz",), UnknownName, "nearest: math"),
        (("cheap",), UsageError, "is a condition and no capability.*--max-params"),
        (("8 GB",), UsageError, "is a condition and no capability.*--max-params"),
        (("maths in german",), UnknownName, "unknown capability 'maths in german'"),
        ((), UsageError, "expected one to 8"),
        (tuple(f"x{n}" for n in range(9)), UsageError, "9 capabilities were requested"),
    ],
)
def test_each_fault_is_one_line(
    sources: list[EvidenceTable], names: tuple[str, ...], error: type[Exception], said: str
) -> None:
    """An unknown name is answered with the nearest; none, or too many, with what is expected."""
    with pytest.raises(error, match=said):
        recommend(sources, Requested(names))


def test_probabilities_follow_from_the_standard_errors() -> None:
    """A gap of 1.96 standard errors of the difference is 0.975; without errors there is no probability."""
    first, second = IntervalValue(0.5 + 1.959963984540054 * 0.05, stderr=0.03), IntervalValue(0.5, stderr=0.04)
    assert probability_better(first, second) == pytest.approx(0.975, abs=1e-9)
    assert probability_better(second, first) == pytest.approx(0.025, abs=1e-9)
    assert probability_better(IntervalValue(0.9), second) is None


def test_capabilities_follow_the_cards_domains() -> None:
    """Every domain that the map names is that of some card, and every suggested task measures its capability."""
    stated = {load_yaml(path.read_bytes()).get("domain") for path in LIBRARY.rglob("*.card.yaml")}
    for capability in capabilities().values():
        assert set(capability.domains) <= stated, capability.key
        assert not capability.suggested or capability.key in capabilities_of_task(capability.suggested), capability.key
    assert capabilities_of_task("gsm8k_cot") == ("maths",)
    assert capabilities_of_task("leaderboard_math_hard") == ("maths",)
    assert capabilities_of_task("anything_else") == ()
    result = find_capability("Common  Sense")
    assert result is not None
    assert result.key == "commonsense"
    for task in load_yaml(FILE.read_bytes())["columns"].values():
        assert capabilities_of_task(task), task


def test_stored_runs_are_evidence(tmp_path: Path) -> None:
    """Runs of several models are one table; a run with other shots has a column of its own."""
    place = str(tmp_path / "store.sqlite")
    for words in (["seed=1"], ["seed=2"], ["seed=1", "--num_fewshot", "2"]):
        tasks = "demo_who,demo_facts" if len(words) == 1 else "demo_who"
        assert main(["run", "--model", "fake", "--model_args", *words, "--tasks", tasks, "--limit", "40",
                     "--store", place]) == 0  # fmt: skip
    (source,) = sources_of(Site([], StoredRuns(Store.open_to_read(place))))
    assert source.name == OWN_RUNS
    assert [column.title for column in source.table.columns] == ["demo_who, 0-shot", "demo_who, 2-shot", "demo_facts"]
    result = only([source], "knowledge")
    runs = StoredRuns(Store.open_to_read(place)).runs()
    values = {run.model: estimate.value for run in runs for estimate in run.estimates
              if estimate.task == "demo_facts" and estimate.details.get("primary")}  # fmt: skip
    assert {model.row.model: model.value.value for model in result.models} == values
    assert len(values) == 2
    assert "on some samples only" in result.models[0].reason
    assert [each.column for each in only([source], "reasoning").used] == ["demo-who-0-shot"]


@pytest.mark.slow
def test_the_second_published_table_recommends_as_its_file_says(shared_dir: Path) -> None:
    """The order and the number of models equal those computed from the CSV file by plain Python."""
    file = shared_dir / "data" / "arena" / "openllm" / "open_llm_v2_2025-03-21.csv"
    if not file.is_file():
        pytest.skip(f"no {file}: published tables are not part of the repository")
    sources = sources_of(Site([board_of_table(file)]))
    result = only(sources, "maths", "instructions", max_params=8, licence="apache-2.0")
    best: dict[str, tuple[str, float]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            size = float(row["metadata_params_billions"] or 0)
            is_fit = 0 < size <= 8 and row["metadata_hub_license"] == "apache-2.0"
            usable = row["features_is_flagged"] == "FALSE" and row["features_is_not_available_on_hub"] == "TRUE"
            if is_fit and usable:
                value = (float(row["evaluations_math_normalized_score"])
                         + float(row["evaluations_ifeval_normalized_score"])) / 200  # fmt: skip
                date = row["metadata_submission_date"][:10]
                if date >= best.get(row["model_name"], ("", 0.0))[0]:
                    best[row["model_name"]] = (date, value)
    assert result.n_ranked == len(best)
    several = {row.model for row in sources[0].table.rows}
    assert len(several) < len(sources[0].table.rows)  # some models have several set-ups
    for each in result.models:
        if each.n_set_ups == 1:
            assert each.value.value == pytest.approx(best[each.row.model][1], abs=1e-12)
    values = [model.value.value for model in result.models]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(max(value for _, value in best.values()), abs=0.02)
