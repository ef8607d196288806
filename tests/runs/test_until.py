"""Evaluations that stop by rule: goals, budgets, resumption, and intervals that hold however often one looks."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.runs.comparison import compare_runs, stored_runs
from assaymark.runs.race import RaceOptions, race_models
from assaymark.runs.until import Budget, evaluate_until, parse_budget, parse_goal
from assaymark.statistics.sequential import PairedRace, SequentialMean
from assaymark.store import Store
from assaymark.tasks.question_order import question_order

MODEL = {"accuracy": 0.7}


@pytest.mark.parametrize(
    ("text", "name", "half_width", "bound"),
    [
        ("mmlu ± 2", "mmlu", 0.02, None),
        ("mmlu +- 2", "mmlu", 0.02, None),
        ("mmlu +/-1.5 points", "mmlu", 0.015, None),
        ("± 3", "", 0.03, None),
        ("acc >= .6", "acc", None, 0.6),
        ("gsm8k<40%", "gsm8k", None, 0.4),
        ("> 0.5", "", None, 0.5),
    ],
)
def test_goals_are_read(text: str, name: str, half_width: float | None, bound: float | None) -> None:
    """Widths are in points, bounds are shares."""
    goal = parse_goal(text)
    assert (goal.name, goal.half_width, goal.bound) == (name, half_width, pytest.approx(bound) if bound else None)


@pytest.mark.parametrize("text", ["mmlu", "mmlu ± 0", "mmlu ± 60", "acc >= 60", "acc >= 0", "acc == .5", "± -2", ""])
def test_what_is_not_a_goal_is_refused(text: str) -> None:
    """With an example of what is expected."""
    with pytest.raises(UsageError, match="--until"):
        parse_goal(text)


def test_budgets_are_read() -> None:
    """Of each kind once."""
    assert parse_budget(["500 samples", "$5", "1.5 minutes"]) == Budget(500, 90.0, 5.0)
    for wrong in (["5"], ["500 samples", "3 questions"], ["0 samples"], ["1.5 samples"], ["-3 minutes"]):
        with pytest.raises(UsageError, match="--budget"):
            parse_budget(wrong)


@pytest.mark.slow
def test_a_score_is_known_before_the_end_and_a_stricter_goal_goes_on(tmp_path: Path) -> None:
    """The interval holds the whole benchmark's score, nothing is asked twice, and a run without goals asks the rest."""
    store = str(tmp_path / "s.sqlite")
    wide = evaluate_until("fake", "demo_facts", ["demo_facts ± 8"], model_args=MODEL, store=store)
    assert wide.is_decided
    assert wide.n_seen < wide.n == 200
    again = evaluate_until("fake", "demo_facts", ["demo_facts ± 8"], model_args=MODEL, store=store)
    assert (again.goals, again.n_seen) == (wide.goals, wide.n_seen)
    narrow = evaluate_until("fake", "demo_facts", ["demo_facts ± 4"], model_args=MODEL, store=store)
    assert wide.n_seen < narrow.n_seen <= 200
    with Store.open(store) as opened:
        (row,) = opened.runs()
        assert row.n_outputs == 4 * narrow.n_seen  # four choices, none asked twice
    whole = assaymark.evaluate("fake", "demo_facts", model_args=MODEL, store=store)
    assert whole.id == wide.run.id
    score = next(estimate.value for estimate in whole.estimates if estimate.metric == "acc_norm")
    assert score is not None
    for done in (wide, narrow):
        assert done.goals[0].state.low - 1e-9 <= score <= done.goals[0].state.high + 1e-9
    certain = evaluate_until("fake", "demo_facts", ["± 0.1"], model_args=MODEL, store=store)
    assert certain.goals[0].state.half_width < 1e-9


def test_bounds_metrics_and_groups(tmp_path: Path) -> None:
    """A bound is passed or failed; a goal may name a metric that is not the main one; other names are refused."""
    store = str(tmp_path / "s.sqlite")
    done = evaluate_until("fake", "demo_facts", ["acc >= .4", "acc_norm >= .99"], model_args=MODEL, store=store)
    assert [goal.answer for goal in done.goals] == ["above", "below"]
    assert done.goals[0].metric == "acc"
    with pytest.raises(UsageError, match="'mmlu' is not a task or group of this run"):
        evaluate_until("fake", "demo_facts", ["mmlu ± 2"], model_args=MODEL, store=store)
    with pytest.raises(UsageError, match="omit limit"):
        evaluate_until("fake", "demo_facts", ["± 2"], model_args=MODEL, store=store, limit=20)
    with pytest.raises(UsageError, match="nothing says when to stop"):
        evaluate_until("fake", "demo_facts", model_args=MODEL, store=store)


