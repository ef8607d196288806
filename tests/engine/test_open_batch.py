"""A batch that prompts join and leave between steps: each text is the one that the prompt gets alone."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.generate import next_logits  # noqa: E402
from assaymark.engine.generate_plain import generate_plain  # noqa: E402
from assaymark.engine.generation import GeneratedSequence, GenerationFailure, GenerationPrompt, Sampling  # noqa: E402
from assaymark.engine.open_batch import JoiningPrompt, OpenBatch, StepResult  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.prompt_logprobs import read_alone  # noqa: E402
from assaymark.errors import PlanError, PromptTooLong, ServerFailed  # noqa: E402
from tests.engine.test_generate import tiny  # noqa: E402

KINDS = ("llama", "gpt2", "mistral")


def engine_of(kind: str, n_slots: int = 4, attention: Literal["auto", "trie", "plain"] = "auto") -> Engine:
    """Return an engine of a tiny random model with few slots and small windows."""
    model = tiny(kind, **({"sliding_window": 12} if kind == "mistral" else {}))
    return Engine.load(model, settings=EngineSettings(n_slots=n_slots, window_tokens=32, attention=attention))


def prompts_of(n: int, seed: int = 0) -> list[GenerationPrompt]:
    """Return prompts of ragged lengths, some of which share a beginning, greedy and sampled."""
    draw = np.random.default_rng(seed)
    shared = draw.integers(2, 97, 20).astype(np.int32)
    results = []
    for index in range(n):
        own = draw.integers(2, 97, int(draw.integers(1, 40))).astype(np.int32)
        tokens = np.concatenate([shared, own]) if index % 3 == 0 else own
        sampling = Sampling(0.9, top_k=20) if index % 4 == 3 else None
        penalty = 1.3 if index % 5 == 4 else 1.0
        results.append(
            GenerationPrompt(
                tokens, int(draw.integers(1, 20)), frozenset({1}), sampling, seed=7, key=str(index),
                repetition_penalty=penalty,
            )
        )  # fmt: skip
    return results


def run(batch: OpenBatch, joining: Sequence[tuple[int, JoiningPrompt]]) -> tuple[dict[tuple[int, int], object], int]:
    """Let each prompt join at its step; return the results by key and repeat, and the number of steps."""
    waiting = sorted(joining, key=lambda pair: pair[0])
    results: dict[tuple[int, int], object] = {}
    step = 0
    while waiting or not batch.is_idle:
        while waiting and waiting[0][0] <= step:
            batch.add(waiting.pop(0)[1])
        for each in batch.step().finished:
            assert (each.index, each.repeat) not in results
            results[each.index, each.repeat] = each
        step += 1
    return results, step


@pytest.mark.parametrize("kind", KINDS)
def test_texts_equal_those_each_prompt_gets_alone(kind: str) -> None:
    """Prompts that join at different steps get the tokens that transformers' own `generate` gives each alone."""
    engine, prompts = engine_of(kind), prompts_of(24)
    assert engine.info.attention == "trie"
    with engine.open_batch() as batch:
        result, _ = run(batch, [(3 * i, JoiningPrompt(i, p)) for i, p in enumerate(prompts)])
    for index, prompt in enumerate(prompts):
        alone = generate_plain(engine._open().outer, prompt, index, 0, None)
        assert result[index, 0] == alone


def test_tokens_of_steps_are_the_results_tokens() -> None:
    """The tokens reported step by step, joined, are those of the results; every repeat is its own sequence."""
    engine = engine_of("llama")
    prompt = GenerationPrompt(
        np.arange(2, 30, dtype=np.int32), 12, sampling=Sampling(1.0), seed=3, repeats=(0, 1, 2, 5)
    )
    seen: dict[tuple[int, int], list[int]] = {}
    ended: dict[tuple[int, int], tuple[int, ...]] = {}
    with engine.open_batch() as batch:
        batch.add(JoiningPrompt(9, prompt))
        while not batch.is_idle:
            result = batch.step()
            for token in result.tokens:
                seen.setdefault((token.key, token.repeat), []).append(token.token)
            for each in result.finished:
                assert isinstance(each, GeneratedSequence)
                ended[each.index, each.repeat] = each.tokens
    assert {name: tuple(tokens) for name, tokens in seen.items()} == ended
    expected = {(9, r.repeat): r.tokens for r in engine.generate([prompt]) if isinstance(r, GeneratedSequence)}
    assert ended == expected


def test_cancelled_prompts_leave_and_others_are_unchanged() -> None:
    """A prompt cancelled while it waits, is processed or decodes yields nothing more; the others' texts stay."""
    engine, prompts = engine_of("llama", n_slots=3), prompts_of(12, seed=4)
    alone = {i: generate_plain(engine._open().outer, p, i, 0, None) for i, p in enumerate(prompts)}
    with engine.open_batch() as batch:
        for index, prompt in enumerate(prompts):
            batch.add(JoiningPrompt(index, prompt))
        results: dict[int, object] = {}
        cancelled: set[int] = set()
        for step, key in enumerate((11, 0, 5, 2, 7)):
            for item in batch.step().finished:
                results[item.index] = item
            if key not in results:
                batch.cancel(key)
                cancelled.add(key)
            del step
        while not batch.is_idle:
            result = batch.step()
            assert not {token.key for token in result.tokens} & cancelled
            results |= {each.index: each for each in result.finished}
    assert cancelled
    assert results == {index: entry for index, entry in alone.items() if index not in cancelled}


