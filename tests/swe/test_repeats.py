"""Several attempts, what they took, dates, and the same gradings as a run and as traces."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

import httpx
import numpy as np
import pytest

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceFilter
from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.statistics.groups import compare_shares
from assaymark.store import Store
from assaymark.swe.as_run import store_gradings
from assaymark.swe.grading_log import Grading, GradingDetails, GradingLog, StoredAttempt, trace_id_of
from assaymark.swe.instances import Instance, Prediction, text_sha, write_rows
from assaymark.swe.repeats import compare_repeats, per_resolved, repeats_of, split_by_date
from assaymark.swe.report import SweReport, stored_report
from assaymark.swe.trajectory_traces import store_traces
from assaymark.web.app import create_app
from tests.served import running

N = 12
LOG = "PASSED tests/test_a.py::test_a\n<script>alert(1)</script>"


def made_instance(number: int) -> Instance:
    """Return an instance; the later half were created in 2025."""
    return Instance(
        instance_id=f"local__p-{number}", repo="local/p", base_commit=f"{number:040x}", patch=f"gold {number}",
        test_patch="tests", problem_statement=f"Issue number {number}", FAIL_TO_PASS=("a",), PASS_TO_PASS=(),
        created_at=f"{2024 + (number >= N // 2)}-03-01T00:00:00Z" if number else "",
    )  # fmt: skip


INSTANCES = [made_instance(number) for number in range(N)]


def trajectory(patch: str, costs: Sequence[float | None]) -> dict[str, object]:
    """Return a trajectory in mini-swe-agent's form, with one command after each call but the last."""
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You solve issues.", "extra": {}},
        {"role": "user", "content": "<issue>", "extra": {}},
    ]
    for at, cost in enumerate(costs):
        extra = {"actions": [{"command": f"ls {at}"}], "cost": cost, "timestamp": 1000.0 + 2 * at}
        messages.append({"role": "assistant", "content": f"I list {at}.", "extra": extra})
        messages.append({"role": "user", "content": f"<returncode>{at}</returncode>",
                         "extra": {"returncode": at, "timestamp": 1001.0 + 2 * at}})  # fmt: skip
    messages.append({"role": "exit", "content": patch, "extra": {}})
    return {"info": {"submission": patch}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}


def graded(
    store: Store, model: str, attempt: int, right: Sequence[bool], costs: Sequence[float | None] = ()
) -> list[Prediction]:
    """Store gradings of an attempt at the instances; with costs, also its trajectories."""
    log = GradingLog(store)
    predictions = []
    for instance, is_right in zip(INSTANCES, right, strict=False):
        prediction = Prediction(instance.instance_id, model, f"{model} {attempt} {instance.instance_id}")
        predictions.append(prediction)
        lists = {"success": ["a"], "failure": []} if is_right else {"success": [], "failure": ["a"]}
        details: GradingDetails = {
            "tests_status": {"FAIL_TO_PASS": lists, "PASS_TO_PASS": {"success": [], "failure": []}},
            "flags": [] if is_right else ["mentions the test framework"],
            "applied_by": "git apply",
        }
        log.add_grading(
            Grading(instance.sha, prediction.patch_sha, "e" * 64, instance.instance_id,
                    "resolved" if is_right else "unresolved", "" if is_right else "one test fails", 1.5,
                    prediction.model_patch, details, LOG)
        )  # fmt: skip
        if costs:
            cost = None if None in costs else sum(each or 0.0 for each in costs)
            key = text_sha(prediction.model_patch)
            log.add_attempt(
                StoredAttempt(key, instance.instance_id, model, prediction.patch_sha, "Submitted", len(costs), cost,
                              trajectory(prediction.model_patch, costs))
            )  # fmt: skip
    return predictions


def reported(store: Store, *attempts: Sequence[Prediction]) -> list[SweReport]:
    """Return the reports of attempts."""
    return [stored_report(store, INSTANCES, each) for each in attempts]


def test_attempts_count_by_instance(store: Store) -> None:
    """The mean is that of the instances' means; pass@k is the share of all choices of k attempts with a right one."""
    rows = np.random.default_rng(3).random((3, N)) < 0.4
    reports = reported(store, *(graded(store, "m", at, list(row)) for at, row in enumerate(rows)))
    repeats = repeats_of(reports)
    assert repeats is not None
    assert repeats.mean.value == pytest.approx(rows.mean())
    assert repeats.mean.n == N
    for k in (1, 2, 3):
        by_choice = [
            [rows[list(choice), at].any() for choice in itertools.combinations(range(3), k)] for at in range(N)
        ]
        assert repeats.pass_at[k].value == pytest.approx(np.mean(by_choice))
    compared, only = compare_repeats(reports[:1], reports)
    assert compared.difference == pytest.approx(rows.mean() - rows[0].mean())
    assert only["only_second"] == sorted(
        INSTANCES[at].instance_id for at in range(N) if rows[:, at].mean() > rows[0, at]
    )
    with pytest.raises(DataError, match="attempts of one model"):
        repeats_of([*reports, *reported(store, graded(store, "other", 0, [True] * N))])


