"""A recommendation as JSON, for programs and the page's twin, and as tables and lines for the terminal."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from rich.table import Table

from assaymark.documents.numbers import NOTHING, counted
from assaymark.documents.terminal import Text, plain_table
from assaymark.leaderboard.preferences import Preference, PreferenceRanking
from assaymark.leaderboard.recommend import (
    KnownModel,
    Missing,
    ModelRanking,
    Ranked,
    Recommendation,
    Requested,
    Unmeasured,
)
from assaymark.leaderboard.rows import IntervalValue
from assaymark.records import JsonValue

MOST_LISTED = 100  # rated models of one category
NAMED = 10  # models that a line names
FACTS = ("params", "licence", "type", "precision", "prompts", "sha", "date")


def recommendation_json(recommendation: Recommendation) -> JsonValue:
    """Return a recommendation as plain data; shares in [0, 1], undefined is None."""
    requested = recommendation.requested
    return {
        "for": [demand.key for demand in recommendation.demands],
        "max_params": requested.max_params,
        "license": requested.licence or None,
        "where": requested.where or None,
        "rankings": [_ranking_json(ranking) for ranking in recommendation.rankings],
        "no_evidence": [
            {
                "for": missing.demand.key,
                "title": missing.demand.title,
                "command": missing.command or None,
                "advice": missing.demand.advice or None,
            }
            for missing in recommendation.no_evidence
        ],
        "preferences": [_preferences_json(ranking, recommendation.models) for ranking in recommendation.preferences],
        "never_measured": [
            {
                "for": unmeasured.demand.key,
                "title": unmeasured.demand.title,
                "models": [
                    {"model": each.model, "params": each.params, "licence": each.licence or None}
                    for each in unmeasured.models
                ],
            }
            for unmeasured in recommendation.unmeasured
        ],
    }


def _preferences_json(ranking: PreferenceRanking, models: Mapping[str, KnownModel]) -> JsonValue:
    rows: list[JsonValue] = []
    for each in ranking.models[:MOST_LISTED]:
        known = models.get(each.model)
        rows.append({**asdict(each), "params": None if known is None else known.params,
                     "licence": None if known is None else known.licence or None})  # fmt: skip
    return {"for": ranking.demand, "category": ranking.category, "n_votes": ranking.n_votes,
            "why_none": ranking.why_none or None, "models": rows}  # fmt: skip


def _ranking_json(ranking: ModelRanking) -> JsonValue:
    return {
        "source": ranking.source,
        "title": ranking.title,
        "benchmarks": [
            {"for": used.demand, "column": used.column, "title": used.title, "measures": used.measures or None,
             "share": used.share}
            for used in ranking.used
        ],
        "no_evidence": [demand.key for demand in ranking.no_evidence],
        "n_ranked": ranking.n_ranked,
        "excluded": dict(ranking.excluded),
        "notes": list(ranking.notes),
        "models": [_model(ranked) for ranked in ranking.models],
        "best_by_size": [
            {"size": size.title, "n_models": size.n_models, **_model(size.best)} for size in ranking.by_size
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


def _number(number: IntervalValue) -> dict[str, JsonValue]:
    return {"value": number.value, "low": number.low, "high": number.high, "stderr": number.stderr}


# ------------------------------------------------------------------------------------------ terminal


def recommendation_tables(recommendation: Recommendation) -> Iterator[object]:
    """Yield the rankings as tables and lines for the terminal; what has no evidence is for `missing_line`."""
    for ranking in recommendation.rankings:
        yield Text(f"{ranking.title}: {conditions_of(recommendation.requested, ranking)}", style="bold")
        if ranking.models:
            yield _models_table(ranking.models)
            if len(ranking.by_size) > 1:
                yield Text("Best of each size", style="bold")
                yield _sizes_table(ranking)
        else:
            yield Text("no model fulfils the conditions\n")
        for used in ranking.used:
            measures = f": {used.measures}" if used.measures else ""
            yield Text(f"{used.title} counts for {used.demand} ({100 * used.share:.0f}%){measures}", style="dim")
        for line in remarks(ranking):
            yield Text(line, style="dim")
        yield ""
    for preferences in recommendation.preferences:
        yield from preferences_table(preferences, recommendation)


def preferences_table(ranking: PreferenceRanking, recommendation: Recommendation) -> Iterator[object]:
    """Yield one category of an arena as a table for the terminal."""
    yield Text(f"Votes on {ranking.category}: {counted(ranking.n_votes, 'vote')}", style="bold")
    if not ranking.models:
        yield Text(f"no model is rated: {ranking.why_none}\n")
        return
    table = plain_table()
    table.add_column("ranks", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold")
    for title in ("params", "licence", "rating", "95% interval", "votes"):
        table.add_column(title, justify="right", no_wrap=title != "licence")
    for each in ranking.models[: recommendation.requested.top]:
        known = recommendation.models.get(each.model)
        table.add_row(
            shown_ranks(each),
            Text(each.model),
            NOTHING if known is None or known.params is None else f"{known.params:.3g} B",
            Text((known and known.licence) or NOTHING),
            f"{each.rating:.0f}",
            NOTHING if each.low is None or each.high is None else f"{each.low:.0f}–{each.high:.0f}",
            f"{each.n_votes:,}" + (" (few)" if each.is_preliminary else ""),
        )
    yield table
    yield ""


def shown_ranks(preference: Preference) -> str:
    """Return the ranks that a rating's interval allows."""
    best, worst = preference.best_rank, preference.worst_rank
    return str(best) if best == worst else f"{best}–{worst}"


