"""Generated texts: equal to lm-evaluation-harness's on real rows, and the features that a run needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelError, UsageError
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.stops import StopFinder, final_text, sendable_stops, stop_texts, until_stop
from assaymark.records import (
    IN_REASONING,
    GenerateQuery,
    GenerationSettings,
    LoglikelihoodQuery,
    Output,
    Progress,
    QueryKind,
    Request,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
SHARED = Path(__file__).resolve().parents[4] / "shared"
torch.set_num_threads(1)
STORY = "Once upon a time, there was a little girl named"


def folder(name: str) -> str:
    """Return a shared model's folder, or skip."""
    path = SHARED / "models" / name
    if not path.is_dir():
        pytest.skip(f"no {path}: real models are not part of the repository")
    return str(path)


def text_request(index: int, text: str, **settings: Any) -> Request:
    """Return a request for a text."""
    return Request("task", index, f"sha{index}", (text,), (GenerateQuery(0, GenerationSettings(**settings)),))


def answers(model: LocalModel, requests: Sequence[Request], **options: Any) -> dict[tuple[str, int], Output]:
    """Return the outputs by request and repeat; each must occur once."""
    outputs = list(model.answer(requests, **options))
    results = {(output.request_id, output.repeat): output for output in outputs}
    assert len(results) == len(outputs)
    return results


def opened(name: str, more: str = "") -> LocalModel:
    """Return a model of this name."""
    model = create_model("hf", f"pretrained={folder(name)},dtype=float32,n_slots=5{more}")
    assert isinstance(model, LocalModel)
    return model


@cache
def stories() -> LocalModel:
    """Return a model that stays loaded for the tests of this file."""
    return opened("stories260K")


@cache
def prompts() -> tuple[str, ...]:
    """Return prompts from real rows: questions of gsm8k, some after others as shots, and beginnings of stories."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = SHARED / "data" / "openai" / "gsm8k" / "main" / "test.parquet"
    if not path.is_file():
        pytest.skip(f"no {path}: real data is not part of the repository")
    rows = parquet.read_table(path).slice(0, 8).to_pylist()
    shots = f"Question: {rows[0]['question']}\nAnswer: {rows[0]['answer']}\n\n"
    plain = [f"Question: {row['question']}\nAnswer:" for row in rows[1:]]
    return (*plain[:5], *(shots + text for text in plain[:3]), STORY, f"{STORY} Lily. ", "Tim and Ben")


def lm_eval_texts(name: str, texts: Sequence[str], kwargs: Mapping[str, Any], **options: Any) -> list[str]:
    """Return what lm-evaluation-harness's own class generates, each prompt alone."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder(name), dtype="float32", device="cpu", batch_size=1, **options)
    requests = [Instance("generate_until", {}, (text, dict(kwargs)), i) for i, text in enumerate(texts)]
    return list(model.generate_until(requests, disable_tqdm=True))


@pytest.mark.parametrize(
    ("name", "max_gen_toks", "until", "n"),
    [
        ("stories260K", 40, ["Question:", "</s>", "<|im_end|>"], 11),
        ("stories260K", 60, [". ", "\n\n"], 11),
        ("bitllama-1.2m", 24, ["she", "was a"], 5),
        ("craftgpt-5m", 20, ["."], 6),
        ("rwkv4-660k", 12, ["e ", "\n"], 4),
    ],
)
def test_texts_equal_lm_eval(name: str, max_gen_toks: int, until: list[str], n: int) -> None:
    """Greedy answers to real prompts, long ones truncated from the left, equal lm-eval's byte for byte."""
    texts = prompts()[-n:]
    expected = lm_eval_texts(name, texts, {"until": until, "do_sample": False, "max_gen_toks": max_gen_toks})
    model = stories() if name == "stories260K" else opened(name)
    result = answers(
        model, [text_request(i, t, max_tokens=max_gen_toks, stop=tuple(until)) for i, t in enumerate(texts)]
    )
    assert [result[f"task/{i}/0", 0].text for i in range(n)] == expected
    if name == "craftgpt-5m":
        assert any(output.n_cut_tokens for output in result.values())


