"""MT-bench end to end: answers and GPT-4's recorded verdicts come from servers, everything else is the real path."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from assaymark.judges.report import VoteFileOptions, judge_agreement
from assaymark.store import Store
from tests.judges.answered import answered_run
from tests.judges.judge_server import answers_shown, judging_server

MODELS = ("gpt-4", "claude-v1")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the votes on the two models."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if {row["model_a"], row["model_b"]} == set(MODELS)]


class Recorded:
    """Replies as GPT-4 did: its verdict on these two models for the question and turn that the prompt shows."""

    def __init__(self, recorded: list[dict[str, Any]], numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.verdicts = {(row["question_id"], row["turn"]): row for row in recorded}

    def __call__(self, text: str) -> str:
        """Return the verdict; where both orders differed, the answer shown first is named in both."""
        result = answers_shown(text)
        question = next(number for asked, number in self.numbers.items() if asked in text)
        names = [re.findall(r"(?:^|Assistant: )(gpt-4|claude-v1) says", each)[-1] for each in result]
        row = self.verdicts[question, result[0].count("User: ") or 1]
        if row["winner"] == "tie (inconsistent)":
            return "[[A]]"
        if row["winner"] == "tie":
            return "[[C]]"
        return "[[A]]" if row[row["winner"]] == names[0] else "[[B]]"


@pytest.mark.slow
def test_recorded_verdicts_give_the_published_counts(shared_dir: Path, tmp_path: Path) -> None:
    """Wins, losses and ties of 160 pairs are the file's, inconsistent ones too; so is the agreement with people."""
    path = tmp_path / "s.sqlite"
    data = str(shared_dir / "data")
    recorded = rows_of(shared_dir / "data/arena/mtbench/gpt4_pair.jsonl")
    runs = [answered_run(name, "mt_bench", path, data_dir=data) for name in MODELS]
    with Store.open(str(path)) as store:
        samples = [record.sample for record in store.samples(runs[0], "mt_bench")]
    numbers = {str(sample.row["turns" if "turns" in sample.row else "prompt"][0]).strip(): int(_number(sample.row))
               for sample in samples if sample is not None}  # fmt: skip
    assert len(numbers) == 80
    with judging_server(Recorded(recorded, numbers)) as server:
        options = JudgeOptions("pair", model_args=server.arguments)
        result = judge_runs("local-chat-completions", runs, options, store=str(path))
        assert len(server.seen) == 320
    (summary,) = json.loads(json.dumps(result.content))["summaries"]
    winners = Counter(row.get(row["winner"], row["winner"]) for row in recorded)
    assert summary["n"] == len(recorded) == 160
    assert (summary["wins"], summary["losses"]) == (winners["gpt-4"], winners["claude-v1"])
    assert summary["first"] == winners["tie (inconsistent)"]

    human = tmp_path / "human.jsonl"
    human.write_text("".join(json.dumps(row) + "\n" for row in rows_of(shared_dir / "data/arena/mtbench/human.jsonl")))
    judge = tmp_path / "gpt4.jsonl"
    judge.write_text("".join(json.dumps(row) + "\n" for row in recorded))
    ours, files = (
        judge_agreement(name, human, VoteFileOptions(), judge_model="gpt-4", store=str(path))
        for name in (result.row.run_id, str(judge))
    )
    assert ours.agreement == files.agreement
    assert ours.own == files.own
    assert ours.own is not None
    assert ours.agreement.judge.n > 100


def _number(row: Any) -> Any:
    return row["question_id"] if "question_id" in row else row["prompt_id"]
