"""Results as blocks of values, and the writers that show them in a terminal, as HTML or as Markdown."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assaymark.documents.document import Document


class ShownAsDocument:
    """A result that prints as its document, and that notebooks show as HTML."""

    __slots__ = ()

    def document(self) -> "Document":
        """Return the result as a document."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the document as text."""
        return str(self.document())

    def _repr_html_(self) -> str:
        from assaymark.documents.notebook import notebook_html

        return notebook_html(self.document().blocks)
