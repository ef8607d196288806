"""The prompts of inspect-ai's solvers, and of its scorers that ask a second model, as templates over a row's columns.

A chain changes the messages of a sample one solver after another, and one of them asks the model. What it does to a
row follows from the chain alone, so it becomes one template: inspect's `{name}` in texts is filled when the template
is made, from arguments, and when it is rendered, from the row's columns. Nothing of Python's formats is carried out.

A run does not ask the second model: its answers are stored, and the grader that the user names is asked about them.

Source: inspect-ai 0.3.285, solver/_prompt.py, _multiple_choice.py and _critique.py, scorer/_model.py (after OpenAI's
evals, `closedqa`), whose default texts these are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

from assaymark.errors import DataError
from assaymark.limits.regexes import compiled
from assaymark.prompts.images import PLACEHOLDER
from assaymark.tasks.self_critique import ANSWER as PLACE_OF_ANSWER
from assaymark.tasks.self_critique import CRITIQUE as PLACE_OF_CRITIQUE

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
_FACT = """
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


CHAIN_OF_THOUGHT = r"""
{prompt}

Before answering, reason in a step-by-step manner as to get the right answer. Provide your answer at the end on its own line in the form "ANSWER: $ANSWER" (without quotes) where $ANSWER is the answer to the question.
"""  # noqa: E501 - the published text

CRITIQUE = r"""
Given the following question and answer, please critique the answer. A good answer comprehensively answers the question and NEVER refuses to answer. If the answer is already correct do not provide critique - simply respond 'The original answer is fully correct'.

[BEGIN DATA]
***
[Question]: {question}
***
[Answer]: {completion}
***
[END DATA]

Critique: """  # noqa: E501 - the published text
REVISION = r"""
Given the following question, initial answer and critique please generate an improved answer to the question:

[BEGIN DATA]
***
[Question]: {question}
***
[Answer]: {completion}
***
[Critique]: {critique}
***
[END DATA]

If the original answer is already correct, just repeat the original answer exactly. Provide your answer at the end on its own line in the form "ANSWER: $ANSWER" (without quotes) where $ANSWER is the answer to the question.
"""  # noqa: E501 - the published text

_ONE = "The entire content of your response should be of the following format: 'ANSWER: ${answer}' (without quotes)"
_LAST = "The last line of your response should be of the following format: 'ANSWER: ${answer}' (without quotes)"
_FIRST = "Answer the following multiple choice question"
_SEVERAL = f"{_FIRST} where multiple answers may be correct"
_ASKED = "\n\n{question}\n\n{choices}"
_THINK = " Think step by step before answering."


def choice_template(*, cot: bool, multiple_correct: bool) -> str:
    """Return the text of the solver multiple_choice where its arguments have none."""
    answer = "LETTERS" if multiple_correct else "LETTER"
    form = (_LAST if cot else _ONE).replace("{answer}", answer)
    which = "LETTERS is one or more of {letters}." if multiple_correct else "LETTER is one of {letters}."
    return f"{_SEVERAL if multiple_correct else _FIRST}. {form} where {which}{_THINK if cot else ''}{_ASKED}"


@dataclass(frozen=True, slots=True)
class Step:
    """A solver or scorer of a benchmark's file. where: the file and key, for messages."""

    name: str
    args: Mapping[str, object]
    where: str


@dataclass(frozen=True, slots=True)
class RowExpressions:
    """What templates know of a row: expressions of its values."""

    question: str
    options: str | None = None
    image: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)  # name in the texts -> column

    @property
    def filled(self) -> dict[str, str]:
        """The expressions of the metadata in texts that leave what they do not know: also what a row does not have."""
        return {name: f"({_literal(_braced(name))} if {own} is none else {own})" for name, own in self.metadata.items()}


@dataclass(slots=True)
class SolverPrompt:
    """What a chain asks: messages as (role, expression); the settings of the request; how letters are read."""

    messages: list[tuple[str, str]]
    settings: dict[str, object] = field(default_factory=dict)
    asked_by: str = ""  # the solver that asks the model
    multiple_correct: bool = False
    critique: dict[str, str] | None = None  # the templates of `self_critique`

    @property
    def template(self) -> str:
        """The template of the messages."""
        each = (f"{{'role': '{role}', 'content': {content}}}" for role, content in self.messages)
        return f"{{{{ [{', '.join(each)}] | tojson }}}}"

    def change_question(self, template: str, values: Mapping[str, str], step: Step, *, strict: bool = False) -> None:
        """Replace the user's last message by a text, in which `values` stand for their names."""
        at = max(index for index, (role, _) in enumerate(self.messages) if role == "user")
        self.messages[at] = ("user", filled(template, values, step, strict=strict))


GENERATION = {"temperature": "temperature", "max_tokens": "max_gen_toks", "top_p": "top_p", "top_k": "top_k",
              "seed": "seed", "stop_seqs": "until"}  # fmt: skip
"""Argument of the solver `generate` -> setting of a request here."""


