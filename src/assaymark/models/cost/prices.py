"""Prices of models: given by the user, from a file of the user's, or from the dated table of the package.

A file has the table's form: providers, each with `models` (name -> [read, generated], US dollars per million tokens),
and optionally a `date` and a `source`. The table of the package is only used for models behind a server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.models.server.arguments import KINDS
from assaymark.records import ModelIdentity

PER_MILLION = 1e6
HIGHEST = 1e12  # of a million tokens; more would be infinite in a sum
VERSION_OF_NAME = re.compile(r"-(\d{4}-?\d{2}-?\d{2}|latest)$")  # gpt-4.1-2025-04-14, claude-sonnet-4-5-20250929


@dataclass(frozen=True, slots=True)
class Price:
    """Units: money per million tokens read, and per million tokens generated. date, source: of a table's entry."""

    read: float
    generated: float
    date: str | None = None
    source: str | None = None

    def of(self, n_read: float, n_generated: float) -> float:
        """Return the price of so many tokens."""
        return (n_read * self.read + n_generated * self.generated) / PER_MILLION

    def __str__(self) -> str:
        """Return the price with its date and source."""
        date = f", price of {self.date}" if self.date else ""
        source = f" ({self.source})" if self.source else ""
        return f"{self.read:g} and {self.generated:g} per million tokens{date}{source}"


def parse_price(text: str) -> Price:
    """Return the price in `IN,OUT`: money per million tokens read and generated.

    Raises: UsageError.
    """
    pair = _pair(text.split(","))
    if pair is None:
        raise UsageError(f"--price {text}; expected IN,OUT: money per million tokens, such as --price 2.5,10")
    return Price(*pair)


def check_price(value: object) -> None:
    """Raise UsageError for an option that is not a price."""
    if isinstance(value, str):
        parse_price(value)


def find_price(
    identity: ModelIdentity, price: str | Price | None = None, file: str | Path | None = None
) -> Price | None:
    """Return the price of a model: the given one, else the file's, else the table's; None where none is known.

    A model's name is looked up as it is, then without a provider before it (`openai/gpt-4.1`) and a date or `latest`
    after it (`gpt-4.1-2025-04-14`).

    Raises: UsageError for a price that cannot be read or a file that does not exist; DataError for a malformed file.
    """
    if price is not None:
        return parse_price(price) if isinstance(price, str) else price
    short = identity.name.rpartition("/")[2]
    names = tuple(dict.fromkeys((identity.name, short, VERSION_OF_NAME.sub("", short))))
    for table in ({} if file is None else _user_table(Path(file)), _own_table() if identity.kind in KINDS else {}):
        for name in names:
            if name in table:
                return table[name]
    return None


@cache
def _own_table() -> Mapping[str, Price]:
    return _table(resources.files(__package__).joinpath("prices.yaml").read_bytes(), "prices.yaml")


def _user_table(path: Path) -> Mapping[str, Price]:
    try:
        file = path.expanduser()
        if file.exists() and not file.is_file():
            raise UsageError(f"--prices {path} is not a file; expected a YAML file of prices")
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"--prices {path} cannot be read ({error.strerror}); expected a YAML file of prices") from None
    return _table(content, f"--prices {path}")


def _table(content: bytes, where: str) -> Mapping[str, Price]:
    """Return the prices in a table. Raises: DataError with the place that is malformed."""
    try:
        providers = load_yaml(content)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    if not isinstance(providers, dict):
        raise DataError(f"{where}: expected a mapping of providers, each with `models: {{NAME: [IN, OUT]}}`")
    prices: dict[str, Price] = {}
    for provider, entry in providers.items():
        models = entry.get("models") if isinstance(entry, dict) else None
        if not isinstance(models, dict):
            raise DataError(f"{where}, {provider}: no `models`; expected `models: {{NAME: [IN, OUT]}}`")
        date, source = (None if entry.get(name) is None else str(entry[name]) for name in ("date", "source"))
        for name, value in models.items():
            pair = _pair(value)
            if pair is None:
                raise DataError(
                    f"{where}, {provider}, {name}: {value!r:.80} is not a price; expected [IN, OUT]: US dollars per "
                    "million tokens"
                )
            price = Price(*pair, date, source)
            if (before := prices.setdefault(str(name), price)).of(1, 1) != price.of(1, 1):
                raise DataError(f"{where}, {provider}, {name}: another provider has {before} for it; keep one of them")
    return prices


def _pair(value: object) -> tuple[float, float] | None:
    """Return two numbers from 0; None for anything else."""
    if not isinstance(value, list) or len(value) != 2 or any(isinstance(number, bool) for number in value):
        return None
    try:
        read, generated = (float(number) for number in value)
    except (TypeError, ValueError):
        return None
    return (read, generated) if all(0 <= number <= HIGHEST for number in (read, generated)) else None
