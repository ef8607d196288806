"""Files of the library, and fixture rows, that programs of this repository write are what those write now."""

from pathlib import Path

import pyarrow.parquet as pq
from tools import make_bbh, make_gauntlet, make_mmlu, make_mmmu, make_nous_bigbench

from tests.fixtures import make_rows
from tests.library.test_library import LIBRARY, TASKS, content


def test_mmlu_is_what_its_program_writes() -> None:
    """The 57 subjects' files and the groups are those of tools/make_mmlu.py."""
    for name, text in make_mmlu.files().items():
        assert (TASKS / "mmlu" / name).read_text(encoding="utf-8") == text, f"{name}: run tools/make_mmlu.py"


def test_bbh_is_what_its_program_writes(shared_dir: Path) -> None:
    """BIG-Bench Hard's files are those that tools/make_bbh.py makes of the authors' prompts."""
    for name, text in make_bbh.files(shared_dir / "data" / "SaylorTwift" / "bbh" / "_cot_prompts").items():
        assert (TASKS / "bbh" / name).read_text(encoding="utf-8") == text, f"{name}: run tools/make_bbh.py"


def test_the_nous_tasks_are_what_their_program_writes(shared_dir: Path) -> None:
    """The Nous suite's BIG-bench files are those that tools/make_nous_bigbench.py makes of the task files' headers."""
    headers = shared_dir / "data" / "google" / "bigbench_resources" / "task_headers.json"
    for name, text in make_nous_bigbench.files(headers).items():
        assert (TASKS / "nous_bigbench" / name).read_text(encoding="utf-8") == text


def test_the_gauntlet_is_what_its_program_writes() -> None:
    """The Gauntlet's tasks and its suite are those of tools/make_gauntlet.py: 31 benchmarks in five categories."""
    for place, text in make_gauntlet.files().items():
        assert (LIBRARY / place).read_text(encoding="utf-8") == text, f"{place}: run python -m tools.make_gauntlet"
    members = content(LIBRARY / "suites" / "gauntlet-v0.3.yaml")["members"]
    assert len(members) == 31
    assert len({member["column"] for member in members}) == 5


def test_fixtures_are_what_their_program_writes() -> None:
    """The fixture rows in the repository are those of make_rows, twenty in most splits."""
    for path, names in make_rows.files().items():
        stored = pq.read_table(make_rows.DATA / path)
        assert stored.num_rows == make_rows.n_rows(*names[:2])
        assert stored.equals(make_rows.table(*names)), f"{path}: run python -m tests.fixtures.make_rows"


def test_mmmu_is_what_its_program_makes() -> None:
    """The 30 subjects' files and the groups are those of tools/make_mmmu.py."""
    for name, text in make_mmmu.files().items():
        assert (TASKS / "mmmu" / name).read_text(encoding="utf-8") == text, f"{name}: run tools/make_mmmu.py"
    made = {name.rpartition("/")[2] for name in make_mmmu.files()}
    assert {path.name for path in (TASKS / "mmmu").rglob("mmmu_*.yaml")} == made | {"mmmu_val.card.yaml"}
