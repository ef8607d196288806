"""Written answers: lm-evaluation-harness's texts on real rows, and what a run needs around them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalstone.errors import ModelError, UsageError
from evalstone.models.create import create_model
from evalstone.models.local.local_model import LocalModel
from evalstone.models.text.stops import StopFinder, final_text, stop_texts
from evalstone.records import (
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


def asked(index: int, text: str, **settings: Any) -> Request:
    """Return a request for a text."""
    return Request("task", index, f"sha{index}", (text,), (GenerateQuery(0, GenerationSettings(**settings)),))


def answers(model: LocalModel, requests: Sequence[Request], **options: Any) -> dict[tuple[str, int], Output]:
    """Return the outputs by request and repeat; each comes once."""
    outputs = list(model.answer(requests, **options))
    found = {(output.request_id, output.repeat): output for output in outputs}
    assert len(found) == len(outputs)
    return found


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
    """Return prompts from real rows: questions of gsm8k, some behind others as shots, and beginnings of stories."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = SHARED / "data" / "openai" / "gsm8k" / "main" / "test.parquet"
    if not path.is_file():
        pytest.skip(f"no {path}: real data is not part of the repository")
    rows = parquet.read_table(path).slice(0, 8).to_pylist()
    shots = f"Question: {rows[0]['question']}\nAnswer: {rows[0]['answer']}\n\n"
    plain = [f"Question: {row['question']}\nAnswer:" for row in rows[1:]]
    return (*plain[:5], *(shots + text for text in plain[:3]), STORY, f"{STORY} Lily. ", "Tim and Ben")


def lm_eval_texts(name: str, texts: Sequence[str], kwargs: Mapping[str, Any], **options: Any) -> list[str]:
    """Return what lm-evaluation-harness's own class writes, each prompt alone."""
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
    """Greedy answers to real prompts, long ones cut from the left, are lm-eval's, byte for byte."""
    texts = prompts()[-n:]
    expected = lm_eval_texts(name, texts, {"until": until, "do_sample": False, "max_gen_toks": max_gen_toks})
    model = stories() if name == "stories260K" else opened(name)
    found = answers(model, [asked(i, t, max_tokens=max_gen_toks, stop=tuple(until)) for i, t in enumerate(texts)])
    assert [found[f"task/{i}/0", 0].text for i in range(n)] == expected
    if name == "craftgpt-5m":
        assert any(output.n_cut_tokens for output in found.values())


@pytest.mark.parametrize("think", ["named", 5])
def test_thinking_equals_lm_eval(think: str | int) -> None:
    """Text after the end of a thought is the answer, the thought is kept, as in lm-eval with a text or a token id."""
    model = stories()
    texts = prompts()[-3:]
    token = model.encoder.tokenizer.encode(" and", add_special_tokens=False)[-1]
    mark = token if isinstance(think, int) else " and"
    expected = lm_eval_texts(
        "stories260K", texts, {"until": ["@@"], "do_sample": False, "max_gen_toks": 50}, think_end_token=mark
    )
    thinker = create_model("hf", {"pretrained": folder("stories260K"), "dtype": "float32", "think_end_token": mark})
    found = answers(thinker, [asked(i, t, max_tokens=50, stop=("@@",)) for i, t in enumerate(texts)])  # type: ignore[arg-type]
    outputs = [found[f"task/{i}/0", 0] for i in range(3)]
    assert [output.text for output in outputs] == expected
    assert any(output.reasoning for output in outputs)


def test_a_thought_is_not_stopped() -> None:
    """While a model thinks its stops do not count; after the thought they do."""
    free = answers(stories(), [asked(0, STORY, max_tokens=60)])["task/0/0", 0].text or ""
    model = opened("stories260K", ",think_end_token=play")
    assert "." in free.split("play")[0]
    output = answers(model, [asked(0, STORY, max_tokens=60, stop=(".",))])["task/0/0", 0]
    assert output.text == free.split("play", 1)[1].split(".")[0].lstrip()
    assert output.reasoning == free.split("play")[0]
    assert output.finish_reason == "stop"


