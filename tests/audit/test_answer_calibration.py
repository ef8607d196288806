"""Calibration of generated answers: probabilities of stored texts by the run's own model, and HELM's numbers."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import assaymark
from assaymark.audit.answer_calibration import ANSWERS, AnswerConfidences, answer_confidence, audit_answer_calibration
from assaymark.audit.calibration import ALL
from assaymark.audit.stored import stored_parts
from assaymark.cli.main import main
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.models.model import OutputCache
from assaymark.records import Output, Progress, QueryKind, Request
from assaymark.runs.demo import demo_model
from assaymark.runs.run import Run
from assaymark.statistics.helm_calibration import helm_calibration
from assaymark.store import Store
from tests.audit.counting_model import CountingModel
from tests.tasks.folders import task_spec, write_rows, write_task

CASES = json.loads((Path(__file__).parent / "helm_answers.json").read_text(encoding="utf-8"))["cases"]
N = 45


@pytest.mark.parametrize("case", CASES)
def test_numbers_equal_helms(case: dict[str, Any]) -> None:
    """Probabilities of answers, an empty one too, and the metrics that HELM derives from them."""
    confidences = [answer_confidence(sum(answer["logprobs"])) for answer in case["answers"]]
    assert confidences == pytest.approx([answer["max_prob"] for answer in case["answers"]], abs=1e-12)
    ours = helm_calibration(confidences, [answer["exact_match"] for answer in case["answers"]])
    metrics = case["metrics"]
    assert ours.ece_10_bin == pytest.approx(metrics["ece_10_bin"], abs=1e-12)
    assert ours.ece_1_bin == pytest.approx(metrics["ece_1_bin"], abs=1e-12)
    assert ours.selective_cov_acc_area == pytest.approx(metrics["selective_cov_acc_area"], abs=1e-12)
    assert ours.selective_acc_at_10 == pytest.approx(metrics["selective_acc@10"], abs=1e-12)
    assert ours.platt_ece_1_bin == pytest.approx(metrics["platt_ece_1_bin"], abs=1e-4)
    assert (ours.platt_coef is None) == ("platt_coef" not in metrics)


def _generating(name: str, **changes: Any) -> dict[str, Any]:
    return task_spec(
        name,
        **{
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_choice": ...,
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": ["###"], "max_gen_toks": 3},
            "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
            **changes,
        },
    )


def _evaluated(tmp_path: Path, rows: Sequence[dict[str, Any]], **changes: Any) -> Run:
    write_rows(tmp_path, list(rows), list(rows))
    write_task(tmp_path, _generating("written", **changes))
    return assaymark.evaluate(
        "hf", "written", include_path=[tmp_path], store=str(tmp_path / "store.sqlite"),
        model_args={"pretrained": str(demo_model("large")), "dtype": "float32"},
    )  # fmt: skip


def _parts(run: Run) -> list[AnswerConfidences]:
    (row,) = [row for row in run.store.audits() if row.plan.audit_settings and row.plan.audit_settings.kind == ANSWERS]
    parts: list[AnswerConfidences] = stored_parts(row, AnswerConfidences)
    return parts


@pytest.mark.slow
def test_probabilities_are_those_of_the_generated_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They equal transformers' log-probabilities while it generates; the second audit is the first one."""
    path = str(demo_model("large"))
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModelForCausalLM.from_pretrained(path)
    model = model.float().eval()
    rows, expected = [], []
    for at in range(N):
        question = f"The capital of {['France', 'Spain', 'Italy', 'Japan', 'Egypt'][at % 5]} number {at} is"
        ids = tokenizer(question, return_tensors="pt").input_ids
        with torch.no_grad():
            made = model.generate(
                ids, max_new_tokens=3, do_sample=False, output_scores=True, return_dict_in_generate=True
            )
        tokens = [each for each in made.sequences[0, ids.shape[1] :].tolist() if each != tokenizer.eos_token_id]
        text = tokenizer.decode(tokens)
        nats = [
            torch.log_softmax(scores[0], -1)[token].item()
            for scores, token in zip(made.scores, tokens, strict=False)  # without that of the end of text
        ]
        rows.append({"question": question, "answer": text if at % 3 else "another"})
        expected.append((text, sum(nats)))
    run = _evaluated(tmp_path, rows)
    records = list(run.store.samples(run.id, "written"))
    pairs = [(record.outputs[0].text, *expected[record.request.sample_index]) for record in records]
    same = [at for at, (text, own, _) in enumerate(pairs) if text == own]
    assert len(same) > 0.8 * N
    store = ["--store", str(tmp_path / "store.sqlite"), "--include_path", str(tmp_path)]
    assert main(["audit", "calibration", run.short_id, "--answers", "--json", *store]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["of"] == "answers"
    assert printed["n"] == N
    (part,) = _parts(run)
    for at in same:
        assert part.confidences[at] == pytest.approx(answer_confidence(pairs[at][2]), rel=1e-3)
    assert printed["accuracy"] > 0.5
    assert printed["accuracy"] == pytest.approx(sum(part.credits) / N)
    again = audit_answer_calibration(run, include_path=[tmp_path])
    assert again[0].confidence == printed["confidence"]
    with Store.open(str(tmp_path / "store.sqlite")) as opened:
        assert sum(row.plan.audit_settings is not None for row in opened.audits()) == 1


class _Writer(CountingModel):
    """Writes "yes" to every question; what it answers is a part of each test."""

    answers: frozenset[QueryKind] = frozenset({QueryKind.GENERATE, QueryKind.LOGLIKELIHOOD})

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield a text for each answer; of the texts that may be it, the joined one is the less probable one."""
        for request in requests:
            for query in request.queries:
                if query.kind is QueryKind.GENERATE:
                    for repeat in range(query.settings.repeats):
                        yield Output(request.id, query.index, repeat, text="yes", finish_reason="stop", n_tokens=1)
                elif query.kind is QueryKind.LOGLIKELIHOOD:
                    nats = -0.5 if query.continuation == " yes" else -9.0
                    yield Output(request.id, query.index, total_nats=nats, is_greedy=True, n_tokens=1)


class _Chat(_Writer):
    """As a chat server: it gives no log-probabilities."""

    answers = frozenset({QueryKind.GENERATE})


ROWS = [{"question": f"Is {at} a number?", "answer": "yes" if at % 2 else "no"} for at in range(N)]


def _written(tmp_path: Path, model: CountingModel, tasks: str = "written", **changes: Any) -> Run:
    write_rows(tmp_path, ROWS, ROWS)
    for name in tasks.split(","):
        write_task(tmp_path, _generating(name, **changes))
    return assaymark.evaluate(model, tasks, include_path=[tmp_path], store=str(tmp_path / "store.sqlite"))


def test_a_space_that_a_tokenizer_removed_is_tried(tmp_path: Path) -> None:
    """Of "yes" and " yes" after a question the more probable text counts; several tasks are pooled."""
    run = _written(tmp_path, _Writer(), "one,two")
    audits = audit_answer_calibration(run, model=_Writer(), include_path=[tmp_path])
    assert [audit.task for audit in audits] == ["one", "two", ALL]
    assert audits[0].confidence == pytest.approx(answer_confidence(-0.5))
    assert audits[0].accuracy == pytest.approx((N // 2) / N)
    with pytest.raises(UnknownName, match="task in this run"):
        audit_answer_calibration(run, ["three"], model=_Writer())


def test_a_model_without_log_probabilities_is_refused(tmp_path: Path) -> None:
    """The error names what would give them."""
    run = _written(tmp_path, _Chat())
    with pytest.raises(UsageError, match="gives no log-probabilities of texts"):
        audit_answer_calibration(run, model=_Chat(), include_path=[tmp_path])


def test_answers_that_are_no_single_text_are_named(tmp_path: Path) -> None:
    """Of repeated answers none is the one that was scored."""
    run = _written(tmp_path, _Writer(), repeats=2)
    with pytest.raises(DataError, match="written: an answer is 2 texts"):
        audit_answer_calibration(run, model=_Writer(), include_path=[tmp_path])


def test_without_the_option_the_error_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that only generates answers is not multiple choice."""
    run = _written(tmp_path, _Writer())
    assert main(["audit", "calibration", run.short_id, "--store", str(tmp_path / "store.sqlite")]) == 3
    assert "--answers" in capsys.readouterr().err
