"""A sample's scores equal those of lm-eval's own scoring of the same answers, metric by metric."""

import random
from pathlib import Path
from typing import Any, SupportsFloat

import pytest

from assaymark.records import GenerateQuery, Output, Request, Score
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks import oracle

pytestmark = pytest.mark.slow  # lm-eval itself scores real rows beside ours

pytest.importorskip("lm_eval")

TASKS = (
    "arc_challenge",
    "hellaswag",
    "mmlu_anatomy",
    "truthfulqa_mc1",
    "truthfulqa_mc2",
    "winogrande",
    "piqa",
    "sciq",
    "lambada_openai",
    "wikitext",
    "agieval_aqua_rat",
    "leaderboard_bbh_date_understanding",
    "gsm8k",
)
N_SAMPLES = 30


def answers(request: Request, generator: random.Random) -> list[Output]:
    """Return random outputs for a request; generated answers are right about half of the time."""
    outputs = []
    for query in request.queries:
        if isinstance(query, GenerateQuery):
            text = generator.choice([request.target, "#### 18", "The answer is 4.", "", f"so {request.target}."])
            outputs.append(Output(request.id, query.index, text=text))
        else:
            nats = -20 * generator.random()
            outputs.append(Output(request.id, query.index, total_nats=nats, is_greedy=generator.random() < 0.3))
    return outputs


def fill(instances: list[Any], outputs: list[Output], output_type: str) -> None:
    """Give lm-eval's instances of one sample the same answers."""
    for instance in instances:
        for output in outputs:
            if output.ask_index == instance.idx:
                pair = (output.total_nats, output.is_greedy)
                rolling = output_type == "loglikelihood_rolling"
                instance.resps = [output.text if output.text is not None else output.total_nats if rolling else pair]


def same(theirs: Any, ours: Score) -> bool:
    """Return whether lm-eval's value is our value, or our parts."""
    if isinstance(theirs, (tuple, list)):
        assert ours.parts is not None
        parts = [float(x) for x in ours.parts if isinstance(x, SupportsFloat)]
        assert len(parts) == len(ours.parts)
        return [float(x) for x in theirs] == pytest.approx(parts, abs=1e-12)
    return ours.value == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("name", TASKS)
def test_scores_equal(name: str, shared_dir: Path, lm_files: Catalog) -> None:
    """Thirty samples with random answers: every metric under every filter has lm-eval's value."""
    (task,) = lm_files.select([f"lm-eval:{name}"]).tasks
    theirs = oracle.make_task(task.source, shared_dir / "data")
    oracle.prompts_of(theirs, 0, N_SAMPLES)
    instances: dict[int, list[Any]] = {}
    for instance in theirs.instances:
        instances.setdefault(instance.doc_id, []).append(instance)
    bound = bind(task, BindOptions(num_fewshot=0, limit=N_SAMPLES, data_dir=shared_dir / "data"))
    generator = random.Random(5)
    requested = [(sample, bound.request(sample)) for sample in bound.samples()]
    outputs = [answers(request, generator) for _, request in requested]
    for (sample, _), entry in zip(requested, outputs, strict=True):
        fill(instances[sample.index], entry, task.output_type)
    theirs.apply_filters()
    docs = theirs.eval_docs
    n_compared = 0
    for (sample, request), entry in zip(requested, outputs, strict=True):
        mine = {(score.metric, score.filter): score for score in bound.score(request, sample, entry)}
        for pipeline in instances[sample.index][0].filtered_resps:
            results = [instance.filtered_resps[pipeline] for instance in instances[sample.index]]
            for metric, value in theirs.process_results(docs[sample.index], results).items():
                assert same(value, mine[metric, pipeline]), (sample.index, metric, pipeline)
                n_compared += 1
    assert n_compared >= N_SAMPLES
