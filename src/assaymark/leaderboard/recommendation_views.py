"""A recommendation as JSON, for programs and the page's twin, and as a document."""

from collections.abc import Callable, Iterator

from assaymark.documents.blocks import Block, Cell, Cells, Column, Heading, Paragraph, Table, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.leaderboard.evidence import Preference, PreferenceRanking
from assaymark.leaderboard.recommend import Missing, ModelRanking, Ranked, Recommendation, Requested, Unmeasured
from assaymark.leaderboard.rows import IntervalValue

NAMED = 10  # models that a line names


# ------------------------------------------------------------------------------------------ terminal


def recommendation_document(recommendation: Recommendation) -> Document:
    """Return the rankings; `missing_line` describes demands without evidence."""
    parts: list[Block] = []
    for ranking in recommendation.rankings:
        parts.append(Heading(f"{ranking.title}: {conditions_of(recommendation.requested, ranking)}", 3))
        if ranking.models:
            parts.append(_models_table(ranking.models))
            if len(ranking.by_size) > 1:
                rows = [
                    (size.title, f"{size.n_models:,}", size.best.row.model, _value_text(size.best.value))
                    for size in ranking.by_size
                ]
                parts += [
                    Heading("Best of each size", 4),
                    table(("parameters", "models", Column("best", "text"), "value"), rows),
                ]
        else:
            parts.append(Paragraph("no model fulfils the conditions"))
        for used in ranking.used:
            measures = f": {used.measures}" if used.measures else ""
            line = f"{used.title} counts for {used.demand} ({100 * used.share:.0f}%){measures}"
            parts.append(Paragraph(line, "facts"))
        parts += [Paragraph(line, "facts") for line in remarks(ranking)]
    for preferences in recommendation.preferences:
        parts += preferences_blocks(preferences, recommendation)
    return document(parts)


def preferences_blocks(ranking: PreferenceRanking, recommendation: Recommendation) -> list[Block]:
    """Return one category of an arena."""
    heading = Heading(f"Votes on {ranking.category}: {counted(ranking.n_votes, 'vote')}", 3)
    if not ranking.models:
        return [heading, Paragraph(f"no model is rated: {ranking.why_none}")]
    rows = []
    for each in ranking.models[: recommendation.requested.top]:
        known = recommendation.models.get(each.model)
        rows.append((
            shown_ranks(each),
            each.model,
            NOTHING if known is None or known.params is None else f"{known.params:.3g} B",
            (known and known.licence) or NOTHING,
            f"{each.rating:.0f}",
            NOTHING if each.low is None or each.high is None else f"{each.low:.0f}–{each.high:.0f}",
            f"{each.n_votes:,}" + (" (few)" if each.is_preliminary else ""),
        ))  # fmt: skip
    columns = ("ranks", Column("model", "text"), "params", LICENCE, "rating", "95% interval", "votes")
    return [heading, table(columns, rows, n_text=0)]


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
    """Suggest tasks to evaluate where there is no evidence; empty for a benchmark."""
    return f"what to evaluate: {missing.demand.advice}" if missing.demand.advice else ""


def conditions_of(requested: Requested, ranking: ModelRanking) -> str:
    """Return the conditions in words, and how many models of a table fulfil them."""
    words = [counted(ranking.n_ranked, "model")]
    if requested.max_params is not None:
        words.append(f"at most {requested.max_params:g} B parameters")
    if requested.licence:
        words.append(f"licence {requested.licence}")
    if requested.where:
        words.append(requested.where)
    return ", ".join(words)


def remarks(ranking: ModelRanking) -> Iterator[str]:
    """Yield remarks that a reader of a table's ranking should know."""
    for demand in ranking.no_evidence:
        yield f"no evidence for {demand.title.lower()} in this table"
    for why, n in ranking.excluded.items():
        yield f"not ranked: {counted(n, 'model')} ({why})"
    yield from ranking.notes


def missing_line(missing: Missing) -> str:
    """Return a line that evidence is missing, with the command that would give it."""
    hint = f"; to get it: {missing.command}" if missing.command else ""
    return f"no evidence for {missing.demand.title.lower()}: no benchmark in these tables measures it{hint}"


LICENCE = Column("licence", "text")


def _models_table(models: tuple[Ranked, ...]) -> Table:
    facts: list[tuple[str | Column, Callable[[Ranked], str]]] = [
        ("params", _params),
        (LICENCE, lambda ranked: str(ranked.row.facts.get("licence") or NOTHING)),
    ]
    known = [(column, text) for column, text in facts if any(text(ranked) != NOTHING for ranked in models)]
    rows: list[Cells] = [
        (
            str(ranked.rank), Cell(ranked.row.model, ranked.reason), *(text(ranked) for _, text in known),
            _value_text(ranked.value), shown_probability(ranked.better_than_next),
            shown_probability(ranked.first_is_better),
        )
        for ranked in models
    ]  # fmt: skip
    columns = ("rank", Column("model", "text"), *(column for column, _ in known), "value", "P(> next)", "P(first >)")
    return table(columns, rows, n_text=0)


def _params(model: Ranked) -> str:
    params = model.row.facts.get("params")
    return NOTHING if params is None else f"{params:.3g} B"


def _value_text(number: IntervalValue) -> str:
    error = "" if number.low is None or number.high is None else f" ± {50 * (number.high - number.low):.1f}"
    return f"{100 * number.value:.1f}{error}"


def shown_probability(p: float | None) -> str:
    """Return a probability with two decimals, but never as 0 or 1."""
    if p is None:
        return NOTHING
    return "< 0.01" if p < 0.005 else "> 0.99" if p > 0.995 else f"{p:.2f}"
