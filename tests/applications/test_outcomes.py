"""Online outcomes by user from files, with what is refused, and offline scores of the same variants beside them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import assaymark
from assaymark.applications.offline_beside_online import beside_online, runs_of_variants
from assaymark.applications.outcomes import OutcomeColumns, outcome_report, read_outcomes
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.records.json_values import json_fields
from assaymark.runs.run import Run

HEAD = "variant,user,outcome,before\n"
ROWS = [{"input": str(at), "expected": str(at)} for at in range(40)]


def written(folder: Path, text: str, name: str = "outcomes.csv") -> str:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text)
    return str(path)


def experiment(generator: np.random.Generator, n_users: int, gains: dict[str, float]) -> list[dict[str, Any]]:
    """Return rows of users assigned at random, with 1 to 8 rows each."""
    rows = []
    for user in range(n_users):
        variant = str(generator.choice(list(gains)))
        share = min(max(0.4 + 0.2 * generator.normal() + gains[variant], 0), 1)
        rows += [
            {"variant": variant, "user": f"u{user}", "outcome": bool(generator.random() < share)}
            for _ in range(generator.integers(1, 9))
        ]
    return rows


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    return "variant,user,outcome\n" + "".join(f"{r['variant']},{r['user']},{r['outcome']}\n" for r in rows)


def test_a_file_is_analysed_by_user_in_every_format(tmp_path: Path) -> None:
    """CSV, JSON lines and Parquet give one result, which is that of least squares with errors clustered by user."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = experiment(np.random.default_rng(1), 300, {"A": 0.0, "B": 0.1})
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "o.parquet")
    files = [
        written(tmp_path, as_csv(rows)),
        written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "o.jsonl"),
        str(tmp_path / "o.parquet"),
    ]
    results = [json_fields(outcome_report(read_outcomes(file, OutcomeColumns()))) for file in files]
    assert results[0] == results[1] == results[2]
    sm = pytest.importorskip("statsmodels.api")
    design = sm.add_constant(np.array([row["variant"] == "B" for row in rows], dtype=float))
    labels = np.unique([row["user"] for row in rows], return_inverse=True)[1]
    fit = sm.OLS(np.array([float(row["outcome"]) for row in rows]), design).fit(
        cov_type="cluster", cov_kwds={"groups": labels}
    )
    (difference,) = json.loads(json.dumps(results[0]))["differences"]
    assert difference["difference"] == pytest.approx(fit.params[1])
    assert difference["stderr"] == pytest.approx(fit.bse[1], rel=0.01)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """Users of two variants and rows without an outcome are left out and counted; an unknown outcome is never a 0."""
    text = HEAD + "A,1,1,0\nA,2,0,1\nA,3,,2\nB,4,1,\nB,5,1,4\nB,6,yes,3\nA,7,1,1\nB,7,0,1\nB,7,0,1\n"
    result = read_outcomes(written(tmp_path, text), OutcomeColumns(covariate="before"))
    first, second = result.arms
    assert (first.n_assigned, second.n_assigned) == (3, 3)  # user 3 was assigned, although nothing is known of it
    assert first.users is not None
    assert first.users.sums.tolist() == [1, 0]
    assert (result.n_in_several, result.n_rows_in_several, result.n_without_outcome) == (1, 3, 1)
    assert result.n_without_covariate == 1
    assert second.users is not None
    assert second.users.covariate is not None
    assert second.users.covariate[0] == pytest.approx((0 + 1 + 4 + 3) / 4)  # the mean of the users with an outcome


def test_ids_are_texts(tmp_path: Path) -> None:
    """Users `007` and `7` of a table are two users."""
    result = read_outcomes(written(tmp_path, "variant,user,outcome\nA,007,1\nA,7,0\nB,8,1\n"), OutcomeColumns())
    assert result.arms[0].n_assigned == 2


def test_a_broken_ratio_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where users did not come as planned the exit code is 1 and no difference is shown, as text and as JSON."""
    text = "variant,user,outcome\n" + "".join(f"A,a{at},1\n" for at in range(500))
    text += "".join(f"B,b{at},0\n" for at in range(390))
    file = written(tmp_path, text)
    assert stats.chisquare([500, 390]).pvalue < 0.001
    assert main(["outcomes", file]) == 1
    assert "BROKEN" in capsys.readouterr().out
    assert main(["outcomes", file, "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert content["differences"] is None
    assert content["sample_ratio"]["p"] == pytest.approx(stats.chisquare([500, 390]).pvalue)
    assert main(["outcomes", file, "--expected_ratio", "50:39"]) == 0


def test_the_planned_users_of_an_odd_number_are_halves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine users were not planned as 4:4."""
    text = "variant,user,outcome\n" + "".join(f"{'AB'[at % 2]},u{at},{at % 3}\n" for at in range(9))
    assert main(["outcomes", written(tmp_path, text)]) == 0
    assert "5:4 users, planned 4.5:4.5" in capsys.readouterr().out


