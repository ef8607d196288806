"""The keywords of `evaluate`: those shared with the command line and stored plans, and those for Python callers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from assaymark.options.option import Option
from assaymark.options.shared import SharedOptions
from assaymark.runs.execute import Observer


class TargetKeywords(TypedDict, total=False):
    """The keywords of `evaluate` for a user's function; its kind of target checks them (`runs.targets`)."""

    scorers: str | Sequence[object] | Callable[..., object]  # names (commas between) or functions
    judge: object  # the model that judged scorers ask; for a model's run: the grader, or a list of several
    judge_args: str | Mapping[str, object] | None  # of the judge, as model_args
    human_labels: str | Path  # a file of people's scores, see `applications.human_labels`
    name: str | None  # under which it is shown
    version: str | None  # of parts that the source does not show: another version is another run
    files: Sequence[str | Path]  # prompts that it reads: a change of one is another run
    repeats: int  # calls per row
    concurrency: int  # calls at once
    timeout_s: float  # of a call
    retries: int  # of a call that failed
    body: object  # of an endpoint: a template with {{placeholders}}
    answer_path: str | None  # of an endpoint: path of the answer in its JSON
    public_only: bool  # of an endpoint: refuse addresses that are not public
    headers: Mapping[str, str]  # of an endpoint


class EvaluateOptions(SharedOptions, total=False):
    """The optional keywords of `evaluate`, besides model and tasks. See `SharedOptions` for most of them."""

    tokenizer: Annotated[object, Option(flags=(), help="Tokenizer of a loaded model that is not given as a pair.")]
    observe: Annotated[Observer | None, Option(flags=(), help="Called with the run's progress.", expected="a function")]
    notify: Annotated[
        Callable[[str], None] | None,
        Option(
            flags=(), help="Called before any request with a line for each guess or replacement.", expected="a function"
        ),
    ]
    command: Annotated[str | None, Option(flags=(), help="The command that was typed, stored with the attempt.")]


class EvaluateKeywords(EvaluateOptions, TargetKeywords, total=False):
    """The keywords of `evaluate`, for a model or for a user's function."""
