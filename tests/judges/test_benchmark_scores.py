"""Arena-Hard's, AlpacaEval's and equal-length scores of stored judgings, against computations of their own."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import assaymark
from assaymark.cli.main import main
from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from assaymark.judges.pairwise import JudgedPair, pair_of, summarise_pairs
from assaymark.judges.results import benchmark_scores
from assaymark.judges.verdicts import parse_verdict
from assaymark.runs.stored import ShownAudit
from assaymark.store import Store
from tests.judges.answered import questions_task
from tests.judges.judge_server import Reply, answers_shown, judging_server

N = 24
LABELS = {"A>>B": [1.0] * 3, "A>B": [1.0], "A=B": [0.5], "B>A": [0.0], "B>>A": [0.0] * 3}


def number_in(text: str) -> int:
    """Return the number that a question is about."""
    return int(text.split("about the number ")[1].split("?", maxsplit=1)[0])


def run_of(model: str, reply: Reply, task: str, store: Path) -> str:
    """Evaluate the task with a server that replies by a function of the question."""
    with judging_server(reply) as server:
        url = server.arguments.split("base_url=")[1].split(",")[0]
        return assaymark.evaluate("local-chat-completions", task, model_args={"model": model, "base_url": url},
                                  apply_chat_template=True, store=str(store)).id  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, str, str]:
    """Return a store with two runs whose answers differ in length, either way, by question."""
    task = questions_task(tmp_path, questions=[f"What is special about the number {n}?" for n in range(N)])
    store = tmp_path / "s.sqlite"
    own = run_of("ant", lambda text: "ant " * (3 + number_in(text) * 7 % 11), task, store)
    other = run_of("bee", lambda text: "bee " * (1 + number_in(text) * 5 % 7), task, store)
    return store, own, other


def five_label(text: str) -> str:
    """Return a label that depends on the question and on the order of the answers."""
    is_swapped = answers_shown(text)[0].startswith("bee")
    return list(LABELS)[(number_in(text) * (3 if is_swapped else 2)) % 5]


def judged(runs: tuple[Path, str, str], prompt: str, reply: Reply) -> ShownAudit:
    """Judge the two runs by a server."""
    store, own, other = runs
    with judging_server(reply) as server:
        options = JudgeOptions(prompt=prompt, model_args=server.arguments)
        return judge_runs("local-chat-completions", [own, other], options, store=str(store))


def by_metric(found: ShownAudit) -> dict[str, dict[str, float]]:
    """Return the value of each score in the judging's JSON."""
    return {each["metric"]: each["value"] for each in json.loads(json.dumps(found.content))["scores"]}


def test_arena_hards_score_is_the_fit_of_all_battles(runs: tuple[Path, str, str]) -> None:
    """Each strong verdict repeated three times, both orders, two strengths by scipy: the same chance to 1e-6."""
    result = judged(runs, "five", lambda text: f"[[{five_label(text)}]]")
    battles: list[float] = []
    for number in range(N):
        battles += LABELS[list(LABELS)[number * 2 % 5]]
        battles += [1.0 - y for y in LABELS[list(LABELS)[number * 3 % 5]]]
    wins = np.array(battles)

    def loss(strengths: np.ndarray) -> float:
        score = strengths[0] - strengths[1]
        return float((np.logaddexp(0.0, score) - wins * score).sum())

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9}).x
    value = by_metric(result)["arena_hard_score"]
    assert value["value"] == pytest.approx(1.0 / (1.0 + np.exp(best[1] - best[0])), abs=1e-6)
    assert value["low"] < value["value"] < value["high"]
    assert (value["n"], value["n_clusters"]) == (N, N)


def test_alpaca_evals_win_rate_is_the_mean_preference(runs: tuple[Path, str, str]) -> None:
    """2 minus the number in the first order, the number minus 1 in the other one, averaged."""

    def said(text: str) -> str:
        return f"[[{1 + (number_in(text) * 13 % 21) / 20}]]"  # the same in both orders

    result = judged(runs, "preference", said)
    assert by_metric(result)["alpaca_eval_win_rate"]["value"] == pytest.approx(0.5)
    result = judged(
        runs, "preference", lambda text: "[[1.2]]" if answers_shown(text)[0].startswith("ant") else "[[1.9]]"
    )
    assert by_metric(result)["alpaca_eval_win_rate"]["value"] == pytest.approx((0.8 + 0.9) / 2)


def test_a_judge_of_length_alone_is_even_at_equal_length(
    runs: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine of ten verdicts for the longer answer: ant wins most, and at equal length one half is in the interval."""
    store, *_ = runs

    def longer(text: str) -> str:
        first, second = (len(answer) for answer in answers_shown(text))
        return "[[A]]" if (first >= second) != (number_in(text) % 10 == 0) else "[[B]]"

    result = judged(runs, "pair", longer)
    value = by_metric(result)["win_at_equal_length"]
    rate = json.loads(json.dumps(result.content))["summaries"][0]["win_rate"]["value"]
    assert rate > 0.65
    assert value["low"] < 0.5 < value["high"]
    assert abs(value["value"] - 0.5) < rate - 0.5
    with Store.open(str(store)) as opened:
        stored = {estimate.metric: estimate for estimate in opened.estimates(result.row.run_id)}
    assert stored["win_at_equal_length"].value == value["value"]
    assert main(["show", result.row.short_id, "--store", str(store)]) == 0
    assert "win rate at equal length, open_questions" in capsys.readouterr().out
    assert main(["show", result.row.short_id, "--store", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"][0]["title"] == "win rate at equal length"


def test_no_rate_at_equal_length_without_support() -> None:
    """Answers that are all shorter, and judgings without lengths: none, with the reason."""
    verdicts = (parse_verdict("[[A]]", "pair"), parse_verdict("[[B]]", "pair"))
    lost = (verdicts[1], verdicts[0])
    pairs = [pair_of(("t", n, 0), "pair", verdicts if n % 3 else lost, lengths=(10 + n, 90)) for n in range(30)]
    (result,) = benchmark_scores(pairs, "pair")
    assert result.value is None
    assert result.why_none is not None
    assert "only 0% of the answers are longer than the other" in result.why_none
    (result,) = benchmark_scores([JudgedPair("t", 0, 0, "consistent", 1.0)], "pair")
    assert result.why_none == "lengths of answers are stored when the judging is complete"
    (result, _) = benchmark_scores([JudgedPair("t", 0, 0, "missing", None)], "five")
    assert (result.value, result.why_none) == (None, "no pair has a verdict")


def test_a_win_rate_of_one_is_not_certain() -> None:
    """All wins, some of them strong: the interval has width, as that of equal weights has."""
    pairs = [JudgedPair("t", n, 0, "consistent", 1.0, 1.0 + 2 * (n % 2)) for n in range(20)]
    (summary,) = summarise_pairs(pairs)
    assert summary.win_rate is not None
    assert summary.win_rate.low is not None
    assert summary.win_rate.low < 0.9
