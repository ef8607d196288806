"""Local models: log-likelihoods equal to lm-evaluation-harness's on real rows, and the features that a run needs."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable, UsageError
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.records import (
    LoglikelihoodQuery,
    Message,
    Output,
    Progress,
    Request,
    RollingQuery,
    TextPart,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
SHARED = Path(__file__).resolve().parents[4] / "shared"
MODELS = ("stories260K", "bitllama-1.2m", "craftgpt-5m", "rwkv4-660k")
torch.set_num_threads(1)


def folder(name: str) -> str:
    """Return a shared model's folder, or skip."""
    path = SHARED / "models" / name
    if not path.is_dir():
        pytest.skip(f"no {path}: real models are not part of the repository")
    return str(path)


def request(index: int, context: str | tuple[str, ...], *queries: LoglikelihoodQuery | RollingQuery) -> Request:
    """Return a request as a task creates it."""
    segments = (context,) if isinstance(context, str) else context
    return Request("task", index, f"sha{index}", segments, queries)


def choices(*texts: str) -> list[LoglikelihoodQuery]:
    """Return one query for each continuation."""
    return [LoglikelihoodQuery(i, text) for i, text in enumerate(texts)]


def answers(model: LocalModel, requests: Sequence[Request], **options: Any) -> dict[tuple[str, int], Output]:
    """Return the outputs by request and query; each query is answered once."""
    outputs = list(model.answer(requests, **options))
    results = {(output.request_id, output.ask_index): output for output in outputs}
    assert len(results) == len(outputs)
    return results


@cache
def opened(name: str) -> LocalModel:
    """Return a model that stays loaded for the tests of this file."""
    model = create_model("hf", f"pretrained={folder(name)},dtype=float32")
    assert isinstance(model, LocalModel)
    return model


@cache
def real_requests() -> tuple[Request, ...]:
    """Return few-shot prompts from real rows, some longer than 64 or 512 positions, and whole texts."""
    parquet = pytest.importorskip("pyarrow.parquet")
    base = SHARED / "data" / "allenai" / "ai2_arc" / "ARC-Challenge"
    if not base.is_dir():
        pytest.skip(f"no {base}: real data is not part of the repository")
    rows = parquet.read_table(base / "test.parquet").slice(0, 8).to_pylist()
    shots = [f"Question: {r['question']}\nAnswer: {r['choices']['text'][0]}\n\n" for r in rows[:6]]
    result = []
    for i, row in enumerate(rows):
        context = (*shots[: (0, 1, 6)[i % 3]], f"Question: {row['question']}\nAnswer:")
        result.append(request(i, context, *choices(*(f" {text}" for text in row["choices"]["text"]))))
    result.append(request(90, "", *choices(" the dog", "once upon a time")))
    result.append(request(91, "Once upon a time ", *choices("there was", "a dog")))
    long_text = " ".join(row["question"] for row in rows)
    result.append(request(92, "", RollingQuery(0, long_text), RollingQuery(1, "A short one.")))
    return tuple(result)


@cache
def lm_eval_answers(name: str) -> Mapping[tuple[str, int], tuple[float, bool | None]]:
    """Return lm-eval's own numbers for the same requests; with batch size 1, which every model supports."""
    huggingface = pytest.importorskip("lm_eval.models.huggingface")
    from lm_eval.api.instance import Instance

    model = huggingface.HFLM(pretrained=folder(name), device="cpu", dtype="float32", batch_size=1, logits_cache=False)
    queries = [(r, a) for r in real_requests() for a in r.queries]
    pairs = [(r, a) for r, a in queries if isinstance(a, LoglikelihoodQuery)]
    texts = [(r, a) for r, a in queries if isinstance(a, RollingQuery)]
    instances = [
        Instance("loglikelihood", {}, ("".join(r.segments), a.continuation), i) for i, (r, a) in enumerate(pairs)
    ]
    rolling = [Instance("loglikelihood_rolling", {}, (a.text,), i) for i, (_, a) in enumerate(texts)]
    result: dict[tuple[str, int], tuple[float, bool | None]] = {}
    scored = model.loglikelihood(instances, disable_tqdm=True)
    for (r, a), (nats, is_greedy) in zip(pairs, scored, strict=True):
        result[r.id, a.index] = (nats, is_greedy)
    for (r, t), nats in zip(texts, model.loglikelihood_rolling(rolling, disable_tqdm=True), strict=True):
        result[r.id, t.index] = (nats, None)
    return result


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*MODELS[:-1], pytest.param(MODELS[-1], marks=pytest.mark.slow)])
def test_scores_equal_lm_evals(name: str) -> None:
    """Each log-likelihood is within 1e-4 + 1e-6 |ll| of lm-eval's own, truncated prompts and whole texts included."""
    theirs = lm_eval_answers(name)
    ours = answers(opened(name), real_requests())
    assert ours.keys() == theirs.keys()
    for key, (nats, is_greedy) in theirs.items():
        output = ours[key]
        assert output.error is None
        assert output.total_nats == pytest.approx(nats, abs=1e-4 + 1e-6 * abs(nats)), key
        assert output.is_greedy == is_greedy
    assert any(output.n_cut_tokens for output in ours.values())


