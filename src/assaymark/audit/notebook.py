"""Audits as Python and notebooks show them: lists that print their document, are HTML in a notebook, and can be drawn.

The HTML has the notebook's own colours, holds no script, and every text from a model, a task or a file is escaped.
"""

from typing import TYPE_CHECKING, TypeVar

from assaymark.audit.calibration import CalibrationAudit
from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.diagnosis import Diagnosis
from assaymark.audit.prompts import PromptAudit
from assaymark.documents import ShownAsDocument

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart

    from assaymark.documents.document import Document

T = TypeVar("T")


class Audits(ShownAsDocument, list[T]):
    """Results of one audit, by task. Printing them prints the command's output; a notebook shows them as HTML."""

    nothing_to_draw = "no result of this audit is a proportion with an interval"

    def plot(self) -> "LayerChart | VConcatChart":
        """Return a chart (`altair.Chart`) of the results with their 95% intervals.

        Raises: UsageError where nothing can be drawn; MissingExtra without the extra `charts`.
        """
        from assaymark.documents.charts import imported_altair
        from assaymark.documents.notebook import notebook_chart

        imported_altair()  # without it there are no figures in the document
        return notebook_chart(self.document().blocks, self.nothing_to_draw)


class CalibrationAudits(Audits[CalibrationAudit]):
    """The calibration of a run's tasks; the chart sets the share of right answers against the model's confidence."""

    def document(self) -> "Document":
        """Return the verdict, a summary over tasks, and each task's reliability curve."""
        from assaymark.audit.documents import calibration_document

        return calibration_document(self)


class PromptAudits(Audits[PromptAudit]):
    """Accuracy under prompt variants, system prompts and option orders; the charts have a row for each variant."""

    def document(self) -> "Document":
        """Return the verdict, and for each model and task its variants, best first, and what noise alone would give."""
        from assaymark.audit.documents import prompts_document

        return prompts_document(self)


class ContaminationTests(Audits[ContaminationTest]):
    """Tests whether a model has seen tasks in training. They are p-values, so there is no chart."""

    nothing_to_draw = "tests of contamination are p-values, not proportions with an interval"

    def document(self) -> "Document":
        """Return the verdict, and a table per test with what it does not show."""
        from assaymark.audit.documents import contamination_document

        return contamination_document(self)


class Diagnoses(Audits[Diagnosis]):
    """Causes of a run's wrong answers; the charts have the share of each cause."""

    nothing_to_draw = "no answer that was looked at is wrong"

    def document(self) -> "Document":
        """Return for each task how many wrong answers have which cause, and the next experiments."""
        from assaymark.audit.documents import diagnosis_document

        return diagnosis_document(self)
