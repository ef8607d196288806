"""Races of two models over real runs: decided early, resumed after a kill, against stored runs."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import AssaymarkError, PlanError, UsageError
from assaymark.runs.race import Race, RaceOptions, race_models
from assaymark.runs.race_sides import block_size
from assaymark.runs.run import Run
from assaymark.runs.until import evaluate_until
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import Task
from tests.judges.judge_server import judging_server

A, B = {"accuracy": 0.8}, {"accuracy": 0.5, "seed": 2}


def test_a_clear_difference_is_decided_before_the_end(tmp_path: Path) -> None:
    """Both runs are incomplete and marked; a whole run afterwards asks the rest and has no mark."""
    store = str(tmp_path / "s.sqlite")
    result = race_models("fake", "fake", "demo_facts", first_args=A, second_args=B, store=store)
    assert result.state.verdict == "first"
    assert result.state.n_seen < result.state.n == 200
    assert result.state.low > 0
    with Store.open(store) as opened:
        rows = opened.runs()
        assert {row.status for row in rows} == {"incomplete"}
        assert {row.n_samples for row in rows} == {result.state.n_seen}
    run = assaymark.evaluate("fake", "demo_facts", model_args=A, store=store)
    assert run.id == result.run_ids[0]
    assert (run.row.status, run.row.n_samples) == ("finished", 200)


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        ("{metric: missed, aggregation: mean, higher_is_better: false}", None),
        ("{metric: missed, aggregation: median, higher_is_better: false}", "missed, which is not a mean"),
        (
            "{metric: gaps, aggregation: mean, higher_is_better: true}",
            "gaps of own_metric, .* is undefined;",
        ),
        ("{metric: points, aggregation: mean, higher_is_better: true}", "points of own_metric, sample [0-9]+, is 100;"),
    ],
)
def test_a_task_files_own_metric_decides(tmp_path: Path, own: str, refused: str | None) -> None:
    """Its direction is the file's; what is not a mean of shares is refused, for goals too."""
    rows = [{"question": f"{index}?", "choices": ["yes", "no"], "gold": index % 2} for index in range(120)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "own.py").write_text(
        "def score(doc, results):\n"
        "    is_right = results[doc['gold']][0] == max(nats for nats, _ in results)\n"
        "    return {'missed': 1 - is_right, 'points': 100 * is_right, 'gaps': None}\n"
    )
    (tmp_path / "own_metric.yaml").write_text(
        f"task: own_metric\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: question\ndoc_to_choice: choices\n"
        f"doc_to_target: gold\nprocess_results: !function own.score\nmetric_list: [{own}]\n"
    )
    place: dict[str, Any] = {"store": str(tmp_path / "s.sqlite"), "include_path": [str(tmp_path)]}
    if refused is None:
        result = race_models("fake", "fake", "own_metric", first_args=A, second_args=B, **place)
        assert result.state.verdict == "first"
        return
    with pytest.raises(AssaymarkError, match=refused):
        race_models("fake", "fake", "own_metric", first_args=A, second_args=B, **place)
    with pytest.raises(AssaymarkError, match=refused):
        evaluate_until("fake", "own_metric", ["own_metric ± 5"], model_args=A, **place)


@pytest.mark.parametrize(
    ("n_seen", "n_more", "size"),
    [(0, None, 50), (100, None, 16), (1000, None, 100), (100, 400, 50), (100, 60, 30), (100, 4, 16), (1000, 4, 100)],
)
def test_looks_are_rare_while_a_verdict_is_far_away(n_seen: int, n_more: int | None, size: int) -> None:
    """Half of the questions that would decide are asked until the next look, and half of those seen at most."""
    assert block_size(n_seen, n_more) == size


