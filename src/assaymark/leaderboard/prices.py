"""Prices of models as facts of a board's rows: as the evaluation was billed, or as the board's file states.

A price has two parts, of input tokens and of output tokens. To plot scores against one number, three input tokens are
taken for one output token, whatever the benchmark; with the shares of each run, a model's price would differ from board
to board. The parts, their date and source are shown beside it.
Source: the ratio is that of Artificial Analysis' blended prices (artificialanalysis.ai/methodology).
"""

from collections.abc import Mapping

from assaymark.models.cost.prices import HIGHEST, Price

READ_SHARE = 0.75
LONGEST_TEXT = 200


def blended(price: Price) -> float:
    """Return the price of a million tokens, three quarters of them read."""
    return READ_SHARE * price.read + (1 - READ_SHARE) * price.generated


def billed_price(cost: object) -> Price | None:
    """Return the price of a stored bill, None if there is none.

    A run may come from another machine, so its bill is checked like any file.
    """
    stated = cost.get("price") if isinstance(cost, Mapping) else None
    if not isinstance(stated, Mapping):
        return None
    parts = [stated.get("read"), stated.get("generated")]
    numbers = [float(part) for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(numbers) != len(parts) or not all(0 <= number <= HIGHEST for number in numbers):
        return None
    date, source = (
        text[:LONGEST_TEXT] if isinstance(text := stated.get(name), str) and text else None
        for name in ("date", "source")
    )
    return Price(numbers[0], numbers[1], date, source)


def price_facts(price: Price | None, *, is_billed: bool) -> dict[str, float | str]:
    """Return the facts of a row with this price; none for an unknown one."""
    if price is None:
        return {}
    how = "billed" if is_billed else "stated"
    parts = f"{price.read:g} read, {price.generated:g} generated, {how}"
    stated = ", ".join([parts, *filter(None, (price.date, price.source))])
    return {"price": float(f"{blended(price):.6g}"), "price_source": stated}
