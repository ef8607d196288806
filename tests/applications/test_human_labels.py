"""People's scores beside a run's: read strictly, matched by row, compared with known agreement."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.applications.human_labels import HumanScore, add_human_labels, read_human_scores
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from tests.judges.judge_server import judging_server

N = 60
ROWS = [{"id": f"r{at}", "input": f"question {at}", "expected": "yes"} for at in range(N)]
HUMAN = [int(at % 3 != 0) for at in range(N)]  # people find two of three right
JUDGE = [human if at % 10 else 1 - human for at, human in enumerate(HUMAN)]  # the judge errs on every tenth


def labels(path: Path, lines: list[str]) -> Path:
    """Write a table."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def by_row(prompt: str) -> str:
    """Judge each answer as JUDGE says."""
    at = int(re.findall(r"\bquestion (\d+)\b", prompt)[0])
    return json.dumps({"verdict": "yes" if JUDGE[at] else "no"})


def app(input: str) -> str:  # noqa: A002 - the name by which it is bound
    """Answer."""
    return f"answer to {input}"


def test_both_shapes_of_a_file_are_read_alike(tmp_path: Path) -> None:
    """A column for each scorer, or columns scorer and score; words and empty cells."""
    wide = labels(tmp_path / "wide.csv", ["id,safety,correctness,rater", "a,1,yes,ann", "b,,No,bo"])
    long = labels(tmp_path / "long.jsonl", [
        json.dumps({"row": row, "scorer": scorer, "score": score, "annotator": rater})
        for row, scorer, score, rater in (("a", "safety", 1, "ann"), ("a", "correctness", True, "ann"),
                                          ("b", "safety", None, "bo"), ("b", "correctness", "no", "bo"))
    ])  # fmt: skip
    names = ["correctness", "safety"]
    key = lambda each: (each.row, each.scorer)  # noqa: E731
    results = sorted(read_human_scores(wide, names), key=key)
    assert results == sorted(read_human_scores(long, names), key=key)
    assert results == [HumanScore("a", "correctness", 1.0, "ann"), HumanScore("a", "safety", 1.0, "ann"),
                     HumanScore("b", "correctness", 0.0, "bo")]  # fmt: skip
    only = labels(tmp_path / "only.csv", ["id,score", "a,0.5"])
    assert read_human_scores(only, ["safety"]) == [HumanScore("a", "safety", 0.5)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["safety", "1"], "has columns safety; expected one with the row's id, as id, row, row_id"),
        (["id,text", "a,b"], r"expected one under a scorer's name \(safety, exact\), or columns scorer and score"),
        (["id,score", "a,1"], "does not say which of safety, exact it scores; add a column scorer"),
        (["id,scorer,score", "a,saftey,1"], "row 1: the run has no score 'saftey'; did you mean 'safety'?"),
        (["id,safety", "a,maybe"], "row 1, safety: the score is 'maybe'; expected a number, yes or no"),
        (["id,safety", "a,1e9"], "expected a number, yes or no"),
        (["id,safety", "a,"], "has 1 rows, and none holds a score"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    """With the row and what was expected."""
    with pytest.raises(DataError, match=message):
        read_human_scores(labels(tmp_path / "labels.csv", lines), ["safety", "exact"])


def test_the_agreement_stands_beside_a_judged_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what an independent computation gives, it is shown with the run, and another judge's scores drop it."""
    metrics = pytest.importorskip("sklearn.metrics")
    path = labels(tmp_path / "labels.csv", ["id,correctness,rater", *(f"r{at},{HUMAN[at]},ann" for at in range(N))])
    store = str(tmp_path / "s.sqlite")
    options: dict[str, Any] = {"scorers": "correctness", "judge": "local-chat-completions", "store": store}
    with judging_server(by_row) as server:
        run = assaymark.evaluate(app, ROWS, human_labels=path, judge_args=server.arguments, **options)
    (entry,) = json.loads(json.dumps(run.to_json()))["beside_people"]
    same = sum(item == other for item, other in zip(HUMAN, JUDGE, strict=True)) / N
    assert entry["judge"]["mean_absolute_difference"]["value"] == pytest.approx(1 - same)
    assert entry["judge"]["kappa"]["value"] == pytest.approx(metrics.cohen_kappa_score(HUMAN, JUDGE))
    assert (entry["n_labelled"], entry["n_grades"], entry["metric"]) == (N, N, "correctness")
    assert main(["show", run.id, "--store", store]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "correctness beside people: the same as a person's in 90% (" in output
    assert "This judge can be trusted here" in output
    report = run.write_report(tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## Beside people" in report
    assert "correctness beside people: the same as a person" in report
    assert run.estimate("rows", "correctness").value == pytest.approx(sum(JUDGE) / N)
    with judging_server(lambda _: '{"verdict": "yes"}') as other:
        arguments = other.arguments.replace("model=", "model=other-")
        again = assaymark.evaluate(app, ROWS, judge_args=arguments, **options)
    assert again.id == run.id
    assert again.to_json()["beside_people"] == []


def test_few_labels_conclude_nothing(tmp_path: Path) -> None:
    """Below 50 rows it cannot be said; plain scorers are compared too, and graded ones by their order."""
    path = labels(tmp_path / "labels.csv", ["id,short", *(f"r{at},{at / 10}" for at in range(10))])

    def short(output: str) -> float:
        return len(output) / 100

    run = assaymark.evaluate(app, ROWS[:12], scorers=[short], human_labels=path)
    (entry,) = json.loads(json.dumps(run.to_json()))["beside_people"]
    assert "short beside people: Spearman" in entry["line"]
    assert "It cannot be said whether this judge can be trusted" in entry["line"]


def test_labels_of_other_rows_are_refused(tmp_path: Path) -> None:
    """Nothing in common is an error, before or after the calls; a missing file is refused before the first."""
    calls: list[str] = []

    def counting(input: str) -> str:  # noqa: A002
        calls.append(input)
        return "yes"

    with pytest.raises(UsageError, match="there is no file"):
        assaymark.evaluate(counting, ROWS, scorers="exact", human_labels=tmp_path / "absent.csv")
    with pytest.raises(UsageError, match="no scorer is named"):
        assaymark.evaluate(counting, ROWS, scorers=[], human_labels=tmp_path / "absent.csv")
    assert calls == []
    run = assaymark.evaluate(counting, ROWS, scorers="exact")
    path = labels(tmp_path / "labels.csv", ["id,exact", "x,1"])
    with pytest.raises(DataError, match=r"none of its 1 row is one of the run's 60 rows \(such as x\)"):
        add_human_labels(run, path, ["exact"])