@pytest.mark.parametrize("think", ["named", 5])
def test_reasoning_equals_lm_eval(think: str | int) -> None:
    """The text after the reasoning is the answer, the reasoning is stored, as in lm-eval with a text or a token id.

    A text that was cut off before its reasoning ended has no answer here; lm-eval takes all of it as one.
    """
    model = stories()
    texts = prompts()[-3:]
    token = model.encoder.tokenizer.encode(" and", add_special_tokens=False)[-1]
    mark = token if isinstance(think, int) else " and"
    expected = lm_eval_texts(
        "stories260K", texts, {"until": ["@@"], "do_sample": False, "max_gen_toks": 50}, think_end_token=mark
    )
    thinker = create_model("hf", {"pretrained": folder("stories260K"), "dtype": "float32", "think_end_token": mark})
    result = answers(thinker, [text_request(i, t, max_tokens=50, stop=("@@",)) for i, t in enumerate(texts)])  # type: ignore[arg-type]
    outputs = [result[f"task/{i}/0", 0] for i in range(3)]
    finished = [output.finish_reason != IN_REASONING for output in outputs]
    assert [output.text for output in outputs] == [
        text if ok else "" for text, ok in zip(expected, finished, strict=True)
    ]
    assert [output.reasoning for output, ok in zip(outputs, finished, strict=True) if not ok] == [
        text for text, ok in zip(expected, finished, strict=True) if not ok
    ]
    assert {True, False} == set(finished)


def test_stops_are_ignored_during_reasoning() -> None:
    """While a model reasons its stops are ignored; afterwards they apply."""
    free = answers(stories(), [text_request(0, STORY, max_tokens=60)])["task/0/0", 0].text or ""
    model = opened("stories260K", ",think_end_token=play")
    assert "." in free.split("play")[0]
    output = answers(model, [text_request(0, STORY, max_tokens=60, stop=(".",))])["task/0/0", 0]
    assert output.text == free.split("play", 1)[1].split(".")[0].lstrip()
    assert output.reasoning == free.split("play")[0]
    assert output.finish_reason == "stop"


def test_finish_reasons_and_counts() -> None:
    """An output states why it ended and how many tokens were generated; truncated prompts can be counted."""
    model = stories()
    assert QueryKind.GENERATE in model.answers
    result = answers(
        model,
        [text_request(0, STORY, max_tokens=7), text_request(1, STORY, max_tokens=90, stop=(".",))],
    )
    assert (result["task/0/0", 0].finish_reason, result["task/0/0", 0].n_tokens) == ("length", 7)
    stopped = result["task/1/0", 0]
    assert stopped.finish_reason == "stop"
    assert stopped.n_tokens < 90
    assert "." not in (stopped.text or ".")
    ended = answers(opened("craftgpt-5m"), [text_request(0, "hello", max_tokens=50)])["task/0/0", 0]
    assert ended.finish_reason == "eos"
    assert 0 < ended.n_tokens < 50


def test_a_stop_across_tokens() -> None:
    """A stop that begins inside one token and ends inside another is found, wherever its tokens are split."""
    model = stories()
    free = answers(model, [text_request(0, STORY, max_tokens=60)])["task/0/0", 0].text or ""
    for at in range(5, 40, 3):
        stop = free[at : at + 9]
        output = answers(model, [text_request(0, STORY, max_tokens=60, stop=(stop,))])["task/0/0", 0]
        assert output.text == free.split(stop)[0]
        assert output.finish_reason == "stop"
        assert output.n_tokens < 60


def test_streaming_equals_answering() -> None:
    """The joined pieces of a stream are the answer; there are several, and none contains part of a stop."""
    model = stories()
    request = text_request(0, STORY, max_tokens=60, stop=("play with",))
    pieces = list(model.stream(request))
    assert "".join(pieces) == answers(model, [request])["task/0/0", 0].text
    assert len(pieces) > 5
    with pytest.raises(UsageError, match="has no generate query"):
        next(model.stream(Request("task", 0, "sha", ("hi",), (LoglikelihoodQuery(0, " there"),))))
    with pytest.raises(ModelError, match="512 positions"):
        next(model.stream(text_request(0, STORY, max_tokens=512)))


