"""MT-bench: eighty questions of two turns, under either name of their column."""

from pathlib import Path
from typing import Any

from assaymark.records import GenerateQuery, Output
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.library.test_library import module


def test_both_spellings_of_its_rows() -> None:
    """The Hub's data set calls the turns `prompt`, FastChat's own file `turns`."""
    turns = module("mt_bench/questions").turns
    assert turns({"prompt": ["a", "b"], "category": "math"}) == turns({"turns": ["a", "b"]}) == ["a", "b"]


def test_each_question_has_a_second_turn(shared_dir: Path) -> None:
    """All 80 rows give a first request of one message and, once answered, a second of three; nothing follows."""
    task = Catalog.open(lm_eval=False).select(["mt_bench"]).tasks[0]
    bound = bind(task, BindOptions(data_dir=shared_dir / "data"))
    samples = {sample.index: sample for sample in bound.samples()}
    assert len(samples) == bound.plan.n_samples == 80
    assert bound.metrics == ()
    for request in bound.requests():
        sample = samples[request.sample_index]
        answer = Output(request.id, 0, text="An answer.")
        second = bound.next(request, sample, [answer])
        assert second is not None
        assert second.messages[:1] == request.messages
        assert [message.role for message in second.messages] == ["user", "assistant", "user"]
        assert [message.text for message in second.messages[1:]] == ["An answer.", sample.row["turns"][1]]
        assert second.queries == request.queries
        assert bound.next(second, sample, [answer]) is None
        assert bound.next(request, sample, []) is None


def test_temperatures_are_fastchats(shared_dir: Path) -> None:
    """Each kind of question is drawn as FastChat's common.py says, seeded; the plan keeps them, gen_kwargs win."""
    task = Catalog.open(lm_eval=False).select(["mt_bench"]).tasks[0]
    bound = bind(task, BindOptions(data_dir=shared_dir / "data"))
    kinds = {sample.index: sample.row["category"] for sample in bound.samples()}
    found = {}
    for request in bound.requests():
        (query,) = request.queries
        assert isinstance(query, GenerateQuery)
        found[kinds[request.sample_index]] = (query.settings.temperature, query.settings.do_sample, query.settings.seed)
    cold, warm = (0.0, False, 0), (0.7, True, 0)
    assert found == {
        "writing": warm, "roleplay": warm, "extraction": cold, "math": cold, "coding": cold, "reasoning": cold,
        "stem": (0.1, True, 0), "humanities": (0.1, True, 0),
    }  # fmt: skip
    generation: Any = bound.plan.generation
    assert generation["by"]["category"]["stem"]["temperature"] == 0.1
    greedy = bind(task, BindOptions(data_dir=shared_dir / "data", gen_kwargs={"do_sample": False}, limit=1))
    (query,) = next(iter(greedy.requests())).queries
    assert isinstance(query, GenerateQuery)
    assert not query.settings.do_sample