def test_two_models_read_a_tasks_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks are bound for the first model, and the second answers the same samples."""
    read: list[str] = []

    def counted(task: Task, options: BindOptions) -> BoundTask:
        read.append(task.name)
        return bind(task, options)

    monkeypatch.setattr("assaymark.runs.plan.bind", counted)
    store = str(tmp_path / "s.sqlite")
    race_models("fake", "fake", "demo_facts", RaceOptions(most=4), first_args=A, second_args=B, store=store)
    assert read == ["demo_facts"]


@pytest.mark.slow
def test_the_same_race_again_asks_nothing_and_a_stricter_one_goes_on(tmp_path: Path) -> None:
    """State is rebuilt from what is stored: the verdict is the same, and a smaller alpha continues where it stopped."""
    store = str(tmp_path / "s.sqlite")
    first = race_models("fake", "fake", "demo_facts", first_args=A, second_args=B, store=store)
    again = race_models("fake", "fake", "demo_facts", first_args=A, second_args=B, store=store)
    assert again.state == first.state
    stricter = race_models(
        "fake", "fake", "demo_facts", RaceOptions(alpha=0.0001), first_args=A, second_args=B, store=store
    )
    assert stricter.state.n_seen > first.state.n_seen
    with Store.open(store) as opened:
        assert all(row.n_outputs == 4 * stricter.state.n_seen for row in opened.runs())  # four choices, none twice


@pytest.mark.slow
def test_a_race_is_resumed_after_a_kill(tmp_path: Path) -> None:
    """Killed in the middle and started again, it ends as one that was never interrupted."""
    store, plain = str(tmp_path / "s.sqlite"), str(tmp_path / "plain.sqlite")
    words = ["race", "fake:accuracy=0.6,delay_ms=20", "fake:accuracy=0.55,seed=2", "--tasks", "demo_facts", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "assaymark", *words, "--store", store], stdout=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if Store.exists(store):
                with Store.open_to_read(store) as opened:
                    if sum(row.n_outputs for row in opened.runs()) > 100:
                        break
            time.sleep(0.05)
        process.kill()
    ends = []
    for place in (store, plain):
        ended = subprocess.run(
            [sys.executable, "-m", "assaymark", *words, "--store", place], capture_output=True, text=True, check=False
        )
        ends.append(json.loads(ended.stdout))
    assert ends[0] == ends[1]


@pytest.mark.slow
def test_a_stored_run_is_raced_without_asking_its_model(tmp_path: Path) -> None:
    """Only the new model answers; a run of other questions, or of a part, is refused."""
    store = str(tmp_path / "s.sqlite")
    base = assaymark.evaluate("fake", "demo_facts", model_args=B, store=store)
    result = race_models("fake", base.id, "demo_facts", first_args=A, store=store)
    assert result.state.verdict == "first"
    with Store.open(store) as opened:
        assert len(opened.runs()) == 2
        assert opened.run(base.id).status == "finished"
    part = assaymark.evaluate("fake", "demo_facts", model_args={"seed": 5}, limit=20, store=store)
    with pytest.raises(PlanError, match="has no score of demo_facts"):
        race_models("fake", part.id, "demo_facts", first_args=A, store=store)
    with pytest.raises(PlanError, match="has no task demo_letters"):
        race_models("fake", base.id, "demo_letters", first_args=A, store=store)


def test_a_failed_question_stops_the_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What follows it in the order is not evidence before it is answered; the exit code says that requests failed."""
    words = ["race", "fake:accuracy=0.8,fail=0.02", "fake:accuracy=0.5,seed=2", "--tasks", "demo_facts", "--quiet"]
    assert main([*words, "--store", str(tmp_path / "s.sqlite")]) == 5
    output = capsys.readouterr()
    assert "Not decided" in output.out
    assert "could not be answered; the same command asks them again" in output.err


def test_a_second_model_that_is_not_there_leaves_the_firsts_run_as_it_is(tmp_path: Path) -> None:
    """It is looked for before a run is opened, whose attempt would have failed."""
    store = str(tmp_path / "s.sqlite")
    race_models("fake", "fake", "demo_facts", RaceOptions(most=4), first_args=A, second_args=B, store=store)
    for names in (["no/such"], ["no/such", "fake:accuracy=0.1"]):
        assert main(["race", "fake:accuracy=0.8", *names, "--tasks", "demo_facts", "--store", store]) != 0
    with Store.open(store) as opened:
        assert [row.status for row in opened.runs()] == ["incomplete", "incomplete"]


