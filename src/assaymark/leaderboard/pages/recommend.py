"""The pages of recommendations, as `assaymark recommend` prints them, over the server's tables, and of the guide."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.arena.rating_boards import Ratings
from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.evidence import EvidenceTable, Preference
from assaymark.leaderboard.guide import Capability, GuideSection, capabilities, guide, words
from assaymark.leaderboard.recommend import KnownModel, ModelRanking, Recommendation, Requested, recommend
from assaymark.leaderboard.recommendation_views import (
    advice_line,
    conditions_of,
    missing_line,
    remarks,
    shown_probability,
    shown_ranks,
    unmeasured_line,
)
from assaymark.records import JsonValue
from assaymark.web.render import plain

MOST_LISTED = 100
LISTED = 10


@dataclass(frozen=True)
class RecommendPage:
    """A request and its answer; `found` is None if nothing was requested, or it cannot be answered."""

    requested: Requested
    found: Recommendation | None
    capabilities: tuple[tuple[Capability, bool], ...]  # with whether it was chosen
    others: str  # what else was requested: benchmarks by name
    problem: str

    json_keys = "problem~ recommendation=found"

    def heading(self, ranking: ModelRanking) -> str:
        """Return the conditions, and how many models of a table fulfil them."""
        return conditions_of(self.requested, ranking)

    @property
    def missing(self) -> list[str]:
        """The capabilities for which no table has evidence."""
        return [] if self.found is None else [missing_line(missing) for missing in self.found.no_evidence]

    @property
    def advice(self) -> list[str]:
        """Suggestions of what to evaluate where evidence is missing."""
        lines = [] if self.found is None else [advice_line(missing) for missing in self.found.no_evidence]
        return [line for line in lines if line]

    @property
    def unmeasured(self) -> list[str]:
        """Models without any rating for the request."""
        return [] if self.found is None else [unmeasured_line(each) for each in self.found.unmeasured]

    def size_and_licence(self, model: str) -> KnownModel | None:
        """Return the tables' statements about a model."""
        return None if self.found is None else self.found.models.get(model)

    @staticmethod
    def ranks(preference: Preference) -> str:
        """Return the ranks that a rating's interval allows."""
        return shown_ranks(preference)

    @staticmethod
    def remarks(ranking: ModelRanking) -> list[str]:
        """Return the caveats of a table's ranking."""
        return list(remarks(ranking))

    @staticmethod
    def probability(p: float | None) -> str:
        """Return a probability as it is shown."""
        return shown_probability(p)


def recommend_page(
    sources: Sequence[EvidenceTable], parameters: Sequence[tuple[str, str]], votes: Ratings | None = None
) -> RecommendPage:
    """Return the answer to the request in an address: `for`, `max_params`, `license`, `where` and `top`."""
    names = [part.strip() for key, value in parameters if key == "for" for part in value.split(",") if part.strip()]
    problem, recommendation, requested = "", None, Requested(tuple(dict.fromkeys(names)))
    try:
        requested = _requested(names, dict(parameters))
        if names:
            recommendation = recommend(sources, requested, votes)
    except (UnknownName, UsageError) as error:
        problem = str(error)
    chosen = set(names) if recommendation is None else {demand.key for demand in recommendation.demands}
    known = capabilities()
    return RecommendPage(
        requested,
        recommendation,
        tuple((capability, capability.key in chosen) for capability in known.values()),
        ", ".join(sorted(chosen - set(known))),
        problem,
    )


def _requested(names: Sequence[str], parameters: dict[str, str]) -> Requested:
    return Requested(
        tuple(dict.fromkeys(names)),
        _number("max_params", parameters.get("max_params", "")),
        parameters.get("license", "").strip()[:100],
        parameters.get("where", "").strip(),
        round(_number("top", parameters.get("top", "")) or LISTED),
    )


def _number(key: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    most = MOST_LISTED if key == "top" else 1e6
    if not 0.0 < value <= most:
        raise UsageError(f"{key} is '{text[:40]}'; expected a number above 0, at most {most:g}")
    return value


@dataclass(frozen=True)
class _GuidePage:
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


def guide_page() -> _GuidePage:
    """Return the guide; it depends on the package alone."""
    return _GuidePage(guide(), words())