def test_anytime_is_wider(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The interval for any time is the one look's times 1.55 at the planned number of users, and p is not shown."""
    rows = experiment(np.random.default_rng(2), 400, {"A": 0.0, "B": 0.1})
    file = written(tmp_path, as_csv(rows))
    intervals = []
    for options in ([], ["--anytime", "400"]):
        assert main(["outcomes", file, "--json", *options]) == 0
        (difference,) = json.loads(capsys.readouterr().out)["differences"]
        intervals.append(difference["high"] - difference["low"])
    assert intervals[1] / intervals[0] == pytest.approx(1.55, abs=0.02)
    assert main(["outcomes", file, "--anytime", "400"]) == 0
    assert "however often you look" in capsys.readouterr().out


def test_several_variants_are_corrected(tmp_path: Path) -> None:
    """Three variants: two comparisons with the control, with Holm's correction."""
    rows = experiment(np.random.default_rng(3), 300, {"A": 0.0, "B": 0.08, "C": 0.0})
    report = outcome_report(read_outcomes(written(tmp_path, as_csv(rows)), OutcomeColumns()), control="B")
    assert report.differences is not None
    assert [each.name for each in report.differences] == ["A", "C"]
    p = sorted(each.estimate.p or 0.0 for each in report.differences)
    adjusted = sorted(each.p_adjusted or 0.0 for each in report.differences)
    assert adjusted[0] == pytest.approx(min(2 * p[0], 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variant,user,outcome\n", "there are no rows"),
        ("variant,user,outcome\nA,1,1\nA,2,0\n", "all rows are of the variant 'A'"),
        ("variant,user,outcome\nA,1,1\nB,2,good\n", "line 3: column 'outcome' is 'good'; expected a number"),
        ("variant,user,outcome\nA,1,1\nB,2,inf\n", "line 3: column 'outcome' is 'inf'; expected a number"),
        ("variant,user,outcome\nA,1,1\nB,,1\n", "line 3: column 'user' is ''; expected a name"),
        ("variant,user,outcome\nA,1,1\nB,2\n", "line 3 has 2 cells"),
        ("variant,user,outcome\nA,1,1\nB,2,1\n", "expected at least 2 in each"),
        (HEAD + "A,1,1,2\nA,1,1,3\nB,2,1,1\n", "expected one value for each user"),
        ("variant,user,outcome\n" + "".join(f"v{at},{at},1\n" for at in range(60)), "more than 50 different values"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    """A bad file is refused with its place, what was there and what was expected."""
    columns = OutcomeColumns(covariate="before" if text.startswith(HEAD) else None)
    with pytest.raises(DataError, match=message):
        outcome_report(read_outcomes(written(tmp_path, text), columns))


def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong columns, ratios, controls and files are one line each with a remedy."""
    file = written(tmp_path, "variant,user,outcome\nA,1,1\nA,2,0\nB,3,1\nB,4,1\n")
    for words, message in (
        ([file, "--outcome", "outcom"], "did you mean outcome?"),
        ([file, "--expected_ratio", "50"], "as 50:50"),
        ([file, "--expected_ratio", "50:-1"], "as 50:50"),
        ([file, "--control", "C"], "the file has A, B"),
        ([file, "--user", "variant"], "not all different"),
        ([file, "--offline", "x"], "expected a run of each variant"),
        (["nothing.csv"], "no file 'nothing.csv'"),
    ):
        assert main(["outcomes", *words]) in (2, 3)
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def versions(store: str, rights: dict[str, int]) -> list[Run]:
    """Return a run for each version, which answers so many of the rows rightly."""

    def answering(right: int) -> Any:
        def answer(input: str) -> str:  # noqa: A002 - the name by which it is bound
            return input if int(input) < right else "?"

        return answer

    return [
        assaymark.evaluate(answering(right), ROWS, scorers=["exact"], name="bot", version=version, store=store)
        for version, right in rights.items()
    ]


def test_offline_scores_beside_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs are found by version; where both intervals leave 0 it says agree or disagree, else that it cannot tell."""
    rows = experiment(np.random.default_rng(4), 600, {"A": 0.0, "B": 0.2, "C": -0.2, "D": 0.0})
    store = str(tmp_path / "s.sqlite")
    runs = versions(store, {"A": 20, "B": 38, "C": 38, "D": 38})
    file = written(tmp_path, as_csv(rows))
    report = outcome_report(read_outcomes(file, OutcomeColumns()))
    assert report.differences is not None
    assert [each.direction for each in report.differences] == [1, -1, 0]
    of_variants = runs_of_variants("ABCD", [(run.row.short_id, run) for run in runs])
    lines, correlated = beside_online(report, of_variants)
    verdicts = {line.variant: line.verdict for line in lines if line.scorer.endswith(("rows", "exact"))}
    assert verdicts == {"B": "agree", "C": "disagree", "D": "cannot tell"}
    assert correlated == []
    turned, _ = beside_online(report, of_variants, lower_is_better=True)
    assert {line.verdict for line in turned if line.variant == "B" and line.difference > 0.3} == {"disagree"}
    words = [f"{name}={run.row.short_id}" for name, run in zip("ABCD", runs, strict=True)]
    assert main(["outcomes", file, "--store", store, "--offline", *words]) == 0
    output = capsys.readouterr().out
    assert "disagree" in output
    assert "a correlation needs 5 or more" in output
    assert main(["outcomes", file, "--store", store, "--offline", *words[:2]]) == 2
    assert "no run of C, D" in capsys.readouterr().err
    assert main(["outcomes", file, "--store", store, "--offline", f"E={runs[0].row.short_id}", words[1]]) == 2
    assert "none of the variants A, B, C, D" in capsys.readouterr().err


def test_five_variants_have_a_correlation(tmp_path: Path) -> None:
    """From five variants on Spearman's correlation is scipy's, with an interval."""
    gains = {"A": 0.0, "B": 0.05, "C": 0.1, "D": 0.15, "E": 0.2}
    rows = experiment(np.random.default_rng(5), 1500, gains)
    runs = versions(str(tmp_path / "s.sqlite"), {"A": 10, "B": 24, "C": 18, "D": 30, "E": 36})
    report = outcome_report(read_outcomes(written(tmp_path, as_csv(rows)), OutcomeColumns()))
    _, correlated = beside_online(report, runs_of_variants("ABCDE", [("", run) for run in runs]))
    means = [mean.mean for mean in report.means if mean is not None]
    expected = stats.spearmanr([10, 24, 18, 30, 36], means).statistic
    exact = next(each.spearman for each in correlated if "latency" not in each.scorer)
    assert exact.value == pytest.approx(expected)
    assert exact.value is not None
    assert exact.low is not None
    assert exact.low < exact.value
    with pytest.raises(UsageError, match="two runs are of the variant"):
        runs_of_variants("AB", [("A=x", runs[0]), ("A=y", runs[1])])


def test_the_interval_of_a_share_ends_at_0_and_1(tmp_path: Path) -> None:
    """Student's interval of three users reaches beyond; that of other numbers may."""
    path = tmp_path / "o.csv"
    for largest, ends in ((1, (0.0, 1.0)), (2, None)):
        cells = [f"{arm},{arm}{user},{largest if user else 0}" for arm in "ab" for user in range(3)]
        path.write_text("\n".join(["variant,user,outcome", *cells]))
        mean = outcome_report(read_outcomes(str(path), OutcomeColumns())).means[0]
        assert mean is not None
        assert mean.low is not None
        assert (mean.low, mean.high) == ends if ends else mean.low < 0


def test_users_who_are_all_alike_leave_no_difference_to_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten who all succeeded are 72.2% to 100% by Wilson's interval; against ten who all failed there is no p."""
    lines = [f"{variant},{variant}{user},{int(variant == 'B')}" for variant in "AB" for user in range(10)]
    file = written(tmp_path, "variant,user,outcome\n" + "\n".join(lines) + "\n")
    report = outcome_report(read_outcomes(file, OutcomeColumns()))
    ends = [(mean.low, mean.high) for mean in report.means if mean is not None]
    assert ends == [(0.0, pytest.approx(0.2775, abs=1e-4)), (pytest.approx(0.7225, abs=1e-4), 1.0)]
    (against,) = report.differences or ()
    assert (against.estimate.difference, against.low, against.p_adjusted, against.direction) == (1.0, None, None, 0)
    for options in ([], ["--anytime", "20"]):
        assert main(["outcomes", file, *options]) == 0
        assert "nan" not in capsys.readouterr().out.lower()
