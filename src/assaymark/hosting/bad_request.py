"""The error of a request that a host refuses."""

import json


class BadRequest(Exception):
    """A request that is refused. `param` names the field, `code` is OpenAI's where it has one."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def wrong(name: str, value: object, expected: str) -> BadRequest:
    """Return the error for a field with a value that was not expected."""
    return BadRequest(f"{name} is {value_text(value)}; expected {expected}", name)


def value_text(value: object) -> str:
    """Return a value as JSON of at most 80 characters."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