def test_no_space_for_the_prompt() -> None:
    """An answer as long as the model's positions leaves no space; that query fails alone and states the remedy."""
    result = answers(stories(), [text_request(0, STORY, max_tokens=512), text_request(1, STORY, max_tokens=5)])
    failed = result["task/0/0", 0]
    assert failed.error_kind == "PromptTooLong"
    assert "max_gen_toks=" in (failed.error or "")
    assert result["task/1/0", 0].error is None


def test_too_long_may_be_an_error() -> None:
    """With too_long=error a prompt that would be truncated fails instead."""
    long = " ".join([STORY] * 60)
    cut = answers(stories(), [text_request(0, long, max_tokens=5)])["task/0/0", 0]
    assert cut.n_cut_tokens > 0
    assert cut.n_context_tokens == 507
    refused = answers(opened("stories260K", ",too_long=error"), [text_request(0, long, max_tokens=5)])["task/0/0", 0]
    assert refused.error_kind == "PromptTooLong"


class Kept:
    """A cache that stores what it is given."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}

    def find(self, keys: Sequence[str]) -> Mapping[str, Output]:
        """Return the stored outputs."""
        return {key: self.outputs[key] for key in keys if key in self.outputs}


def test_samples_are_reproducible_and_cached() -> None:
    """Sampled repeats differ, do not depend on the batch, and come from the cache by seed and repeat."""
    model = stories()
    request = text_request(0, STORY, max_tokens=20, do_sample=True, temperature=1.0, repeats=4)
    first = answers(model, [request])
    again = answers(model, [text_request(7, "Tim", max_tokens=9), request])
    assert {key: replace(output) for key, output in again.items() if key[0] == "task/0/0"} == first
    assert len({output.text for output in first.values()}) == 4
    assert len({output.cache_key for output in first.values()}) == 4
    other = answers(model, [text_request(0, STORY, max_tokens=20, do_sample=True, temperature=1.0, repeats=1, seed=1)])
    assert other["task/0/0", 0].text not in {output.text for output in first.values()}
    cache = Kept()
    cache.outputs = {output.cache_key or "": output for output in first.values()}
    more = replace(request, queries=(GenerateQuery(0, replace(request.queries[0].settings, repeats=5)),))  # type: ignore[union-attr]
    result = answers(model, [more], cache=cache)
    assert [result["task/0/0", repeat].from_cache for repeat in range(5)] == [True] * 4 + [False]
    assert all(result["task/0/0", repeat].text == first["task/0/0", repeat].text for repeat in range(4))


def test_keys_contain_what_decides_a_text() -> None:
    """Settings, prompt and seed are in a sampled answer's key; seed and repeat are not in a greedy one's."""
    model = stories()

    def key(text: str = STORY, **settings: Any) -> str | None:
        return answers(model, [text_request(0, text, **{"max_tokens": 2, **settings})])["task/0/0", 0].cache_key

    base = key()
    assert base == key(seed=5)
    drawn: dict[str, Any] = {"do_sample": True, "temperature": 1.0}
    changed = [
        key("Tim"),
        key(max_tokens=3),
        key(stop=("x",)),
        key(**drawn),
        key(**drawn, seed=1),
        key(**drawn, top_p=0.5),
    ]
    assert len({base, *changed}) == 7


def test_equal_queries_are_generated_once() -> None:
    """Two tasks with the same query get the same answer from one computation, counted by progress at the end."""
    model = stories()
    seen: list[Progress] = []
    requests = [text_request(0, STORY, max_tokens=10), text_request(1, STORY, max_tokens=10, repeats=2)]
    result = answers(model, requests, observe=seen.append)
    assert len({output.text for output in result.values()}) == 1
    assert len(result) == 3
    assert (seen[-1].n_outputs_done, seen[-1].n_outputs) == (3, 3)
    assert seen[-1].n_tokens_done == seen[-1].n_tokens_distinct > 10


def test_one_request_may_contain_both_kinds() -> None:
    """A request with a choice and a text gets both answers."""
    request = Request(
        "task", 0, "sha", (STORY,), (LoglikelihoodQuery(0, " Lily"), GenerateQuery(1, GenerationSettings(max_tokens=3)))
    )
    by_query = {output.ask_index: output for output in stories().answer([request])}
    assert by_query[0].total_nats is not None
    assert by_query[1].text


def test_sampling_without_temperature_is_refused() -> None:
    """do_sample with temperature 0 is contradictory, and is refused before anything is generated."""
    with pytest.raises(UsageError, match="temperature"):
        list(stories().answer([text_request(0, STORY, do_sample=True)]))


def test_the_models_own_generation_config(tmp_path: Path) -> None:
    """A repetition penalty in generation_config applies as in transformers, unless generation_config=none."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    model.generation_config.repetition_penalty = 1.5
    ids = torch.tensor([tokenizer.encode(STORY)])
    generated = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False)
    expected = tokenizer.decode(generated[0, ids.shape[1] :], skip_special_tokens=True)
    free = answers(stories(), [text_request(0, STORY, max_tokens=30)])["task/0/0", 0]
    applied = LocalModel.from_loaded(model, tokenizer)
    without = LocalModel.from_loaded(model, tokenizer, generation_config="none")
    request = [text_request(0, STORY, max_tokens=30)]
    assert answers(applied, request)["task/0/0", 0].text == expected != free.text
    assert answers(without, request)["task/0/0", 0].text == free.text
    assert applied.identity.options != without.identity.options
    model.generation_config.repetition_penalty = 1.0
    assert LocalModel.from_loaded(model, tokenizer).identity.content_hash != applied.identity.content_hash


