"""Functions that task files name by dotted path into our package: only our library may."""

from pathlib import Path

import pytest

from assaymark.datasets import DatasetSpec
from assaymark.datasets.load import load_dataset
from assaymark.errors import UsageError
from assaymark.scoring.instructions.ifeval import agg_inst_level_acc, process_results
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.functions import load_function, loader_of
from assaymark.tasks.task import FunctionRef
from tests.conftest import ROOT

IFEVAL = FunctionRef("assaymark.scoring.instructions.ifeval.process_results", None)


def test_the_library_may_name_our_scoring() -> None:
    """A task of the library gets the function; its file is part of the task's hash."""
    (task,) = Catalog.open(lm_eval=False).select(["ifeval"]).tasks
    assert loader_of(task)(task.process_results) is process_results
    for path in ("assaymark.store.remove.remove_run", "assaymark.settings.read", "subprocess.run"):
        with pytest.raises(UsageError, match="names an installed module"):
            load_function(FunctionRef(path, None), task.trusted)


def test_a_users_file_may_not(tmp_path: Path) -> None:
    """The same name in a user's file is refused, like all code outside trusted folders."""
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: json\ntest_split: test\ndoc_to_text: prompt\ndoc_to_target: prompt\n"
        f"process_results: !function {IFEVAL.path}\n"
    )
    (task,) = Catalog.open([tmp_path], lm_eval=False).select(["mine"]).tasks
    assert task.process_results == IFEVAL
    with pytest.raises(UsageError, match="names an installed module"):
        loader_of(task)(task.process_results)


def test_per_instruction_scores_weight_every_instruction_equally() -> None:
    """Three of four instructions followed in two prompts are 0.75, whatever the prompts' means."""
    row = {
        "prompt": "Write in small letters, without commas.",
        "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
        "kwargs": [{}, {}],
    }
    result = process_results(row, ["no, this is wrong, but in small letters and in the english language"])
    assert result["prompt_level_strict_acc"] is False
    assert result["inst_level_strict_acc"] == [False, True]
    assert agg_inst_level_acc([result["inst_level_strict_acc"], [True], [True]]) == 0.75


def test_rows_serve_under_both_names(shared_dir: Path) -> None:
    """The leaderboard's copy of IFEval is read from google/IFEval where only that is present, and the reverse."""
    data = shared_dir / "data"
    both = [load_dataset(DatasetSpec(name), data) for name in ("google/IFEval", "wis-k/instruction-following-eval")]
    assert [len(each.splits["train"]) for each in both] == [541, 541]
    assert both[0].content_hash == both[1].content_hash
    fixture = load_dataset(DatasetSpec("google/IFEval"), ROOT / "tests" / "fixtures" / "data")
    assert len(fixture.splits["train"]) == 20