def test_what_cannot_be_raced_is_refused(tmp_path: Path) -> None:
    """The same model twice, a limit, a metric that is not a share."""
    store = str(tmp_path / "s.sqlite")
    with pytest.raises(UsageError, match="two of the models are the same"):
        race_models("fake", "fake", "demo_facts", first_args=A, second_args=A, store=store)
    with pytest.raises(UsageError, match="omit limit"):
        race_models("fake", "fake", "demo_facts", first_args=A, second_args=B, limit=5, store=store)
    with pytest.raises(UsageError, match="scores from 0 to 1"):
        race_models("fake", "fake", "demo_stories", first_args=A, second_args=B, store=store)


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the verdict, the interval, what they are about, and both runs; undecided within a budget is exit 1."""
    words = ["race", "fake:accuracy=0.8", "fake:accuracy=0.5,seed=2", "--tasks", "demo_facts"]
    store = ["--store", str(tmp_path / "s.sqlite")]
    assert main([*words, "--until", "decided", *store]) == 0
    output = capsys.readouterr()
    assert "fake-gold-0 is better than fake-gold-2 on this benchmark" in output.out
    assert re.search(r"on this benchmark \(\+[\d.]+ points over", output.out)  # of the better one, whichever that is
    assert re.search(r"first minus second: \+[\d.]+ points, 95% interval at any time", output.out)
    assert "new questions of this kind is another question" in output.out
    assert "of 200: " in output.err
    swapped = ["race", "fake:accuracy=0.5,seed=2", "fake:accuracy=0.8", "--tasks", "demo_facts"]
    assert main([*swapped, *store]) == 0
    output = capsys.readouterr()
    assert re.search(r"fake-gold-0 is better than fake-gold-2 on this benchmark \(\+[\d.]+ points over", output.out)
    assert re.search(r"first minus second: -[\d.]+ points, 95% interval at any time -[\d.]+ to [+-]", output.out)
    close = ["race", "fake:accuracy=0.6", "fake:accuracy=0.55,seed=2", "--tasks", "demo_facts"]
    assert main([*close, "--budget", "50", *store]) == 1
    assert "Not decided" in capsys.readouterr().out
    assert main(["show", "last", *store]) == 0
    assert "stopped by rule after 50 of 200 questions" in " ".join(capsys.readouterr().out.split())


def test_a_race_has_the_bills_of_what_it_asked(tmp_path: Path) -> None:
    """Both bills together are the server's own count, also of a race that goes on; a limit of the cost is refused."""
    rows = [{"prompt": f"What is {i} and {i}?", "reference": str(2 * i)} for i in range(120)]
    questions = tmp_path / "sums.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = str(tmp_path / "s.sqlite")
    with judging_server(lambda _: "4") as server:

        def race(most: int, **more: Any) -> Race:
            return race_models(
                "local-chat-completions", "local-chat-completions", str(questions), RaceOptions(most=most), store=store,
                first_args=server.arguments, second_args=f"{server.arguments},seed=2", apply_chat_template=True,
                gen_kwargs={"max_gen_toks": 30}, price="1000,2000", **more,
            )  # fmt: skip

        for most in (60, 90):
            outcome = race(most)
            with Store.open(store) as opened:
                costs = [Run(opened, run_id).cost for run_id in outcome.run_ids]
            spent = [float(str(cost["spent"])) for cost in costs if cost is not None]
            assert len(server.seen) == 2 * most
            assert sum(spent) == pytest.approx(sum(len(text) // 4 * 0.001 + 20 * 0.002 for text in server.seen))
            assert sum("cost: " in remark for remark in outcome.remarks) == 2
        with pytest.raises(UsageError, match=r"no limit of its cost; omit max_cost, or limit the questions"):
            race(90, max_cost=1.0)
