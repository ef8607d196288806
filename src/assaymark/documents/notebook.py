"""Documents as a notebook shows them: HTML with tables and drawn intervals, and charts of altair.

The HTML is the blocks below one element. Its text has the notebook's own colours, so one piece suits a light
and a dark theme; it holds no script, and every text from a model, a task or a file is escaped.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from assaymark.documents.blocks import Block, Figure
from assaymark.documents.charts import INK, imported_altair
from assaymark.documents.html import html_blocks
from assaymark.errors import UsageError
from assaymark.records import JsonValue

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart

CHART_INK: Final = "#7f7f88"  # a chart is drawn outside of the page's own text, so it has a grey that suits both themes
DARK = (
    "[data-jp-theme-light=false]",  # JupyterLab
    ".vscode-dark",
    "html[theme=dark]",  # Colab
    "body[data-theme=dark]",  # Sphinx
)
_SCOPE = ".assaymark-view"
_STYLE = (
    f"{_SCOPE}{{--good:#00684b;--bad:#a84700;overflow-x:auto}}"
    f"{','.join(f'{theme} {_SCOPE}' for theme in DARK)}{{--good:#3fcf9f;--bad:#ff9a57}}"
    f"@media(prefers-color-scheme:dark){{body[data-theme=auto] {_SCOPE}{{--good:#3fcf9f;--bad:#ff9a57}}}}"  # Sphinx
    f"{_SCOPE} table{{border-collapse:collapse;font-size:.9em;margin:.4em 0}}"
    f"{_SCOPE} th,{_SCOPE} td{{padding:.25em .6em;text-align:right;background:none;border:0;"
    "border-bottom:1px solid rgba(127,127,136,.35);font-variant-numeric:tabular-nums}"
    f"{_SCOPE} thead th{{border-bottom:1.5px solid currentColor}}{_SCOPE} tbody th{{font-weight:inherit}}"
    f"{_SCOPE} .t{{text-align:left}}{_SCOPE} tr.group th,{_SCOPE} .verdict{{font-weight:600}}"
    f"{_SCOPE} .below{{display:block;font-size:.9em;opacity:.8}}"
    f"{_SCOPE} .facts,{_SCOPE} figcaption{{opacity:.8;font-size:.9em}}"
    f"{_SCOPE} .better{{color:var(--good)}}{_SCOPE} .worse{{color:var(--bad)}}"
    f"{_SCOPE} figure{{margin:.6em 0}}{_SCOPE} svg{{max-width:100%;height:auto}}"
    f"{_SCOPE} ul.warning{{list-style:none;padding:0}}"
)


def notebook_html(blocks: Sequence[Block]) -> str:
    """Return blocks as one element, with a style that concerns nothing else on the page."""
    return f'<div class="assaymark-view"><style>{_STYLE}</style>{html_blocks(blocks)}</div>'


def notebook_chart(blocks: Sequence[Block], why_none: str) -> "LayerChart | VConcatChart":
    """Return the drawings among the blocks as one chart, below one another.

    Raises: UsageError with `why_none` where there are none; MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    drawn = [spec for block in blocks if isinstance(block, Figure) for spec in block.specs]
    specs = [{key: _grey(value) for key, value in spec.items()} for spec in drawn]
    if not specs:
        raise UsageError(f"{why_none}, so there is nothing to draw; print it, or read its estimates")
    whole = {key: specs[0].pop(key) for key in ("$schema", "config")}
    for spec in specs[1:]:  # parts of a chart may not repeat them
        del spec["$schema"], spec["config"]
    if len(specs) == 1:
        layered: LayerChart = alt.LayerChart.from_dict({**whole, **specs[0]})
        return layered
    parts: VConcatChart = alt.VConcatChart.from_dict({**whole, "vconcat": specs})
    return parts


def _grey(part: JsonValue) -> JsonValue:
    if isinstance(part, Mapping):
        return {key: _grey(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_grey(value) for value in part]
    return CHART_INK if part == INK else part
