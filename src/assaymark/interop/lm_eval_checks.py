"""Checks of lm-eval's results files before they are read, and the name of a file's model.

A violation raises an error in one line that names the key.
"""

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.reported import MOST_SAMPLES
from assaymark.records import JsonValue
from assaymark.records.json_values import object_at, object_of

MOST_SHOTS = 1_000_000
NOT_AVAILABLE = "N/A"  # lm-eval's text for a missing number
MOST_LEVELS = 20  # of groups in each other; lm-eval's own have three
MOST_LEAVES = 100_000


MODEL_ARGUMENTS = ("pretrained", "model", "model_name", "path", "engine")


def model_named(results: Mapping[str, JsonValue], unknown: str = "unknown") -> str:
    """Return the name of the model of a results file.

    It is `model_name` since 0.4.3; before that it is in the arguments in `config.model_args`, a text or an object, and
    failing that only the kind in `config.model` is known.
    """
    config = object_at(results, "config")
    stated = config.get("model_args")
    if isinstance(stated, Mapping):
        arguments = stated
    else:  # `a=b,c=d`; commas inside brackets are not handled, since no model's name has one
        arguments = dict(re.findall(r"(?:^|,)\s*(\w+)\s*=\s*([^,]*[^,\s])", str(stated or "")))
    in_arguments = next((arguments[name] for name in MODEL_ARGUMENTS if arguments.get(name)), None)
    listed = (results.get("model_name"), in_arguments, results.get("model_name_sanitized"), config.get("model_name"))
    return str(next((name for name in (*listed, config.get("model")) if name), unknown))


def refuse_malformed(file: Path, results: Mapping[str, object]) -> None:
    """Check that the parts and numbers of a results file are in lm-eval's format.

    Raises: DataError with file, key, value and what was expected.
    """
    _refuse_parts(file, results)
    _refuse_groups(file, results)
    for key, value in _values(results):
        if not (value is None or value == NOT_AVAILABLE or _is_number(value)):
            raise DataError(f"{file}: {key} is {value!r:.80}; expected a number, null or {NOT_AVAILABLE}")
    for key, value, most in _counts(results):
        if value is not None and not (_is_number(value) and isinstance(value, int) and 0 <= value <= most):
            raise DataError(f"{file}: {key} is {value!r:.80}; expected an integer from 0 to {most:,}")


def _refuse_parts(file: Path, results: Mapping[str, JsonValue]) -> None:
    for key in ("results", "configs", "versions"):
        part = results.get(key)
        if not isinstance(part, dict):
            raise DataError(
                f"{file} is not a results file of lm-eval: '{key}' is missing; expected results_<time>.json"
            )
        if not part and key != "versions":
            raise DataError(f"{file}: {key} is {{}}; expected at least one task")
    if not isinstance(results.get("config", {}), dict):
        raise DataError(f"{file}: config is {results['config']!r:.80}; expected an object, or no such key")
    for key in ("groups", "n-samples", "n-shot", "higher_is_better"):
        if not isinstance(results.get(key) or {}, dict):
            raise DataError(f"{file}: {key} is {results[key]!r:.80}; expected an object, or no such key")
    for key in ("results", "configs", "groups", "n-samples"):
        for name, entry in object_at(results, key).items():
            if not isinstance(entry, dict):
                raise DataError(f"{file}: {key}.{name} is {entry!r:.80}; expected an object")


def _refuse_groups(file: Path, results: Mapping[str, object]) -> None:
    """Refuse groups that contain themselves, or whose members cannot be listed in reasonable time."""
    subtasks = results.get("group_subtasks") or {}
    if not isinstance(subtasks, dict):
        raise DataError(f"{file}: group_subtasks is {subtasks!r:.80}; expected an object, or no such key")
    for name, members in subtasks.items():
        if members and not (isinstance(members, list) and all(isinstance(each, str) for each in members)):
            raise DataError(f"{file}: group_subtasks.{name} is {members!r:.80}; expected a list of names")
    try:
        order = list(TopologicalSorter({name: members or () for name, members in subtasks.items()}).static_order())
    except CycleError as error:
        chain = " -> ".join(reversed(error.args[1]))
        raise DataError(f"{file}: group_subtasks has a group that contains itself: {chain:.200}") from error
    levels, n_leaves = dict.fromkeys(order, 0), dict.fromkeys(order, 1)  # members come before their groups
    for name in order:
        if members := subtasks.get(name):
            levels[name] = 1 + max(levels[each] for each in members)
            n_leaves[name] = sum(n_leaves[each] for each in members)
        if levels[name] > MOST_LEVELS:
            raise DataError(f"{file}: group_subtasks.{name:.80} has groups in more than {MOST_LEVELS} levels")
    if sum(n_leaves.values()) > MOST_LEAVES:  # doubling at each level, twenty levels have a million
        raise DataError(f"{file}: group_subtasks lists more than {MOST_LEAVES:,} tasks, counted once for each group")


def _is_number(value: object) -> bool:
    """Return whether a value is a number, and an integer one that a float can hold; NaN is one."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**308)


def _values(results: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield each metric and its standard error: the keys with a filter after a comma, and other numbers."""
    for key in ("results", "groups"):
        for name, entry in object_at(results, key).items():
            cells = object_of(entry, name).items()
            yield from (
                (f"{key}.{name}.'{cell}'", value) for cell, value in cells if "," in cell or type(value) in {int, float}
            )


def _counts(results: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue, int]]:
    """Yield each number of samples or shots, with the most that it may be."""
    for name, n_shots in object_at(results, "n-shot").items():
        yield f"n-shot.{name}", n_shots, MOST_SHOTS
    for name, counts in object_at(results, "n-samples").items():
        own = object_of(counts, name)
        yield from ((f"n-samples.{name}.{key}", own.get(key), MOST_SAMPLES) for key in ("original", "effective"))
    for name, entry in object_at(results, "results").items():
        yield f"results.{name}.sample_len", object_of(entry, name).get("sample_len"), MOST_SAMPLES
