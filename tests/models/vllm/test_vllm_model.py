"""--model vllm: what a real vLLM answered to the same calls, and a stand-in for what one does not do on request."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import MissingExtra, ModelUnavailable, UnknownName, UsageError
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.vllm.arguments import vllm_arguments
from assaymark.models.vllm.vllm_model import VllmModel
from assaymark.records import LoglikelihoodQuery, Output, Progress, Request, RollingQuery
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from tests.applications.oracles.locked import needs_oracle
from tests.models.local.test_generation import STORY, text_request
from tests.models.local.test_generation import answers as texts_of
from tests.models.local.test_local_model import answers, choices, request
from tests.models.vllm import fake_vllm, recorded_vllm

pytest.importorskip("torch")
SHOTS = "".join(
    f"Question: Where does {name} live?\nAnswer: {place}\n\n"
    for name, place in (("Tim", "in a red house by the sea"), ("Ben", "on the hill"), ("Lily", "near the old mill"))
)
LONG = " She went to the park and saw a big dog. The dog was sad, so she gave it a ball and they played all day."


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[fake_vllm.LLM]:
    """Return the models that the stand-in creates in this test."""
    return fake_vllm.install(monkeypatch)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> list[recorded_vllm.LLM]:
    """Return the models of the real vLLM in this test."""
    return recorded_vllm.install(monkeypatch)


def by_vllm(**options: Any) -> VllmModel:
    """Return a small model under vLLM."""
    model_args = {"pretrained": str(demo_model("large")), "dtype": "float32", "max_model_len": 192}
    model_args |= {"enforce_eager": True, **options}
    model = create_model("vllm", model_args)
    assert isinstance(model, VllmModel)
    return model


@cache
def by_us(max_length: int = 190) -> LocalModel:
    """Return the same model on our engine, with the maximum length of a scored sequence at vLLM."""
    model_args = f"pretrained={demo_model('large')},dtype=float32,device=cpu,max_length={max_length}"
    model = create_model("hf", model_args)
    assert isinstance(model, LocalModel)
    return model


def scored_requests() -> list[Request]:
    """Return questions after the same shots and without, choices of one token and of several, and whole texts.

    Two choices begin with the same blocks of tokens, and one question is longer than the model.
    """
    texts = (*" .,", " here", " far away")
    asked = [(SHOTS, "Tom"), (SHOTS, "the cat"), ("", "Sue"), (SHOTS * 4, "Max")]
    questions = [
        request(i, (shots, f"Question: Where does {name} live?\nAnswer:"), *choices(*texts))
        for i, (shots, name) in enumerate(asked)
    ]
    return [
        *questions,
        request(10, (SHOTS, STORY), *choices(LONG, LONG[:-9] + "slept.", " Lily")),
        request(11, "", RollingQuery(0, LONG), RollingQuery(1, LONG * 6)),
    ]


@needs_oracle("vllm")
def test_scores_are_those_of_sequences_sent_one_by_one(
    real: list[recorded_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real vLLM shared prefixes change no bit of a score and save most tokens; our engine's scores agree.

    Choices that begin alike are read from the cache too far, so the later one is sent again.
    """
    with_sharing: list[Progress] = []
    without: list[Progress] = []
    shared = answers(by_vllm(), scored_requests(), observe=with_sharing.append)
    monkeypatch.setattr(recorded_vllm.SamplingParams, "__struct_fields__", ())
    older = by_vllm()
    plain = answers(older, scored_requests(), observe=without.append)
    facts = [(output.total_nats, output.is_greedy) for output in shared.values()]
    assert facts == [(plain[key].total_nats, plain[key].is_greedy) for key in shared]
    assert shared.keys() == plain.keys()
    ours = answers(by_us(), scored_requests())
    for key, output in ours.items():
        result = shared[key]
        assert result.error is None
        assert result.total_nats == pytest.approx(output.total_nats, abs=1e-3, rel=1e-5)
        assert result.is_greedy == output.is_greedy
        counts = (output.n_context_tokens, output.n_tokens, output.n_cut_tokens)
        assert (result.n_context_tokens, result.n_tokens, result.n_cut_tokens) == counts
    assert any(output.n_cut_tokens for output in shared.values())
    kinds = [set(settings) for call in real[0].calls for _, settings in call]
    assert len(real[0].calls) == 2
    assert all({"prompt_logprobs"} <= kind and "skip_reading_prefix_cache" not in kind for kind in kinds[-1:])
    assert any("logprob_token_ids" in kind for kind in kinds)
    assert (
        max(len(tokens) for llm in real for call in llm.calls for tokens, _ in call) == 191
    )  # one is left to generate
    assert with_sharing[-1].n_tokens_done == with_sharing[-1].n_tokens_distinct
    assert with_sharing[-1].n_tokens_asked == without[-1].n_tokens_asked
    assert with_sharing[-1].n_tokens_done < 0.6 * without[-1].n_tokens_done
    assert "no skip_reading_prefix_cache and logprob_token_ids" in str(older.describe()["note"])


