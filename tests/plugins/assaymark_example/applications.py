"""A scorer of an application's answers, and a kind of target: answers that were recorded before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import assaymark
from assaymark.errors import DataError
from assaymark.runs.targets import TargetKind


@assaymark.scorer(formula="1 if the answer begins with a greeting, else 0", scale="right or wrong")
def greets(output: str) -> float:
    """Return whether an answer begins with a greeting."""
    return float(output.startswith(("Hello", "Good morning")))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A file of answers: a JSON object of inputs and answers."""

    path: Path

    def answers(self) -> dict[str, str]:
        """Return the answers by input. Raises: DataError for a file that is no JSON object."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise DataError(f"{self.path} is {type(content).__name__}; expected an object of inputs and answers")
        return {str(text): str(answer) for text, answer in content.items()}


def _evaluate(target: Recorded, rows: Any, **keywords: Any) -> Any:
    answers = target.answers()

    def recorded(input: str) -> str:  # noqa: A002 - the name binds it to a row's input
        return answers[input]

    return assaymark.evaluate(recorded, rows, scorers=["greets"], name=target.path.stem, **keywords)


def _of_command(options: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]] | None:
    if options["recorded"] is None:
        return None
    return Recorded(Path(options["recorded"])), options["tasks"][0], {"store": options["store"]}


recorded_kind = TargetKind(
    takes=lambda target, _keywords: isinstance(target, Recorded),
    evaluate=_evaluate,
    options=(click.option("--recorded", metavar="FILE", help="Evaluate recorded answers, a JSON object by input."),),
    of_command=_of_command,
)