def test_only_questions_of_open_goals_are_asked(tmp_path: Path) -> None:
    """A task whose goal is reached costs nothing more."""
    store = str(tmp_path / "s.sqlite")
    goals = ["demo_facts >= .2", "demo_letters ± 0.1"]
    done = evaluate_until("fake", "demo_facts,demo_letters", goals, model_args=MODEL, store=store)
    facts, letters = (goal.state for goal in done.goals)
    assert facts.n_seen < facts.n
    assert letters.n_seen == letters.n
    with Store.open(store) as opened:
        (row,) = opened.runs()
        n_scored = len({score.sample_index for score in opened.scores(row.run_id, "demo_facts")})
    assert facts.n_seen <= n_scored < facts.n


def test_budgets_end_a_run(tmp_path: Path) -> None:
    """Samples, seconds and money, each named; money is a limit of the whole run."""
    store = str(tmp_path / "s.sqlite")
    samples = evaluate_until("fake", "demo_facts", budget=Budget(n_samples=60), model_args=MODEL, store=store)
    assert (samples.n_seen, samples.spent) == (60, "60 samples")
    clock = evaluate_until("fake", "demo_facts", budget=Budget(seconds=1e-9), model_args=MODEL, store=store)
    assert clock.n_seen == 0
    assert clock.spent == "1e-09 seconds"
    money = evaluate_until(
        "fake", "demo_facts", budget=Budget(money=0.05), price="10,10", model_args=MODEL, store=store + "2"
    )
    assert money.spent == "money"
    assert 0 < money.n_seen < 200


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_never_interrupted(tmp_path: Path) -> None:
    """State is rebuilt from what is stored."""
    store, plain = str(tmp_path / "s.sqlite"), str(tmp_path / "plain.sqlite")
    words = ["run", "--model", "fake", "--model_args", "accuracy=0.7,delay_ms=20", "--tasks", "demo_facts", "--json"]
    words += ["--until", "± 6"]
    command = [sys.executable, "-m", "assaymark", *words]
    with subprocess.Popen([*command, "--store", store], stdout=subprocess.DEVNULL) as process:
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
        ended = subprocess.run([*command, "--store", place], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        ends.append(json.loads(ended.stdout)["until"])
    assert ends[0] == ends[1]


def test_the_command_says_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 for goals that are reached, 1 for those that are not, 2 for what cannot be meant."""
    shared = ["run", "--model", "fake", "--model_args", "accuracy=0.7", "--tasks", "demo_facts", "--store"]
    store = str(tmp_path / "s.sqlite")
    assert main([*shared, store, "--until", "demo_facts +- 8"]) == 0
    printed = capsys.readouterr()
    assert "by rule after 114 of 200 questions" in " ".join(printed.out.split())
    assert "interval at any time" in " ".join(printed.out.split())
    assert "more would" in printed.err
    assert main([*shared, store + "2", "--until", "± 1", "--budget", "80 samples", "-q"]) == 1
    printed = capsys.readouterr()
    assert "the budget of 80 samples is spent" in printed.out
    assert main([*shared, store, "--until", "± 1", "--prompt_style", "letter"]) == 2
    assert "--until and --budget are for one run of a model" in capsys.readouterr().err


def misses(n: int, mean: float, *, half_width: float | None, n_orders: int, peek: bool) -> float:
    """Return the share of random orders whose interval ever missed the mean; with `peek` an ordinary interval."""
    values = np.zeros(n)
    values[: round(n * mean)] = 1.0
    truth, rng, n_missed = values.mean(), np.random.default_rng(0), 0
    for _ in range(n_orders):
        order = rng.permutation(values)
        if peek:
            t = np.arange(20, n)
            share = order.cumsum()[19 : n - 1] / t
            error = 1.96 * np.sqrt(share * (1 - share) / t * (n - t) / (n - 1))
            n_missed += bool((np.abs(share - truth) > error).any())
            continue
        sequence = SequentialMean(n, half_width=half_width)
        ever = False
        for block in np.array_split(order, n // 10):
            state = sequence.add(block)
            ever |= not state.low - 1e-9 <= truth <= state.high + 1e-9
        n_missed += ever
    return n_missed / n_orders


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "half_width"), [(0.3, None), (0.7, 0.05), (0.97, None)])
def test_intervals_miss_no_more_often_than_stated(mean: float, half_width: float | None) -> None:
    """Over all times together, within three standard errors; an ordinary interval, looked at as often, fails this.

    The bets themselves are followed over 2,000 orders in `tests/statistics/test_rules_that_stop.py`.
    """
    n_orders = 100
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_orders)
    assert misses(400, mean, half_width=half_width, n_orders=n_orders, peek=False) <= most
    if mean != 0.97:
        assert misses(400, mean, half_width=half_width, n_orders=n_orders, peek=True) > most


def test_the_values_that_are_left_bound_the_interval() -> None:
    """Near the end the rest can move the mean by their share alone."""
    sequence = SequentialMean(100)
    state = sequence.add(np.ones(99))
    np.testing.assert_allclose((state.low, state.high), (0.99, 1.0))
    state = sequence.add(np.zeros(1))
    np.testing.assert_allclose((state.low, state.high), (0.99, 0.99))


@pytest.mark.slow
def test_a_comparison_says_that_a_rule_stopped_a_run(tmp_path: Path) -> None:
    """The interval over the common order is that of a race, and holds the difference of the whole benchmark."""
    store = str(tmp_path / "s.sqlite")
    early = evaluate_until("fake", "demo_facts", ["± 8"], model_args={"accuracy": 0.7}, store=store, seed=7)
    whole = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.3, "seed": 2}, store=store)
    assert early.n_seen < early.n
    (pair,) = assaymark.compare_runs([whole, early.run]).pairs
    assert pair.stopped == (pair.labels[1],)
    notes = " ".join(pair.notes)
    assert f"stopped by its rule after {early.n_seen} of {early.n} questions" in notes
    order = [index for _, index in _order(whole)][: early.n_seen]
    values = [
        {score.sample_index: score.value or 0.0 for score in run.store.scores(run.id, "demo_facts")
         if score.metric == whole.estimate("demo_facts").metric}
        for run in (whole, early.run)
    ]  # fmt: skip
    race = PairedRace(early.n).add(np.array([values[1][index] - values[0][index] for index in order]))
    assert f"{100 * race.difference:+.1f} points, 95% interval {100 * race.low:+.1f} to {100 * race.high:+.1f}" in notes
    complete = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.7}, store=store, seed=7)
    truth = float(complete.estimate("demo_facts").value or 0) - float(whole.estimate("demo_facts").value or 0)
    assert race.low <= truth <= race.high
    assert assaymark.compare_runs([whole, complete]).pairs[0].stopped == ()


def test_a_gate_refuses_a_run_that_a_rule_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bound for samples of a fixed size is not valid where the answers decided how many there are."""
    store = str(tmp_path / "s.sqlite")
    early = evaluate_until("fake", "demo_facts", ["± 8"], model_args={"accuracy": 0.7}, store=store)
    whole = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.3, "seed": 2}, store=store)
    assert main(["compare", whole.id, early.run.id, "--gate", "demo_facts >= 0.01", "--store", store]) == 2
    assert "was stopped by its rule" in capsys.readouterr().err


