"""A whole result as people read it, wherever they read it: printed, in a notebook, on a page, in a file."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from assaymark.documents.blocks import Block
from assaymark.documents.notebook import notebook_html
from assaymark.documents.terminal import as_text, rendered

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, slots=True)
class Document:
    """Blocks in their order. Printed it is plain text, in a notebook HTML; rich prints it with colours."""

    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        """Return the text that a terminal of 80 columns shows."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return notebook_html(self.blocks)

    def __rich_console__(self, _console: "Console", _options: "ConsoleOptions") -> "RenderResult":
        yield from rendered(self.blocks)


def document(*parts: Block | Iterable[Block]) -> Document:
    """Return the document of blocks and lists of blocks."""
    return Document(tuple(chain.from_iterable([part] if isinstance(part, Block) else part for part in parts)))
