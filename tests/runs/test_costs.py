"""The cost of runs on a real server: forecast, bill and limit; the server's own count of tokens is the oracle."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.runs.evaluate import evaluate
from assaymark.runs.run import Run
from tests.judges.judge_server import JudgeServer, judging_server

N = 12
PRICE = (1000.0, 2000.0)  # a thousandth of a unit for each token read


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Return a file of questions of different lengths."""
    path = tmp_path / "sums.jsonl"
    rows = [{"prompt": f"What is {i} and {i}? " + "Think. " * i, "reference": str(2 * i)} for i in range(N)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(server: JudgeServer, questions: Path, **more: Any) -> Run:
    """Evaluate the server's model, at a price."""
    options: dict[str, Any] = {
        "model_args": server.arguments,
        "apply_chat_template": True,
        "gen_kwargs": {"max_gen_toks": 30},
        "store": questions.parent / "runs.sqlite",
        "price": "1000,2000",
        **more,
    }
    return evaluate("local-chat-completions", str(questions), **options)


def true_cost(server: JudgeServer) -> float:
    """Return what the requests that the server has answered cost, by its own usage."""
    return sum(len(text) // 4 * PRICE[0] + 20 * PRICE[1] for text in server.seen) / 1e6


def test_the_bill_is_the_servers_usage(questions: Path) -> None:
    """The stored cost is the price of the tokens that the server reported, and `show` prints it with the price."""
    with judging_server(lambda _: "4") as server:
        result = run(server, questions)
        assert result.cost is not None
        assert result.cost["spent"] == pytest.approx(true_cost(server))
        assert (result.cost["n_outputs"], result.cost["n_estimated"]) == (N, 0)
        assert any(line.startswith("cost: ") and "1000 and 2000 per million" in line for line in result.remarks())
        again = run(server, questions)  # nothing is sent, and the bill stays
        assert len(server.seen) == N
        assert again.cost == result.cost


@pytest.mark.slow
@pytest.mark.parametrize("tells_usage", [True, False])
def test_the_limit_is_never_passed_and_a_higher_one_continues(questions: Path, tells_usage: bool) -> None:
    """A run stops as incomplete before its limit; the same run with a higher limit sends only the rest."""
    with judging_server(lambda _: "4", tells_usage=tells_usage) as server:
        first = run(server, questions, max_cost=0.4)
        n_first = len(server.seen)
        assert 0 < n_first < N
        assert true_cost(server) <= 0.4
        assert first.cost is not None
        assert isinstance(first.cost["spent"], float)
        assert true_cost(server) <= first.cost["spent"] <= 0.4
        assert first.row.status == "incomplete"
        assert first.stop_reason is not None
        assert "max_cost=0.4 would be passed" in first.stop_reason
        assert "higher --max_cost" in first.stop_reason
        assert first.cost["n_estimated"] == (0 if tells_usage else n_first)
        stuck = run(server, questions, max_cost=0.4)
        assert true_cost(server) <= 0.4  # what earlier attempts spent counts
        assert stuck.id == first.id
        whole = run(server, questions, max_cost=50.0)
        assert whole.id == first.id
        assert whole.row.status == "finished"
        assert len(server.seen) == len(set(server.seen)) == N  # nothing was sent twice
        assert whole.cost is not None
        assert isinstance(whole.cost["spent"], float)
        assert whole.cost["spent"] >= true_cost(server) - 1e-9
        if tells_usage:
            assert whole.cost["spent"] == pytest.approx(true_cost(server))
        else:
            assert any("at most" in line and "not reported" in line for line in whole.remarks())


def test_the_command_exits_with_5_and_says_how_to_continue(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run --max_cost` that stops early exits with code 5 and one line; `plan` forecasts it and sends nothing."""
    with judging_server(lambda _: "4") as server:
        words = ["--model", "local-chat-completions", "--model_args", server.arguments, "--tasks", str(questions)]
        words += ["--apply_chat_template", "--store", str(questions.parent / "runs.sqlite"), "--price", "1000,2000"]
        assert main(["plan", *words, "--max-cost", "0.4"]) == 0
        planned = capsys.readouterr().out
        assert "cost: up to about " in planned
        assert "this can pass --max_cost 0.4" in planned
        assert server.seen == []
        assert main(["run", *words, "--gen_kwargs", "max_gen_toks=30", "--max-cost", "0.4", "--quiet"]) == 5
        assert "error: incomplete: max_cost=0.4 would be passed" in capsys.readouterr().err
        assert main(["plan", *words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cost"]["price"]["read"] == 1000.0


def test_a_limit_needs_a_price(questions: Path) -> None:
    """max_cost for a model without a known price is refused before anything is sent, with both remedies."""
    with judging_server(lambda _: "4") as server:
        with pytest.raises(UsageError, match=r"no price of model 'judge' is known.*--price IN,OUT.*--prices FILE"):
            run(server, questions, price=None, max_cost=0.4)
        with pytest.raises(UsageError, match="max_cost is -1; expected an amount"):
            run(server, questions, max_cost=-1.0)
        assert server.seen == []


def test_failed_requests_that_no_provider_bills_cost_nothing(questions: Path) -> None:
    """Refused requests are not charged; answered ones are."""

    def reply(text: str) -> str:
        if "3 and 3" in text:
            raise ConnectionResetError  # the connection ends without an answer: it may be billed
        return "4"

    with judging_server(reply) as server:
        arguments = server.arguments + ",max_retries=1"
        result = run(server, questions, model_args=arguments)
        assert result.cost is not None
        assert result.result is not None
        assert result.result.n_failed == 1
        assert (result.cost["n_outputs"], result.cost["n_estimated"]) == (N, 1)  # charged with the most it can have


@pytest.mark.parametrize(("limit", "said"), [(50.0, "max_cost=50 would be passed"), (1.0, "max_cost=1 is passed")])
def test_a_server_that_bills_more_than_requests_can_have_is_found_out(questions: Path, limit: float, said: str) -> None:
    """The first request goes alone; the others count as many times more, and nothing is sent beyond the limit."""
    with judging_server(lambda _: "4", usage_times=1000) as server:
        result = run(server, questions, max_cost=limit)
        assert len(server.seen) == 1
        assert result.stop_reason is not None
        assert said in result.stop_reason
        assert any("(more than --max_cost 1)" in line for line in result.remarks()) == (limit == 1.0)
        assert result.row.status == "incomplete"
