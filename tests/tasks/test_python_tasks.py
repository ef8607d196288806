"""Tasks that are Python classes of lm-eval run through the adapter."""

from pathlib import Path

import pytest

from assaymark.errors import DataError, MissingExtra, PlanError
from assaymark.records import GenerateQuery, LoglikelihoodQuery, Output, ScoreStatus
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import Task

CODE = """
import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask


class Capitals(ConfigurableTask):
    VERSION = 2

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": 2}})

    def download(self, dataset_kwargs=None, **kwargs):
        rows = [{"q": f"Q{i}", "a": f"a{i}"} for i in range(5)]
        self.dataset = {"validation": datasets.Dataset.from_list(rows)}

    def has_training_docs(self):
        return False

    def has_validation_docs(self):
        return True

    def has_test_docs(self):
        return False

    def validation_docs(self):
        return self.dataset["validation"]

    def doc_to_text(self, doc, *_):
        return doc["q"] + ":"

    def doc_to_target(self, doc, *_):
        return doc["a"]

    def construct_requests(self, doc, ctx, **kwargs):
        kwargs.pop("apply_chat_template", None), kwargs.pop("chat_template", None)
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["\\n"]}), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " none"), idx=0, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (nats, _) = results
        return {"right": float(text == doc["a"]), "pair": (text, nats)}

    def aggregation(self):
        return {"right": mean, "pair": len}

    def higher_is_better(self):
        return {"right": True, "pair": False}
"""


def capitals(folder: Path, code: str = CODE) -> Task:
    """Return the task of a class in a file."""
    (folder / "task.py").write_text(code)
    (folder / "capitals.yaml").write_text("task: capitals\nclass: !function task.Capitals\n")
    return Catalog.open(lm_eval=False).select([str(folder / "capitals.yaml")]).tasks[0]


def test_a_class_is_evaluated_and_scored_through_the_adapter(tmp_path: Path) -> None:
    """Its instances become our queries, our outputs its results, its metrics ours."""
    pytest.importorskip("lm_eval")
    task = bind(capitals(tmp_path), BindOptions(limit=3))
    assert (task.n_original, task.plan.n_samples, task.plan.version) == (5, 3, "2")
    assert [(m.name, m.aggregation, m.higher_is_better) for m in task.metrics] == [
        ("right", "mean", True),
        ("pair", "len", False),
    ]
    requests = list(task.requests())
    assert [request.prompt for request in requests] == ["Q0:", "Q1:", "Q2:"]
    generation, likelihood = requests[1].queries
    assert isinstance(generation, GenerateQuery)
    assert generation.settings.stop == ("\n",)
    assert likelihood == LoglikelihoodQuery(1, " none")
    outputs = [
        Output(requests[1].id, 0, text="a1"),
        Output(requests[1].id, 1, total_nats=-2.0, is_greedy=False),
    ]
    scores = {score.metric: score for score in task.score(requests[1], task.samples()[1], outputs)}
    assert scores["right"].value == 1.0
    assert scores["pair"].parts == ("a1", -2.0)
    failed = task.score(requests[1], task.samples()[1], outputs[:1])
    assert all(score.status is ScoreStatus.FAILED for score in failed)


def test_without_lm_eval_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class cannot run without lm_eval."""
    task = capitals(tmp_path)
    monkeypatch.setattr("assaymark.tasks.python_tasks.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="lm-eval"):
        bind(task, BindOptions())


def test_a_class_that_is_no_task_is_named(tmp_path: Path) -> None:
    """The name of another class of the file is one line, not an internal error."""
    pytest.importorskip("lm_eval")
    with pytest.raises(DataError, match=r"capitals \(.*capitals.yaml\): its class Capitals is no task; expected a sub"):
        bind(capitals(tmp_path, "class Capitals:\n    pass\n"), BindOptions())


def test_a_class_that_fails_is_named(tmp_path: Path) -> None:
    """An error inside the class is converted to ours, with its name; unsupported requests are refused."""
    pytest.importorskip("lm_eval")
    with pytest.raises(DataError, match=r"class task\.Capitals of task capitals cannot be created: ValueError: broken"):
        bind(
            capitals(tmp_path, CODE.replace("rows = [", "raise ValueError('broken')\n        rows = [")), BindOptions()
        )
    other = tmp_path / "other"
    other.mkdir()
    strange = bind(capitals(other, CODE.replace('"loglikelihood"', '"conversation"')), BindOptions())
    with pytest.raises(PlanError, match="requests conversation, which is not supported"):
        next(strange.requests())


def test_a_class_has_no_known_shots_and_no_second_turn(tmp_path: Path) -> None:
    """What only the class knows is refused by name, and no turn follows its answers."""
    pytest.importorskip("lm_eval")
    task = bind(capitals(tmp_path), BindOptions(limit=1))
    (sample,) = task.samples()
    (request,) = task.requests()
    assert task.next(request, sample, []) is None
    assert (task.is_conversation, task.sandbox, task.shots_of(sample)) == (False, None, ())
    with pytest.raises(PlanError, match="row 0 of its pool of shots is unknown"):
        task.shot(0)
    with pytest.raises(PlanError, match="no prompts for other rows"):
        task.alone(sample)
