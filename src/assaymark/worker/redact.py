"""What a log may show others: no tokens, no passwords, no folders of this machine, and only its end."""

import re
from collections.abc import Iterable

__all__ = ["log_tail"]

LONGEST_TAIL = 6000  # characters
LONGEST_READ = 200_000
HIDDEN = "(hidden)"
SHORTEST = 6  # characters of a secret that is searched for
_TOKENS = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|glpat-|eyJ)[A-Za-z0-9_.\-]{8,}"
    r"|(?i:\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.=\-]{8,}"
)
# A log is written by whoever controls the process: each expression begins only where a run of its characters does, and
# is possessive, so that it takes time in proportion to the text.
_NAMED = re.compile(
    r"(?i)(?<![\w-])(?=[\w-]*?(?:token|secret|passw(?:or)?d|api[_-]?key|credential))"
    r"([\w-]++)(['\"]?\s*+[=:]\s*+['\"]?)([^\s'\",;}]++)"
)
_IN_URL = re.compile(r"(?<=://)[^\s/@'\"]+@")
_FOLDERS = re.compile(r"(?<![\w:/.])(?:~[\w.-]*)?/(?:[^\s'\"`,;:<>()\[\]{}|/\\]+/)+")
_UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|(?<![^\S\n])[^\S\n]*\r|[\x00-\x08\x0b-\x1f\x7f]")


def log_tail(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the end of a log without secrets and folders. `secrets` are hidden wherever they occur in full."""
    text = text[-LONGEST_READ:]
    for secret in sorted({one for one in secrets if len(one) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _UNPRINTABLE.sub("", text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", _TOKENS.sub(HIDDEN, _IN_URL.sub("", text)))
    text = _FOLDERS.sub("", text)
    return text[-LONGEST_TAIL:].partition("\n")[2] if len(text) > LONGEST_TAIL else text