def test_longer_prompts_get_a_table_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt longer than the table's rows waits until it is empty; nobody's text changes, nobody starves."""
    monkeypatch.setattr("assaymark.engine.open_batch.FEWEST_ROWS", 24)
    engine, prompts = engine_of("llama"), prompts_of(16, seed=2)
    with engine.open_batch() as batch:
        result, _ = run(batch, [(i, JoiningPrompt(i, p)) for i, p in enumerate(prompts)])
    alone = {(i, 0): generate_plain(engine._open().outer, p, i, 0, None) for i, p in enumerate(prompts)}
    assert result == alone


def test_stop_ends_one_sequence() -> None:
    """The stop check is called with repeat and tokens, and ends that sequence alone."""
    engine = engine_of("llama")
    prompt = GenerationPrompt(np.arange(2, 12, dtype=np.int32), 10)
    with engine.open_batch() as batch:
        batch.add(JoiningPrompt(0, prompt, stop=lambda repeat, tokens: len(tokens) == 3))
        batch.add(JoiningPrompt(1, prompt))
        result, _ = run(batch, [])
    first, second = result[0, 0], result[1, 0]
    assert isinstance(first, GeneratedSequence)
    assert isinstance(second, GeneratedSequence)
    assert (first.finish_reason, len(first.tokens)) == ("stop", 3)
    assert second.tokens[:3] == first.tokens
    assert len(second.tokens) == 10


def test_logprobs_are_the_models_own() -> None:
    """Log-probabilities of generated tokens equal those of a plain pass over the text, whatever was sampled."""
    engine = engine_of("llama")
    prompt = GenerationPrompt(
        np.arange(2, 12, dtype=np.int32), 8, sampling=Sampling(2.0, top_k=30), seed=1, repetition_penalty=1.5
    )
    with engine.open_batch() as batch:
        batch.add(JoiningPrompt(0, prompt, n_top=4))
        tokens = []
        while not batch.is_idle:
            tokens += batch.step().tokens
    whole = np.concatenate([prompt.tokens, [each.token for each in tokens]])
    result = read_alone(engine._open().inner, whole, 4)
    for position, entry in enumerate(tokens, start=9):
        assert entry.logprob == pytest.approx(result.chosen[position], abs=1e-4)
        assert [token for token, _ in entry.top] == result.top_tokens[position].tolist()
        assert [value for _, value in entry.top] == pytest.approx(result.top_logprobs[position].tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_prompt_logprobs_together_equal_alone(kind: str) -> None:
    """Prompts read as one trie have the log-probabilities of a plain pass over each."""
    engine = engine_of(kind)
    prompts = [prompt.tokens for prompt in prompts_of(9, seed=5)]
    prompts.append(prompts[0])
    prompts.append(prompts[3][:1])
    with engine.open_batch() as batch:
        together = batch.prompt_logprobs(prompts, 3)
    for tokens, entry in zip(prompts, together, strict=True):
        alone = read_alone(engine._open().inner, tokens, 3)
        np.testing.assert_allclose(entry.chosen, alone.chosen, atol=1e-4)
        np.testing.assert_allclose(entry.top_logprobs, alone.top_logprobs, atol=1e-4)
        assert np.isnan(entry.chosen[-1])
        assert entry.chosen.shape == tokens.shape


def test_plain_path_answers_too() -> None:
    """A model on the plain path, or a setting that only transformers supports, is generated by transformers."""
    engine, prompts = engine_of("llama", attention="plain"), prompts_of(5)
    with engine.open_batch() as batch:
        result, _ = run(batch, [(i, JoiningPrompt(i, p, n_top=2)) for i, p in enumerate(prompts)])
        (lp,) = batch.prompt_logprobs([prompts[0].tokens], 2)
    alone = {(i, 0): generate_plain(engine._open().outer, p, i, 0, None) for i, p in enumerate(prompts)}
    assert result == alone
    np.testing.assert_allclose(lp.chosen, read_alone(engine._open().inner, prompts[0].tokens, 2).chosen, atol=1e-4)


def test_bad_prompts_are_refused_before_they_join() -> None:
    """A foreign token id and a prompt that is too long are refused; nothing waits afterwards."""
    engine = engine_of("llama")
    with engine.open_batch() as batch:
        with pytest.raises(PlanError, match="token ids"):
            batch.add(JoiningPrompt(0, GenerationPrompt(np.asarray([97], dtype=np.int32), 1)))
        with pytest.raises(PromptTooLong, match="256 positions"):
            batch.add(JoiningPrompt(0, GenerationPrompt(np.zeros(250, dtype=np.int32), 10)))
        assert batch.is_idle


def test_out_of_memory_fails_requests_and_the_batch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences in progress fail, never with a text; later prompts get theirs."""
    engine, prompts = engine_of("llama"), prompts_of(3)
    real, calls = next_logits, []

    def failing(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(*given)

    monkeypatch.setattr("assaymark.engine.open_batch.next_logits", failing)
    with engine.open_batch() as batch:
        long = GenerationPrompt(np.arange(2, 12, dtype=np.int32), 10)
        batch.add(JoiningPrompt(0, long))
        results: list[StepResult] = [batch.step() for _ in range(2)]
        (failed,) = results[-1].finished
        assert isinstance(failed, GenerationFailure)
        assert (failed.index, failed.kind) == (0, ServerFailed)
        assert batch.is_idle
        result, _ = run(batch, [(0, JoiningPrompt(1, prompts[0]))])
    assert result[1, 0] == generate_plain(engine._open().outer, prompts[0], 1, 0, None)
