"""The documentation as a site: Sphinx with MyST Markdown and furo. `make docs` builds it; warnings are errors.

A page that begins with a kernelspec is a notebook: its cells are executed whenever the site is built.
"""

import re
from math import inf
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

import assaymark
from assaymark.leaderboard.guide import GuideSection, guide, words
from assaymark.scoring.metrics import own_metrics
from assaymark.settings import VERSION

project = "Assaymark"
author = "Assaymark contributors"
project_copyright = author
release = version = VERSION

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "tutorial/data"]

html_theme = "furo"
html_title = f"Assaymark {VERSION}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # browsers draw it, without a script from elsewhere
nb_execution_mode = "force"  # a cached output would not change with the source
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds of one cell
nb_merge_streams = True
default_role = "literal"  # docstrings quote code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
copybutton_prompt_text = "$ "

CODE_OR_BAR = re.compile(r"(`[^`]*`)|\|")


def complete_page(app: Any, name: str, source: list[str]) -> None:
    """Append what the code says to its pages: public names, metrics, the guide, words; complete the index."""
    if name == "python_reference":
        elsewhere = (Path(app.srcdir) / "python_api.md").read_text(encoding="utf-8")
        for public in assaymark.__all__:
            if public == "__version__" or f":: assaymark.{public}\n" in elsewhere:
                continue
            members = "\n   :members:" if isinstance(getattr(assaymark, public), type) else ""
            kind = "class" if members else "function"
            directive = f".. auto{kind}:: assaymark.{public}{members}"
            source[0] += f"\n## {public}\n\n```{{eval-rst}}\n{directive}\n```\n"
    elif name == "how_scores_are_computed":
        source[0] += metrics_table()
    elif name == "choosing_benchmarks":
        source[0] += "".join(guide_text(section) for section in guide())
    elif name == "glossary":
        rows = "".join(f"| {word} | {meaning} |\n" for word, meaning in words().items())
        source[0] += f"\n## For beginners\n\n| term | meaning |\n|---|---|\n{rows}"
    elif name == "index" and not (Path(app.srcdir) / "leaderboard.md").is_file():
        source[0] = source[0].replace("\nleaderboard\n", "\n")


def metrics_table() -> str:
    """Return all metrics of this package as a table, as they are declared."""
    rows = "\n| metric | definition | range | better |\n|---|---|---|---|\n"
    for metric in own_metrics():
        least, most = metric.value_range
        ends = f"{least:g} to {most:g}" if most < inf else "any number" if least == -inf else f"from {least:g}"
        formula = "; ".join([metric.formula, *(f"of `{kind}`: {text}" for kind, text in metric.formulas)])
        better = "higher" if metric.higher_is_better else "lower"
        rows += f"| `{metric.name}` | {formula.replace('|', '&#124;')} | {ends} | {better} |\n"
    return rows


def guide_text(section: GuideSection) -> str:
    """Return a capability as Markdown: the advice and its benchmarks, as `assaymark guide` has them."""
    text = f"\n### {section.capability.title}\n\n{section.capability.advice}\n"
    if section.entries:
        text += "\n| benchmark | measures | questions | ± | chance |\n|---|---|--:|--:|--:|\n"
    for entry in section.entries:
        chance = f"{entry.chance:.0%}" if isinstance(entry.chance, float) else entry.chance or "–"
        text += (
            f"| `{entry.task}` | {entry.measures} | {entry.n_samples:,} | {100 * entry.half_width:.1f} | {chance} |\n"
        )
    values = [(entry.task, value) for entry in section.entries for value in entry.published]
    if values:
        text += "\n| published value | per cent | setting | source |\n|---|--:|---|---|\n"
        text += "".join(f"| `{task}` {v.model} | {v.value:.1f} | {v.setting} | {v.source} |\n" for task, v in values)
    for entry in section.entries:
        text += (
            f"\n`{entry.task}`: {' '.join(entry.known_faults)} Source: {entry.citation}\n" if entry.known_faults else ""
        )
        if entry.sample_prompt is not None:
            prompt = entry.sample_prompt
            text += f"\nWith a row made up for this page, `{prompt.task}` asks ({prompt.answer}):\n"
            text += f"\n```text\n{prompt.text}\n```\n"
    return text


def escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Escape the bars of absolute values in docstrings, which reStructuredText reads as substitutions."""
    lines[:] = [CODE_OR_BAR.sub(lambda found: found[1] or r"\|", line) for line in lines]


def visit_math(writer: Any, node: Any) -> None:
    """Write a formula as MathML."""
    if isinstance(node, nodes.math_block):
        writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    else:
        writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register the hooks above; Sphinx calls this."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", escape_bars)
