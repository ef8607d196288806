"""The code in an answer that begins inside a code block."""

import re
from collections.abc import Sequence
from typing import Any

_BLOCK = re.compile(r"```(?:\w+)?\n?(.*?)\n?```", re.DOTALL)


def first_block(answer: str) -> str:
    """Return the content of the first closed block, the one the prompt opened if it is closed; else nothing.

    An answer that opens a block of its own within the first ("```python") loses that line.
    """
    opened = "```" + answer
    found = _BLOCK.search(opened) or _BLOCK.search(answer.replace("```python", "```"))
    return found.group(1) if found else ""


def build_predictions(resps: Sequence[Sequence[str]], docs: Sequence[Any]) -> list[list[str]]:  # noqa: ARG001
    """Return the code of each sample's answers. Both arguments are named as filters are called."""
    return [[first_block(answer) for answer in answers] for answers in resps]
