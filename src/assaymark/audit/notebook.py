"""Audits as Python and notebooks show them: lists that print their tables, are HTML in a notebook, and can be drawn.

The HTML is made of a report's blocks (`results.documents.notebook`): it has the notebook's own colours, holds no
script, and every text from a model, a task or a file is escaped.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from assaymark.audit.calibration import ALL, CalibrationAudit
from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.diagnosis import CAUSES, Diagnosis
from assaymark.audit.prompts import PromptAudit, VariantScore

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart
    from rich.console import RenderableType

    from assaymark.results.documents.blocks import Block
    from assaymark.results.documents.charts import IntervalPoint

MOST_CURVES = 6  # as many as there are colours of runs
T = TypeVar("T")


class Audits(list[T], ABC):
    """Results of one audit, by task. Printing them prints the command's table; a notebook shows them as HTML."""

    nothing_to_draw = "no result of this audit is a proportion with an interval"

    @abstractmethod
    def table(self) -> "RenderableType":
        """Return the command's output (a rich renderable)."""

    @abstractmethod
    def blocks(self) -> "list[Block]":
        """Return the parts of the HTML: verdict, tables and drawings."""

    def plot(self) -> "LayerChart | VConcatChart":
        """Return a chart (`altair.Chart`) of the results with their 95% intervals.

        Raises: UsageError where nothing can be drawn; MissingExtra without the extra `charts`.
        """
        from assaymark.results.documents.charts import imported_altair
        from assaymark.results.documents.notebook import blocks_chart

        imported_altair()  # without it there are no drawings among the blocks
        return blocks_chart(self.blocks(), self.nothing_to_draw)

    def __str__(self) -> str:
        """Return the table as text."""
        from assaymark.results.console import as_text

        return as_text(self.table())

    def _repr_html_(self) -> str:
        """Return the tables, and the intervals drawn to scale, as HTML."""
        from assaymark.results.documents.notebook import blocks_html

        return blocks_html(self.blocks())


class CalibrationAudits(Audits[CalibrationAudit]):
    """The calibration of a run's tasks; the chart sets the share of right answers against the model's confidence."""

    def table(self) -> "RenderableType":
        """Return the verdict, a summary over tasks, and each task's reliability curve."""
        from assaymark.audit.tables import calibration_table

        return calibration_table(self)

    def blocks(self) -> "list[Block]":
        """Return the verdict, the errors by task, and the curves: of each task, or of all together if they are many."""
        from assaymark.audit.tables import SUMMARY, about_calibration, summary_cells
        from assaymark.audit.verdicts import calibration_verdict
        from assaymark.results.documents.blocks import Figure, Paragraph
        from assaymark.results.documents.charts import calibration_chart, can_draw

        blocks: list[Block] = [
            Paragraph(calibration_verdict(self), "verdict"),
            _table(("task", *SUMMARY), [summary_cells(audit) for audit in self]),
            Paragraph(about_calibration(self), "facts"),
        ]
        drawn = self if len(self) <= MOST_CURVES else [audit for audit in self if audit.task == ALL]
        if drawn and can_draw():
            caption = (
                "Share of right answers against confidence, in bins of equally many answers, with 95% Wilson "
                "intervals. The dashed line is perfect calibration."
            )
            chart = calibration_chart([(audit.task, audit.error) for audit in drawn])
            blocks.append(Figure("calibration", caption, (chart,)))
        return blocks


class PromptAudits(Audits[PromptAudit]):
    """Accuracy under prompt variants, system prompts and option orders; the charts have a row for each variant."""

    def table(self) -> "RenderableType":
        """Return the verdict and the results of each model and task."""
        from assaymark.audit.tables import prompts_table

        return prompts_table(self)

    def blocks(self) -> "list[Block]":
        """Return the verdict, and for each model and task its variants, best first, and what noise alone would give."""
        from assaymark.audit.tables import ABOUT_PROMPTS, order_lines, spread_line, title_of
        from assaymark.audit.verdicts import prompts_verdict
        from assaymark.results.documents.blocks import Bullets, Heading, Paragraph

        blocks: list[Block] = [Paragraph(prompts_verdict(self), "verdict")] if self else []
        for audit in self:
            spreads = {
                "prompt variants": audit.spread, "cloze variants": audit.cloze_spread,
                "listed by letter or number": audit.letter_spread, "system prompts": audit.system_spread,
            }  # fmt: skip
            blocks.append(Heading("".join(title_of(audit)), 4))
            title = "".join(title_of(audit)[:1]) if len(self) > 1 else ""
            blocks += _variants("prompt variant", audit.forms, title)
            blocks += _variants("system prompt", audit.systems, title) if audit.systems else []
            lines = [spread_line(name, spread) for name, spread in spreads.items() if spread is not None]
            orders = order_lines(audit.orders) if audit.orders is not None else ()
            blocks.append(Bullets((*lines, *orders)))
        return [*blocks, Paragraph(ABOUT_PROMPTS, "facts")]


