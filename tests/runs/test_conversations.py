"""Conversations: the second turn sees the model's own first answer, and a kill between turns loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from assaymark.audit.task_check import check_task
from assaymark.documents.document import Document
from assaymark.documents.terminal import as_text
from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.models.fake import FakeModel
from assaymark.records import GenerateQuery, Message, Output, Query, Request, TextPart
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from assaymark.runs.execute import execute
from assaymark.runs.explain import explain_task, explanation_document
from assaymark.runs.plan import PreparedRun, RunOptions, prepare
from assaymark.runs.planning import plan_run
from assaymark.runs.run import Run
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from tests.conftest import ROOT
from tests.runs.test_execute import CountingModel

ROWS = [
    {"turns": [f"How many legs have {n} dogs?", "And how many tails?"], "reference": [str(4 * n), str(n)]}
    for n in range(1, 6)
] + [{"turns": ["What does a cat say?", "And a cow?", "And a duck?"], "reference": []}]
SPEC = {
    "task": "talk",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_turns": "turns",
    "doc_to_target": "reference",
    "generation_kwargs": {"until": [], "max_gen_toks": 12},
    "metric_list": [],
}
N_ANSWERS = 5 * 2 + 3


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    """Return the file of a small conversation."""
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    path = tmp_path / "talk.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    return path


def prepared_run(model: FakeModel, task_file: Path) -> PreparedRun:
    """Return the plan of the small conversation."""
    return prepare(Catalog.open(lm_eval=False).select([str(task_file)]), model, RunOptions(bind=BindOptions()))


def exchanges(store: Store, run_id: str) -> list[tuple[int, int, str, str | None]]:
    """Return the stored requests and answers: sample, turn, prompt, text."""
    return [
        (record.request.sample_index, record.request.turn, record.request.prompt, record.outputs[0].text)
        for record in store.samples(run_id, "talk")
    ]


def message(role: str, text: str) -> Message:
    """Return a message."""
    return Message(role, (TextPart(text),))  # type: ignore[arg-type]


def test_a_turn_sees_the_answer_before_it(task_file: Path) -> None:
    """Each turn's prompt is the chat template's rendering of all messages so far, the model's answers included."""
    pytest.importorskip("torch")
    path = str(demo_model("large"))
    run = evaluate("hf", [str(task_file)], model_args={"pretrained": path, "device": "cpu"})
    model = create_model("hf", {"pretrained": path, "device": "cpu"})
    records = {(r.request.sample_index, r.request.turn): r for r in run.samples("talk")}
    assert len(records) == N_ANSWERS
    assert [records[5, turn].request.messages[-1].text for turn in range(3)] == ROWS[5]["turns"]
    for (index, turn), record in records.items():
        chat: list[Message] = []
        for k in range(turn):
            answer = records[index, k].outputs[0].text or ""
            chat += [message("user", ROWS[index]["turns"][k]), message("assistant", answer)]
        chat.append(message("user", ROWS[index]["turns"][turn]))
        assert record.request.prompt == model.render(chat)
    last = records[5, 2].request
    alone = Request("alone", 0, "sha", (last.prompt,), last.queries)
    assert [output.text for output in model.answer([alone])] == [records[5, 2].outputs[0].text]
    assert isinstance(last.queries[0], GenerateQuery)
    assert [records[0, turn].request.target for turn in (0, 1)] == ["4", "1"]


@pytest.mark.parametrize("stop_after", [3, len(ROWS), len(ROWS) + 2, N_ANSWERS - 1])
@pytest.mark.slow
def test_interrupted_anywhere_it_ends_the_same(task_file: Path, stop_after: int) -> None:
    """A run stopped within or between turns and run again equals an uninterrupted one; each query is sent once."""
    whole, store = (Store.open(str(task_file.with_name(f"{name}.sqlite"))) for name in ("whole", "stopped"))
    model = CountingModel()
    expected = execute(prepared_run(model, task_file), model, whole)
    first, second = CountingModel(stop_after), CountingModel()
    with pytest.raises(KeyboardInterrupt):
        execute(prepared_run(first, task_file), first, store)
    done = execute(prepared_run(second, task_file), second, store)
    assert done.status == expected.status == "finished"
    assert exchanges(store, done.run_id) == exchanges(whole, expected.run_id)
    assert len(exchanges(store, done.run_id)) == N_ANSWERS
    assert len({*first.asked, *second.asked}) == len(first.asked) + len(second.asked) == N_ANSWERS
    again = CountingModel()
    assert execute(prepared_run(again, task_file), again, store).was_stored
    assert again.asked == []