@needs_oracle("vllm")
def test_greedy_texts_equal_our_engines(real: list[recorded_vllm.LLM]) -> None:
    """Texts, finish reasons and counts equal our engine's, with and without stops."""
    requests = [text_request(i, text, max_tokens=16, stop=(". ",)) for i, text in enumerate([STORY, SHOTS, LONG])]
    requests += [text_request(9, STORY, max_tokens=12), text_request(10, STORY, max_tokens=60, stop=("was a", "girl"))]
    ours, theirs = texts_of(by_us(192), requests), texts_of(by_vllm(), requests)

    def described(outputs: Mapping[tuple[str, int], Output]) -> list[tuple[Any, ...]]:
        return [(key, o.text, o.finish_reason, o.n_tokens, o.n_context_tokens) for key, o in sorted(outputs.items())]

    assert described(theirs) == described(ours)
    assert {output.finish_reason for output in theirs.values()} == {"stop", "length"}
    assert real[0].arguments["max_model_len"] == 192


@needs_oracle("vllm")
def test_sampled_texts_depend_on_seed_sample_and_repeat(real: list[recorded_vllm.LLM]) -> None:
    """A sampled text does not depend on the batch; another repeat, seed or prompt has another seed at vLLM."""
    drawn: dict[str, Any] = {"max_tokens": 6, "do_sample": True, "temperature": 1.0}
    model = by_vllm()
    alone = texts_of(model, [text_request(0, STORY, repeats=3, **drawn)])
    together = texts_of(
        model, [text_request(7, "Tim and Ben", repeats=2, **drawn), text_request(0, STORY, repeats=3, **drawn)]
    )
    assert {key: output.text for key, output in together.items() if key[0] == "task/0/0"} == {
        key: output.text for key, output in alone.items()
    }
    assert len({output.text for output in alone.values()}) == 3
    texts_of(model, [text_request(0, STORY, seed=1, top_p=0.9, min_p=0.1, **drawn)])
    settings = [each for call in real[0].calls[1:] for _, each in call]
    assert len({each["seed"] for each in settings}) == 6
    assert (settings[-1]["top_p"], settings[-1]["min_p"], settings[-1]["top_k"]) == (0.9, 0.1, 50)


@needs_oracle("vllm")
def test_stops_are_ignored_during_reasoning(real: list[recorded_vllm.LLM]) -> None:
    """With a mark for the end of reasoning, stop texts are applied after it and are not passed to vLLM."""
    free = texts_of(by_vllm(), [text_request(0, STORY, max_tokens=40)])["task/0/0", 0].text or ""
    word = free.split()[4]
    output = texts_of(by_vllm(think_end_token=word), [text_request(0, STORY, max_tokens=40, stop=(".",))])[
        "task/0/0", 0
    ]
    assert real[1].calls[0][0][1]["stop"] == []
    assert output.reasoning is not None
    assert output.text == free[len(output.reasoning) + len(word) :].split(".")[0].lstrip()