class ContaminationTests(Audits[ContaminationTest]):
    """Tests whether a model has seen tasks in training. They are p-values, so there is no chart."""

    nothing_to_draw = "tests of contamination are p-values, not proportions with an interval"

    def table(self) -> "RenderableType":
        """Return the verdict, and a table per test with what it does not show."""
        from assaymark.audit.tables import contamination_table

        return contamination_table(self)

    def blocks(self) -> "list[Block]":
        """Return the same as a notebook's tables."""
        from assaymark.audit.tables import test_cells, test_headers
        from assaymark.audit.verdicts import contamination_methods, contamination_verdict, was_run
        from assaymark.results.documents.blocks import Paragraph

        blocks: list[Block] = [Paragraph(contamination_verdict(self), "verdict")]
        if methods := contamination_methods(self):
            blocks.append(Paragraph(methods, "facts"))
        run = [test for test in self if was_run(test)]
        for name in dict.fromkeys(test.test for test in run):
            own = [test for test in run if test.test == name]
            blocks.append(_table(test_headers(own), [test_cells(test, own) for test in own], n_text=2))
            notes = [f"{test.task}: {'; '.join(test.notes)}." for test in own if test.notes]
            blocks.append(Paragraph(" ".join([*notes, f"Does not show: {own[0].not_shown}"]), "facts"))
        return blocks


class Diagnoses(Audits[Diagnosis]):
    """Causes of a run's wrong answers; the charts have the share of each cause."""

    nothing_to_draw = "no answer that was looked at is wrong"

    def table(self) -> "RenderableType":
        """Return for each task how many wrong answers have which cause, and the next experiments."""
        from assaymark.audit.tables import diagnosis_table

        return diagnosis_table(self)

    def blocks(self) -> "list[Block]":
        """Return the same as a notebook's tables, with the shares drawn."""
        from assaymark.audit.tables import CAUSE_COLUMNS, cause_cells, footnotes, heading_of
        from assaymark.results.documents.blocks import Bullets, Heading, Paragraph
        from assaymark.results.documents.charts import IntervalPoint

        remedies = {cause.name: cause.remedy for cause in CAUSES}
        blocks: list[Block] = []
        for diagnosis in self:
            blocks.append(Heading(heading_of(diagnosis), 4))
            counts = [count for count in diagnosis.causes if count.n]
            if counts:
                blocks.append(_table(CAUSE_COLUMNS, [cause_cells(count) for count in counts]))
                blocks += _intervals(
                    [IntervalPoint(count.cause, "", count.share, count.low, count.high) for count in counts],
                    "Share of each cause among the wrong answers that were looked at, with 95% intervals.",
                    diagnosis.task if len(self) > 1 else "",
                )
                blocks.append(Bullets(tuple(f"next, {each.cause}: {remedies[each.cause]}" for each in counts)))
            blocks += [Paragraph(line, "facts") for line in footnotes(diagnosis)]
        return blocks


def _variants(header: str, scores: Sequence[VariantScore], title: str) -> "list[Block]":
    from assaymark.results.documents.charts import IntervalPoint

    ordered = sorted(scores, key=lambda score: -score.value)
    rows = [
        (each.name, each.metric, f"{100 * each.value:.1f}%", f"{100 * each.low:.1f}–{100 * each.high:.1f}")
        for each in ordered
    ]
    return [
        _table((header, "metric", "value", "95% interval"), rows, n_text=2),
        *_intervals(
            [IntervalPoint(each.name, "", each.value, each.low, each.high) for each in ordered],
            f"Accuracy under each {header}, with 95% intervals.",
            title,
        ),
    ]


def _intervals(points: "Sequence[IntervalPoint]", caption: str, title: str) -> "list[Block]":
    """Return a drawing of one row per point, with a title where a chart holds several."""
    from assaymark.results.documents.blocks import Figure
    from assaymark.results.documents.charts import INK, can_draw, interval_charts

    if not points or not can_draw():
        return []
    specs = interval_charts(points)
    titled = {"text": title, "anchor": "start", "color": INK, "fontSize": 12}
    return [Figure("values", caption, tuple({**spec, "title": titled} for spec in specs) if title else tuple(specs))]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, n_text: int = 1) -> "Block":
    from assaymark.results.documents.blocks import Cell, Table, TableRow

    return Table(tuple(headers), tuple(TableRow(tuple(map(Cell, cells))) for cells in rows), n_text=n_text)
