"""HELM's prompt styles and its rule for long prompts, equal to HELM's own code (helm_styles.json)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assaymark
from assaymark.errors import UsageError
from assaymark.models.fake import FakeModel
from assaymark.models.text.generation_prompts import TextReader
from assaymark.models.text.spans import QueryReader
from assaymark.models.text.tokens import Encoder
from assaymark.prompts.prompt_styles import PromptStyle
from assaymark.records import LoglikelihoodQuery, Message, Output, Request, TextPart
from assaymark.runs.prompt_styles import evaluate_prompt_styles
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.styled_tasks import styled_task
from tests.prompts.helm_style_rows import INSTRUCTIONS, LENGTHS, METHODS, byte_tokenizer, rows

GOLDENS = json.loads((Path(__file__).parent / "helm_styles.json").read_text(encoding="utf-8"))
STYLES: tuple[PromptStyle, ...] = ("helm-joint", "helm-separate", "helm-separate-calibrated")


def task_file(folder: Path) -> Path:
    """Write the questions as a task whose choices are texts."""
    shots, questions = rows()
    for name, some in (("shots", shots), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    file = folder / "things.yaml"
    file.write_text(f"""task: things
dataset_path: json
dataset_kwargs: {{data_files: {{train: {folder}/shots.jsonl, test: {folder}/questions.jsonl}}}}
training_split: train
fewshot_split: train
test_split: test
output_type: multiple_choice
description: "{INSTRUCTIONS}\\n\\n"
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{options}}}}"
doc_to_target: "{{{{gold}}}}"
""")
    return file


def bound(folder: Path, style: PromptStyle) -> BoundTask:
    """Return the questions in a style."""
    (task,) = Catalog.open(lm_eval=False).select([str(task_file(folder))]).tasks
    return bind(styled_task(task, style), BindOptions())


def texts_of(request: Request) -> list[str]:
    """Return the texts that are sent, in HELM's order: with each option its calibration."""
    if not isinstance(request.queries[0], LoglikelihoodQuery):
        return ["".join(request.segments)]
    queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery)]
    n = sum(query.role == "choice" for query in queries)
    ordered = [query for at in range(n) for query in queries[at::n]]
    return ["".join((*(query.segments or request.segments), query.continuation)) for query in ordered]


@pytest.mark.parametrize("style", STYLES)
def test_prompts_equal_helms(tmp_path: Path, style: PromptStyle) -> None:
    """Every prompt, shots included, is the text that HELM's adapter of the method makes."""
    made = [text for request in bound(tmp_path, style).requests() for text in texts_of(request)]
    assert made == GOLDENS["prompts"][f"{METHODS[style]} None"]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("style", STYLES)
def test_prompts_that_are_too_long_are_fitted_as_helm_does(tmp_path: Path, style: PromptStyle, length: int) -> None:
    """The last shots are left out one by one, and then the end is cut off, also within a character."""
    encoder = Encoder(byte_tokenizer(), add_bos_token=False)
    requests = list(bound(tmp_path, style).requests())
    if style == "helm-joint":
        tokens = [each.tokens for each in TextReader(encoder, length, "drop_shots", None).read(requests)]
    else:
        spans = [each.spans[0] for each in QueryReader(encoder, length, "drop_shots", None).read(requests)]
        in_order = []
        for request in requests:
            own, spans = spans[: len(request.queries)], spans[len(request.queries) :]
            n = sum(isinstance(q, LoglikelihoodQuery) and q.role == "choice" for q in request.queries)
            in_order += [span for at in range(n) for span in own[at::n]]
        tokens = [np.concatenate([span.context, span.scored]) for span in in_order]
    made = [encoder.tokenizer.decode(each.tolist()) for each in tokens]
    assert made == GOLDENS["prompts"][f"{METHODS[style]} {length}"]
    assert max(each.size for each in tokens) <= length


@pytest.mark.parametrize("style", STYLES[1:])
def test_scores_equal_helms(tmp_path: Path, style: PromptStyle) -> None:
    """By the same log-probabilities every question has HELM's exact_match, ties and equal options included."""
    task = bound(tmp_path, style)
    made = []
    for request, sample, golden in zip(task.requests(), task.samples(), GOLDENS["scores"][METHODS[style]], strict=True):
        by_mode: dict[str, list[Any]] = {"original": [], "calibration": []}
        for mode, n, nats in golden["outputs"]:
            by_mode[mode].append((n, nats))
        outputs = [
            Output(request.id, at, total_nats=nats, is_greedy=False, n_tokens=n)
            for at, (n, nats) in enumerate([*by_mode["original"], *by_mode["calibration"]])
        ]
        scores = {score.metric: score.value for score in task.score(request, sample, outputs)}
        made.append(scores["acc_tokens_ties" if style == "helm-separate" else "acc_calibrated"])
    assert made == [golden["score"] for golden in GOLDENS["scores"][METHODS[style]]]
    assert {*made} - {0.0, 1.0}, "some are ties"


@pytest.mark.parametrize(
    ("answer", "score"), [(" {letter}", 1.0), ("{text}\n", 1.0), ("", 0.0), ("Z", 0.0), ("{letter}.", 0.0)]
)
def test_a_joint_answer_is_a_letter_or_an_options_text(tmp_path: Path, answer: str, score: float) -> None:
    """As in HELM nothing else is read from the answer."""
    task = bound(tmp_path, "helm-joint")
    request, sample = next(task.requests()), task.samples()[0]
    text = sample.row["options"][sample.row["gold"]]
    letter = "ABCD"[sample.row["options"].index(text)]
    output = Output(request.id, 0, text=answer.format(letter=letter, text=text), finish_reason="length")
    assert [each.value for each in task.score(request, sample, [output])] == [score]


def test_runs_have_helms_shots_and_metrics(tmp_path: Path) -> None:
    """A run has HELM's five shots and metric, and the separate styles none."""
    file = str(task_file(tmp_path))
    joint = assaymark.evaluate(FakeModel(mode="gold"), file, prompt_style="helm-joint")
    assert [(each.metric, each.value) for each in joint.estimates if each.metric == "exact_match"] == [
        ("exact_match", 1.0)
    ]
    assert joint.row.plan.tasks[0].num_fewshot == 5
    apart = assaymark.evaluate(FakeModel(mode="gold"), file, prompt_style="helm-separate-calibrated")
    assert apart.row.plan.tasks[0].num_fewshot == 0
    assert "acc_calibrated" in {each.metric for each in apart.estimates}
    done = evaluate_prompt_styles(FakeModel(mode="gold"), file, ["own", *STYLES], [None])
    assert [run.num_fewshot for run in done.runs] == [0, 5, 0, 0]
    lines = done.to_json()["lines"]
    assert isinstance(lines, list)
    assert [line["value"] for line in lines][:2] == [1.0, 1.0]


def test_conversations_have_no_shots_to_drop(tmp_path: Path) -> None:
    """The reader says that only plain texts lose shots."""
    request = next(bound(tmp_path, "helm-joint").requests())
    chat = replace(request, messages=(Message("user", (TextPart("Hi"),)),))
    with pytest.raises(UsageError, match="omit apply_chat_template"):
        TextReader(Encoder(byte_tokenizer()), 100, "drop_shots", None).read([chat])
