"""Facts about models in the published tables, under the names that are used here.

The scrape of the first table has inverted `merged`, `flagged` and `moe`, that of the second one inverted
`features_is_not_available_on_hub`: TRUE stands for the opposite of the heading. Here every flag means what its name
says.
"""

from collections.abc import Callable, Mapping

from assaymark.leaderboard.columns import FACTS, MODEL_TYPES, precision_name
from assaymark.leaderboard.rows import Fact
from assaymark.limits.characters import is_hub_id

_TYPES_V2 = {
    "pretrained": "pretrained",
    "continuouslypretrained": "continued",
    "fine-tunedondomain-specificdatasets": "finetuned",
    "chatmodels": "chat",
    "basemergesandmoerges": "merge",
    "multimodal": "multimodal",
}


def hub_url(model: str) -> str:
    """Return a model's URL on the Hub; empty for a name that none there can have."""
    return f"https://huggingface.co/{model}" if is_hub_id(model) else ""


def facts_v1(record: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts of a row of the first table, of July 2024."""
    symbol, stated = record.get("t", ""), _stated(record, 0)
    kind = next((kind.key for kind in MODEL_TYPES if symbol.startswith(kind.symbol)), "unknown")
    return {"type": kind, **stated, **{key: not stated[key] for key in ("merged", "flagged", "moe") if key in stated}}


def facts_v2(record: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts of a row of the second table, of March 2025."""
    kind, stated = _TYPES_V2.get(_text(record, "model_type").replace(" ", ""), "unknown"), _stated(record, 1)
    return {"type": kind, **stated, "prompts": "chat template" if stated.get("chat_template") else "plain text"}


def _stated(record: Mapping[str, str], table: int) -> dict[str, Fact]:
    """Return a row's facts about its model, as stated; table: 0 the first, 1 the second."""
    return _known({key: read(record, at[table]) for key, (read, *at) in _STATED.items() if at[table]})


def facts_of_csv(record: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts of a row of any CSV file: headings that are keys or aliases of the columns here."""
    names = {name: column for column in FACTS for name in (column.key, *column.aliases)}
    facts: dict[str, Fact] = {}
    for heading in record:
        column = names.get(heading.strip().lower())
        if column is None or column.key == "origin":
            continue
        if column.kind == "number":
            facts[column.key] = _float(record, heading)
        elif column.kind == "flag":
            facts[column.key] = _flag(record, heading)
        else:
            facts[column.key] = _text(record, heading)
    if "type" in facts:
        text = str(facts["type"]).lower()
        facts["type"] = next((t.key for t in MODEL_TYPES if text in (t.key, t.title, *t.aliases)), "unknown")
    if facts.get("precision"):
        facts["precision"] = precision_name(str(facts["precision"]))
    return _known(facts)


def _known(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {key: value for key, value in facts.items() if value is not None and value != ""}


def _text(record: Mapping[str, str], heading: str) -> str:
    text = record.get(heading, "").strip()
    return "" if text.lower() in {"", "?", "unknown", "none", "na", "null"} else text


def _flag(record: Mapping[str, str], heading: str) -> bool | None:
    return {"true": True, "false": False}.get(record.get(heading, "").strip().lower())


def _day(record: Mapping[str, str], heading: str) -> str:
    return _text(record, heading)[:10]


def _float(record: Mapping[str, str], heading: str) -> float | None:
    try:
        value = float(record.get(heading, ""))
    except ValueError:
        return None
    return value if abs(value) < 1e15 else None


def _positive(record: Mapping[str, str], heading: str) -> float | None:
    """Return a number of parameters; the tables write 0 or -1 where they do not know it."""
    value = _float(record, heading)
    return value if value is not None and value > 0 else None


_STATED: dict[str, tuple[Callable[[Mapping[str, str], str], Fact], str, str]] = {  # with the headings of both tables
    "architecture": (_text, "architecture", "model_architecture"),
    "weight": (lambda record, heading: _text(record, heading).lower(), "weight_type", "model_weight_type"),
    "precision": (lambda record, heading: precision_name(_text(record, heading)), "precision", "model_precision"),
    "sha": (_text, "model_sha", "model_sha"),
    "chat_template": (_flag, "", "model_has_chat_template"),
    "merged": (_flag, "merged", "features_is_merged"),
    "moe": (_flag, "moe", "features_is_moe"),
    "flagged": (_flag, "flagged", "features_is_flagged"),
    "official": (_flag, "", "features_is_official_provider"),
    "available": (_flag, "available_on_the_hub", "features_is_not_available_on_hub"),
    "date": (_day, "date", "metadata_submission_date"),
    "uploaded": (_day, "", "metadata_upload_date"),
    "generation": (_float, "", "metadata_generation"),
    "base": (_text, "", "metadata_base_model"),
    "licence": (_text, "hub_license", "metadata_hub_license"),
    "likes": (_float, "hub_hearts", "metadata_hub_hearts"),
    "params": (_positive, "params_b", "metadata_params_billions"),
    "co2": (_float, "", "metadata_co2_cost"),
}
