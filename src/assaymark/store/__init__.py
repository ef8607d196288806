"""The store of requests, outputs and scores: SQLite in a file by default, PostgreSQL by URL.

Its interface is `from assaymark.store import Store`. Names are imported at their first use, so that importing this
package is fast (SQLAlchemy alone takes 0.1 s).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assaymark.store.database import Store
    from assaymark.store.rows import (
        AttemptRow,
        CategoryCount,
        EstimateRow,
        OpenRun,
        Problem,
        RemovedCounts,
        RunEstimates,
        RunFacts,
        RunRow,
        SampleFacts,
        SamplePage,
        SampleRecord,
        SampleScoreRow,
    )

__all__ = [
    "AttemptRow", "CategoryCount", "EstimateRow", "OpenRun", "Problem", "RemovedCounts", "RunEstimates", "RunFacts",
    "RunRow", "SampleFacts", "SamplePage", "SampleRecord", "SampleScoreRow", "Store",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "assaymark.store.database" if name == "Store" else "assaymark.store.rows"
    return getattr(import_module(module), name)
