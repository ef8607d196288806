"""Draw docs/demo.svg, the README's picture: what `assaymark demo` prints, as it prints it.

Usage: python tools/draw_demo.py
"""

import re
import sys
import tempfile
from pathlib import Path

from assaymark.results.views.tables import run_table
from rich.console import Console

from assaymark.results.evidence.from_store import run_view
from assaymark.runs.comparison import comparison_views
from assaymark.runs.demo import run_demo

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
WIDTH = 96


def main() -> int:
    """Run the demo in a store of its own and draw its tables."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_demo(str(Path(folder) / "store.sqlite"))
        views = [run_view(run.store, run.id) for run in result.runs]
        console = Console(record=True, width=WIDTH, highlight=False, file=sys.stderr, force_terminal=True)
        for renderable in (run_table(views), *comparison_views(result.comparison)):
            console.print(renderable)
    # the fonts that rich would have the viewer fetch are left out: a page of ours asks nobody for anything
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)
    PICTURE.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
