"""Prices: the user's own, a file's, or the package's dated table, by the model's name."""

from datetime import date
from pathlib import Path

import pytest
import yaml

import assaymark
from assaymark.errors import DataError, UsageError
from assaymark.models.cost.prices import Price, find_price
from assaymark.records import ModelIdentity

TABLE = Path(assaymark.__file__).parent / "models" / "cost" / "prices.yaml"


def named(name: str, kind: str = "openai-chat-completions") -> ModelIdentity:
    """Return the identity of a model behind a server."""
    return ModelIdentity(name, kind, None, None, None, "unknown", "numerics unknown")


def test_every_price_of_the_table_is_dated_and_has_a_source() -> None:
    """Each provider has an ISO date that is not in the future, an https address, and two positive prices a model."""
    for provider in yaml.safe_load(TABLE.read_text()).values():
        assert date(2025, 1, 1) <= date.fromisoformat(provider["date"]) <= date.today()  # noqa: DTZ011
        assert provider["source"].startswith("https://")
        for read, generated in provider["models"].values():
            assert 0 < read < generated


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4.1", (2.0, 8.0)),
        ("gpt-4.1-2025-04-14", (2.0, 8.0)),
        ("gpt-4.1-mini", (0.4, 1.6)),
        ("openai/gpt-4.1-mini", (0.4, 1.6)),
        ("claude-sonnet-4-5-20250929", (3.0, 15.0)),
        ("models/gemini-2.5-flash", (0.3, 2.5)),
        ("gpt-4.1-micro", None),
        ("llama-3-8b", None),
    ],
)
def test_a_name_is_found_with_its_provider_and_its_date(name: str, expected: tuple[float, float] | None) -> None:
    """`openai/NAME` (LiteLLM), `models/NAME` (Gemini) and dated names have NAME's price; similar names have none."""
    result = find_price(named(name))
    assert (None if result is None else (result.read, result.generated)) == expected
    assert result is None or (result.date and result.source)


def test_a_local_model_has_no_price_of_the_table() -> None:
    """Weights on this machine cost nothing, whatever their folder is called; a price that is given applies to them."""
    assert find_price(named("gpt-4.1", "hf")) is None
    assert find_price(named("gpt-4.1", "hf"), "1,2") == Price(1.0, 2.0)


def test_a_given_price_and_a_file_come_first(tmp_path: Path) -> None:
    """--price replaces the file's price, and the file's the table's; the file's date is kept."""
    path = tmp_path / "prices.yaml"
    path.write_text('mine:\n  date: "2026-10-01"\n  models:\n    gpt-4.1: [1, 4]\n    own: [0.5, 0.5]\n')
    assert find_price(named("gpt-4.1"), file=path) == Price(1.0, 4.0, "2026-10-01")
    assert find_price(named("own"), file=path) == Price(0.5, 0.5, "2026-10-01")
    assert find_price(named("gpt-4o"), file=path) == find_price(named("gpt-4o"))
    assert find_price(named("gpt-4.1"), Price(9.0, 9.0), path) == Price(9.0, 9.0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("- a", "expected a mapping of providers"),
        ("openai: {gpt: [1, 2]}", "openai: no `models`"),
        ("openai: {models: {gpt: [1]}}", "gpt: [1] is not a price; expected [IN, OUT]"),
        ("openai: {models: {gpt: [1, -2]}}", "is not a price"),
        ("openai: {models: {gpt: [1, 1e13]}}", "is not a price"),
        ("openai: {models: {gpt: [1, .nan]}}", "is not a price"),
        ("openai: {models: {gpt: [true, 2]}}", "is not a price"),
        ("openai: [", "not valid YAML"),
    ],
)
def test_a_malformed_file_gets_one_line(tmp_path: Path, content: str, says: str) -> None:
    """The error has the file, the entry and the expected form."""
    path = tmp_path / "prices.yaml"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        find_price(named("x"), file=path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_an_error_of_the_caller(tmp_path: Path) -> None:
    """--prices with a file that does not exist is refused with its path."""
    with pytest.raises(UsageError, match=r"--prices .*none.yaml cannot be read"):
        find_price(named("x"), file=tmp_path / "none.yaml")
