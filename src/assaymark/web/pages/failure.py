"""What is shown where a page cannot be."""

from dataclasses import dataclass

__all__ = ["FailurePage"]


@dataclass(frozen=True)
class FailurePage:
    """A status and a line that says what happened."""

    status: int
    error: str
