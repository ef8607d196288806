"""The results table of lm-evaluation-harness, in its own layout, from results in its own format.

Scripts split this table at its bars, so the layout is reproduced to the character: the order of rows, four decimals,
and how its table library then shortens them (a column of numbers shows as many decimals as its longest value needs
without trailing zeros; whether a number in a column with text is treated as one depends on the cells above it).
tests/interop compares it with lm-eval's own printer on random results.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

ARROWS = {True: "↑", False: "↓"}
HEADERS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
NOT_METRICS = frozenset({"alias", "name", "sample_len", "sample_count"})
NUMERIC = frozenset({"whole", "real"})
MINIMUM_WIDTH = 3
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


def lm_eval_table(results: Mapping[str, Any], column: Literal["results", "groups"] = "results") -> str:
    """Return the Markdown table that lm-eval prints for `results`, the content of its results JSON.

    Source: behaviour of lm-eval 0.4.13 `utils.make_table`, observed.
    """
    headers = ("Groups" if column == "groups" else "Tasks", *HEADERS)
    rows = [row for name, depth in ordered_names(results, column) for row in _rows_of(results, column, name, depth)]
    cells = [[row[index] for row in rows] for index in range(len(headers))]
    columns = [_laid_out(header, values) for header, values in zip(headers, cells, strict=True)]
    return "".join(f"|{'|'.join(parts)}|\n" for parts in zip(*columns, strict=True))


def ordered_names(results: Mapping[str, Any], column: str) -> list[tuple[str, int]]:
    """Return the rows' names with their depth: outermost groups, each followed by its members, then all others."""
    available = set(results[column])
    members: Mapping[str, Sequence[str]] = results.get("group_subtasks", {})
    inner = {child for children in members.values() for child in children}
    ordered: list[tuple[str, int]] = []
    seen: set[str] = set()

    def visit(name: str, depth: int) -> None:
        seen.add(name)
        if name in available:
            ordered.append((name, depth))
        for child in sorted(members.get(name, ())):
            visit(child, depth + 1)

    for name in sorted(members):
        if name not in inner:
            visit(name, 0)
    # a task in two groups is shown at its last depth, since lm-eval has one depth per name
    depths = dict(ordered)
    return [(name, depths[name]) for name, _ in ordered] + [(name, 0) for name in sorted(available - seen)]


def _rows_of(results: Mapping[str, Any], column: str, name: str, depth: int) -> list[list[Any]]:
    values = results[column][name]
    directions = results.get("higher_is_better", {}).get(name, {})
    label: Any = " " * depth + "- " + values.get("alias", name) if depth else values.get("alias", name)
    version: Any = results["versions"].get(name, "    N/A")
    shots = str(results.get("n-shot", {}).get(name, " "))
    rows = []
    for key in sorted(set(values) - NOT_METRICS):
        metric, _, name_of_filter = key.partition(",")
        if metric.endswith("_stderr"):
            continue
        shown = values[key]
        shown = f"{shown:.4f}" if isinstance(shown, float) else shown
        error = values.get(f"{metric}_stderr,{name_of_filter}")
        ending = ["", ""] if error is None else ["±", "   N/A" if error == "N/A" else f"{error:.4f}"]
        rows.append([label, version, name_of_filter, shots, metric, ARROWS.get(directions.get(metric), ""), shown])
        rows[-1].extend(ending)
        label = version = ""
    return rows


def _laid_out(header: str, values: Sequence[Any]) -> list[str]:
    """Return a column's cells, header and rule first, padded to one width."""
    kinds = _kinds(values)
    present = set(kinds) - {"blank"}
    decimals = max((_decimals(float(v)) for v, kind in zip(values, kinds, strict=True) if kind in NUMERIC), default=0)
    is_text_column = not present or "text" in present or set(kinds) in ({"nan"}, {"infinity"})
    is_whole_column = present == {"whole"}
    shown = []
    for value, kind in zip(values, kinds, strict=True):
        with_point = kind == "real" or (kind == "whole" and not is_text_column and not is_whole_column)
        shown.append(_shown(value, kind, decimals if with_point else None))
    width = max([MINIMUM_WIDTH, len(header), *(len(text) for text in shown)])
    rule = "-" * width if is_text_column else "-" * (width - 1) + ":"
    body = [
        text.ljust(width) if is_text_column and kind not in NUMERIC else text.rjust(width)
        for text, kind in zip(shown, kinds, strict=True)
    ]
    return [f"{header:^{width}}", rule, *body]


def _kinds(values: Sequence[Any]) -> list[str]:
    """Return the type that its table library assigns to each cell.

    It proceeds downwards: while most cells so far are text, the next one is text as well, even if it is a number.
    """
    counts: Counter[str] = Counter()
    kinds = []
    for value in values:
        leading = counts.most_common(1)[0][0] if counts else ""
        kind = "text" if leading == "text" and isinstance(value, str) and value else _kind(value)
        counts[kind] += 1
        kinds.append(kind)
    return kinds


def _kind(value: Any) -> str:
    text = str(value)
    if not text.strip():
        return "blank"
    if not NUMBER.fullmatch(text):
        return "text"
    number = float(text)
    if not math.isfinite(number):
        return "nan" if math.isnan(number) else "infinity"
    return "whole" if number == int(number) else "real"


def _decimals(value: float) -> int:
    """Return the number of decimals of the shortest text of `value`."""
    if value == int(value):
        return 0
    mantissa, _, exponent = repr(abs(value)).partition("e-")
    return int(exponent) if exponent else len(mantissa.partition(".")[2])


def _shown(value: Any, kind: str, decimals: int | None) -> str:
    match kind:
        case "blank":
            return ""
        case "text":
            return str(value)
        case "nan":
            return "NaN"
        case "infinity":
            return "Infinity" if float(value) > 0 else "-Infinity"
        case _:
            return f"{float(value):.{decimals}f}" if decimals is not None else str(int(float(value)))
