"""Generation in slots: token for token what transformers generates for each sequence alone."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from assaymark.engine import sharing  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.generation import (  # noqa: E402
    GeneratedSequence,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
    Sampling,
)
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.errors import PlanError, PromptTooLong  # noqa: E402

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
NEAR_TIE = 1e-4  # difference of the reference's two best logits below which either token is correct
torch.set_num_threads(1)


def folder(name: str) -> str:
    """Return a shared model's folder, or skip."""
    if not (SHARED / name).is_dir():
        pytest.skip(f"no {SHARED / name}: real models are not part of the repository")
    return str(SHARED / name)


def tiny(kind: str, **options: Any) -> Any:
    """Return a random model of some architecture, with weights ten times the usual so that errors show."""
    shape = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 256, "initializer_range": 0.2,
        "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=32, n_head=4, n_layer=3, n_positions=256, vocab_size=97, initializer_range=0.2, bos_token_id=0,
            eos_token_id=1,
        )  # fmt: skip
    else:
        config = transformers.AutoConfig.for_model(kind, **{**shape, **options})
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).float().eval()


@cache
def engine_of(name: str, n_slots: int = 5, window: int = 64) -> Engine:
    """Return an engine with few slots and small windows, so that both run out."""
    return Engine.load(folder(name), settings=EngineSettings(dtype="float32", n_slots=n_slots, window_tokens=window))


@cache
def reference_of(name: str) -> Any:
    """Return the model as transformers loads it."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder(name), dtype=torch.float32).eval()


def prompts_for(vocab: int, longest: int, new: int, n: int = 14, **options: Any) -> list[GenerationPrompt]:
    """Return ragged prompts, every other one with a common prefix."""
    draw = np.random.default_rng(7)
    common = draw.integers(3, vocab, longest // 2)
    made = []
    for i in range(n):
        tokens = draw.integers(3, vocab, int(draw.integers(1, longest + 1))).astype(np.int32)
        if i % 2:
            tokens = np.concatenate([common, tokens])[:longest].astype(np.int32)
        made.append(GenerationPrompt(tokens, new, frozenset({1, 2}), key=str(i), **options))
    return made


def by_key(results: Sequence[Any]) -> dict[tuple[int, int], Any]:
    """Return results by prompt and repeat; each must occur once."""
    result = {(each.index, each.repeat): each for each in results}
    assert len(result) == len(results)
    return result


def written_alone(model: Any, prompt: GenerationPrompt) -> tuple[list[int], list[float]]:
    """Return what transformers generates for a prompt alone, and each token's lead over the next best."""
    ids = torch.as_tensor(prompt.tokens.astype(np.int64))[None]
    output = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=prompt.max_new_tokens, do_sample=False,
        eos_token_id=sorted(prompt.eos_ids), pad_token_id=0, repetition_penalty=prompt.repetition_penalty,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    leads = [float(two[0] - two[1]) for two in (scores[0].topk(2).values for scores in output.scores)]
    return output.sequences[0, ids.shape[1] :].tolist(), leads


def assert_as_alone(model: Any, prompts: Sequence[GenerationPrompt], results: Sequence[Any]) -> int:
    """Assert token-for-token equality up to near ties; return how many sequences diverged at one."""
    result = by_key(results)
    n_ties = 0
    for i, prompt in enumerate(prompts):
        expected, leads = written_alone(model, prompt)
        got = result[i, prompt.repeats[0]]
        assert isinstance(got, GeneratedSequence)
        if list(got.tokens) != expected:
            at = next(k for k, (a, b) in enumerate(zip(got.tokens, expected, strict=False)) if a != b)
            assert leads[at] < NEAR_TIE, f"prompt {i} differs at token {at}, where the lead was {leads[at]}"
            n_ties += 1
        else:
            last_is_end = got.tokens[-1] in prompt.eos_ids
            assert got.finish_reason == ("eos" if last_is_end else "length")
    return n_ties


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "longest", "new"), [("stories260K", 150, 40), ("bitllama-1.2m", 90, 20), ("craftgpt-5m", 40, 24)]
)
def test_slots_equal_generate(name: str, longest: int, new: int) -> None:
    """Ragged prompts in fewer slots than prompts give what `model.generate` gives for each alone."""
    engine = engine_of(name)
    assert engine.info.attention == "trie"
    prompts = prompts_for(engine.info.vocab_size, longest, new)
    n_ties = assert_as_alone(reference_of(name), prompts, list(engine.generate(prompts)))
    assert n_ties <= 1


