"""Over HTTP our numbers are those of lm-evaluation-harness 0.4.13's own local-completions, on one and the same server.

Real rows, a real small model behind the server of `tests.models.server.openai_server`: prompts,
log-likelihoods, texts and every score, sample by sample, with two requests at once.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assaymark

pytest.importorskip("lm_eval")
pytest.importorskip("torch")
pytest.importorskip("tenacity")  # lm-eval's client needs it
from tests.models.server.openai_server import TestServer, serving
from tests.parity.oracle import lm_evals_answers

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

CASES = (  # task, shots, samples; five shots of arc_challenge are longer than the model, so they are cut
    ("arc_easy", 0, 6),
    ("arc_challenge", 5, 3),
    ("winogrande", 0, 4),
    ("lambada_openai", 0, 3),
    ("gsm8k", 0, 3),
)
FOLDERS = ("arc", "winogrande", "lambada", "gsm8k")
MAX_TOKENS = 8


@pytest.fixture(scope="module")
def server(shared_dir: Path) -> Iterator[TestServer]:
    """Serve stories260K."""
    with serving(shared_dir / "models" / "stories260K") as running:
        yield running


def model_args(server: TestServer, shared: Path) -> dict[str, Any]:
    """Return the arguments that both tools are given."""
    return {
        "model": "stories260K",
        "base_url": f"{server.url}/completions",
        "tokenizer": str(shared / "models" / "stories260K"),
        "tokenizer_backend": "huggingface",
        "max_length": 512,
        "num_concurrent": 2,
    }


def by_lm_eval(arguments: dict[str, Any], data: Path, folder: Path) -> dict[str, Any]:
    """Return lm-eval's samples by task."""
    content = {"data": str(data), "model_args": arguments, "cases": CASES, "folders": FOLDERS,
               "gen_kwargs": f"max_gen_toks={MAX_TOKENS}"}  # fmt: skip
    return lm_evals_answers("run_lm_eval_http", content, folder, OMP_NUM_THREADS="1")


def test_every_sample_is_the_same(server: TestServer, shared_dir: Path, tmp_path: Path) -> None:
    """Each sample has lm-eval's prompt, log-likelihoods or text, and scores under every filter."""
    arguments, data = model_args(server, shared_dir), shared_dir / "data"
    theirs = by_lm_eval(arguments, data, tmp_path)
    for task, shots, limit in CASES:
        run = assaymark.evaluate(
            "local-completions", task, model_args=arguments, num_fewshot=shots, limit=limit, data_dir=data,
            gen_kwargs={"max_gen_toks": MAX_TOKENS}, store=str(tmp_path / "store.sqlite"),
        )  # fmt: skip
        by_index = {record.request.sample_index: record for record in run.samples(task)}
        assert len(theirs[task]) >= limit
        for sample in theirs[task]:
            record = by_index[sample["doc_id"]]
            assert hashlib.sha256(record.request.prompt.encode()).hexdigest() == sample["prompt_hash"]
            assert [answer_of(output) for output in record.outputs] == [as_answer(each) for each in sample["resps"]]
            ours = {score.metric: score.value for score in record.scores if score.filter == sample["filter"]}
            for metric, value in sample["metrics"].items():
                if isinstance(value, int | float):
                    assert ours[metric] == pytest.approx(value, rel=1e-9), (task, sample["doc_id"], metric)


def answer_of(output: Any) -> Any:
    """Return an answer of ours as it is compared: a text, or a log-likelihood and whether it is greedy."""
    if output.text is not None:
        return output.text
    return pytest.approx(output.total_nats, abs=1e-9), output.is_greedy


def as_answer(response: Any) -> Any:
    """Return an answer of lm-eval's in the same form."""
    if not isinstance(response, list | tuple):
        return response
    return float(response[0]), str(response[1]) == "True"
