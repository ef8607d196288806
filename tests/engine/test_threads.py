"""Several threads, engines, and generators of one engine: results equal those of each use alone."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import projections  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.generation import GeneratedSequence, GenerationPrompt  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanScore  # noqa: E402
from assaymark.engine.steps import forward_pass  # noqa: E402
from assaymark.runs.demo import demo_model  # noqa: E402
from tests.engine.test_architectures import GPT, OLD_SHAPE, SHAPE, branching, score_sequence, tiny_model  # noqa: E402

SPANS = branching()
SMALL_WINDOWS = EngineSettings(window_tokens=32, n_slots=3)


def prompts() -> list[GenerationPrompt]:
    """Return prompts of several lengths, each to be continued greedily by six tokens."""
    return [
        GenerationPrompt(np.arange(3 + i, 10 + 2 * i, dtype=np.int32), max_new_tokens=6, eos_ids=frozenset())
        for i in range(6)
    ]


def scored(engine: Engine) -> list[float]:
    """Return the spans' scores in order."""
    results = {r.index: r.total_nats for r in engine.score(SPANS) if isinstance(r, SpanScore)}
    return [results[i] for i in range(len(SPANS))]


def generated(engine: Engine) -> list[tuple[int, ...]]:
    """Return the prompts' continuations in order."""
    results = {r.index: r.tokens for r in engine.generate(prompts()) if isinstance(r, GeneratedSequence)}
    return [results[i] for i in range(len(prompts()))]


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Return what each of `works` returns, all started in threads at the same moment."""
    start = Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def two_engines() -> list[Engine]:
    """Return engines of two models with different depths and heads."""
    kinds = [("llama", SHAPE), ("gpt2", OLD_SHAPE | GPT)]
    return [Engine.load(tiny_model(kind, shape), settings=SMALL_WINDOWS) for kind, shape in kinds]


@pytest.mark.parametrize("work", [scored, generated])
def test_two_engines_in_two_threads(work: Callable[[Engine], list[Any]]) -> None:
    """Two engines that run in two threads at once give what each gives alone, five times in a row."""
    engines = two_engines()
    assert [engine.info.attention for engine in engines] == ["trie", "trie"]
    alone = [work(engine) for engine in engines]
    for _ in range(5):
        assert at_once(*(lambda engine=engine: work(engine) for engine in engines)) == alone


@pytest.mark.parametrize("path", ["trie", "plain"])
def test_one_engine_in_two_threads(path: Any) -> None:
    """One engine scores in one thread and generates in another, and both get what they get alone."""
    settings = EngineSettings(window_tokens=32, n_slots=3, attention=path)
    engine = Engine.load(tiny_model("llama", SHAPE), settings=settings)
    alone = [scored(engine), generated(engine)]
    for _ in range(3):
        assert at_once(lambda: scored(engine), lambda: generated(engine)) == alone


def test_two_engines_of_one_model_in_two_threads() -> None:
    """Two engines around the same loaded model, one on each path, do not disturb each other; the model is restored."""
    model = tiny_model("llama", SHAPE).train()
    paths = [EngineSettings(window_tokens=32, attention="trie"), EngineSettings(attention="plain")]
    engines = [Engine.load(model, settings=settings) for settings in paths]
    alone = [scored(engine) for engine in engines]
    assert at_once(*(lambda engine=engine: scored(engine) for engine in engines)) == alone
    assert model.training
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_generators_of_one_engine_may_be_interleaved() -> None:
    """Two scorings, a generation and plain passes of one engine, in turns, give what each gives alone."""
    model = tiny_model("llama", SHAPE)
    engine = Engine.load(model, settings=SMALL_WINDOWS)
    scores, texts = scored(engine), generated(engine)
    reference = score_sequence(model, SPANS.sequence(0), int(SPANS.n_scored[0]))
    results: dict[str, dict[int, Any]] = {"first": {}, "second": {}, "text": {}}
    uses = [engine.score(SPANS), engine.score(SPANS), engine.generate(prompts())]
    for first, second, text in itertools.zip_longest(*uses):
        assert score_sequence(model, SPANS.sequence(0), int(SPANS.n_scored[0])) == pytest.approx(reference)
        for name, result in (("first", first), ("second", second), ("text", text)):
            if result is not None:
                results[name][result.index] = getattr(result, "total_nats", getattr(result, "tokens", None))
    assert [results["first"][i] for i in range(len(SPANS))] == scores
    assert [results["second"][i] for i in range(len(SPANS))] == scores
    assert [results["text"][i] for i in range(len(texts))] == texts


@pytest.mark.slow
def test_models_loaded_in_threads_at_once_are_complete() -> None:
    """Models that are loaded in four threads at once, in two dtypes, have all their weights, each in its own dtype."""
    folder = str(demo_model("small"))
    dtypes: list[Any] = ["float32", "bfloat16", "float32", "bfloat16"]
    for _ in range(3):
        works = [lambda dtype=dtype: Engine.load(folder, settings=EngineSettings(dtype=dtype)) for dtype in dtypes]
        engines = at_once(*works)
        assert [engine.info.dtype for engine in engines] == dtypes
        assert torch.get_default_dtype() == torch.float32
        assert scored(engines[0]) == scored(engines[2])


def test_half_products_leave_other_threads_products_alone() -> None:
    """The process-wide rounding that speeds up products of halves is not set while another thread runs a model."""
    settings = torch.backends.mkldnn.matmul

    def precision_inside() -> tuple[bool, str]:
        with projections._multiplying_as_bfloat16() as is_set:
            return is_set, settings.fp32_precision

    before = settings.fp32_precision
    with ThreadPoolExecutor(1) as pool:
        with forward_pass(tiny_model("llama", SHAPE)):
            assert pool.submit(precision_inside).result() == (False, before)
            assert precision_inside() == (True, "bf16")
        assert pool.submit(precision_inside).result() == (True, "bf16")
    assert settings.fp32_precision == before
