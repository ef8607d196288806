"""Texts from outside: characters that they may not have, names on the Hub, messages of exceptions of a user's code.

No database's text column and no UTF-8 encoder takes NUL or half of a surrogate pair.
"""

import re

_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of surrogate pairs
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


def is_storable(text: str) -> bool:
    """Return whether a text has neither NUL nor half of a surrogate pair, which JSON's escapes can both make."""
    return _NOT_STORABLE.search(text) is None


def is_hub_id(text: str) -> bool:
    """Return whether a name can be that of a model or data set on the Hub: ORG/NAME."""
    return _HUB_ID.fullmatch(text) is not None


def exception_message(error: BaseException) -> str:
    """Return an exception's message on one line. Its class may be a user's, whose `__str__` may fail as well."""
    try:
        return " ".join(str(error).split())
    except Exception as failure:  # noqa: BLE001 - whatever a class's __str__ raises
        return f"(its __str__ raised {type(failure).__name__})"


def exception_text(error: BaseException) -> str:
    """Return an exception on one line: `ValueError: what it says`."""
    return f"{type(error).__name__}: {exception_message(error)}"
