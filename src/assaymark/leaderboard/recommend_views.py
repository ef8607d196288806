"""A recommendation as JSON, for programs and the page's twin, and as tables for the terminal."""

from collections.abc import Iterator
from typing import Any

from assaymark.leaderboard.recommend import Missing, Ranked, Ranking, Recommendation, Requested
from assaymark.leaderboard.rows import Number
from assaymark.records import JsonValue
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, counted
from assaymark.report.views.cells import plain_table

__all__ = [
    "conditions_of",
    "missing_line",
    "recommendation_json",
    "recommendation_tables",
    "remarks",
    "shown_probability",
]

FACTS = ("params", "licence", "type", "precision", "prompts", "sha", "date")


def recommendation_json(found: Recommendation) -> JsonValue:
    """Return a recommendation as plain data; shares in [0, 1], undefined is None."""
    requested = found.requested
    return {
        "for": [one.key for one in found.demands],
        "max_params": requested.max_params,
        "license": requested.licence or None,
        "where": requested.where or None,
        "rankings": [_ranking(one) for one in found.rankings],
        "no_evidence": [
            {"for": one.demand.key, "title": one.demand.title, "command": one.command or None}
            for one in found.no_evidence
        ],
    }


def _ranking(one: Ranking) -> JsonValue:
    return {
        "source": one.source,
        "title": one.title,
        "benchmarks": [
            {"for": used.demand, "column": used.column, "title": used.title, "measures": used.measures or None,
             "share": used.share}
            for used in one.used
        ],
        "no_evidence": [demand.key for demand in one.no_evidence],
        "n_ranked": one.n_ranked,
        "excluded": dict(one.excluded),
        "notes": list(one.notes),
        "models": [_model(ranked) for ranked in one.models],
        "best_by_size": [
            {"size": size.title, "n_models": size.n_models, **_model(size.best)} for size in one.by_size
        ],
    }  # fmt: skip


def _model(ranked: Ranked) -> dict[str, JsonValue]:
    row = ranked.row
    return {
        "rank": ranked.rank,
        "model": row.model,
        **_number(ranked.value),
        "p_better_than_next": ranked.better_than_next,
        "p_first_is_better": ranked.first_is_better,
        "reason": ranked.reason,
        "origin": row.origin,
        "scores": {key: {**_number(cell.number), "n": cell.n} for key, cell in ranked.cells.items()},
        "facts": {key: row.facts[key] for key in FACTS if row.facts.get(key) is not None},
        "n_set_ups": ranked.n_set_ups,
        "runs": list(row.run_ids),
        "url": row.url or None,
    }


def _number(number: Number) -> dict[str, JsonValue]:
    return {"value": number.value, "low": number.low, "high": number.high, "stderr": number.stderr}


# ------------------------------------------------------------------------------------------ terminal


def recommendation_tables(found: Recommendation) -> Iterator[Any]:
    """Yield the rankings as tables and lines for the terminal; what has no evidence is for `missing_line`."""
    for one in found.rankings:
        yield Text(f"{one.title}: {conditions_of(found.requested, one)}", style="bold")
        if one.models:
            yield _models_table(one.models)
            if len(one.by_size) > 1:
                yield Text("Best of each size", style="bold")
                yield _sizes_table(one)
        else:
            yield Text("no model fulfils the conditions\n")
        for used in one.used:
            measures = f": {used.measures}" if used.measures else ""
            yield Text(f"{used.title} counts for {used.demand} ({100 * used.share:.0f}%){measures}", style="dim")
        for line in remarks(one):
            yield Text(line, style="dim")
        yield ""


def conditions_of(requested: Requested, ranking: Ranking) -> str:
    """Return in words how many models of a table fulfil which conditions."""
    words = [counted(ranking.n_ranked, "model")]
    if requested.max_params is not None:
        words.append(f"at most {requested.max_params:g} B parameters")
    if requested.licence:
        words.append(f"licence {requested.licence}")
    if requested.where:
        words.append(requested.where)
    return ", ".join(words)


def remarks(one: Ranking) -> Iterator[str]:
    """Yield what a reader should know of a table's ranking."""
    for demand in one.no_evidence:
        yield f"no evidence for {demand.title.lower()} in this table"
    for why, n in one.excluded.items():
        yield f"not ranked: {counted(n, 'model')} ({why})"
    yield from one.notes


def missing_line(missing: Missing) -> str:
    """Return in one line that there is no evidence, and the command that would give it."""
    hint = f"; to get it: {missing.command}" if missing.command else ""
    return f"no evidence for {missing.demand.title.lower()}: no benchmark in these tables measures it{hint}"


def _models_table(models: tuple[Ranked, ...]) -> Any:
    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold")
    for title in ("params", "value", "P(> next)", "P(first >)"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in models:
        cells = [_params(one), _value(one.value), shown_probability(one.better_than_next),
                 shown_probability(one.first_is_better)]  # fmt: skip
        model = Text(one.row.model).append(f"\n{one.reason}", style="dim")
        table.add_row(str(one.rank), model, *map(Text, cells))
    return table


def _sizes_table(ranking: Ranking) -> Any:
    table = plain_table()
    table.add_column("parameters", no_wrap=True)
    table.add_column("models", justify="right")
    table.add_column("best", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    for one in ranking.by_size:
        table.add_row(one.title, f"{one.n_models:,}", Text(one.best.row.model), _value(one.best.value))
    return table


def _params(one: Ranked) -> str:
    params = one.row.facts.get("params")
    return NOTHING if params is None else f"{params:.3g} B"


def _value(number: Number) -> str:
    error = "" if number.low is None or number.high is None else f" ± {50 * (number.high - number.low):.1f}"
    return f"{100 * number.value:.1f}{error}"


def shown_probability(p: float | None) -> str:
    """Return a probability with two decimals, never as 0 or 1, which it is not."""
    if p is None:
        return NOTHING
    return "< 0.01" if p < 0.005 else "> 0.99" if p > 0.995 else f"{p:.2f}"