def test_its_outputs_are_not_shared(made: list[fake_vllm.LLM]) -> None:
    """Weights and tokenizer are identified as for our engine; kind and numerics differ, so no output is shared."""
    theirs, ours = by_vllm().identity, by_us().identity
    assert (theirs.content_hash, theirs.tokenizer_hash) == (ours.content_hash, ours.tokenizer_hash)
    assert (theirs.kind, theirs.numerics) == ("vllm", "vllm")
    queries = [request(0, STORY, *choices(" Lily"))]
    keys = {output.cache_key for model in (by_vllm(), by_us()) for output in model.answer(queries)}
    assert len(keys) == 2
    assert by_vllm(quantization="fp8").identity.options == (("quantization", "fp8"),)
    assert by_vllm(gpu_memory_utilization=0.5).identity == theirs
    assert len(made) == 1


def test_a_run_by_vllm_is_stored(made: list[fake_vllm.LLM]) -> None:
    """`run --model vllm` completes; the second time everything comes from the store."""
    model_args = {"pretrained": str(demo_model("small")), "tensor_parallel_size": 2, "gpu_memory_utilization": 0.5}
    run = evaluate("vllm", "demo_letters_nature", model_args=model_args, limit=4)
    assert run.estimates[0].n == 4
    assert (made[0].tensor_parallel_size, made[0].gpu_memory_utilization) == (2, 0.5)
    assert made[0].dtype == run.row.plan.model.dtype
    again = evaluate("vllm", "demo_letters_nature", model_args=model_args, limit=4)
    assert again.result is not None
    assert again.result.was_stored
    assert len(made) == 1


def test_failures_are_reported(made: list[fake_vllm.LLM]) -> None:
    """A model that vLLM cannot load, unsupported settings, and a span too long are errors with a remedy."""
    with pytest.raises(ModelUnavailable, match=r"No available memory.*; a smaller max_model_len"):
        answers(by_vllm(gpu_memory_utilization=0.001), [request(0, STORY, *choices(" Lily"))])
    with pytest.raises(UsageError, match="no_repeat_ngram_size=2 is not supported"):
        texts_of(by_vllm(), [text_request(0, STORY, max_tokens=4, extra=(("no_repeat_ngram_size", 2),))])
    long = LoglikelihoodQuery(0, " dog" * 600)
    assert answers(by_vllm(), [request(0, STORY, long)])["task/0/0", 0].error_kind == "PromptTooLong"
    model = by_vllm()
    model.close()
    assert len(made) == 1  # neither the refused nor the unused one