def _order(run: assaymark.Run) -> list[tuple[str, int]]:
    """Return the order of the questions, made from the run's data alone."""
    (task,) = run.row.plan.tasks
    n = len(run.samples("demo_facts"))
    return question_order({"demo_facts": range(n)}, {"demo_facts": task.dataset_hash}, 0)


def test_a_run_that_an_earlier_version_drew_actively_is_shown_and_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its order followed its answers, so a comparison has no interval until a goal has it in the order of all runs."""
    store = str(tmp_path / "s.sqlite")
    other = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.62}, store=store)
    begun = evaluate_until("fake", "demo_facts", ["± 8"], model_args=MODEL, store=store).run
    with Store.open(store) as opened:  # as those versions left it: one mean by the goal, all others undefined
        facts = {**begun.row.extra, "draws": "active", "until": {**begun.row.extra["until"], "draws": "active"}}
        undefined: dict[str, Any] = {"low": None, "high": None, "stderr": None, "method": ""}
        estimates = [
            replace(each, value=0.7 if each.metric == "acc_norm" else None, **undefined) for each in begun.estimates
        ]
        opened.save_estimates(begun.id, estimates, facts)
    assert main(["show", begun.id, "--store", store]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "stopped by rule after" in shown
    assert "70.0%" in shown
    for name in ("run.csv", "run.assaymark"):
        assert main(["export", begun.id, "-o", str(tmp_path / name), "--store", store]) == 0
    assert main(["import", str(tmp_path / "run.assaymark"), "--store", store + "2"]) == 0
    (pair,) = compare_runs(stored_runs(store, [other.id, begun.id])).pairs
    assert "so intervals and p are not valid; evaluate the rest" in " ".join(pair.notes)
    continued = evaluate_until("fake", "demo_facts", ["± 6"], model_args=MODEL, store=store)
    assert continued.run.id == begun.id
    (pair,) = compare_runs(stored_runs(store, [other.id, begun.id])).pairs
    assert "intervals and p are not valid" not in " ".join(pair.notes)
    whole = assaymark.evaluate("fake", "demo_facts", model_args=MODEL, store=store)
    assert whole.id == begun.id
    assert whole.estimate("demo_facts", "acc").low is not None
    again = evaluate_until("fake", "demo_facts", ["± 8"], model_args=MODEL, store=store)  # nothing of it is asked
    assert again.is_decided
    assert whole.row.n_outputs == 4 * whole.estimate("demo_facts", "acc").n


TWO_SIZES = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {name}.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: [" yes", " no"]
doc_to_target: 0
metric_list: [{{metric: acc}}]
"""


