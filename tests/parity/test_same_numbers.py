"""The main promise: the same numbers as lm-evaluation-harness 0.4.13, sample by sample, on real rows.

lm-eval itself (`dtype=float32,logits_cache=False`: its cache has a bug) evaluates four real models: two
Llamas, a GPT-2 of 64 positions (most prompts are cut) and an RWKV (no attention: the plain path).
"""

from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.records import Output
from tests.parity.oracle import recorded_answers

pytest.importorskip("lm_eval")
pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.slow]

MODELS = ("stories260K", "bitllama-1.2m", "craftgpt-5m", "rwkv4-660k")
CASES = (  # task, shots, samples
    ("arc_challenge", 25, 6),
    ("arc_easy", 0, 8),
    ("hellaswag", 3, 6),
    ("mmlu_anatomy", 5, 8),
    ("truthfulqa_mc1", 0, 4),
    ("truthfulqa_mc2", 0, 4),
    ("winogrande", 5, 8),
    ("piqa", 0, 8),
    ("openbookqa", 2, 8),
    ("sciq", 0, 6),
    ("agieval_lsat_ar", 0, 4),
    ("lambada_openai", 0, 8),
    ("wikitext", 0, 1),
)
SLOW_MODEL, SLOW_CASES = "rwkv4-660k", ("arc_easy", "piqa", "openbookqa", "truthfulqa_mc1", "lambada_openai")
BOOTSTRAP_DRAWS = 100_000


def cases_of(model: str) -> list[tuple[str, int, int]]:
    """Return the cases of a model; transformers runs an RWKV token by token, so it gets the short ones."""
    return [case for case in CASES if model != SLOW_MODEL or case[0] in SLOW_CASES]


def close(ours: float, theirs: float) -> bool:
    """Return whether two log-likelihoods agree within the promised bound."""
    return abs(ours - theirs) <= 1e-4 + 1e-6 * abs(theirs)


@pytest.fixture(scope="module")
def oracle(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what lm-eval answered: model -> task -> results and samples."""
    models = {name: [str(shared_dir / "models" / name), cases_of(name)] for name in MODELS}
    content = {"data": str(shared_dir / "data"), "models": models, "bootstrap_iters": BOOTSTRAP_DRAWS}
    return recorded_answers(
        "run_lm_eval", content, shared_dir, tmp_path_factory.mktemp("oracle"), DISABLE_MULTIPROC="1"
    )


@pytest.fixture(scope="module", params=MODELS)
def both(
    request: pytest.FixtureRequest, oracle: dict[str, Any], shared_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], dict[str, assaymark.Run]]:
    """Return one model's name, lm-eval's answers, and our runs by task."""
    name: str = request.param
    store = str(tmp_path_factory.mktemp("store") / f"{name}.sqlite")
    model = assaymark.load_model(shared_dir / "models" / name, dtype="float32")
    runs = {
        task: assaymark.evaluate(model, task, num_fewshot=shots, limit=limit, data_dir=shared_dir / "data", store=store)
        for task, shots, limit in cases_of(name)
    }
    return name, oracle[name], runs


def answers(outputs: tuple[Output, ...]) -> list[tuple[float, bool | None]]:
    """Return log-likelihoods and greedy flags in the order of the asks."""
    return [(output.total_nats or 0.0, output.is_greedy) for output in outputs]


def theirs_of(sample: dict[str, Any]) -> list[tuple[float, bool | None]]:
    """Return lm-eval's logged answers in the same form."""
    results: list[tuple[float, bool | None]] = []
    for responses in sample["resps"]:
        first = responses[0]
        results.append((float(first[0]), bool(first[1])) if isinstance(first, list) else (float(first), None))
    return results


def answered(theirs: dict[str, Any], runs: dict[str, assaymark.Run]) -> list[tuple[str, assaymark.Run]]:
    """Return the tasks that lm-eval could finish; a continuation longer than the model ends its run."""
    return [(task, run) for task, run in runs.items() if theirs[task] is not None]


def test_a_continuation_too_long_fails_alone(both: tuple[str, dict[str, Any], dict[str, assaymark.Run]]) -> None:
    """Where lm-eval's run ends because a continuation is longer than the model, ours loses that request alone."""
    _, theirs, runs = both
    for task, run in runs.items():
        failed = [s for s in run.samples(task) if any(output.error for output in s.outputs)]
        if theirs[task] is not None:
            assert failed == []
        else:
            assert failed
            assert all(o.error_kind == "PromptTooLong" for s in failed for o in s.outputs if o.error)
            assert len(failed) < len(run.samples(task))


def test_prompts_are_the_same(both: tuple[str, dict[str, Any], dict[str, assaymark.Run]]) -> None:
    """Each stored prompt has lm-eval's prompt_hash."""
    import hashlib

    _, theirs, runs = both
    for task, run in answered(theirs, runs):
        ours = [hashlib.sha256(s.request.prompt.encode()).hexdigest() for s in run.samples(task)]
        assert ours == [s["prompt_hash"] for s in theirs[task]["samples"]], task


def test_every_log_likelihood_is_the_same(both: tuple[str, dict[str, Any], dict[str, assaymark.Run]]) -> None:
    """Each ask's log-likelihood is within 1e-4 + 1e-6 of its size, and its greedy flag equal."""
    name, theirs, runs = both
    wrong: list[str] = []
    for task, run in answered(theirs, runs):
        for ours, their in zip(run.samples(task), theirs[task]["samples"], strict=True):
            for mine, yours in zip(answers(ours.outputs), theirs_of(their), strict=True):
                if not close(mine[0], yours[0]) or (yours[1] is not None and mine[1] != yours[1]):
                    wrong.append(f"{name} {task} {their['doc_id']}: {mine} against {yours}")
    assert wrong == []


def test_every_metric_is_the_same(both: tuple[str, dict[str, Any], dict[str, assaymark.Run]]) -> None:
    """Each task's metrics and standard errors equal lm-eval's, its bootstrapped ones too."""
    name, theirs, runs = both
    for task, run in answered(theirs, runs):
        results = theirs[task]["results"]
        checked = 0
        for estimate in run.estimates:
            value = results.get(f"{estimate.metric},{estimate.filter}")
            if value is None:
                continue
            checked += 1
            assert estimate.details["lm_eval_value"] == pytest.approx(value, rel=1e-5, abs=1e-9), (name, task, estimate)
            error = results.get(f"{estimate.metric}_stderr,{estimate.filter}")
            ours = estimate.details["lm_eval_stderr"]
            if isinstance(error, str) or error is None:
                assert ours is None, (name, task, estimate)
            else:
                assert ours == pytest.approx(error, rel=1e-5, abs=1e-12), (name, task, estimate)
        assert checked == sum(1 for key in results if "," in key and "_stderr" not in key), (name, task)
