"""The architectures that transformers has itself, so that a model of another one would need its author's code."""

from functools import cache

__all__ = ["is_known_type"]


@cache
def _known() -> frozenset[str] | None:
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    except ImportError:
        return None
    return frozenset(CONFIG_MAPPING_NAMES)


def is_known_type(model_type: str) -> bool | None:
    """Return whether transformers has this `model_type`; None where transformers is not installed."""
    known = _known()
    return None if known is None else model_type in known
