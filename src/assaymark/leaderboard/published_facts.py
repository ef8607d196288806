"""What the published tables say of a model, in the words that are used here.

The scrape of the first table has inverted `merged`, `flagged` and `moe`, that of the second one inverted
`features_is_not_available_on_hub`: TRUE stands for the opposite of the heading. Here every flag says what it is called.
"""

import re
from collections.abc import Mapping

from assaymark.leaderboard.columns import FACTS, MODEL_TYPES, precision_name
from assaymark.leaderboard.rows import Fact

_TYPES_V2 = {
    "pretrained": "pretrained",
    "continuouslypretrained": "continued",
    "fine-tunedondomain-specificdatasets": "finetuned",
    "chatmodels": "chat",
    "basemergesandmoerges": "merge",
    "multimodal": "multimodal",
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


def is_hub_id(text: str) -> bool:
    """Return whether a name can be that of a model on the Hub."""
    return bool(_HUB_ID.fullmatch(text))


def facts_v1(record: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts of a row of the first table, of July 2024."""
    return _known(
        {
            "type": next(
                (model_type.key for model_type in MODEL_TYPES if record.get("t", "").startswith(model_type.symbol)),
                "unknown",
            ),
            "architecture": _text(record, "architecture"),
            "weight": _text(record, "weight_type").lower(),
            "precision": precision_name(_text(record, "precision")),
            "merged": _negated(_flag(record, "merged")),
            "flagged": _negated(_flag(record, "flagged")),
            "moe": _negated(_flag(record, "moe")),
            "available": _flag(record, "available_on_the_hub"),
            "licence": _text(record, "hub_license"),
            "params": _positive(record, "params_b"),
            "likes": _float(record, "hub_hearts"),
            "sha": _text(record, "model_sha"),
            "date": _text(record, "date")[:10],
        }
    )


def facts_v2(record: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts of a row of the second table, of March 2025."""
    has_template = _flag(record, "model_has_chat_template")
    return _known(
        {
            "type": _TYPES_V2.get(_text(record, "model_type").replace(" ", ""), "unknown"),
            "architecture": _text(record, "model_architecture"),
            "weight": _text(record, "model_weight_type").lower(),
            "precision": precision_name(_text(record, "model_precision")),
            "sha": _text(record, "model_sha"),
            "chat_template": has_template,
            "prompts": "chat template" if has_template else "plain text",
            "merged": _flag(record, "features_is_merged"),
            "moe": _flag(record, "features_is_moe"),
            "flagged": _flag(record, "features_is_flagged"),
            "official": _flag(record, "features_is_official_provider"),
            "available": _flag(record, "features_is_not_available_on_hub"),
            "date": _text(record, "metadata_submission_date")[:10],
            "uploaded": _text(record, "metadata_upload_date")[:10],
            "generation": _float(record, "metadata_generation"),
            "base": _text(record, "metadata_base_model"),
            "licence": _text(record, "metadata_hub_license"),
            "likes": _float(record, "metadata_hub_hearts"),
            "params": _positive(record, "metadata_params_billions"),
            "co2": _float(record, "metadata_co2_cost"),
        }
    )


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


def _negated(flag: bool | None) -> bool | None:
    return None if flag is None else not flag


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
