"""Messages from a step's process to its worker: one JSON object per line, parsed here into typed, bounded records.

The process that evaluates a submission is not trusted, since native code reads the submission's tokenizer and weights.
A line that is none of these records ends the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assaymark.limits.characters import is_storable
from assaymark.limits.nesting import parse_json

MOST_LINE = 1 << 16  # bytes
MOST_RUNS = 1000
LONGEST_STAGE = 32
LONGEST_REASON = 2000  # characters
LONGEST_PATH = 4096
MOST_STEPS = 1 << 40
FAULTS = ("infrastructure", "submission", "killed")


class BadMessage(ValueError):
    """A line that is not a message of this step."""


@dataclass(frozen=True, slots=True)
class Started:
    """Our own code runs. Nothing of the submission has been read yet, so this message can be trusted."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The progress of a step."""

    text: str
    n_done: int = 0
    n_total: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The reason why a step failed, and the party at fault.

    fault: `infrastructure`, `submission`, or `killed` if it exceeded a limit.
    """

    fault: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """Folders of the model and of an adapter's base, copied or downloaded for this job."""

    model: Path
    base: Path | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The evaluation ended. The next step reads and checks its results, so the message holds none."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The runs of the job, in the order of its parts, in the store that the check wrote."""

    runs: tuple[str, ...]


Message = Started | Stage | Failed | Fetched | Evaluated | Checked


def read_message(line: bytes, step: str) -> Message:
    """Return the message of one line.

    line: without its newline. step: fetch | evaluate | check; each may only end with its own record.

    Raises: BadMessage for anything else.
    """
    if len(line) > MOST_LINE:
        raise BadMessage(f"a message of more than {MOST_LINE:,} bytes")
    try:
        value = parse_json(line.decode("utf-8"), 4)
    except (ValueError, RecursionError) as error:
        raise BadMessage("a message that is not JSON") from error
    if not isinstance(value, dict):
        raise BadMessage("a message that is not a JSON object")
    match value.get("kind"):
        case "started":
            return Started()
        case "stage":
            done = _number(value, "done")
            return Stage(_text(value, "text", LONGEST_STAGE), done, max(done, _number(value, "total")))
        case "failed" if value.get("fault") in FAULTS:
            return Failed(str(value["fault"]), _text(value, "reason", LONGEST_REASON))
        case "fetched" if step == "fetch":
            base = None if value.get("base") is None else Path(_text(value, "base", LONGEST_PATH))
            return Fetched(Path(_text(value, "model", LONGEST_PATH)), base)
        case "evaluated" if step == "evaluate":
            return Evaluated()
        case "checked" if step == "check":
            ids = value.get("runs")
            if not isinstance(ids, list) or not 1 <= len(ids) <= MOST_RUNS:
                raise BadMessage("a message whose 'runs' is not a list of runs")
            if not all(isinstance(each, str) and each.isalnum() and len(each) <= 64 for each in ids):
                raise BadMessage("a message whose 'runs' has what is not a run's id")
            return Checked(tuple(ids))
    raise BadMessage(f"a message of a kind that the step '{step}' does not have")


def _text(value: Mapping[str, object], name: str, longest: int) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text or len(text) > longest or not is_storable(text):
        raise BadMessage(f"a message whose '{name}' is not a Unicode text of 1 to {longest:,} characters")
    return text


def _number(value: Mapping[str, object], name: str) -> int:
    number = value.get(name, 0)
    if type(number) is not int or not 0 <= number <= MOST_STEPS:
        raise BadMessage(f"a message whose '{name}' is not a whole number from 0")
    return number