def test_reasons_and_counts() -> None:
    """An output says why it ended and how many tokens were written; truncated ones can be counted."""
    model = stories()
    assert QueryKind.GENERATE in model.answers
    found = answers(
        model,
        [asked(0, STORY, max_tokens=7), asked(1, STORY, max_tokens=90, stop=(".",))],
    )
    assert (found["task/0/0", 0].finish_reason, found["task/0/0", 0].n_tokens) == ("length", 7)
    stopped = found["task/1/0", 0]
    assert stopped.finish_reason == "stop"
    assert stopped.n_tokens < 90
    assert "." not in (stopped.text or ".")
    ended = answers(opened("craftgpt-5m"), [asked(0, "hello", max_tokens=50)])["task/0/0", 0]
    assert ended.finish_reason == "eos"
    assert 0 < ended.n_tokens < 50


def test_a_stop_across_tokens() -> None:
    """A stop that begins inside one token and ends inside another is found, wherever its tokens are cut."""
    model = stories()
    free = answers(model, [asked(0, STORY, max_tokens=60)])["task/0/0", 0].text or ""
    for at in range(5, 40, 3):
        stop = free[at : at + 9]
        output = answers(model, [asked(0, STORY, max_tokens=60, stop=(stop,))])["task/0/0", 0]
        assert output.text == free.split(stop)[0]
        assert output.finish_reason == "stop"
        assert output.n_tokens < 60


def test_streaming_equals_answering() -> None:
    """The pieces of a stream joined are the answer; there are several, and none holds part of a stop."""
    model = stories()
    request = asked(0, STORY, max_tokens=60, stop=("play with",))
    pieces = list(model.stream(request))
    assert "".join(pieces) == answers(model, [request])["task/0/0", 0].text
    assert len(pieces) > 5
    with pytest.raises(UsageError, match="asks for no text"):
        next(model.stream(Request("task", 0, "sha", ("hi",), (LoglikelihoodQuery(0, " there"),))))
    with pytest.raises(ModelError, match="512 positions"):
        next(model.stream(asked(0, STORY, max_tokens=512)))


def test_no_room_for_the_prompt() -> None:
    """An answer as long as the model leaves no room; that ask fails alone and says what to do."""
    found = answers(stories(), [asked(0, STORY, max_tokens=512), asked(1, STORY, max_tokens=5)])
    failed = found["task/0/0", 0]
    assert failed.error_kind == "PromptTooLong"
    assert "max_gen_toks=" in (failed.error or "")
    assert found["task/1/0", 0].error is None


def test_too_long_may_be_an_error() -> None:
    """With too_long=error a prompt that would be cut fails instead."""
    long = " ".join([STORY] * 60)
    cut = answers(stories(), [asked(0, long, max_tokens=5)])["task/0/0", 0]
    assert cut.n_cut_tokens > 0
    assert cut.n_context_tokens == 507
    refused = answers(opened("stories260K", ",too_long=error"), [asked(0, long, max_tokens=5)])["task/0/0", 0]
    assert refused.error_kind == "PromptTooLong"


