"""Lines about lengths and ends of generated answers."""

from assaymark.results.evidence.generated_texts import TurnAnswers, generated_lines


def answers(n_tasks: int) -> list[TurnAnswers]:
    """Return nine answers of each task, of which task k has k that were cut off."""
    return [TurnAnswers(f"task_{i}", 0, n=9, n_tokens=40, ends={"length": i}) for i in range(n_tasks)]


def lines_of(n_tasks: int) -> list[str]:
    """Return the lines where every task is scored."""
    result = answers(n_tasks)
    return generated_lines(result, frozenset(each.task for each in result), is_finished=True)


def test_few_tasks_are_listed_one_by_one() -> None:
    """A task with answers cut off has a line of its own; one without has none."""
    assert lines_of(3) == [
        "task_1: 1 of 9 answers cut off at the limit of tokens (max_gen_toks)",
        "task_2: 2 of 9 answers cut off at the limit of tokens (max_gen_toks)",
    ]


def test_many_tasks_are_reported_in_one_line() -> None:
    """A suite of many tasks has one line for all, with the task where most were cut off."""
    (line,) = lines_of(8)
    assert line == ("28 of 63 answers of 7 tasks cut off at the limit of tokens (max_gen_toks), most in task_7: 7 of 9")
