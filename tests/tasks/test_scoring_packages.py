"""A missing package that scoring needs is an error before the model is loaded."""

import sys
from pathlib import Path

import pytest

from assaymark.errors import MissingExtra
from assaymark.models.fake import FakeModel
from assaymark.runs.plan import RunOptions, prepare
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.task import refuse_missing_packages
from tests.tasks.folders import task_spec, write_task


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("ifeval", "langdetect"),
        ("leaderboard_ifeval", "langdetect"),
        ("minerva_math_algebra", "math_verify"),
        ("leaderboard_math_algebra_hard", "math_verify"),
        ("truthfulqa_gen", "sacrebleu"),
        ("truthfulqa_gen", "rouge_score"),
    ],
)
def test_a_library_task_names_the_package_it_lacks(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task whose scoring needs a package is refused without it, with the install command."""
    monkeypatch.setitem(sys.modules, package, None)
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    with pytest.raises(MissingExtra, match=rf"{name} \(.*{package}\).*pip install '\.\[metrics\]'"):
        refuse_missing_packages(task)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_metric_is_refused_while_the_run_is_planned(
    metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's corpus metric without sacrebleu is refused during planning, so no answer is generated in vain."""
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    spec = task_spec(output_type="generate_until", doc_to_choice=..., metric_list=[{"metric": metric}])
    selection = Catalog.open(lm_eval=False).select([str(write_task(tmp_path, spec))])
    with pytest.raises(MissingExtra, match="sacrebleu"):
        prepare(selection, FakeModel(), RunOptions(BindOptions()))


def test_other_tasks_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task with other metrics runs without any of them."""
    for package in ("sacrebleu", "rouge_score", "math_verify", "langdetect"):
        monkeypatch.setitem(sys.modules, package, None)
    for task in Catalog.open(lm_eval=False).select(["demo_who", "gsm8k", "truthfulqa_mc1"]).tasks:
        refuse_missing_packages(task)
