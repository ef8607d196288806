"""Each suite of the library, end to end, with real rows if available, else with the repository's fixture rows."""

from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import PlanError
from assaymark.models.fake import FakeModel
from assaymark.scoring.run_code import find_sandbox
from tests.applications.oracles.locked import needs_oracle, oracle_packages
from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # every suite is evaluated whole

BOARDS = {  # suite -> columns, tasks
    "agieval": (8, 8),
    "bbh": (23, 27),
    "bfcl": (5, 7),
    "bfcl_live": (3, 6),
    "bfcl_multi_turn": (4, 4),
    "bfcl_prompted": (5, 7),
    "bfcl_prompted_live": (3, 6),
    "bfcl_prompted_multi_turn": (4, 4),
    "code": (2, 2),
    "gauntlet-v0.3": (5, 91),
    "gpt4all": (7, 7),
    "mmlu-pro": (1, 14),
    "nous": (4, 34),
    "open-llm-v1": (6, 62),
    "open-llm-v2": (6, 39),
}
FIXTURES = ROOT / "tests" / "fixtures" / "data"


@pytest.fixture(scope="module")
def rows(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that links to every available data set, preferring the real ones."""
    made = tmp_path_factory.mktemp("rows")
    for root in (shared_dir / "data", FIXTURES):
        for dataset in (path for org in root.iterdir() if org.is_dir() for path in org.iterdir()):
            link = made / dataset.relative_to(root)
            link.parent.mkdir(exist_ok=True)
            if not link.exists():
                link.symlink_to(dataset)
    return made


PARTIAL = {"helm-lite": 7, "helm-capabilities": 2}  # suites whose other members have no rows here, and their tasks


@pytest.mark.parametrize("name", PARTIAL)
def test_a_suite_with_missing_members_runs_the_others(name: str, rows: Path) -> None:
    """The tasks that are there are evaluated, and there is no composite."""
    run = assaymark.evaluate(FakeModel(), suite=name, data_dir=rows, limit=1, partial=True)
    assert len(run.row.plan.tasks) == PARTIAL[name]
    assert run.estimate(name).value is None


def test_all_suites_are_tested() -> None:
    """A suite that is added to the library is run by these tests."""
    assert {path.stem for path in (ROOT / "src" / "assaymark" / "library" / "suites").glob("*.yaml")} == {
        *BOARDS,
        *PARTIAL,
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_oracle("bfcl")) if "multi_turn" in name else name for name in BOARDS]
)
def test_a_suite_gives_its_composite(name: str, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task is evaluated and scored; the columns are complete and the composite is a number."""
    if name == "code" and find_sandbox()[0] is None:
        pytest.skip(f"no sandbox for written programs: {find_sandbox()[1]}")
    if "multi_turn" in name:
        monkeypatch.syspath_prepend(oracle_packages("bfcl"))
    run = assaymark.evaluate(FakeModel(), suite=name, data_dir=rows, limit=1)
    result = run.estimate(name)
    assert result.value is not None, result.details["why"]
    assert (len(result.details["columns"]), len(run.row.plan.tasks)) == BOARDS[name]
    assert result.n_failed == 0


def test_the_gauntlet_refuses_missing_benchmarks(tmp_path: Path) -> None:
    """If benchmarks have no rows, the rest is not averaged: the run is refused, or has no composite."""
    for benchmark in (FIXTURES / "mosaicml" / "llm-foundry").iterdir():
        if benchmark.name != "mmlu":
            (tmp_path / "mosaicml" / "llm-foundry").mkdir(parents=True, exist_ok=True)
            (tmp_path / "mosaicml" / "llm-foundry" / benchmark.name).symlink_to(benchmark)
    options: dict[str, Any] = {"data_dir": tmp_path, "limit": 1}
    with pytest.raises(PlanError, match=r"57 of its tasks cannot be evaluated(.|\n)*mmlu_anatomy: "):
        assaymark.evaluate(FakeModel(), suite="gauntlet-v0.3", **options)
    result = assaymark.evaluate(FakeModel(), suite="gauntlet-v0.3", partial=True, **options).estimate("gauntlet-v0.3")
    assert (result.value, result.details["why"]) == (None, "no score of gauntlet_mmlu")
    assert "world knowledge" not in {column["name"] for column in result.details["columns"]}
