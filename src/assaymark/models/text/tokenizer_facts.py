"""Describe a tokenizer with the field names of lm-eval's results files."""

from collections.abc import Mapping
from typing import Any

from assaymark.records import JsonValue

__all__ = ["tokenizer_facts"]


def tokenizer_facts(tokenizer: Any, template_name: str | None = None) -> dict[str, JsonValue]:
    """Return a tokenizer's special tokens and chat template.

    Padding is never used here; if the tokenizer has no padding token, this is the one that lm-eval would use.
    Source: lm-evaluation-harness 0.4.13, `add_tokenizer_info` and `configure_pad_token`.
    """
    facts: dict[str, JsonValue] = {"tokenizer_pad_token": _padding(tokenizer)}
    for name in ("eos", "bos"):
        token, number = (getattr(tokenizer, f"{name}_token{end}", None) for end in ("", "_id"))
        facts[f"tokenizer_{name}_token"] = [token, str(number)]
    facts["eot_token_id"] = getattr(tokenizer, "eos_token_id", None)
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get(template_name or "default")
    return facts if template is None else {**facts, "chat_template": str(template)}


def _padding(tokenizer: Any) -> list[JsonValue]:
    for name in ("pad", "unk", "eos"):
        token = getattr(tokenizer, f"{name}_token", None)
        if token:
            return [token, str(getattr(tokenizer, f"{name}_token_id", None))]
    return ["<|pad|>", str(len(tokenizer))]
