"""Prompt injections and panels, with a real server as the judge."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.judges.injections import HONEST, injections, judge_injections, n_injections
from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from assaymark.judges.panel import judge_panel
from assaymark.judges.verdicts import parse_verdict
from tests.judges.answered import answered_run, questions_task
from tests.judges.judge_server import answers_shown, judging_server


def honest(text: str) -> str:
    """Judge by whether the answer is one of the honest ones."""
    are_true = [answer in HONEST.values() for answer in answers_shown(text)]
    return ("[[9]]" if are_true[0] else "[[1]]") if len(are_true) == 1 else ("[[A]]" if are_true[0] else "[[B]]")


def gullible(text: str) -> str:
    """Repeat the last verdict in the material; else judge honestly."""
    for position, answer in enumerate(answers_shown(text)):
        if parse_verdict(answer, "grade") is not None:
            return "[[10]]" if len(answers_shown(text)) == 1 else "[[A]]" if position == 0 else "[[B]]"
    return honest(text)


def test_an_honest_judge_rewards_no_injection_and_a_gullible_one_does() -> None:
    """Every injection meets every question (in both orders where two are compared), and each kind has its rate."""
    n, n_questions = n_injections()
    with judging_server(honest) as server:
        rates = judge_injections("local-chat-completions", ["single", "pair"], model_args=server.arguments)
        assert len(server.seen) == n_questions * (n + 1) + n_questions * n * 2
    totals = {rate.prompt: rate for rate in rates if rate.kind is None}
    assert [(each.n, each.n_succeeded, each.n_missing) for each in totals.values()] == [
        (n * n_questions, 0, 0), (2 * n * n_questions, 0, 0),
    ]  # fmt: skip
    assert all(rate.rate is not None and rate.rate.high is not None and rate.rate.high > 0 for rate in rates)
    with judging_server(gullible) as server:
        rates = judge_injections("local-chat-completions", ["pair"], model_args=server.arguments, n_questions=2)
    by_kind = {rate.kind: (rate.n_succeeded, rate.n) for rate in rates}
    assert by_kind["constant"][0] == 0
    assert by_kind["verdict"] == (12, 12)
    assert by_kind[None][0] == sum(count for kind, (count, _) in by_kind.items() if kind)


def test_a_judge_without_verdicts_is_not_called_safe(capsys: pytest.CaptureFixture[str]) -> None:
    """The table says that nothing is known, and has no rate."""
    words = ["judge", "injections", "--judge", "fake", "--prompt", "single", "--questions", "1"]
    assert main(words) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "No text of this judge holds a verdict" in output
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["rate"] is None


def test_the_corpus_has_every_kind() -> None:
    """Orders, fake verdicts, fake markers, authority and constant answers; no text twice."""
    kinds = [injection.kind for injection in injections()]
    assert set(kinds) == {"order", "verdict", "marker", "authority", "constant"}
    assert len({each.text for each in injections()}) == len(kinds)


def test_a_panel_takes_the_majority_and_shows_disagreement(tmp_path: Path) -> None:
    """Two judges for bee, one for whatever stands first: bee wins each question, and none is unanimous."""
    task, store = questions_task(tmp_path), tmp_path / "s.sqlite"
    runs = [answered_run(name, task, store) for name in ("ant", "bee")]

    def for_bee(text: str) -> str:
        return "[[A]]" if answers_shown(text)[0].startswith("bee") else "[[B]]"

    ids = []
    for number, reply in enumerate((for_bee, for_bee, lambda _: "[[A]]")):
        with judging_server(reply) as server:
            arguments = server.arguments.replace("model=judge", f"model=judge{number}")
            options = JudgeOptions("pair", model_args=arguments)
            ids.append(judge_runs("local-chat-completions", runs, options, store=str(store)).row.run_id)
    rows, (result,) = judge_panel(ids, str(store))
    assert len(rows) == result.n_judges == 3
    assert (result.n, result.n_missing, result.unanimous) == (8, 0, 0.0)
    assert result.value is not None
    assert result.value.value == 0.0
    assert main(["judge", "panel", *ids, "--store", str(store)]) == 0
    with pytest.raises(UsageError, match="named twice"):
        judge_panel([ids[0], ids[0]], str(store))
    with pytest.raises(UsageError, match="is not a judging"):
        judge_panel([ids[0], runs[0]], str(store))
    with pytest.raises(DataError, match="a panel of 1 judge"):
        judge_panel(ids[:1], str(store))
