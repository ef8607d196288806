"""Which benchmark for what."""

from dataclasses import dataclass

from assaymark.leaderboard.guide import GuideSection, guide
from assaymark.records import JsonValue
from assaymark.web.render import plain

__all__ = ["GuidePage", "guide_page"]


@dataclass(frozen=True)
class GuidePage:
    """All capabilities with their benchmarks."""

    sections: tuple[GuideSection, ...]

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            one.capability.key: {
                "title": one.capability.title,
                "advice": one.capability.advice,
                "suggested": one.capability.suggested or None,
                "benchmarks": plain(one.entries),
            }
            for one in self.sections
        }


def guide_page() -> GuidePage:
    """Return the guide; it depends on the package alone."""
    return GuidePage(guide())
