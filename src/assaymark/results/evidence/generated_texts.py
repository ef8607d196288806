"""Lengths and finish reasons of generated answers, which scores do not show.

An answer that was cut off at its limit is scored as it is, so a table of scores alone would hide it. For a task without
scores (a conversation that needs a judge) there is nothing else to show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.documents.numbers import counted
from assaymark.records import IN_REASONING, REFUSED
from assaymark.store.rows import GeneratedRow

MOST_LINES = 5  # tasks with answers cut off that are listed one by one
ENDS: Mapping[str, str] = {
    "eos": "ended by the model",
    "stop": "at a stop text",
    "length": "cut off at the limit of tokens",
    IN_REASONING: "ended while reasoning",
    REFUSED: "refused by the model",
}


@dataclass(frozen=True, slots=True)
class TurnAnswers:
    """The answers of one task at one turn. Units: n_tokens of all answers together."""

    task: str
    turn: int
    n: int = 0
    n_failed: int = 0
    n_tokens: int = 0
    ends: Mapping[str, int] = field(default_factory=dict)  # finish reason -> answers

    @property
    def mean_tokens(self) -> float | None:
        """The mean length; None without answers."""
        return self.n_tokens / self.n if self.n else None


def answers_by_turn(rows: Sequence[GeneratedRow]) -> list[TurnAnswers]:
    """Return the answers of each task and turn, in the order given."""
    by_turn: dict[tuple[str, int], TurnAnswers] = {}
    for row in rows:
        before = by_turn.get((row.task, row.turn), TurnAnswers(row.task, row.turn))
        ends = {**before.ends, row.finish_reason: row.n_texts} if row.finish_reason and row.n_texts else before.ends
        by_turn[row.task, row.turn] = TurnAnswers(
            row.task,
            row.turn,
            before.n + row.n_texts,
            before.n_failed + row.n_failed,
            before.n_tokens + row.n_tokens,
            ends,
        )
    return list(by_turn.values())


def generated_lines(answers: Sequence[TurnAnswers], scored: frozenset[str], *, is_finished: bool) -> list[str]:
    """Return lines about tasks with answers cut off, and about each turn of tasks without scores.

    Answers of a run that has not ended are not scored yet; those of one that has need a judge.
    """
    why = "scoring them needs a judge" if is_finished else "the same command continues and scores them"
    lines: list[str] = []
    cut: list[tuple[str, int, int]] = []
    thinking: list[tuple[str, int, int]] = []
    refused: list[tuple[str, int, int]] = []
    for task in dict.fromkeys(each.task for each in answers):
        turns = [each for each in answers if each.task == task]
        if task not in scored:
            lines.append(f"{task}: answers are stored and not scored; {why}")
            lines += [f"  turn {each.turn + 1}: {_described(each)}" for each in turns]
            continue
        for found, reason in ((cut, "length"), (thinking, IN_REASONING), (refused, REFUSED)):
            if n_found := sum(each.ends.get(reason, 0) for each in turns):
                found.append((task, n_found, sum(each.n for each in turns)))
    unfinished = (
        "ended while reasoning, and nothing in them was graded; raise max_gen_toks, or where a stop text ended them "
        "name the end of the reasoning: think_end_token=</think>"
    )
    return [
        *lines,
        *_cut_lines(cut, "cut off at the limit of tokens (max_gen_toks)"),
        *_cut_lines(thinking, unfinished),
        *_cut_lines(refused, "refused by the model, whose refusal is scored as the answer"),
    ]


def _cut_lines(cut: Sequence[tuple[str, int, int]], how: str) -> list[str]:
    """Return a line for each (task, answers that ended so, answers), or one for all where there are many."""
    if len(cut) <= MOST_LINES:
        return [f"{task}: {n_cut:,} of {counted(n, 'answer')} {how}" for task, n_cut, n in cut]
    n_cut, n = sum(entry[1] for entry in cut), sum(entry[2] for entry in cut)
    task, most, of = max(cut, key=lambda entry: entry[1] / entry[2])
    return [f"{n_cut:,} of {n:,} answers of {len(cut)} tasks {how}, most in {task}: {most:,} of {of:,}"]


def _described(answers: TurnAnswers) -> str:
    length = "" if answers.mean_tokens is None else f", {answers.mean_tokens:,.0f} tokens on average"
    ends = [f"{n:,} {ENDS.get(reason, reason)}" for reason, n in answers.ends.items()]
    failed = [f"{answers.n_failed:,} failed"] if answers.n_failed else []
    return counted(answers.n, "answer") + length + "".join(f"; {part}" for part in [*ends, *failed])
