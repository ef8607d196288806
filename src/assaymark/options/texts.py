"""Parse the command line's texts into values of options."""

import json
from collections.abc import Callable
from pathlib import Path

from assaymark.errors import UsageError

TRUE = {"true", "1", "yes"}
FALSE = {"false", "0", "no", "none"}


def read_shots(text: str) -> int | tuple[int, ...]:
    """Return a number of shots, or several (comma-separated), which are compared.

    Raises: UsageError.
    """
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.lstrip("-").isdigit() for part in parts):
        raise UsageError(f"--num_fewshot: '{text}' is not a valid integer; expected shots such as 5, or 0,5")
    return int(parts[0]) if len(parts) == 1 else tuple(map(int, parts))


def read_seed(text: str) -> int:
    """Return the seed of the few-shot draw from lm-eval's list of up to four.

    Raises: UsageError.
    """
    parts = [part.strip() for part in str(text).split(",")]
    if len(parts) not in {1, 3, 4} or not all(part.lower() == "none" or part.lstrip("-").isdigit() for part in parts):
        raise UsageError(f"--seed is '{text}'; expected one whole number, or four: python,numpy,torch,fewshot")
    last = parts[0] if len(parts) == 1 else parts[3] if len(parts) == 4 else "1234"
    if last.lower() == "none":
        raise UsageError(
            "--seed: the fourth seed is None, and an unseeded draw of shots cannot be repeated; give a number"
        )
    return int(last)


def read_samples(text: str) -> dict[str, list[int]]:
    """Return task -> positions from JSON text or a file that contains it.

    Raises: UsageError.
    """
    origin = "--samples"
    if not text.lstrip().startswith("{"):
        path = Path(text)
        if not path.is_file():
            raise UsageError(
                f"--samples names '{text}', which is not a file; expected JSON such as {{\"arc_easy\": [0, 7]}}"
            )
        origin, text = str(path), path.read_text(encoding="utf-8")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f'{origin} is not JSON ({error}); expected {{"arc_easy": [0, 7]}}') from None
    right = isinstance(value, dict) and all(
        isinstance(v, list) and all(isinstance(i, int) and i >= 0 for i in v) for v in value.values()
    )
    if not right:
        raise UsageError(f'{origin} must map task names to lists of positions, as in {{"arc_easy": [0, 7]}}')
    return value  # type: ignore[no-any-return]


def read_arguments(name: str) -> Callable[[str], dict[str, object]]:
    """Return the reader of an option `name` whose text is `a=b,c=d` or a JSON object.

    Raises: UsageError, from the reader.
    """

    def read(text: str) -> dict[str, object]:
        from assaymark.models.checkpoint.arguments import parse_arguments

        if not text:
            return {}
        if text.lstrip().startswith("{"):
            try:
                value = json.loads(text)
            except json.JSONDecodeError as error:
                raise UsageError(f"--{name}: '{text}' is not JSON: {error}") from None
            return dict(value)
        return parse_arguments(text, name)

    return read


def read_template(text: str | bool) -> bool | str:
    """Return True, False, or the name of a template that was given in place of a boolean."""
    if isinstance(text, bool):
        return text
    return True if text.lower() in TRUE else False if text.lower() in FALSE else text


def read_truth(name: str) -> Callable[[str | bool], bool]:
    """Return the reader of an option `name` whose text is true or false.

    Raises: UsageError, from the reader.
    """

    def read(text: str | bool) -> bool:
        value = read_template(text)
        if isinstance(value, str):
            raise UsageError(f"--{name} is '{text}'; expected true or false")
        return value

    return read