class Kept:
    """A cache that keeps what it is given."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}

    def find(self, keys: Sequence[str]) -> Mapping[str, Output]:
        """Return what is known."""
        return {key: self.outputs[key] for key in keys if key in self.outputs}


def test_samples_repeat_and_are_kept() -> None:
    """Sampled repeats differ, are the same in any company, and come from the cache by seed and repeat."""
    model = stories()
    request = asked(0, STORY, max_tokens=20, do_sample=True, temperature=1.0, repeats=4)
    first = answers(model, [request])
    again = answers(model, [asked(7, "Tim", max_tokens=9), request])
    assert {key: replace(output) for key, output in again.items() if key[0] == "task/0/0"} == first
    assert len({output.text for output in first.values()}) == 4
    assert len({output.cache_key for output in first.values()}) == 4
    other = answers(model, [asked(0, STORY, max_tokens=20, do_sample=True, temperature=1.0, repeats=1, seed=1)])
    assert other["task/0/0", 0].text not in {output.text for output in first.values()}
    cache = Kept()
    cache.outputs = {output.cache_key or "": output for output in first.values()}
    more = replace(request, queries=(GenerateQuery(0, replace(request.queries[0].settings, repeats=5)),))  # type: ignore[union-attr]
    found = answers(model, [more], cache=cache)
    assert [found["task/0/0", repeat].from_cache for repeat in range(5)] == [True] * 4 + [False]
    assert all(found["task/0/0", repeat].text == first["task/0/0", repeat].text for repeat in range(4))


def test_keys_hold_what_decides_a_text() -> None:
    """Settings, prompt and seed are in a sampled answer's key; seed and repeat are not in a greedy one's."""
    model = stories()

    def key(text: str = STORY, **settings: Any) -> str | None:
        return answers(model, [asked(0, text, **{"max_tokens": 2, **settings})])["task/0/0", 0].cache_key

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


def test_equal_asks_are_written_once() -> None:
    """Two tasks that ask the same get the same answer from one piece of work, told by progress in the end."""
    model = stories()
    seen: list[Progress] = []
    requests = [asked(0, STORY, max_tokens=10), asked(1, STORY, max_tokens=10, repeats=2)]
    found = answers(model, requests, observe=seen.append)
    assert len({output.text for output in found.values()}) == 1
    assert len(found) == 3
    assert (seen[-1].n_outputs_done, seen[-1].n_outputs) == (3, 3)
    assert seen[-1].n_tokens_done == seen[-1].n_tokens_distinct > 10


def test_one_request_may_ask_for_both() -> None:
    """A request with a choice and a text gets both answers."""
    request = Request(
        "task", 0, "sha", (STORY,), (LoglikelihoodQuery(0, " Lily"), GenerateQuery(1, GenerationSettings(max_tokens=3)))
    )
    by_query = {output.ask_index: output for output in stories().answer([request])}
    assert by_query[0].total_nats is not None
    assert by_query[1].text


def test_sampling_without_temperature_is_refused() -> None:
    """do_sample with temperature 0 says nothing about how to draw, and is refused before anything is written."""
    with pytest.raises(UsageError, match="temperature"):
        list(stories().answer([asked(0, STORY, do_sample=True)]))


def test_the_models_own_generation_config(tmp_path: Path) -> None:
    """A repetition penalty in generation_config applies as in transformers, unless generation_config=none."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    model.generation_config.repetition_penalty = 1.5
    ids = torch.tensor([tokenizer.encode(STORY)])
    written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False)
    expected = tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
    free = answers(stories(), [asked(0, STORY, max_tokens=30)])["task/0/0", 0]
    applied = LocalModel.from_loaded(model, tokenizer)
    without = LocalModel.from_loaded(model, tokenizer, generation_config="none")
    request = [asked(0, STORY, max_tokens=30)]
    assert answers(applied, request)["task/0/0", 0].text == expected != free.text
    assert answers(without, request)["task/0/0", 0].text == free.text
    assert applied.identity.options != without.identity.options
    model.generation_config.repetition_penalty = 1.0
    assert LocalModel.from_loaded(model, tokenizer).identity.content_hash != applied.identity.content_hash


def test_estimates_count_texts() -> None:
    """An estimate counts prompts once and answers as long as they may become, without loading weights."""
    model = opened("stories260K")
    n = len(model.encoder.encode_all([STORY])[0])
    drawn: dict[str, Any] = {"max_tokens": 20, "do_sample": True, "temperature": 1.0}
    work = model.estimate([asked(0, STORY, repeats=3, **drawn), asked(1, STORY, max_tokens=600)])
    assert (work.n_queries, work.n_tokens_asked, work.n_tokens_distinct) == (4, 3 * (n + 20), n + 60)
    assert work.too_long == ("task/1/0",)
    assert model._engine is None


def test_stops_are_cut_in_turn() -> None:
    """The text before each stop in turn is kept; empty stops cut nothing, the tokenizer's own end comes last."""
    assert stop_texts(("b", "", "a"), "</s>") == ("b", "a", "</s>")
    tokenizer = stories().encoder.tokenizer
    tokens = tokenizer.encode("She ran. Then she sat.", add_special_tokens=False)
    assert final_text(tokenizer, tokens, ("sat", " Then")).text == "She ran."


def test_a_stop_is_found_at_its_last_token() -> None:
    """The finder says no until the stop is whole, and needs no more than a few tokens back."""
    tokenizer = stories().encoder.tokenizer
    tokens = tokenizer.encode("She was happy and went home. The end", add_special_tokens=False)
    finder = StopFinder(tokenizer, ("home.",))
    found = [finder.has_stopped(tokens[: n + 1]) for n in range(len(tokens))]
    at = found.index(True)
    assert "home." in tokenizer.decode(tokens[: at + 1])
    assert "home." not in tokenizer.decode(tokens[:at])