def unmeasured_line(unmeasured: Unmeasured) -> str:
    """Return the names of models that nothing rates, the first ones with size and licence."""
    names = [str(model) for model in unmeasured.models[:NAMED]]
    more = len(unmeasured.models) - len(names)
    rest = f", and {more:,} more" if more else ""
    return f"never measured for {unmeasured.demand.title.lower()}: {', '.join(names)}{rest}"


def advice_line(missing: Missing) -> str:
    """Name what to evaluate where there is no evidence; empty for a benchmark."""
    return f"what to evaluate: {missing.demand.advice}" if missing.demand.advice else ""


def conditions_of(requested: Requested, ranking: ModelRanking) -> str:
    """Return in words how many models of a table fulfil which conditions."""
    words = [counted(ranking.n_ranked, "model")]
    if requested.max_params is not None:
        words.append(f"at most {requested.max_params:g} B parameters")
    if requested.licence:
        words.append(f"licence {requested.licence}")
    if requested.where:
        words.append(requested.where)
    return ", ".join(words)


def remarks(ranking: ModelRanking) -> Iterator[str]:
    """Yield what a reader should know of a table's ranking."""
    for demand in ranking.no_evidence:
        yield f"no evidence for {demand.title.lower()} in this table"
    for why, n in ranking.excluded.items():
        yield f"not ranked: {counted(n, 'model')} ({why})"
    yield from ranking.notes


def missing_line(missing: Missing) -> str:
    """Return in one line that there is no evidence, and the command that would give it."""
    hint = f"; to get it: {missing.command}" if missing.command else ""
    return f"no evidence for {missing.demand.title.lower()}: no benchmark in these tables measures it{hint}"


def _models_table(models: tuple[Ranked, ...]) -> Table:
    facts: list[tuple[str, Callable[[Ranked], str]]] = [
        ("params", _params),
        ("licence", lambda ranked: str(ranked.row.facts.get("licence") or NOTHING)),
    ]
    known = [(title, text) for title, text in facts if any(text(ranked) != NOTHING for ranked in models)]
    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold")
    for title in (*(title for title, _ in known), "value", "P(> next)", "P(first >)"):
        table.add_column(title, justify="right", no_wrap=title != "licence", overflow="fold")
    for ranked in models:
        cells = [*(text(ranked) for _, text in known), _value_text(ranked.value),
                 shown_probability(ranked.better_than_next), shown_probability(ranked.first_is_better)]  # fmt: skip
        model = Text(ranked.row.model).append(f"\n{ranked.reason}", style="dim")
        table.add_row(str(ranked.rank), model, *map(Text, cells))
    return table


def _sizes_table(ranking: ModelRanking) -> Table:
    table = plain_table()
    table.add_column("parameters", no_wrap=True)
    table.add_column("models", justify="right")
    table.add_column("best", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    for size_class in ranking.by_size:
        table.add_row(
            size_class.title,
            f"{size_class.n_models:,}",
            Text(size_class.best.row.model),
            _value_text(size_class.best.value),
        )
    return table


def _params(model: Ranked) -> str:
    params = model.row.facts.get("params")
    return NOTHING if params is None else f"{params:.3g} B"


def _value_text(number: IntervalValue) -> str:
    error = "" if number.low is None or number.high is None else f" ± {50 * (number.high - number.low):.1f}"
    return f"{100 * number.value:.1f}{error}"


def shown_probability(p: float | None) -> str:
    """Return a probability with two decimals, never as 0 or 1, which it is not."""
    if p is None:
        return NOTHING
    return "< 0.01" if p < 0.005 else "> 0.99" if p > 0.995 else f"{p:.2f}"
