"""What inspect-ai's scorers that ask a second model send it, as a template over a row's columns.

A run does not ask the second model: its answers are stored, and the grader that the user names is asked about them.

Source: inspect-ai 0.3.285, scorer/_model.py, whose default texts these are (after OpenAI's evals, `closedqa`).
"""

from collections.abc import Sequence

from assaymark.errors import DataError
from assaymark.limits.regexes import compiled
from assaymark.tasks.solver_prompts import RowExpressions, Step, expression_of, filled

ANSWER_NAME, CRITERION_NAME, HISTORY_NAME = "answer_to_grade", "criterion_of_grade", "history_of_grade"
"""The names under which the template has the model's answer, the target, and the conversation with the answer."""

QA = """
You are assessing a submitted answer on a given task based on a criterion. Here is the data:

[BEGIN DATA]
***
[Task]: {question}
***
[Submission]: {answer}
***
[Criterion]: {criterion}
***
[END DATA]

Does the submission meet the criterion?

{instructions}
"""
FACT = """
You are comparing a submitted answer to an expert answer on a given question. Here is the data:

[BEGIN DATA]
************
[Question]: {question}
************
[Expert]: {criterion}
************
[Submission]: {answer}
************
[END DATA]

Compare the factual content of the submitted answer with the expert answer. Ignore any differences in style, grammar, or punctuation.

Does the submission contain the content in the expert answer?

{instructions}
"""  # noqa: E501 - the published text
INSTRUCTIONS = """
After assessing the submitted answer, reply with 'GRADE: $LETTER' (without quotes) where LETTER is one of {letters}.  Please choose ONE option for the grade: either "C" for correct answers, {partial}or "I" for incorrect answers.

For example, after reviewing a correct answer you might write 'GRADE: C' or after reviewing an incorrect answer you might write 'GRADE: I'.

First, write out in a step by step manner your reasoning about the criterion to be sure that your conclusion is correct. Avoid simply stating the correct answers at the outset. Then, end with your answer formatted as 'GRADE: $LETTER' (without quotes) where LETTER is one of {letters}.
"""  # noqa: E501 - the published text
PARTIAL = '"P" for partially correct answers,'


def grading_options(step: Step, row: RowExpressions) -> dict[str, object]:
    """Return the options of the metric of a scorer that asks a second model.

    grading: template of the prompt; offered: letters that the prompt offers, empty where its instructions are the
    file's own; grade_pattern: where the file has one; panel: how the grades of several graders become one; models: the
    graders that the file names, which only their provider's clients know.

    Raises: DataError for a template that cannot be filled, and a pattern without a group.
    """
    args = step.args
    is_partial = args.get("partial_credit") is True
    letters = "CPI" if is_partial else "CI"
    default = INSTRUCTIONS.format(letters=letters, partial=PARTIAL if is_partial else "")
    instructions = str(args.get("instructions") or default)
    question = HISTORY_NAME if args.get("include_history") is True else row.question
    values = {
        **{name: _marked(column) for name, column in row.metadata.items()},
        "question": _marked(question), "answer": _marked(ANSWER_NAME), "criterion": _marked(CRITERION_NAME),
        "instructions": expression_of(instructions),
    }  # fmt: skip
    template = str(args.get("template") or (FACT if step.name == "model_graded_fact" else QA))
    if "://" in template and not set(template) & set(" \n{"):
        raise DataError(f"{step.where}: template is {template!r:.80}, an address; write the text itself")
    options: dict[str, object] = {"grading": f"{{{{ {filled(template, values, step, strict=True)} }}}}"}
    pattern = args.get("grade_pattern")
    if pattern is None:
        options["offered"] = "" if args.get("instructions") else letters
    else:
        options["grade_pattern"] = _checked(str(pattern), step)
    named = args.get("model")
    models: Sequence[object] = named if isinstance(named, list) else [] if named is None else [named]
    options["panel"] = str(args.get("reducer") or "majority")
    return {**options, **({"models": list(models)} if models else {})}


def _marked(expression: str) -> str:
    """Return the expression of a text of others, which cannot end the data of the prompt."""
    return f"({expression} | without_data_marks)"


def _checked(pattern: str, step: Step) -> str:
    try:
        n_groups = compiled(pattern).groups
    except DataError as error:
        raise DataError(f"{step.where}: grade_pattern: {error}") from None
    if not n_groups:
        raise DataError(f"{step.where}: grade_pattern {pattern!r:.80} has no group (...) around the grade")
    return pattern