def test_plain_path_equals_generate() -> None:
    """A recurrent model, which the trie path does not support, generates through transformers alone."""
    engine = engine_of("rwkv4-660k")
    assert engine.info.attention == "plain"
    prompts = prompts_for(engine.info.vocab_size, 30, 12, n=5)
    assert assert_as_alone(reference_of("rwkv4-660k"), prompts, list(engine.generate(prompts))) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("llama", {}),
        ("gpt2", {}),
        ("gemma2", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8}),
        ("gemma3_text", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8}),
        ("mistral", {"sliding_window": 24}),
        ("qwen3", {"head_dim": 8}),
        ("gpt_oss", {"head_dim": 8, "sliding_window": 16, "num_local_experts": 2, "num_experts_per_tok": 1}),
    ],
)
@pytest.mark.parametrize("least_saved", [0, 1 << 30])
def test_architectures(kind: str, options: dict[str, Any], least_saved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sliding windows, soft caps, sinks and grouped heads give the same as alone, with and without shared trunks."""
    monkeypatch.setattr(sharing, "LEAST_SAVED", least_saved)
    model = tiny(kind, **options)
    prompts = prompts_for(97, 60, 30, n=9)
    expected = [written_alone(model, prompt) for prompt in prompts]
    engine = Engine.load(model, settings=EngineSettings(n_slots=4, window_tokens=32))
    assert engine.info.attention == "trie", engine.info.why
    result = by_key(list(engine.generate(prompts)))
    for i, (tokens, leads) in enumerate(expected):
        got = list(result[i, 0].tokens)
        at = next((k for k, (a, b) in enumerate(zip(got, tokens, strict=False)) if a != b), None)
        assert at is None or leads[at] < NEAR_TIE, (i, at, leads[at])
        assert at is not None or len(got) == len(tokens)


def test_trunks_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix of all prompts is one trunk, a prefix of two another, and short ones are none."""
    monkeypatch.setattr(sharing, "LEAST_SAVED", 20)
    first = list(range(10, 40))
    second = [*first, *range(50, 80)]
    prompts = [np.asarray(t, dtype=np.int32) for t in ([*first, 5, 6], [*second, 1], [*second, 2, 3], [*first, 5, 7])]
    tries = sharing.build_prompt_trie(prompts, [1, 1, 1, 1], n_slots=4)
    assert [(trunk.first, trunk.last, trunk.n_users) for trunk in tries.trunks] == [(0, 30, 4), (30, 60, 2)]
    chains = dict(zip(tries.members, tries.chains, strict=True))
    assert chains == {(0,): (0,), (3,): (0,), (1,): (0, 1), (2,): (0, 1)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling", [None, Sampling(0.9), Sampling(1.2, top_k=20, top_p=0.9), Sampling(1.0, min_p=0.1)]
)
def test_the_batch_does_not_matter(sampling: Sampling | None) -> None:
    """A sequence is the same alone, among others, in another order, with other slots and other windows."""
    model = tiny("llama")
    prompts = prompts_for(97, 50, 20, n=8, sampling=sampling, repeats=(0, 1, 2) if sampling else (0,))
    engine = Engine.load(model, settings=EngineSettings(n_slots=3, window_tokens=32))
    together = by_key(list(engine.generate(prompts)))
    backwards = by_key(list(engine.generate(prompts[::-1])))
    for i, prompt in enumerate(prompts):
        alone = by_key(list(engine.generate([prompt])))
        for repeat in prompt.repeats:
            tokens = together[i, repeat].tokens
            assert alone[0, repeat].tokens == tokens
            assert backwards[len(prompts) - 1 - i, repeat].tokens == tokens
    if sampling:
        assert len({together[0, repeat].tokens for repeat in range(3)}) == 3


def test_repeats_share_one_prefill() -> None:
    """Repeats process their prompt once, and a seed decides them all."""
    model = tiny("llama")
    prompt = GenerationPrompt(np.arange(3, 90, dtype=np.int32), 10, sampling=Sampling(1.0), repeats=tuple(range(12)))
    engine = Engine.load(model, settings=EngineSettings(n_slots=5, window_tokens=32))
    reports: list[GenerationReport] = []
    first = by_key(list(engine.generate([prompt], on_step=reports.append)))
    assert reports[-1].n_prompt == reports[-1].n_prompt_done == 87
    assert reports[-1].n_sequences_done == 12
    assert len({each.tokens for each in first.values()}) == 12
    other = GenerationPrompt(prompt.tokens, 10, sampling=Sampling(1.0), repeats=(11, 4))
    again = by_key(list(engine.generate([other])))
    assert again[0, 4].tokens == first[0, 4].tokens
    reseeded = GenerationPrompt(prompt.tokens, 10, sampling=Sampling(1.0), seed=1)
    assert next(engine.generate([reseeded])).tokens != first[0, 0].tokens  # type: ignore[union-attr]


def test_greedy_repeats_are_generated_once() -> None:
    """Greedy repeats are one sequence, returned under each number."""
    engine = Engine.load(tiny("llama"), settings=EngineSettings(n_slots=5))
    reports: list[GenerationReport] = []
    prompt = GenerationPrompt(np.arange(3, 20, dtype=np.int32), 10, repeats=(0, 1, 2))
    result = by_key(list(engine.generate([prompt], on_step=reports.append)))
    assert len({result[0, repeat].tokens for repeat in range(3)}) == 1
    assert reports[-1].n_sequences == 1


def test_a_stop_frees_its_slot() -> None:
    """A stopped sequence ends with the token that completed the stop, and the others continue."""
    engine = Engine.load(tiny("llama"), settings=EngineSettings(n_slots=2))
    prompts = prompts_for(97, 20, 12, n=5)
    free = by_key(list(engine.generate(prompts)))
    result = by_key(list(engine.generate(prompts, stop=lambda index, _, tokens: index == 1 and len(tokens) == 4)))
    assert result[1, 0].tokens == free[1, 0].tokens[:4]
    assert result[1, 0].finish_reason == "stop"
    assert all(result[i, 0] == free[i, 0] for i in (0, 2, 3, 4))


def test_every_computed_slot_is_used() -> None:
    """With more prompts than slots and ragged lengths, every slot of every step generates a token of the result."""
    engine = Engine.load(tiny("llama"), settings=EngineSettings(n_slots=3))
    prompts = [GenerationPrompt(np.arange(3, 5 + i, dtype=np.int32), 4 + 7 * (i % 3), key=str(i)) for i in range(10)]
    reports: list[GenerationReport] = []
    results = list(engine.generate(prompts, on_step=reports.append))
    n_generated = sum(len(each.tokens) for each in results if isinstance(each, GeneratedSequence))
    assert n_generated == sum(p.max_new_tokens for p in prompts)
    assert reports[-1].n_generated == n_generated
    assert reports[-1].n_slot_steps == n_generated - len(prompts)


@pytest.mark.parametrize("attention", ["auto", "plain"])
def test_repetition_penalty(attention: Any) -> None:
    """A repetition penalty has the effect of transformers', on both paths."""
    model = tiny("llama")
    prompts = prompts_for(97, 30, 15, n=5, repetition_penalty=1.7)
    plain = prompts_for(97, 30, 15, n=5)
    expected = [written_alone(model, prompt)[0] for prompt in prompts]
    assert expected != [written_alone(model, prompt)[0] for prompt in plain]
    engine = Engine.load(model, settings=EngineSettings(n_slots=3, attention=attention))
    result = by_key(list(engine.generate(prompts)))
    assert [list(result[i, 0].tokens) for i in range(5)] == expected


def test_sampling_is_the_same_on_both_paths() -> None:
    """The plain path samples the same tokens with the same numbers."""
    model = tiny("llama")
    prompts = prompts_for(97, 30, 15, n=4, sampling=Sampling(0.8, top_k=30, top_p=0.95), repeats=(0, 1))
    in_slots = by_key(list(Engine.load(model, settings=EngineSettings(n_slots=3)).generate(prompts)))
    plainly = by_key(list(Engine.load(model, settings=EngineSettings(attention="plain")).generate(prompts)))
    assert in_slots == plainly


def test_settings_that_only_transformers_supports() -> None:
    """A ban on repeated n-grams uses the plain path and equals `generate` with the same argument."""
    model = tiny("llama")
    tokens = np.asarray([5, 6, 7, 5, 6], dtype=np.int32)
    ids = torch.as_tensor(tokens.astype(np.int64))[None]
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                              eos_token_id=None, pad_token_id=0, no_repeat_ngram_size=2)[0, 5:].tolist()  # fmt: skip
    engine = Engine.load(model)
    prompt = GenerationPrompt(tokens, 12, other={"no_repeat_ngram_size": 2})
    [result] = list(engine.generate([prompt]))
    assert isinstance(result, GeneratedSequence)
    assert list(result.tokens) == expected