def test_what_a_resolved_instance_took(store: Store) -> None:
    """Calls and cost of all attempts over resolved ones; instances are the units; without prices no cost is known."""
    rights = [[at % 2 == 0 for at in range(N)], [at % 3 == 0 for at in range(N)]]
    reports = reported(store, *(graded(store, "m", at, right, (0.1, 0.2)) for at, right in enumerate(rights)))
    efforts = per_resolved(reports)
    n_resolved = sum(map(sum, rights))
    assert efforts is not None
    assert efforts.calls is not None
    assert efforts.cost is not None
    assert efforts.calls.value == pytest.approx(2 * 2 * N / n_resolved)
    assert efforts.cost.value == pytest.approx(0.3 * 2 * N / n_resolved)
    assert efforts.calls.n == N
    draws = np.random.default_rng(1).integers(0, N, (4000, N))
    by_instance = np.array([sum(right[at] for right in rights) for at in range(N)])
    spread = (by_instance[draws].sum(axis=1) / (4 * N)).std()  # a bootstrap over instances, of the inverse
    assert efforts.calls.stderr == pytest.approx(spread * efforts.calls.value**2, rel=0.1)
    assert efforts.calls.low is not None
    assert 0 < efforts.calls.low < efforts.calls.value
    unknown = per_resolved(reported(store, graded(store, "u", 0, [True] * N, (0.1, None))))
    assert unknown is not None
    assert unknown.cost is None
    assert per_resolved(reported(store, graded(store, "none", 0, [True] * N))) is None