@pytest.mark.slow
def test_kill_nine_between_turns(task_file: Path) -> None:
    """Killed with SIGKILL once some second turns are stored, the same command continues with only the rest."""
    store_file = task_file.with_name("store.sqlite")
    arguments = ["--model", "fake", "--model_args", "delay_ms=300", "--tasks", str(task_file)]
    command = [sys.executable, "-m", "assaymark", "run", *arguments, "--store", str(store_file)]
    process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    turns: list[int] = []
    while time.monotonic() < deadline and 1 not in turns:
        time.sleep(0.1)
        turns = _stored_turns(store_file)
    process.send_signal(signal.SIGKILL)
    process.wait()
    n_before = len(_stored_turns(store_file))
    assert len(ROWS) < n_before < N_ANSWERS
    done = evaluate("fake", [str(task_file)], model_args="delay_ms=1", store=str(store_file))
    assert done.result is not None
    assert done.result.n_answered_now == N_ANSWERS - n_before
    assert len(exchanges(done.store, done.id)) == N_ANSWERS


def _stored_turns(store_file: Path) -> list[int]:
    if not store_file.is_file():
        return []
    with Store.open(str(store_file)) as store:
        runs = store.runs()
        return [r.request.turn for r in store.samples(runs[0].run_id, "talk") if r.outputs] if runs else []


def test_a_conversation_ends_at_a_failed_turn(task_file: Path) -> None:
    """A turn that failed is stored as failed, nothing follows it, and the other conversations continue."""

    class Mute(FakeModel):
        """Fails at the first sample's first turn."""

        def _compute(self, request: Request, query: Query, repeat: int, key: str) -> Output:
            if request.id == "talk/0/0":
                return Output(request.id, query.index, repeat, error="nothing came", error_kind="Permanent")
            return super()._compute(request, query, repeat, key)

    model, store = Mute(), Store.open()
    done = execute(prepared_run(model, task_file), model, store)
    assert [(index, turn) for index, turn, *_ in exchanges(store, done.run_id)][:3] == [(0, 0), (1, 0), (1, 1)]
    assert done.n_failed == 1


def test_a_run_without_scores_shows_its_answers(task_file: Path) -> None:
    """A conversation has no score; the run shows lengths and finish reasons by turn, and samples as dialogues."""
    run = evaluate("fake", [str(task_file)], model_args="mode=gold")
    assert run.estimates == ()
    lines = run.remarks()
    assert lines[0].startswith("talk: answers are stored and not scored")
    assert [line.split(",")[0] for line in lines[1:4]] == [
        "  turn 1: 6 answers",
        "  turn 2: 6 answers",
        "  turn 3: 1 answer",
    ]
    assert all("at a stop text" in line for line in lines[1:4])
    answers = json.loads(json.dumps(run.to_json()))["answers"]
    assert [(each["turn"], each["n"]) for each in answers] == [
        (0, 6),
        (1, 6),
        (2, 1),
    ]
    result = as_text(_views(run, 2))
    assert result.index("How many legs have 1 dogs?") < result.index("model: 4") < result.index("And how many tails?")
    assert "How many legs have 2 dogs?" in result
    assert "How many legs have 3 dogs?" not in result
    assert run.sample_records("talk", only_wrong=True) == []
    files = run.write_lm_eval_files(task_file.parent / "out", log_samples=True)
    logged = [json.loads(line) for line in files[1].read_text().splitlines()]
    assert [(line["doc_id"], line.get("turn", 0)) for line in logged[:3]] == [(0, 0), (0, 1), (1, 0)]
    assert json.loads(files[0].read_text())["configs"]["talk"]["doc_to_turns"] == "turns"


def test_explaining_a_conversation_needs_no_model(task_file: Path) -> None:
    """Explain and task check show the user's first message; a plan states that it covers first turns only."""
    explained = explain_task(str(task_file))
    assert explained["prompt"] == ROWS[0]["turns"][0]
    assert explained["request_type"].startswith("a conversation")
    assert "no metric" in as_text(explanation_document(explained))
    assert check_task(str(task_file)).findings == []
    planned = plan_run("fake", [str(task_file)])
    assert planned.notes[-1] == "talk: first turns only; later turns depend on the responses"
    assert planned.chunks[0].n_samples == len(ROWS)


def _views(run: Run, limit: int) -> Document:
    return run.samples_document(run.sample_records("talk", limit=limit))


def test_a_model_without_a_chat_template_is_refused(task_file: Path, shared_dir: Path) -> None:
    """A conversation needs a chat template; the error states the remedy."""
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="no chat template; messages need one: use a tokenizer that has one"):
        evaluate("hf", [str(task_file)], model_args={"pretrained": str(shared_dir / "models" / "stories260K")})
