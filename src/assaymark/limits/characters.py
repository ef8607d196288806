"""Characters that a text from outside may not have: no database's text column and no UTF-8 encoder takes them."""

import re

__all__ = ["is_storable"]

_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of surrogate pairs


def is_storable(text: str) -> bool:
    """Return whether a text has neither NUL nor half of a surrogate pair, which JSON's escapes can both make."""
    return _NOT_STORABLE.search(text) is None
