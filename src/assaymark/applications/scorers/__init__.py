"""Scorers that come with the package, and scorers by their names."""

from assaymark.applications.scorers.named import SCORERS, AnyScorer, check_needs, scorers_of

__all__ = ["SCORERS", "AnyScorer", "check_needs", "scorers_of"]
