"""How numbers are written for people: proportions as per cent with one decimal, everything else with four digits.

In records, JSON and lm-eval's formats a proportion stays in [0, 1]; only what is drawn for people goes through here.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence

from assaymark.records import Estimate

NOTHING = "–"


def reported_count(cell: Estimate) -> int | None:
    """Return how many samples count; None where a number was imported from files that do not say."""
    return cell.n if cell.n or cell.value is None else None


def shown_count(cells: Iterable[Estimate]) -> str:
    """Return how many samples count, `800–1,319` where cells differ; `–` where a number was imported without.

    Where rows were left out because they cannot be read, their number follows: `97 (3 skipped)`.
    """
    own = list(cells)
    counts = sorted({reported_count(cell) for cell in own}, key=lambda n: n or 0)
    texts = [NOTHING if n is None else f"{n:,}" for n in counts]
    known = [text for text in texts if text != NOTHING]
    skipped = max((int(cell.details.get("n_skipped") or 0) for cell in own), default=0)
    text = "–".join(dict.fromkeys([known[0], known[-1]])) if known else "".join(texts)
    return f"{text} ({skipped:,} skipped)" if skipped else text


def is_proportion(estimate: Estimate) -> bool:
    """Return whether the value is a share in [0, 1] that is shown as per cent."""
    return bool(estimate.details.get("unit") == "proportion")


def shown_value(value: float | None, *, proportion: bool) -> str:
    """Return a value as tables show it: `63.4%`, `38.21`, `–` where undefined."""
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}%" if proportion else four_digits(value)


def shown_interval(low: float | None, high: float | None, *, proportion: bool) -> str:
    """Return `60.1–66.6`, without the per cent sign of the value before it; other numbers with three digits."""
    if low is None or high is None:
        return ""
    if proportion:
        return f"{100 * low:.1f}–{100 * high:.1f}"
    return f"{significant(low, 3)}–{significant(high, 3)}"


def shown_difference(value: float | None, *, proportion: bool) -> str:
    """Return a signed difference, in percentage points for proportions (`+3.1`)."""
    if value is None:
        return NOTHING
    return f"{100 * value:+.1f}" if proportion else f"{'-' if value < 0 else '+'}{four_digits(abs(value))}"


def shown_p(p: float | None) -> str:
    """Return a p-value with the digits it deserves: `0.013`, `0.21`, `<0.001`."""
    if p is None:
        return NOTHING
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def four_digits(value: float) -> str:
    """Return a number with four significant digits: `0.7312`, `38.21`, `1,613`, `1.6e+09`."""
    return significant(value, 4)


def significant(value: float, digits: int) -> str:
    """Return a number with so many significant digits; thousands are grouped and whole, beyond 10 million 1.2e+09."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else NOTHING
    size = abs(value)
    if size >= 1e7:
        return f"{value:.1e}"
    if size >= 1000:
        return f"{value:,.0f}"
    decimals = digits if size < 1 else max(0, digits - 1 - int(math.log10(size)))
    return f"{value:.{decimals}f}"


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """Return `1 tie`, `1,204 ties`."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def mostly_truncated(n_mostly_cut: int, n: int) -> str:
    """Return why a score says nothing of the model; empty where more than half of no prompt was truncated."""
    if not n_mostly_cut:
        return ""
    return f"more than half of the prompt was truncated in {n_mostly_cut:,} of {n:,}: not a meaningful score"


def truncation_of(estimate: Estimate) -> str:
    """Return `mostly_truncated` of an estimate."""
    return mostly_truncated(int(estimate.details.get("n_mostly_cut") or 0), estimate.n)


def names_apart(names: Collection[str]) -> dict[str, str]:
    """Return each model's name as a list shows it: its last part, and as many more as tell it from the others."""
    short_names: dict[str, str] = {}
    for name in names:
        parts = name.rstrip("/").split("/")
        others = {other.rstrip("/") for other in names} - {name.rstrip("/")}
        for length in range(min(_n_named(parts), len(parts)), len(parts) + 1):
            tail = "/".join(parts[-length:])
            if "+" in name or not any(other == tail or other.endswith(f"/{tail}") for other in others):
                break
        short_names[name] = short_model_name(name) if "+" in name else tail or name
    return short_names


def shortened_apart(names: Collection[str], longest: int) -> dict[str, str]:
    """Return names of at most `longest` characters, cut where that leaves different names different, if it can.

    Of the places where the cut (an ellipsis) may be, the end is tried first, then from two thirds of the name on.
    """
    cut: dict[str, str] = {}
    for tail in (0, longest // 3, longest // 2, (2 * longest) // 3, longest - 2):
        head = longest - 1 - tail
        cut = {name: name if len(name) <= longest else f"{name[:head]}…{name[len(name) - tail :]}" for name in names}
        if len(set(cut.values())) == len(cut):
            break
    return cut


def short_model_name(name: str) -> str:
    """Return the last part of a model's path or hub id; of `BASE+ADAPTER` the last parts of both.

    A folder whose name says nothing of the model (`hf`, `checkpoint-500`, ...) has its parents' names before it.
    """
    parts = [part.rstrip("/").split("/") for part in name.split("+") if part.strip("/")]
    return " + ".join("/".join(part[-_n_named(part) :]) for part in parts) or name


_SAYS_NOTHING = re.compile(
    r"\.{0,2}|hf|(pre)?trained|models?|checkpoints?|final|best|last|latest|outputs?|export(ed)?|merged|weights|snapshots?"
    r"|[0-9a-f]{40}|(checkpoint|ckpt|step|epoch|iter|global_step)[-_]?\d+|\d+",
    re.IGNORECASE,
)


def _n_named(parts: Sequence[str]) -> int:
    """Return how many of the last parts of a path name a model: up to the first, from the end, that says something."""
    return next((n for n, part in enumerate(reversed(parts), 1) if not _SAYS_NOTHING.fullmatch(part)), len(parts))
