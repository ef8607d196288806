"""A stored judging as a run, so that its samples are shown as a run's are."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assaymark.api.run import Run
from assaymark.records import JsonValue
from assaymark.store import SampleRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["JudgingRun"]


class JudgingRun(Run):
    """A judging: each sample is a judgement, with the judge's texts in both orders of two answers."""

    def sample_views(self, records: Sequence[SampleRecord]) -> "list[RenderableType]":
        """Return a panel for each judgement: what the judge was shown and wrote, and what follows."""
        from assaymark.judges.samples import judgement_view, judgements_of

        return [judgement_view(one) for one in judgements_of(self.store, self.row, records)]

    def samples_to_json(self, records: Sequence[SampleRecord]) -> list[Mapping[str, JsonValue]]:
        """Return the judgements with stable names; the other order of two answers is `swapped`."""
        from assaymark.judges.samples import judgement_json, judgements_of

        return [judgement_json(one) for one in judgements_of(self.store, self.row, records)]