def test_beams_are_refused() -> None:
    """A setting that no path supports is refused by name."""
    engine = Engine.load(tiny("llama"))
    prompt = GenerationPrompt(np.arange(3, 9, dtype=np.int32), 5, other={"num_beams": 4})
    with pytest.raises(PlanError, match="num_beams=4"):
        list(engine.generate([prompt]))


def test_token_ids_outside_the_vocabulary_are_refused() -> None:
    """A token that the model does not have is the caller's error."""
    engine = Engine.load(tiny("llama"))
    with pytest.raises(PlanError, match="the model has 0 to 96"):
        list(engine.generate([GenerationPrompt(np.asarray([97], dtype=np.int32), 5)]))


def test_too_long_fails_alone() -> None:
    """A prompt that does not fit with its answer fails alone; the others are generated."""
    engine = Engine.load(tiny("llama"))
    long = GenerationPrompt(np.full(250, 5, dtype=np.int32), 10)
    short = GenerationPrompt(np.full(20, 5, dtype=np.int32), 10)
    result = by_key(list(engine.generate([long, short])))
    assert isinstance(result[0, 0], GenerationFailure)
    assert "256 positions" in result[0, 0].reason
    assert result[0, 0].kind is PromptTooLong
    assert isinstance(result[1, 0], GeneratedSequence)


def test_scoring_still_works_after_generation() -> None:
    """Generation restores the model's own attention and leaves scores unchanged."""
    from assaymark.engine.spans import SpanBatch

    engine = Engine.load(tiny("llama"), settings=EngineSettings(n_slots=2))
    spans = SpanBatch.from_lists([[3, 4, 5, 6], [3, 4, 7]], [2, 1])
    before = list(engine.score(spans))
    list(engine.generate(prompts_for(97, 20, 5, n=3)))
    assert list(engine.score(spans)) == before
