"""A model loaded by the caller is unchanged after every use, and its training continues unaffected."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.audit.auditing import audit_contamination, audit_prompts
from assaymark.errors import UsageError
from assaymark.runs.demo import demo_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
numpy = pytest.importorskip("numpy")

SMALL = demo_model("small")
Use = Callable[[Any, Any], Any]


def loaded(kind: str = "full") -> tuple[Any, Any]:
    """Return the small model in training mode with dropout, as a whole or under a LoRA adapter, and its tokenizer."""
    model = transformers.AutoModelForCausalLM.from_pretrained(SMALL, dtype="float32", attention_dropout=0.1)
    if kind == "lora":
        peft = pytest.importorskip("peft")
        torch.manual_seed(1)
        settings = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        model = peft.get_peft_model(model, settings)
    elif kind == "checkpointing":
        model.gradient_checkpointing_enable()
    return model.train(), transformers.AutoTokenizer.from_pretrained(SMALL)


def trained(kind: str, use: Use | None) -> tuple[dict[str, Any], int]:
    """Return the weights after four steps, with `use` called in the middle, and the number of gradients."""
    model, tokenizer = loaded(kind)
    torch.manual_seed(0)
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=1e-3)
    n_gradients = 0
    for step in range(4):
        if step == 2 and use is not None:
            use(model, tokenizer)
        ids = torch.randint(3, 200, (2, 24))
        model(input_ids=ids, labels=ids).loss.backward()
        n_gradients = sum(each.grad is not None for each in parameters)
        assert n_gradients == len(parameters)
        optimiser.step()
        optimiser.zero_grad()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, n_gradients


def evaluated(model: Any, tokenizer: Any) -> None:
    """Evaluate tasks with choices and tasks with generated text."""
    run = assaymark.evaluate((model, tokenizer), ["demo_who", "demo_sums"], limit=5)
    assert run.result is not None
    assert run.result.n_answered_now >= 10


@pytest.mark.parametrize("kind", ["full", "lora", "checkpointing"])
def test_training_continues_as_without_an_evaluation(kind: str) -> None:
    """A training loop with an evaluation in the middle ends with the same weights, bit for bit, as one without."""
    without, _ = trained(kind, None)
    with_evaluation, _ = trained(kind, evaluated)
    assert without.keys() == with_evaluation.keys()
    assert [name for name in without if not torch.equal(without[name], with_evaluation[name])] == []


def state_of(model: Any) -> list[Any]:
    """Return all state of a model and the process that an evaluation could change, as comparable values."""
    results: list[Any] = [torch.get_rng_state().tolist(), random.getstate(), torch.get_num_threads()]
    results.append([str(part) for part in numpy.random.get_state()])
    results.append({name: str(value) for name, value in model.generation_config.to_dict().items()})
    results.append(id(model.generation_config))
    for name, module in model.named_modules():
        results.append((name, module.training, "forward" in module.__dict__, sorted(module.__dict__)))
        results.append([len(module._forward_hooks), len(module._forward_pre_hooks)])
        if hasattr(module, "config"):
            results.append(module.config._attn_implementation)
    results += [(name, t.requires_grad, t.dtype, t.device, id(t)) for name, t in model.named_parameters()]
    results += [(name, t.dtype, id(t), t.tolist()) for name, t in model.named_buffers()]
    return results


def prepared() -> tuple[Any, Any]:
    """Return a model in an unusual state: half in training, a frozen layer, a hook, eager attention."""
    model, tokenizer = loaded()
    model.set_attn_implementation("eager")
    model.model.layers[0].eval()
    model.model.layers[1].requires_grad_(False)
    model.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    model.generation_config.temperature = 0.7
    return model, tokenizer


def _stopped(model: Any, tokenizer: Any) -> None:
    def stop(_progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assaymark.evaluate((model, tokenizer), ["demo_who"], limit=5, observe=stop)


def _failed_in_model(model: Any, tokenizer: Any) -> None:
    calls = iter(range(1000))

    def fail(*_: Any) -> None:
        if next(calls) >= 15:  # the check at load, which takes failures as an answer, is over by then
            raise RuntimeError("a fault in the middle")

    hook = model.model.norm.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        assaymark.evaluate((model, tokenizer), "demo_sums", limit=5)
    hook.remove()


def _ranked(model: Any, tokenizer: Any) -> None:
    assaymark.load_model((model, tokenizer)).rank("One two", [" three", " four"])


def _adapted(model: Any, tokenizer: Any) -> None:
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance

    from assaymark.interop.lm_eval_adapter import AssaymarkLM

    request = Instance("loglikelihood", {}, ("One two", " three"), 0)
    assert len(AssaymarkLM(pretrained=model, tokenizer=tokenizer).loglikelihood([request], disable_tqdm=True)) == 1


USES: dict[str, Use] = {
    "evaluate": evaluated,
    "tokenizer apart": lambda m, t: assaymark.evaluate(m, "demo_who", tokenizer=t, limit=3),
    "plain path": lambda m, t: assaymark.evaluate((m, t), "demo_who", limit=3, model_args={"attention": "plain"}),
    "threads": lambda m, t: assaymark.evaluate((m, t), "demo_who", limit=3, model_args={"n_threads": 3}),
    "Ctrl-C": _stopped,
    "an exception": _failed_in_model,
    "load_model": _ranked,
    "contamination audit": lambda m, t: audit_contamination((m, t), "demo_who", limit=6),
    "prompt audit": lambda m, t: audit_prompts([(m, t)], "demo_facts", ("",), limit=3),
    "lm-eval": _adapted,
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_all_state_is_restored(use: str) -> None:
    """Mode, forwards, hooks, gradients, buffers, attention, generation config, random state and threads."""
    model, tokenizer = prepared()
    before = state_of(model)
    USES[use](model, tokenizer)
    assert state_of(model) == before


def test_a_trained_model_is_identified_again() -> None:
    """A loaded model given to `load_model` is another model once its weights have changed."""
    model, tokenizer = loaded()
    held = assaymark.load_model(model, tokenizer=tokenizer)
    first = assaymark.evaluate(held, "demo_who", limit=4)
    with torch.no_grad():
        model.model.norm.weight.mul_(3.0)
    second = assaymark.evaluate(held, "demo_who", limit=4)
    assert first.id != second.id
    assert second.result is not None
    assert second.result.n_answered_now == 8


def test_replaced_weights_are_used() -> None:
    """Weights that are replaced, by `.data`, between two uses of one engine are used."""
    model, tokenizer = loaded()
    held = assaymark.load_model((model, tokenizer))
    before = held.rank("One two", [" three", " four"]).total_nats
    for layer in model.model.layers:
        layer.mlp.down_proj.weight.data = layer.mlp.down_proj.weight.data * 2.0
    after = held.rank("One two", [" three", " four"]).total_nats
    assert after != before
    assert after == pytest.approx(
        assaymark.load_model((model, tokenizer)).rank("One two", [" three", " four"]).total_nats
    )


@pytest.mark.slow
def test_evaluations_in_threads_give_the_same_results(tmp_path: Path) -> None:
    """Three models evaluated in three threads at once, each with a new store, give the results of each alone."""
    pairs = [loaded() for _ in range(3)]  # by transformers alone, which loads rightly in one thread only
    for place, (model, _) in enumerate(pairs):
        model.model.norm.weight.data *= 1.0 + place

    def use(name: str, place: int) -> list[Any]:
        options: dict[str, Any] = {"limit": 6, "store": tmp_path / f"{name}-{place}.sqlite"}
        run = assaymark.evaluate(pairs[place], ["demo_who", "demo_sums"], **options)
        tasks = [run.samples("demo_who"), run.samples("demo_sums")]
        return [(o.total_nats, o.text) for samples in tasks for sample in samples for o in sample.outputs]

    alone = [use("alone", place) for place in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda place: use("together", place), range(3))) == alone


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (lambda m, t: m, {}, "expected its loaded tokenizer"),
        (lambda m, t: (m, t), {"tokenizer": "t"}, "given twice"),
        (lambda m, t: SMALL, {"tokenizer": object()}, "goes with a loaded model"),
    ],
)
def test_a_missing_or_superfluous_tokenizer_is_one_clear_error(given: Use, options: dict[str, Any], words: str) -> None:
    """A loaded model without its tokenizer, and a tokenizer without a model, are refused with a remedy."""
    with pytest.raises(UsageError, match=words):
        assaymark.evaluate(given(*loaded()), "demo_who", limit=2, **options)
