"""Scorers by their names, as on a command line or in a file, and the parts of rows that they need."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from assaymark.applications.binding import bind_scorer
from assaymark.applications.functions import is_reference, load_named
from assaymark.applications.rows import Row
from assaymark.applications.scorer import JudgedScorer, Scorer
from assaymark.applications.scorers.assertions import assertions_of
from assaymark.applications.tool_calls import expected_calls, tools_of
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.registry import Registry, nearest

AnyScorer = Scorer | JudgedScorer
SCORERS: Registry[object] = Registry("scorers", "scorer")
OF_THE_TARGET = frozenset({"contexts", "latency", "cost", "tokens"})
"""Needs that a target may meet with what it returns, so that rows alone do not decide them."""


def is_of_numbers(name: str) -> bool:
    """Return whether the registered scorer of a name declares values that are no shares, such as a cost below 1."""
    facts = getattr(SCORERS.load(name), "FACTS", None) if name in SCORERS else None
    return facts is not None and facts.scale == "number"


def scorers_of(texts: str | Sequence[object] | Callable[..., object]) -> list[AnyScorer]:
    """Return scorers.

    Args:
        texts: names ("exact"), with an argument (`regex:PATTERN`) or a YAML mapping (`{regex: {pattern: P, whole:
            true}}`), places of functions (`FILE.py:NAME`, `module:name`), functions, classes, objects and scorers. One
            text may name several, between commas.

    Raises: UnknownName with the nearest names; UsageError for arguments that do not fit, a function whose parameters
        cannot be bound, or two scorers of one name.
    """
    if isinstance(texts, str):
        entries: Sequence[object] = _split(texts)
    else:
        entries = [texts] if callable(texts) or isinstance(texts, Scorer | JudgedScorer) else list(texts)
    scorers = [_scorer(each) for each in entries]
    names = [each.facts.name for each in scorers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two scorers are called '{twice}'; give one another name: {{{twice}: {{name: other}}}}")
    return scorers


def _split(text: str) -> list[str]:
    """Return the parts between commas that are outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _scorer(entry: object) -> AnyScorer:
    if isinstance(entry, str):
        return _of_text(entry.strip())
    if isinstance(entry, Mapping):
        return _of_mapping(entry, str(entry))
    if isinstance(entry, Scorer | JudgedScorer) and not inspect.isclass(entry):
        return entry
    return bind_scorer(entry)


def _of_text(text: str) -> AnyScorer:
    if text.startswith("{"):
        try:
            value = load_yaml(text)
        except DataError as error:
            raise UsageError(f"scorer {text}: {error}") from None
        return _of_mapping(value, text)
    name, _, argument = text.partition(":")
    if name in SCORERS:
        return _made_scorer(name, {}, argument or None)
    if is_reference(text):
        return _scorer(load_named(text, "scorer")[0])
    near = nearest(name, SCORERS)
    known = "" if near else f"scorers: {', '.join(SCORERS)}; "
    raise UnknownName("scorer", text, near, f"{known}or name a function: FILE.py:NAME")


def _of_mapping(value: object, text: str) -> AnyScorer:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise UsageError(f"scorer {text} is not one name with its settings; expected {{NAME: {{SETTING: VALUE}}}}")
    ((name, settings),) = value.items()
    if settings is not None and not isinstance(settings, Mapping):
        return _of_text(f"{name}:{settings}")
    if name not in SCORERS:
        raise UnknownName("scorer", str(name), nearest(str(name), SCORERS))
    return _made_scorer(name, dict(settings or {}), None)


def _made_scorer(name: str, settings: dict[str, object], argument: str | None) -> AnyScorer:
    """Return a registered scorer with its settings. Functions that packages register are bound, classes constructed."""
    registered = SCORERS.load(name)
    if argument is not None:
        place = getattr(registered, "ARGUMENT", None)
        if place is None:
            raise UsageError(f"scorer {name} takes no argument, and '{argument}' was given; write {name}")
        settings[place] = argument
    if not inspect.isclass(registered):
        if settings:
            raise UsageError(f"scorer {name} is a function and has no settings; got {', '.join(settings)}")
        return _scorer(registered)
    known = [each for each in inspect.signature(registered).parameters if each != "self"]
    for each in settings:
        if each not in known:
            near = nearest(each, known) or known
            raise UnknownName(f"setting of the scorer {name}", each, near)
    made: object = registered(**settings)
    return made if isinstance(made, Scorer | JudgedScorer) else bind_scorer(made)


def check_needs(
    scorers: Iterable[AnyScorer], rows: Iterable[Row], *, of_the_target: frozenset[str] = OF_THE_TARGET
) -> None:
    """Refuse scorers that need parts that rows do not have, before the target is called.

    rows: all rows of the data set. of_the_target: needs that the target's return value meets, or may meet.

    Raises: UsageError that names the scorer, the needed part and the first row without it.
    """
    needs = [(each.facts.name, need) for each in scorers for need in sorted(each.facts.needs - of_the_target)]
    if not needs:
        return
    lacking: dict[tuple[str, str], Row] = {}  # the first
    counts: Counter[tuple[str, str]] = Counter()
    n_rows = 0
    for row in rows:
        n_rows += 1
        for name, need in needs:
            if not _has(row, need):
                lacking.setdefault((name, need), row)
                counts[name, need] += 1
    for (name, need), row in lacking.items():
        what = _WHAT.get(need, f"its {need}")
        others = f" and {n - 1:,} more of {n_rows:,}" if (n := counts[name, need]) > 1 else f" of {n_rows:,}"
        remedy = _REMEDY.get(need, "")
        if remedy and (columns := [*(row.inputs if isinstance(row.inputs, Mapping) else ()), *row.metadata]):
            remedy += f"; its columns are {', '.join(columns)[:200]}"
        raise UsageError(f"scorer '{name}' needs {what}, and row {row.id}{others} has none{remedy}")


_WHAT = {
    "expected": "an expected value", "contexts": "contexts", "trace": "a trace",
    "expected_tools": "expected tool calls", "tools": "the tools that there are",
    "assertions": "assertions",
}  # fmt: skip
_REMEDY = {
    "expected": "; give the column one of the names expected, reference, ground_truth, in small letters, or the "
    "scorer's parameter a default",
    "contexts": "; give the rows a column contexts, or let the target return them",
    "expected_tools": "; give the rows a column expected_tools, or calls as their expected value",
    "assertions": "; give the row `assert`, or a table the column __expected",
    "tools": "; give the rows a column tools, or the scorer its setting tools",
    "trace": "; traces are not stored with rows",
}


def _has(row: Row, need: str) -> bool:
    if need == "expected":
        return row.expected is not None
    if need == "expected_tools":
        return expected_calls(row) is not None
    if need == "tools":
        return tools_of(row) is not None
    if need == "assertions":
        return assertions_of(row) is not None
    return need == "contexts" and row.contexts is not None
