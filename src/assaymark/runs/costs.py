"""The bill of a run: the price of its model, and the limit that the user sets."""

from pathlib import Path

from assaymark.errors import UsageError
from assaymark.models.cost.bill import Bill, BillingRules
from assaymark.models.cost.prices import Price, find_price
from assaymark.models.model import Model


def bill_for(model: Model, price: str | Price | None, prices: str | Path | None, max_cost: float | None) -> Bill | None:
    """Return an empty bill; None where the model's price is not known, and no limit is set.

    Raises: UsageError for a limit without a price; as `find_price`.
    """
    identity = model.identity
    model_price = find_price(identity, price, prices)
    if model_price is not None:
        return Bill(model_price, BillingRules.of(identity), max_cost)
    if max_cost is None:
        return None
    raise UsageError(
        f"--max_cost is in money, and no price of model '{identity.name}' is known; give it per million tokens read "
        "and generated with --price IN,OUT, or in a file with --prices FILE"
    )
