"""Texts from outside: characters that they may not have, and messages of exceptions of a user's code.

No database's text column and no UTF-8 encoder takes NUL or half of a surrogate pair.
"""

import re

_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of surrogate pairs


def is_storable(text: str) -> bool:
    """Return whether a text has neither NUL nor half of a surrogate pair, which JSON's escapes can both make."""
    return _NOT_STORABLE.search(text) is None


def exception_message(error: BaseException) -> str:
    """Return an exception's message on one line. Its class may be a user's, whose `__str__` may fail as well."""
    try:
        return " ".join(str(error).split())
    except Exception as failure:  # noqa: BLE001 - whatever a class's __str__ raises
        return f"(its __str__ raised {type(failure).__name__})"


def exception_text(error: BaseException) -> str:
    """Return an exception on one line: `ValueError: what it says`."""
    return f"{type(error).__name__}: {exception_message(error)}"