def test_a_continuation_longer_than_the_model_fails_alone() -> None:
    """It gets PromptTooLong and no score; the others are scored."""
    model = opened("craftgpt-5m")
    result = answers(model, [request(0, "hello", *choices(" how are you", " word" * 200))])
    assert result["task/0/0", 0].total_nats is not None
    failed = result["task/0/0", 1]
    assert (failed.total_nats, failed.error_kind) == (None, "PromptTooLong")
    assert "64 positions" in str(failed.error)


def test_weights_that_are_replaced_before_they_are_loaded_are_refused(tmp_path: Path) -> None:
    """The run would store the outputs of other weights under the identity of those that were there before."""
    copy = tmp_path / "model"
    shutil.copytree(folder("craftgpt-5m"), copy, copy_function=shutil.copyfile)
    model = create_model("hf", {"pretrained": str(copy), "dtype": "float32"})
    before = model.identity
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelUnavailable, match=r"model changed while it was loaded; expected files that stay"):
        list(model.answer([request(0, "hello", *choices(" you"))]))
    assert model.identity == before


def test_weights_that_are_written_to_while_they_are_used_end_the_run(tmp_path: Path) -> None:
    """A processor reads weights of the stored dtype from their file: what is computed after the write is no output."""
    copy = tmp_path / "model"
    shutil.copytree(folder("stories260K"), copy, copy_function=shutil.copyfile)
    model = create_model("hf", {"pretrained": str(copy), "device": "cpu"})
    cast = create_model("hf", {"pretrained": str(copy), "device": "cpu", "dtype": "float32"})
    one = [request(0, "hello", *choices(" you"))]
    before = [next(iter(each.answer(one))).total_nats for each in (model, cast)]
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-4096:] = bytes(4096)
    with (copy / "model.safetensors").open("r+b") as file:
        file.write(weights)
    with pytest.raises(ModelUnavailable, match=r"model.safetensors changed while it was evaluated"):
        list(model.answer(one))
    assert next(iter(cast.answer(one))).total_nats == before[1]  # of a copy in memory
    replaced = create_model("hf", {"pretrained": str(copy), "device": "cpu"})
    now = next(iter(replaced.answer(one))).total_nats
    shutil.rmtree(copy)  # as trainers do with all but the last checkpoints; what is mapped stays
    assert (next(iter(replaced.answer(one))).total_nats, now != before[0]) == (now, True)


def test_too_long_error_fails_instead_of_truncating() -> None:
    """With too_long=error a prompt that does not fit fails instead of being truncated."""
    strict = create_model("hf", {"pretrained": folder("craftgpt-5m"), "dtype": "float32"}, too_long="error")
    result = answers(strict, [request(0, "hello there " * 90, *choices(" friend")), request(1, "hi", *choices(" you"))])  # type: ignore[arg-type]
    assert result["task/0/0", 0].error_kind == "PromptTooLong"
    assert result["task/1/0", 0].total_nats is not None
    assert opened("craftgpt-5m").identity.content_hash == strict.identity.content_hash


def test_a_choice_that_merges_with_the_context_fails_alone() -> None:
    """If no token is left to score, that query fails with a remedy and the others are scored."""
    result = answers(opened("stories260K"), [request(0, "the dog", *choices("", " ran"))])
    assert "target_delimiter" in str(result["task/0/0", 0].error)
    assert result["task/0/0", 1].total_nats is not None


def test_equal_queries_are_scored_once() -> None:
    """Two requests with the same query cost one span, and both get the same number."""
    seen: list[Progress] = []
    twice = [replace(request(i, "Once upon a time", *choices(" there was", " a dog")), task=f"t{i}") for i in (0, 1)]
    result = answers(opened("stories260K"), twice, observe=seen.append)
    assert result["t0/0/0", 0].total_nats == result["t1/1/0", 0].total_nats
    alone: list[Progress] = []
    answers(opened("stories260K"), twice[:1], observe=alone.append)
    assert seen[-1].n_tokens_asked == alone[-1].n_tokens_asked
    assert (seen[-1].n_outputs_done, seen[-1].n_outputs) == (4, 4)