def test_estimates_count_texts() -> None:
    """An estimate counts prompts once and answers at their maximum length, without loading weights."""
    model = opened("stories260K")
    n = len(model.encoder.encode_all([STORY])[0])
    drawn: dict[str, Any] = {"max_tokens": 20, "do_sample": True, "temperature": 1.0}
    work = model.estimate([text_request(0, STORY, repeats=3, **drawn), text_request(1, STORY, max_tokens=600)])
    assert (work.n_queries, work.n_tokens_asked, work.n_tokens_distinct) == (4, 3 * (n + 20), n + 60)
    assert work.too_long == ("task/1/0",)
    assert model._engine is None


def test_stops_are_applied_in_turn() -> None:
    """The text before each stop in turn is kept; empty stops have no effect, the tokenizer's EOS comes last."""
    assert stop_texts(GenerationSettings(stop=("b", "", "a")), "</s>") == ("b", "a", "</s>")
    tokenizer = stories().encoder.tokenizer
    tokens = tokenizer.encode("She ran. Then she sat.", add_special_tokens=False)
    assert final_text(tokenizer, tokens, ("sat", " Then")).text == "She ran."


def test_a_stop_is_found_at_its_last_token() -> None:
    """The finder returns False until the stop is complete, and needs no more than a few tokens back."""
    tokenizer = stories().encoder.tokenizer
    tokens = tokenizer.encode("She was happy and went home. The end", add_special_tokens=False)
    finder = StopFinder(tokenizer, ("home.",))
    results = [finder.has_stopped(tokens[: n + 1]) for n in range(len(tokens))]
    at = results.index(True)
    assert "home." in tokenizer.decode(tokens[: at + 1])
    assert "home." not in tokenizer.decode(tokens[:at])


def test_white_space_before_an_answer_contains_no_stop_where_the_settings_say_so() -> None:
    """The answer ends at the stop after its text; without the setting it ends, empty, before it began."""
    tokenizer = stories().encoder.tokenizer
    tokens = tokenizer.encode("\n\nShe ran.\n\nThen she sat.", add_special_tokens=False)
    plain, after_text = (
        stop_texts(GenerationSettings(stop=("\n\n",), stop_after_text=on), None) for on in (False, True)
    )
    ends = [
        next(n for n in range(1, len(tokens) + 1) if StopFinder(tokenizer, stops).has_stopped(tokens[:n]))
        for stops in (plain, after_text)
    ]
    assert [tokenizer.decode(tokens[:end]).strip() for end in ends] == ["", "She ran."]
    assert final_text(tokenizer, tokens, plain).text == ""
    assert final_text(tokenizer, tokens, after_text).text.strip() == "She ran."
    pieces = ["\n", "\nShe", " ran.\n", "\nThen", " more"]
    assert "".join(until_stop(pieces, after_text)) == "\n\nShe ran."
    assert (sendable_stops(plain, None), sendable_stops((*after_text, "Q"), None)) == (["\n\n"], ["Q"])
