"""Pictures of what was measured: the ratio by load, and the time against the number of samples.

    python -m benchmarks.plots out/bench.json --to benchmarks/ratio.svg
    python -m benchmarks.plots out/growth.json --to benchmarks/growth.svg

Both axes of time and ratio are logarithmic: twice as fast is the same step everywhere.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

OURS, THEIRS, AIM = "#0072b2", "#999999", "#d55e00"  # told apart by colour-blind readers too


def ratio_chart(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """Return one bar per load and shape, with a tick where the aim was set."""
    measured = [{"load": r["load"], "shape": r["shape"], "ratio": r["ratio"], "aim": r["wanted"]} for r in rows]
    base = alt.Chart(alt.Data(values=measured)).encode(
        y=alt.Y("load:N", sort=None, title=None), yOffset=alt.YOffset("shape:N", sort=None)
    )
    scale = alt.Scale(type="log", domain=[0.9, 1.3 * max(max(m["ratio"], m["aim"]) for m in measured)])
    bars = base.mark_bar().encode(
        x=alt.X("ratio:Q", scale=scale, title="times lm-evaluation-harness's speed (bar), aim (tick)"),
        x2=alt.datum(0.9),
        color=alt.Color("shape:N", sort=None, scale=alt.Scale(range=[OURS, "#56b4e9"]), title="shape"),
    )
    aims = base.mark_tick(color=AIM, thickness=2).encode(x=alt.X("aim:Q", scale=scale))
    figures = base.mark_text(align="left", dx=6, fontSize=10).encode(
        x=alt.X("ratio:Q", scale=scale), text=alt.Text("ratio:Q", format=".1f")
    )
    return alt.layer(bars, aims, figures).properties(width=460)


def growth_chart(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """Return the seconds of both against the number of samples, with the distinct tokens beside the points."""
    points = [
        {"samples": r["samples"], "seconds": r[column], "who": who, "distinct": f"{r['tokens_distinct']:,} tokens"}
        for r in rows
        for who, column in (("lm-eval", "lm_eval_seconds"), ("Assaymark", "our_seconds"))
    ]
    base = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X("samples:Q", scale=alt.Scale(type="log"), title="samples"),
        y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds, scoring alone"),
        color=alt.Color("who:N", scale=alt.Scale(domain=["lm-eval", "Assaymark"], range=[THEIRS, OURS]), title=None),
    )
    ours = base.transform_filter(alt.datum.who == "Assaymark")
    labels = ours.mark_text(align="left", dx=6, dy=12, fontSize=10).encode(text="distinct:N")
    return alt.layer(base.mark_line(point=True), labels).properties(width=460, height=280)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture that fits the rows: growth where one load was measured at several sizes."""
    sizes: dict[tuple[str, str], int] = {}
    for row in rows:
        sizes[row["shape"], row["load"]] = sizes.get((row["shape"], row["load"]), 0) + 1
    chart = growth_chart(rows) if max(sizes.values()) > 1 else ratio_chart(rows)
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")


def main() -> None:
    """Draw a file that `bench.py` or `growth.py` has written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    draw(json.loads(arguments.measured.read_text()), arguments.to)


if __name__ == "__main__":
    main()