class Remembering:
    """A cache that stores what it is given."""

    def __init__(self) -> None:
        self.known: dict[str, Output] = {}

    def find(self, keys: Sequence[str]) -> Mapping[str, Output]:
        """Return the stored outputs."""
        return {key: self.known[key] for key in keys if key in self.known}


def test_cached_outputs_load_no_weights() -> None:
    """Cached outputs are returned without the engine; they have their own request and counts."""
    cache_ = Remembering()
    first = answers(opened("stories260K"), real_requests())
    cache_.known = {str(output.cache_key): output for output in first.values() if output.cache_key}
    fresh = create_model("hf", f"pretrained={folder('stories260K')},dtype=float32")
    assert isinstance(fresh, LocalModel)
    again = answers(fresh, real_requests(), cache=cache_)
    assert fresh._engine is None
    assert again == {key: replace(output, from_cache=True) for key, output in first.items()}


def test_keys_distinguish_models_and_dtypes() -> None:
    """Another model, dtype or numerics gives another key for the same query; another task does not."""
    query = [request(0, "Once upon a time", *choices(" there was"))]
    keys = set()
    for name, arguments in (
        ("stories260K", "dtype=float32"),
        ("stories260K", "dtype=bfloat16"),
        ("stories260K", "dtype=float32,numerics=model-dtype"),
        ("bitllama-1.2m", "dtype=float32"),
    ):
        model = create_model("hf", f"pretrained={folder(name)},{arguments}")
        assert isinstance(model, LocalModel)
        keys.add(model._reader().read(query)[0].cache_key)
        renamed = [replace(query[0], task="other")]
        assert model._reader().read(renamed)[0].cache_key in keys
    assert len(keys) == 4


