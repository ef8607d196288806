"""The two small models and the small benchmark set that come with the package."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import DataError
from assaymark.runs.evaluate import evaluate
from assaymark.runs.execute import Observer
from assaymark.runs.run import Run
from assaymark.store import Store

if TYPE_CHECKING:
    from assaymark.runs.comparison import RunComparison

SIZES = ("small", "large")
TASKS = "demo"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Both models' runs of the demo tasks, and their comparison."""

    runs: tuple[Run, ...]
    comparison: "RunComparison"


def demo_model(size: str) -> Path:
    """Return the folder of a demo model.

    Raises: DataError if it is missing from the installation.
    """
    path = Path(str(files("assaymark"))) / "library" / "demo_models" / size
    if not (path / "model.safetensors").is_file():
        raise DataError(
            f"the demo model '{size}' is missing from this installation ({path}); install the package again"
        )
    return path


def run_demo(store: str | Store | None = None, observe: Observer | None = None) -> DemoResult:
    """Evaluate both models on the demo tasks and compare them."""
    from assaymark.runs.comparison import compare_runs

    opened = store if isinstance(store, Store) else Store.open(store)
    runs = tuple(
        evaluate(demo_model(size), TASKS, store=opened, observe=observe, command="assaymark demo") for size in SIZES
    )
    return DemoResult(runs, compare_runs(runs))