def test_a_missing_log_probability_may_be_retried(
    made: list[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    """A token without a value from vLLM fails retryably: the same run later sends it again, and is complete."""
    answer = fake_vllm.LLM._answer

    def without_some(self: fake_vllm.LLM, tokens: list[int]) -> Any:
        output = answer(self, tokens)
        if len(tokens) % 2:
            output.prompt_logprobs[-1] = {}
        return output

    options: Any = {"model_args": {"pretrained": str(demo_model("small")), "dtype": "float32"}, "limit": 8}
    with monkeypatch.context() as patched:
        patched.setattr(fake_vllm.LLM, "_answer", without_some)
        run = evaluate("vllm", "demo_letters_nature", **options)
    failed = [o for record in run.samples("demo_letters_nature") for o in record.outputs if o.error is not None]
    assert 0 < len(failed) < 32
    assert {output.error_kind for output in failed} == {"MalformedAnswer"}
    expected = f"{failed[0].request_id} query {failed[0].ask_index}: vLLM returned no log-probability of token "
    assert (failed[0].error or "").startswith(expected)
    assert run.row.status == "incomplete"
    again = evaluate("vllm", "demo_letters_nature", **options)
    assert (again.id, again.row.status, again.row.n_failed) == (run.id, "finished", 0)
    assert made


def test_without_vllm_the_error_contains_the_installation_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """If vLLM is not installed nothing is loaded, and the message states how to install it."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[vllm\]'"):
        answers(by_vllm(), [request(0, STORY, *choices(" Lily"))])


def test_lm_evals_arguments_are_accepted() -> None:
    """lm-eval's command lines work unchanged: engine settings go to vLLM, the rest defines model and tokens."""
    result = vllm_arguments(
        {
            "pretrained": "org/model",
            "tensor_parallel_size": 4,
            "dtype": "auto",
            "gpu_memory_utilization": 0.8,
            "data_parallel_size": 1,
            "max_model_len": 4096,
            "batch_size": "auto",
            "device": "cuda",
            "swap_space": 4,
            "lora_local_path": "adapter",
            "numerics": "float32",
        }
    )
    assert result.engine == {"tensor_parallel_size": 4, "gpu_memory_utilization": 0.8}
    assert (result.local.max_length, result.local.peft, result.local.dtype) == (4096, "adapter", "auto")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data_parallel_size": 2}, "tensor_parallel_size to spread"),
        ({"workers": 2}, "not --workers"),
        ({"max_length": 5, "max_model_len": 6}, "two names of one setting"),
        ({"numerics": "model-dtype"}, "--model hf"),
        ({"truncation_side": "middle"}, "only left"),
        ({"tensor_parallel_size": 0}, "number of GPUs"),
        ({"gpu_memory_utilization": 90}, "share of the memory"),
        ({"pretrained": None}, "no model was given"),
        ({"dtype": "float8"}, "float8"),
    ],
)
def test_invalid_values_are_refused(given: dict[str, Any], message: str) -> None:
    """An invalid value is refused before anything is loaded, with the remedy."""
    with pytest.raises(UsageError, match=message):
        vllm_arguments({"pretrained": "org/model", **given})


def test_a_misspelt_argument_is_named() -> None:
    """An unknown argument is refused with the nearest known one."""
    with pytest.raises(UnknownName, match="gpu_memory_utilization"):
        vllm_arguments({"pretrained": "org/model", "gpu_memory_utilisation": 0.5})


def test_current_engine_arguments_are_passed_on(made: list[fake_vllm.LLM]) -> None:
    """Arguments of vLLM that we do not read are passed on unchanged; only those that change outputs change the run."""
    inputs = {"limit_mm_per_prompt": {"image": 0}, "async_scheduling": False, "max_logprobs": 5}
    plain, placed = vllm_arguments({"pretrained": "x"}), vllm_arguments({"pretrained": "x", **inputs})
    assert dict(placed.engine) == inputs
    assert placed.options == plain.options
    scaled = vllm_arguments({"pretrained": "x", "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    assert dict(scaled.options)["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    assert vllm_arguments({"pretrained": "x", "torch_dtype": "bfloat16"}).local.dtype == "bfloat16"


def test_an_argument_of_a_newer_vllm_is_accepted_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that only the installed EngineArgs has is passed on and counts as one that changes outputs."""

    @dataclass
    class EngineArgs:
        model: str = ""
        brand_new_setting: int = 0

    with pytest.raises(UnknownName, match="brand_new_setting"):
        vllm_arguments({"pretrained": "x", "brand_new_setting": 3})
    fake_vllm.install(monkeypatch)
    monkeypatch.setattr(sys.modules["vllm"], "EngineArgs", EngineArgs, raising=False)
    result = vllm_arguments({"pretrained": "x", "brand_new_setting": 3})
    assert dict(result.engine) == dict(result.options) == {"brand_new_setting": 3}
    with pytest.raises(UnknownName, match="brand_new_setting"):
        vllm_arguments({"pretrained": "x", "brand_new_seting": 3})