def test_the_identity_loads_nothing_heavy() -> None:
    """Identity and cache key need neither torch nor transformers."""
    code = (
        "import sys; from assaymark.models.create import create_model; "
        f"print(create_model('hf', 'pretrained={folder('stories260K')}').identity.max_length); "
        "print(sorted({'torch', 'transformers', 'numpy.testing'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["512", "[]"]


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests read in many small pieces get the outputs of one piece, up to float32 rounding."""
    from assaymark.models.local import local_model as local

    whole = answers(opened("stories260K"), real_requests())
    monkeypatch.setattr(local, "chunks_of", lambda requests, **_: [[each] for each in requests])
    seen: list[Progress] = []
    pieces = answers(opened("stories260K"), real_requests(), observe=seen.append)
    assert seen[-1].n_tokens_done == seen[-1].n_tokens_distinct
    assert seen[-1].n_outputs_done == len(whole)
    assert pieces.keys() == whole.keys()
    for key, output in whole.items():
        assert pieces[key].total_nats == pytest.approx(output.total_nats, abs=1e-4, rel=1e-6)
        assert replace(pieces[key], total_nats=None) == replace(output, total_nats=None)


def test_order_and_batch_change_nothing() -> None:
    """Requests in reverse, in any other order, or each alone get the same outputs, up to float32 rounding."""
    model, sent = opened("stories260K"), list(real_requests())
    together = answers(model, sent)
    shuffled = random.Random(0).sample(sent, len(sent))
    alone = [output for each in sent for output in answers(model, [each]).items()]
    for other in (answers(model, sent[::-1]), answers(model, shuffled), dict(alone)):
        assert other.keys() == together.keys()
        for key, output in other.items():
            assert output.total_nats == pytest.approx(together[key].total_nats, abs=1e-4, rel=1e-6)
            assert (output.is_greedy, output.cache_key) == (together[key].is_greedy, together[key].cache_key)


def test_overflow_is_an_error_with_sample_and_remedy() -> None:
    """Logits that overflow in float16 give NonFiniteLogits with the sample's id and a dtype to use, never a score."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    with torch.no_grad():
        model.model.norm.weight.mul_(3e4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    broken = LocalModel.from_loaded(model.half(), tokenizer)
    output = answers(broken, [request(7, "Once upon a time", *choices(" there was a dog"))])["task/7/0", 0]
    assert (output.total_nats, output.error_kind) == (None, "NonFiniteLogits")
    assert "task/7/0" in str(output.error)
    assert "bfloat16" in str(output.error)


def test_a_loaded_model_is_identified_by_its_parameters() -> None:
    """A loaded object gives the folder's numbers; changing a parameter changes its identity."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    wrapped = LocalModel.from_loaded(model, tokenizer)
    sent = [request(0, "Once upon a time", *choices(" there was a dog"))]
    ours, theirs = answers(wrapped, sent), answers(opened("stories260K"), sent)
    assert ours["task/0/0", 0].total_nats == pytest.approx(theirs["task/0/0", 0].total_nats, abs=1e-4)
    assert LocalModel.from_loaded(model, tokenizer).identity == wrapped.identity
    with torch.no_grad():
        model.model.norm.weight[0] += 0.5
    assert LocalModel.from_loaded(model, tokenizer).identity.content_hash != wrapped.identity.content_hash


def test_hooks_of_the_caller_make_another_model() -> None:
    """A steered model has the weights of the plain one; what a library hooks in for training changes no answer."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    plain = LocalModel.from_loaded(model, tokenizer).identity
    model.enable_input_require_grads()
    assert LocalModel.from_loaded(model, tokenizer).identity == plain
    model.model.layers[1].register_forward_hook(lambda _module, _inputs, output: output * 0.5)
    first, second = (LocalModel.from_loaded(model, tokenizer).identity for _ in range(2))
    assert first.options[-1][0] == "hooks"
    assert str(first.options[-1][1]).startswith("model.layers.1 (")
    assert len({plain.options, first.options, second.options}) == 3


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_an_adapters_scores_equal_lm_evals(tmp_path: Path) -> None:
    """A LoRA adapter on a base gives lm-eval's numbers, which differ from the base's."""
    peft = pytest.importorskip("peft")
    huggingface = pytest.importorskip("lm_eval.models.huggingface")
    from lm_eval.api.instance import Instance

    base = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    arguments = {"pretrained": folder("stories260K"), "peft": str(tmp_path / "adapter"), "dtype": "float32"}
    oracle = huggingface.HFLM(**arguments, device="cpu", batch_size=1, logits_cache=False)
    pair = ("Once upon a time, there was a", " little dog who ran")
    theirs = oracle.loglikelihood([Instance("loglikelihood", {}, pair, 0)], disable_tqdm=True)[0][0]
    sent = [request(0, pair[0], *choices(pair[1]))]
    model = create_model("hf", arguments, device="cpu")
    assert isinstance(model, LocalModel)
    ours = answers(model, sent)["task/0/0", 0].total_nats
    assert ours == pytest.approx(theirs, abs=1e-4, rel=1e-6)
    assert abs((answers(opened("stories260K"), sent)["task/0/0", 0].total_nats or 0.0) - theirs) > 0.01


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_of_weights_with_another_name_is_noted(tmp_path: Path) -> None:
    """Whatever has its shapes, an adapter is applied to; nothing but the name that it states tells one from another."""
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    model = create_model("hf", {"pretrained": folder("stories260K"), "peft": str(tmp_path)}, device="cpu")
    assert "notes" not in model.describe()
    config = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = "org/other"
    (tmp_path / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert "trained from 'org/other', and the model here is" in str(model.describe()["notes"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda name: [name.replace("q_proj", "query")], "lacks 10 of its tensors, the first .*layers.0.*q_proj"),
        (lambda name: [name.replace("layers.4", "layers.5")], "lacks 4 of its tensors"),
        (lambda name: [name, name.replace("layers.4", "layers.5")], "another base, which has no place for 4 of its"),
    ],
    ids=["other names", "a layer less", "a layer more"],
)  # fmt: skip
def test_an_adapter_that_does_not_fit_its_base_is_refused(tmp_path: Path, change: Any, fault: str) -> None:
    """Of an adapter peft applies the tensors that fit, if any: the base, or a part of it, would be measured."""
    peft = pytest.importorskip("peft")
    from safetensors.torch import load_file, save_file

    base = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"))
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    adapted.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "adapter_model.safetensors")
    changed = {new: tensor.clone() for name, tensor in weights.items() for new in change(name)}
    save_file(changed, tmp_path / "adapter_model.safetensors")
    model = create_model("hf", {"pretrained": folder("stories260K"), "peft": str(tmp_path)}, device="cpu")
    assert isinstance(model, LocalModel)
    with pytest.raises(ModelUnavailable, match=fault):
        answers(model, [request(0, "a", *choices(" b"))])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names_tokenizer", [True, False])
@pytest.mark.parametrize(
    "trained", [{"modules_to_save": ["embed_tokens", "lm_head"]}, {"trainable_token_indices": [512, 513]}, {}], ids=str
)
def test_an_adapter_with_added_tokens_resizes_the_embeddings(
    tmp_path: Path, trained: dict[str, Any], names_tokenizer: bool
) -> None:
    """The scores of a text with an added token are those of the model that was saved, to which rows were added.

    Without the adapter's tokenizer the saved rows say how many there are, and a note that it has tokens of its own.
    """
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("stories260K"))
    tokenizer.add_tokens(["<call>", "<ret>"])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        base.resize_token_embeddings(len(tokenizer))
        config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False, **trained)
        adapted = peft.get_peft_model(base, config).eval()
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "modules_to_save" in name or "trainable_tokens" in name:
                    parameter.add_(torch.randn_like(parameter) * 0.02)
    adapted.save_pretrained(tmp_path / "adapter", save_embedding_layers=bool(trained))
    tokenizer.save_pretrained(tmp_path / "adapter")
    tokens = tokenizer("Once <call> upon a time", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        nats = adapted(tokens).logits.log_softmax(-1)[0, :-1].gather(1, tokens[0, 1:, None])[:, 0]
    model = create_model(
        "hf",
        {"pretrained": folder("stories260K"), "peft": str(tmp_path / "adapter"), "dtype": "float32", "device": "cpu"}
        | ({"tokenizer": str(tmp_path / "adapter")} if names_tokenizer else {}),
    )
    assert isinstance(model, LocalModel)
    sent = [request(0, "Once", *choices(" <call> upon a time" if names_tokenizer else " upon a time"))]
    ours = answers(model, sent)["task/0/0", 0].total_nats
    assert ours is not None
    assert model.engine.info.vocab_size == (514 if trained or names_tokenizer else 512)
    assert ("<call>, <ret>" in str(model.describe().get("notes"))) != names_tokenizer
    if trained and names_tokenizer:  # else the new rows are not the saved ones
        assert ours == pytest.approx(float(nats[1:].sum()), abs=1e-4)


def test_options_for_loading_are_refused_on_a_loaded_model() -> None:
    """A loaded model's dtype can no longer be chosen."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("stories260K"), dtype=torch.float32)
    with pytest.raises(UsageError, match="dtype"):
        LocalModel.from_loaded(model, None, dtype="float16")


def test_the_plan_counts_what_the_engine_computes() -> None:
    """The estimate's tokens, before and after sharing, are those of the run; truncated prompts are listed."""
    seen: list[Progress] = []
    model = create_model("hf", f"pretrained={folder('craftgpt-5m')},dtype=float32,device=cpu")
    estimate = model.estimate(real_requests())
    assert isinstance(model, LocalModel)
    assert model._engine is None
    result = answers(model, real_requests(), observe=seen.append)
    assert estimate.n_tokens_distinct == seen[-1].n_tokens_distinct == seen[-1].n_tokens_done
    assert estimate.n_queries == len(result)
    assert set(estimate.too_long) == {key[0] for key, output in result.items() if output.n_cut_tokens}
    assert estimate.seconds is not None
    assert estimate.seconds > 0


def test_split_tokens_shows_the_scored_boundary() -> None:
    """The texts of the tokens join to the prompt, and the index is where scoring begins."""
    split = opened("stories260K").split_tokens("Once upon a time", " there was a dog")
    assert split is not None
    texts, first = split
    assert "".join(texts[1:]).strip() == "Once upon a time there was a dog"
    assert "".join(texts[first:]) == " there was a dog"


def test_a_chat_is_rendered_by_the_tokenizers_template() -> None:
    """The chat template is used; a model without one refuses with a remedy."""
    chat = [Message("user", (TextPart("hi"),)), Message("assistant", (TextPart("oh"),))]
    assert opened("craftgpt-5m").render(chat, continue_final=True) == "_[inst] hi_[/inst] oh"
    with pytest.raises(UsageError, match="no chat template"):
        opened("stories260K").render(chat)


def test_a_missing_model_is_one_clear_line() -> None:
    """A missing folder raises ModelUnavailable with its path."""
    with pytest.raises(ModelUnavailable, match=r"/no/such/model does not exist"):
        _ = create_model("hf", "pretrained=/no/such/model").identity


def test_thinking_is_refused_for_log_likelihoods() -> None:
    """enable_thinking=True is refused for log-likelihood queries, as in lm-eval."""
    model = create_model("hf", {"pretrained": folder("craftgpt-5m"), "enable_thinking": True})
    with pytest.raises(UsageError, match="enable_thinking"):
        list(model.answer([request(0, "hi", *choices(" you"))]))