def solver_prompt(solvers: Sequence[Step], row: RowExpressions) -> SolverPrompt:
    """Return the prompt of a chain of solvers.

    Raises: DataError for a chain that does not ask the model, or more than once, and for a text that cannot be filled.
    """
    made = SolverPrompt([("user", row.question)])
    for step in solvers:
        if made.asked_by and not (step.name == "self_critique" and made.asked_by == "generate"):
            raise DataError(
                f"{step.where}: {step.name} comes after {made.asked_by}, which asks the model; expected one solver "
                "that asks it, the last one"
            )
        if step.name == "self_critique" and not made.asked_by:
            raise DataError(
                f"{step.where}: self_critique comes before there is an answer; put `- name: generate` first"
            )
        _apply(step, made, row)
    if not made.asked_by:
        raise DataError(f"{solvers[-1].where}: no solver asks the model; add `- name: generate`, or multiple_choice")
    if row.image is not None:
        at = next(index for index, (role, _) in enumerate(made.messages) if role == "user")
        role, content = made.messages[at]
        made.messages[at] = (role, f"{content} ~ ({_literal(PLACEHOLDER)} if {row.image} else '')")
    return made


def _apply(step: Step, made: SolverPrompt, row: RowExpressions) -> None:
    """Change the prompt as one solver does."""
    args = dict(step.args)
    template = args.pop("template", None)
    if isinstance(template, str) and "://" in template and not set(template) & set(" \n{"):
        raise DataError(f"{step.where}: template is {template!r:.80}, an address; write the text itself")
    values = {name: expression_of(value) for name, value in args.items() if value is not None}
    question = next(content for role, content in reversed(made.messages) if role == "user")
    match step.name:
        case "prompt_template":
            made.change_question(str(template), {**row.filled, "prompt": question, **values}, step)
        case "chain_of_thought":
            made.change_question(str(template or CHAIN_OF_THOUGHT), {"prompt": question}, step)
        case "user_message":
            made.messages.append(("user", filled(str(template), {**row.filled, **values}, step)))
        case "system_message":
            at = sum(role == "system" for role, _ in made.messages)  # after those that are there
            made.messages.insert(at, ("system", filled(str(template), {**row.filled, **values}, step)))
        case "multiple_choice":
            _apply_choices(step, made, row, question)
        case "self_critique":
            known = {**row.metadata, "question": row.question, "completion": PLACE_OF_ANSWER}
            texts = (args.get("critique_template") or CRITIQUE, args.get("completion_template") or REVISION)
            critique = filled(str(texts[0]), known, step, strict=True)
            revision = filled(str(texts[1]), {**known, "critique": PLACE_OF_CRITIQUE}, step, strict=True)
            made.critique = {"critique": f"{{{{ {critique} }}}}", "revision": f"{{{{ {revision} }}}}"}
            made.asked_by = step.name
        case "generate":
            made.settings = {GENERATION[name]: value for name, value in args.items()}
            made.asked_by = step.name


def _apply_choices(step: Step, made: SolverPrompt, row: RowExpressions, question: str) -> None:
    if row.options is None:
        raise DataError(f"{step.where}: multiple_choice needs `choices` in field_spec: a column, or a list of columns")
    cot, several = step.args.get("cot") is True, step.args.get("multiple_correct") is True
    template = str(step.args.get("template") or choice_template(cot=cot, multiple_correct=several))
    if not {"{question}", "{choices}"} <= {part for part in ("{question}", "{choices}") if part in template}:
        raise DataError(f"{step.where}: template is {template!r:.80}; expected {{question}} and {{choices}} in it")
    letters, listed = (f"({row.options} | {name})" for name in ("option_letters", "listed_options"))
    made.change_question(template, {"question": question, "choices": listed, "letters": letters}, step, strict=True)
    if step.args.get("max_tokens") is not None:
        made.settings = {"max_gen_toks": step.args["max_tokens"]}
    made.asked_by, made.multiple_correct = step.name, several


def filled(template: str, values: Mapping[str, str], step: Step, *, strict: bool = False) -> str:
    """Return the expression of a text in which `{name}` stands for a value; other names stay as they are.

    With `strict` other names are errors.

    Raises: DataError for a text that is no format of Python's, and for names with attributes, indices or forms, which
        are not carried out.
    """
    parts: list[str] = []
    n_unnamed = 0
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise DataError(
            f"{step.where}: template {template!r:.80} cannot be read: {error}; write {{{{ and }}}} for braces "
            "themselves"
        ) from None
    names = {name for _, name, _, _ in parsed if name is not None}
    if "" in names and any(name.isdigit() for name in names):
        raise DataError(
            f"{step.where}: template {template!r:.80} has {{}} and a number in braces; expected one of them"
        )
    for text, named, form, conversion in parsed:
        if text:
            parts.append(_literal(text))
        if named is None:
            continue
        name = named or str(n_unnamed)
        n_unnamed += not named
        first = name.split(".")[0].split("[")[0]
        if form or conversion or "__" in name or (first != name and first in values):
            shown = f"{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}"
            raise DataError(
                f"{step.where}: template has {{{shown:.60}}}; expected {{{first:.40}}} alone: attributes, indices and "
                "forms are not carried out"
            )
        if strict and name not in values:
            raise DataError(f"{step.where}: template has {{{name:.60}}}; it may have {', '.join(map(_braced, values))}")
        parts.append(values.get(name, _literal(f"{{{name}}}")))
    return f"({' ~ '.join(parts)})" if parts else "''"


def expression_of(value: object) -> str:
    """Return the expression of a constant, as a text."""
    return _literal(str(value))


def _braced(name: str) -> str:
    return f"{{{name}}}"


def _literal(text: str) -> str:
    """Return a text as a string of Jinja's, which has Python's escapes."""
    escaped = text.encode("unicode_escape").decode("ascii").replace("'", "\\'")
    return f"'{escaped}'"


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
    template = str(args.get("template") or (_FACT if step.name == "model_graded_fact" else QA))
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
