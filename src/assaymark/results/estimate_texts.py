"""How an estimate is written: its value, its interval, how many samples it is of."""

from collections.abc import Iterable

from assaymark.documents.numbers import NOTHING, mostly_truncated, shown_interval, shown_value
from assaymark.records import Estimate


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


def reported_words(estimate: Estimate) -> str:
    """Return who reported a value that has no answers, when and where; empty for any other value."""
    facts = estimate.details.get("reported")
    if facts is None:
        return ""
    by = " ".join(filter(None, ["reported", facts["date"][:10], f"by {facts['by']}" if facts["by"] else ""]))
    return ", ".join(filter(None, [by, facts["notes"], facts["source"] or facts["file"]]))


def is_proportion(estimate: Estimate) -> bool:
    """Return whether the value is a share in [0, 1] that is shown as per cent."""
    return bool(estimate.details.get("unit") == "proportion")


def truncation_of(estimate: Estimate) -> str:
    """Return `mostly_truncated` of an estimate."""
    return mostly_truncated(int(estimate.details.get("n_mostly_cut") or 0), estimate.n)


def chance_cell(cell: Estimate | None) -> str:
    """Return the score of guessing; empty if it is not known."""
    return "" if cell is None or cell.chance is None else shown_value(cell.chance, proportion=True)


def value_text(cell: Estimate | None) -> str:
    """Return the value alone; `!2` after it means that two requests failed."""
    if cell is None:
        return NOTHING
    failed = f" !{cell.n_failed}" if cell.n_failed else ""
    return shown_value(cell.value, proportion=is_proportion(cell)) + failed


def value_words(cell: Estimate | None) -> str:
    """Return the value with its failed requests in words, for readers without a legend."""
    if cell is None:
        return NOTHING
    words = shown_value(cell.value, proportion=is_proportion(cell))
    return f"{words} ({cell.n_failed:,} failed)" if cell.n_failed else words


def interval_text(cell: Estimate | None) -> str:
    """Return the interval alone."""
    return "" if cell is None else shown_interval(cell.low, cell.high, proportion=is_proportion(cell))
