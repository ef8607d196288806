"""The documentation as a site: Sphinx with MyST Markdown and furo. `make docs` builds it; warnings are errors."""

import re
from pathlib import Path
from typing import Any

import assaymark
from assaymark.settings import VERSION

project = "Assaymark"
author = "Assaymark contributors"
project_copyright = author
release = version = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Assaymark {VERSION}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
default_role = "literal"  # docstrings quote code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
copybutton_prompt_text = "$ "

CODE_OR_BAR = re.compile(r"(`[^`]*`)|\|")


def complete_page(app: Any, name: str, source: list[str]) -> None:
    """Append a section for each public name to the reference; list the guides that exist in the index."""
    if name == "python_reference":
        elsewhere = (Path(app.srcdir) / "python_api.md").read_text(encoding="utf-8")
        for public in assaymark.__all__:
            if public == "__version__" or f":: assaymark.{public}\n" in elsewhere:
                continue
            members = "\n   :members:" if isinstance(getattr(assaymark, public), type) else ""
            kind = "class" if members else "function"
            directive = f".. auto{kind}:: assaymark.{public}{members}"
            source[0] += f"\n## {public}\n\n```{{eval-rst}}\n{directive}\n```\n"
    elif name == "index" and not (Path(app.srcdir) / "leaderboard.md").is_file():
        source[0] = source[0].replace("\nleaderboard\n", "\n")


def escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Escape the bars of absolute values in docstrings, which reStructuredText reads as substitutions."""
    lines[:] = [CODE_OR_BAR.sub(lambda found: found[1] or r"\|", line) for line in lines]


def setup(app: Any) -> None:
    """Register the hooks above; Sphinx calls this."""
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", escape_bars)