@pytest.fixture
def two_sizes(tmp_path: Path) -> Path:
    """Return a folder with a task of 40 questions and one of 400."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    for name, n in (("few", 40), ("many", 400)):
        rows = [json.dumps({"question": f"{name} {at}?"}) for at in range(n)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
        (folder / f"{name}.yaml").write_text(TWO_SIZES.format(name=name))
    return folder


def test_a_mean_of_tasks_means_is_known_by_weighted_draws(two_sizes: Path, tmp_path: Path) -> None:
    """Small tasks are asked more than in proportion; the interval holds the mean of means, which the end equals."""
    store = str(tmp_path / "s.sqlite")
    options: Any = {"include_path": [str(two_sizes)], "model_args": {"accuracy": 0.7, "seed": 3}, "store": store}
    early = evaluate_until("fake", "few,many", ["± 12"], macro=True, **options)
    state = early.goals[0].state
    assert early.is_decided
    n_few = sum(1 for score in early.run.store.scores(early.run.id, "few") if score.metric == "acc")
    assert n_few / early.n_seen > 0.2  # 9% by number
    assert "each task counting the same" in early.goals[0].sentence
    whole = evaluate_until("fake", "few,many", ["± 0.01"], macro=True, **options)
    assert whole.run.id == early.run.id
    assert whole.n_seen == 440
    mean = sum((whole.run.estimate(task, "acc").value or 0) / 2 for task in ("few", "many"))
    assert whole.goals[0].state.mean == pytest.approx(mean)
    assert state.low <= mean <= state.high


def test_a_race_may_count_each_task_the_same(two_sizes: Path, tmp_path: Path) -> None:
    """The difference is one of means over tasks, and `compare` of the stopped runs has the same one."""
    store = str(tmp_path / "s.sqlite")
    race = race_models(
        "fake", "fake", "few,many", RaceOptions(macro=True), first_args={"accuracy": 0.9},
        second_args={"accuracy": 0.5, "seed": 2}, include_path=[str(two_sizes)], store=store,
    )  # fmt: skip
    assert race.state.verdict == "first"
    assert "of the tasks' mean" in race.verdict
    pair = compare_runs(stored_runs(store, [race.run_ids[1], race.run_ids[0]])).pairs[0]
    gain = f"{100 * race.state.difference:+.1f} points of the tasks' mean"
    assert any(gain in note for note in pair.notes), pair.notes


@pytest.mark.parametrize("by_size", [True, False])
def test_a_group_with_another_mean_is_pointed_out(two_sizes: Path, tmp_path: Path, *, by_size: bool) -> None:
    """A macro average without --macro, and a micro average with it, are named; what agrees is not."""
    listed = f"aggregate_metric_list: [{{metric: acc, aggregation: mean, weight_by_size: {str(by_size).lower()}}}]\n"
    (two_sizes / "both.yaml").write_text(f"group: both\ntask: [few, many]\n{listed}")
    lines: dict[bool, list[str]] = {True: [], False: []}
    for macro, of_draw in lines.items():
        race_models(
            "fake", "fake", "both", RaceOptions(macro=macro), first_args={"accuracy": 0.9}, notify=of_draw.append,
            second_args={"accuracy": 0.5, "seed": 2}, include_path=[str(two_sizes)], store=str(tmp_path / "r.sqlite"),
        )  # fmt: skip
        evaluate_until(
            "fake", "both", ["± 12"], macro=macro, include_path=[str(two_sizes)], notify=of_draw.append,
            store=str(tmp_path / f"{macro}.sqlite"), model_args={"accuracy": 0.7},
        )  # fmt: skip
    notes = {macro: [line for line in of_draw if "the score of both is" in line] for macro, of_draw in lines.items()}
    assert notes[not by_size] == []
    mean = "over all of its questions" if by_size else "of its parts' means (a macro average)"
    assert len(notes[by_size]) == 2
    assert all(mean in line for line in notes[by_size])


def test_macro_needs_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a goal or a budget there is no order to weight."""
    words = ["run", "--model", "fake", "--tasks", "demo_facts", "--macro", "--store", str(tmp_path / "s.sqlite")]
    assert main(words) == 2
    assert "--macro is about the order of --until and --budget" in capsys.readouterr().err
