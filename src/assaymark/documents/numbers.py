"""How numbers are written for people: proportions as per cent with one decimal, everything else with four digits.

In records, JSON and lm-eval's formats a proportion stays in [0, 1]; only what is drawn for people goes through here.
"""

import math

NOTHING = "–"


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
