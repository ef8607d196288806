"""The page of the guide to benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass

from assaymark.leaderboard.guide import GuideSection, guide, words
from assaymark.records import JsonValue
from assaymark.web.render import plain


@dataclass(frozen=True)
class GuidePage:
    """All capabilities with their benchmarks."""

    sections: tuple[GuideSection, ...]
    words: Mapping[str, str]

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        return {
            section.capability.key: {
                "title": section.capability.title,
                "advice": section.capability.advice,
                "suggested": section.capability.suggested or None,
                "benchmarks": plain(section.entries),
            }
            for section in self.sections
        }


def guide_page() -> GuidePage:
    """Return the guide; it depends on the package alone."""
    return GuidePage(guide(), words())