def test_dates_split_the_instances(store: Store) -> None:
    """On the cutoff itself is after it; an instance without a date is in neither group."""
    right = [at < 5 for at in range(N)]
    reports = reported(store, graded(store, "m", 0, right))
    split = split_by_date(reports, INSTANCES, date(2025, 3, 1))
    assert split.before is not None
    assert split.after is not None
    assert (split.n_undated, split.before.n, split.after.n) == (1, N // 2 - 1, N // 2)
    assert split.difference == compare_shares(4, 5, 0, 6)
    late = split_by_date(reports, INSTANCES, date(2030, 1, 1))
    assert late.after is None
    assert late.difference is None
    again = graded(store, "m", 1, [not each for each in right])
    repeated = split_by_date([*reports, *reported(store, again)], INSTANCES, date(2025, 3, 1))
    assert repeated.before is not None
    assert repeated.before.value == 0.5
    assert repeated.difference is None  # every instance has the same mean: its error is unknown


def test_trajectories_are_traces(store: Store) -> None:
    """An agent's span with a span for each call and each command; storing it again adds nothing."""
    predictions = graded(store, "m", 0, [True], (0.1, 0.2))
    (attempt,) = GradingLog(store).attempts_of(predictions[0].patch_sha, INSTANCES[0].instance_id, "m")
    for _ in range(2):
        assert store_traces(store, "swe", [attempt]) == 1
        log = TraceLog(store)
        (trace,) = log.traces(log.project_id("swe"), TraceFilter()).traces
        assert (trace.trace_id.hex(), trace.n_spans, trace.n_errors) == (trace_id_of(attempt.key), 5, 1)
        assert trace.cost == pytest.approx(0.3)
    spans = {(span.name, span.started): span for span in log.spans(log.project_id("swe"), trace.trace_id)}
    assert [name for name, _ in sorted(spans, key=lambda key: key[1])].count("bash") == 2
    assert spans["bash", 1000 * 10**9].ended == 1001 * 10**9
    kinds = sorted(span.kind for span in log.spans(log.project_id("swe"), trace.trace_id))
    assert kinds == ["agent", "llm", "llm", "tool", "tool"]


def test_gradings_are_a_run(store: Store) -> None:
    """An instance is a sample with its patch, log and trace; other gradings are another run."""
    first = graded(store, "org/m", 0, [at % 2 == 0 for at in range(N)], (0.1,))
    run, is_new = store_gradings(store, "issues", INSTANCES, reported(store, first))
    assert is_new
    assert store_gradings(store, "issues", INSTANCES, reported(store, first)) == (run, False)
    estimate = next(each for each in store.estimates(run) if each.metric == "resolved")
    assert (estimate.value, estimate.n) == (0.5, N)
    record = next(each for each in store.samples(run, "issues") if each.request.sample_index == 1)
    assert record.request.target == "gold 1"
    (output,) = record.outputs
    assert output.text == f"```diff\n{first[1].model_patch}\n```"
    assert json.loads(output.call or "") == {"trace_id": trace_id_of(text_sha(first[1].model_patch))}
    score = next(each for each in record.scores if each.metric == "resolved")
    assert score.value == 0.0
    assert isinstance(score.detail, dict)
    assert score.detail["log"] == f"unresolved, 1.5 s\n{LOG}"
    assert score.detail["look_at"] == ["mentions the test framework"]
    second = graded(store, "org/m", 1, [True] * N)
    both, is_new = store_gradings(store, "issues", INSTANCES, reported(store, first, second))
    assert is_new
    assert both != run
    values = {each.metric: each.value for each in store.estimates(both)}
    assert (values["resolved"], values["resolved_pass@2"]) == (0.75, 1.0)


def test_two_models_gradings_are_compared_and_on_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compare` pairs the instances, whether attempts were one or two; a board of the task ranks both models."""
    place, board = str(tmp_path / "s.sqlite"), tmp_path / "board.yaml"
    write_rows(tmp_path / "i.jsonl", [each.row() for each in INSTANCES])
    rights = {"org/a": [[at % 2 == 0 for at in range(N)]], "org/b": [[at < 9 for at in range(N)], [True] * N]}
    runs: dict[str, str] = {}
    for model, attempts in rights.items():
        files = []
        with Store.open(place) as store:
            for number, right in enumerate(attempts):
                files.append(str(tmp_path / f"{len(runs)}-{number}.jsonl"))
                write_rows(Path(files[-1]), [asdict(each) for each in graded(store, model, number, right)])
        words = ["--instances", str(tmp_path / "i.jsonl"), "--store", place, "--as_run", "issues", "--json"]
        assert main(["swe", "report", *files, *words]) == 0
        runs[model] = json.loads(capsys.readouterr().out)["run"]
    assert main(["compare", runs["org/a"], runs["org/b"], "--store", place, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["pairs"][0]["overall"]
    means = [np.mean(rights["org/a"], axis=0), np.mean(rights["org/b"], axis=0)]
    assert (whole["metric"], whole["n"]) == ("resolved", N)
    assert (whole["first"], whole["second"]) == tuple(pytest.approx(each.mean()) for each in means)
    assert (whole["n_better"], whole["n_worse"]) == ((means[1] > means[0]).sum(), (means[1] < means[0]).sum())
    board.write_text("tasks: [issues]\n")
    assert main(["board", "query", str(board), "", "--store", place, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["model"], row["rank"], row["scores"]["issues"]["n"]) for row in rows] == [
        ("org/b", 1, N),
        ("org/a", 2, N),
    ]
    assert [row["average"]["value"] for row in rows] == [pytest.approx(each.mean()) for each in reversed(means)]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Attempts, another model, a date, a run and traces in one command; mistakes are one line."""
    place = str(tmp_path / "s.sqlite")
    write_rows(tmp_path / "i.jsonl", [each.row() for each in INSTANCES])
    names = []
    with Store.open(place) as store:
        for model, attempt in (("m", 0), ("m", 1), ("other", 0)):
            right = [(at + attempt) % 2 == 0 for at in range(N)] if model == "m" else [at < 3 for at in range(N)]
            rows = graded(store, model, attempt, right, (0.1, 0.2))
            names.append(str(tmp_path / f"{model}{attempt}.jsonl"))
            write_rows(Path(names[-1]), [asdict(each) for each in rows])
    common = ["--instances", str(tmp_path / "i.jsonl"), "--store", place]
    words = ["swe", "report", *names[:2], "--against", names[2], *common, "--cutoff", "2025-01-01"]
    assert main([*words, "--as_run", "issues", "--traces", "swe", "-o", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    for said in (
        "resolved over 2 attempts: 50.0% of 12", "pass@2: 100.0%", "calls of the model per resolved instance: 4,",
        "created before 2025-01-01", "m minus other: +25.0 points", "24 trajectories are traces", "run ",
    ):  # fmt: skip
        assert said in output, output
    assert (tmp_path / "m.assaymark-2.json").is_file()
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["repeats"]["pass_at"]["2"]["value"] == 1.0
    assert content["comparison"]["difference"] == 0.25
    assert content["cutoff"]["cutoff"] == "2025-01-01"
    for mistake, said in (
        (["swe", "report", names[0], names[2], *common], "expected attempts of one model"),
        (["swe", "report", names[0], *common, "--cutoff", "soon"], "'soon'"),
        (["swe", "report", names[0], *common, "--as_run", "a b"], "--as_run is 'a b'"),
        (["swe", "report", names[0], *common[:2], "--store", str(tmp_path / "no.sqlite"), "--as_run", "x"], "no store"),
    ):
        assert main(mistake) != 0
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error


def test_swe_benchs_report_is_compared_with_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own report agrees with itself; moved ids are differences; what is no report is one line."""
    place = str(tmp_path / "s.sqlite")
    write_rows(tmp_path / "i.jsonl", [each.row() for each in INSTANCES])
    with Store.open(place) as store:
        rows = graded(store, "m", 0, [at < 3 for at in range(N - 2)])
    names = [each.instance_id for each in INSTANCES]
    rows.append(Prediction(names[N - 2], "m", "never graded"))
    write_rows(tmp_path / "p.jsonl", [asdict(each) for each in rows])
    words = ["swe", "report", str(tmp_path / "p.jsonl"), "--instances", str(tmp_path / "i.jsonl"), "--store", place]
    assert main([*words, "-o", str(tmp_path)]) == 0
    official = tmp_path / "m.assaymark.json"
    content = json.loads(official.read_text())
    assert content["error_ids"] == [names[N - 2]]
    content["error_ids"] = []
    official.write_text(json.dumps(content))
    capsys.readouterr()

    def compared() -> tuple[int, list[tuple[str, str, str]], list[str]]:
        assert main([*words, "--official", str(official), "--json"]) == 0
        made = json.loads(capsys.readouterr().out)["official"]
        fields = ("instance_id", "ours", "official")
        differences = [tuple(each[name] for name in fields) for each in made["differences"]]
        return made["n_compared"], differences, made["unknown_ids"]

    not_graded = (names[N - 2], "not graded", "not listed")
    assert compared() == (N - 1, [not_graded], [])
    content["resolved_ids"] = [*names[1:4], "other__p-1"]  # 0 is in no list, 3 is resolved there
    content["unresolved_ids"] = names[5 : N - 2]
    content["error_ids"], content["empty_patch_ids"] = [names[4]], [names[N - 1]]
    official.write_text(json.dumps(content))
    expected = [
        (names[0], "resolved", "not listed"),
        (names[3], "unresolved", "resolved"),
        (names[4], "unresolved", "error"),
        (names[N - 1], "not submitted", "empty_patch"),
        not_graded,
    ]
    assert compared() == (N, sorted(expected), ["other__p-1"])
    assert main([*words, "--official", str(official)]) == 0
    output = capsys.readouterr().out
    assert f"as in SWE-bench's report: {N - 5} of {N} instances" in output
    assert "1 instances of SWE-bench's report are not in --instances, such as other__p-1" in output
    row = next(line for line in output.splitlines() if line.strip().startswith(names[4]) and "error" in line)
    assert "unresolved" in row
    assert "one test fails" in row
    for text, said in (
        ("[]", "has no resolved_ids and unresolved_ids"),
        ('{"resolved_ids": [], "unresolved_ids": "a"}', "unresolved_ids is 'a'; expected a list"),
        ('{"resolved_ids": ["a"], "unresolved_ids": ["a"]}', "has a in resolved_ids and in unresolved_ids"),
        ("{", "is not JSON"),
        (None, "cannot be read"),
    ):
        if text is None:
            official.unlink()
        else:
            official.write_text(text)
        assert main([*words, "--official", str(official)]) == 3
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error
    assert main([*words[:2], words[2], *words[2:], "--official", str(official)]) == 2
    assert "--official is the report of one file" in capsys.readouterr().err


def test_the_page_of_a_sample_shows_patch_log_and_trace(store: Store, tmp_path: Path) -> None:
    """What tests printed is text there, whatever it is; the half that was resolved is not called right."""
    first, second = (graded(store, "m", at, [at == 0] * N, (0.1,)) for at in range(2))
    run, _ = store_gradings(store, "issues", INSTANCES, reported(store, first, second))
    site = open_site((), str(tmp_path / "swe.sqlite"))
    with running(create_app([board_feature(site)])) as url:
        page = httpx.get(f"{url}/run/{run}/samples/issues/1").text
    for each in ("m 0 local__p-1", "&lt;script&gt;alert(1)&lt;/script&gt;", "mentions the test framework",
                  trace_id_of(text_sha(first[1].model_patch)), "Issue number 1"):  # fmt: skip
        assert each in page
    assert "<script>alert" not in page
    assert "<code" in page
    assert "✓" not in page
