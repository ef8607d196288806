"""The command line as typed, without secrets, to store with a run."""

import re
import shlex
import sys

HIDDEN = "***"
SECRET = re.compile(
    r"""(\b(?:token|hf_token|api_key|auth_token|password|secret)["']?\s*[=:]\s*["']?)(?!(?:true|false|none)\b)[^,"'\s}]+""",
    re.IGNORECASE,
)


def typed_command() -> str:
    """Return the command line, quoted for a shell, with the values of tokens and keys hidden."""
    return shlex.join(["assaymark", *(SECRET.sub(rf"\1{HIDDEN}", word) for word in sys.argv[1:])])
