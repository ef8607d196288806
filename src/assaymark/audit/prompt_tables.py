"""The audit of prompts as a terminal table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.option_orders import OptionOrders
from assaymark.audit.prompts import PromptAudit, RankChange, VariantScore
from assaymark.audit.verdicts import PROMPT_METHODS, prompts_verdict
from assaymark.results.console import Text
from assaymark.results.numbers import short_model_name, shown_p
from assaymark.results.views.cells import Sized, plain_table
from assaymark.statistics.prompt_spread import PromptSpread

__all__ = ["ABOUT", "order_lines", "prompts_table", "spread_line", "title_of"]

BESIDE_STRIP = 66  # columns for names and numbers
STRIP_WIDTHS = (8, 40)
ABOUT = (
    "All prompt variants are evaluated on the same samples with the same shots, in the variant's wording. 'By noise "
    "alone' is the spread of the same answers when each sample's are assigned to the variants at random: only the "
    "excess over it is an effect of the wording."
)


def prompts_table(audits: Sequence[PromptAudit], changes: Sequence[RankChange] = ()) -> RenderableType:
    """Return the verdict in one sentence, the results of each model and task, and how the models' ranks change.

    The results are those of prompt variants, system prompts and option orders.
    """
    opening = [Text(prompts_verdict(audits), style="bold"), Text(PROMPT_METHODS, style="dim")]
    parts: list[RenderableType] = [Padding(Group(*opening), (0, 1, 1, 1))] if audits else []
    for audit in audits:
        name, size, excluded = title_of(audit)
        title = Text(name, style="bold").append(size, style="not bold dim").append(excluded, style="not bold yellow")
        lines = [spread_line("prompt variants", audit.spread)]
        lines += [spread_line("cloze variants", audit.cloze_spread)] if audit.cloze_spread else []
        lines += [spread_line("listed by letter or number", audit.letter_spread)] if audit.letter_spread else []
        parts.append(Padding(Group(title, _scores(audit.forms), *map(Text, lines)), (0, 1, 1, 1)))
        if audit.systems:
            lines = [spread_line("system prompts", audit.system_spread)] if audit.system_spread else []
            parts.append(Padding(Group(_scores(audit.systems), *map(Text, lines)), (0, 1, 1, 1)))
        if audit.orders is not None:
            parts.append(Padding(Group(*map(Text, order_lines(audit.orders))), (0, 1, 1, 1)))
    parts += [Padding(_ranks(change), (0, 1, 1, 1)) for change in changes]
    return Group(*parts, Padding(Text(ABOUT, style="dim"), (0, 1)))


def title_of(audit: PromptAudit) -> tuple[str, str, str]:
    """Return model and task; samples and shots; and how many samples are excluded, empty where none are."""
    shots = f", {audit.num_fewshot} shots" if audit.num_fewshot else ", no shots"
    excluded = f", {audit.n_left_out:,} excluded" if audit.n_left_out else ""
    return f"{short_model_name(audit.model)} on {audit.task}", f" · {audit.n:,} samples{shots}", excluded


def _scores(scores: Sequence[VariantScore]) -> RenderableType:
    def laid_out(width: int) -> RenderableType:
        strip = max(STRIP_WIDTHS[0], min(STRIP_WIDTHS[1], width - BESIDE_STRIP))
        table = plain_table()
        table.add_column("prompt variant", overflow="fold")
        table.add_column("metric", no_wrap=True)
        for header in ("value", "95% interval"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column(f"0%{'100%':>{strip - 2}}", no_wrap=True)
        for score in sorted(scores, key=lambda score: -score.value):
            interval = f"{100 * score.low:.1f}–{100 * score.high:.1f}"
            table.add_row(score.name, score.metric, _share(score.value), interval, _strip(score, strip))
        return table

    return Sized(laid_out)


def spread_line(what: str, spread: PromptSpread) -> str:
    """Return mean and spread over variants, beside the spread that noise alone would give."""
    mean = f"mean {_share(spread.mean)} ({100 * spread.low:.1f}–{100 * spread.high:.1f})"
    seen = f"{100 * spread.spread:.1f} points ({100 * spread.spread_low:.1f}–{100 * spread.spread_high:.1f})"
    null = f"{100 * spread.null_spread:.1f} (95% below {100 * spread.null_high:.1f})"
    return f"{what}: {mean}, spread {seen}, by noise alone {null}, p {shown_p(spread.p)}"


def order_lines(orders: OptionOrders) -> tuple[str, ...]:
    """Return the results over all cyclic orders of the options, in lines."""
    shares = ", ".join(
        f"{letter} {_share(share)}" for letter, share in zip("ABCDEFGHIJ", orders.picked_share, strict=False)
    )
    rotations = ", ".join(_share(value) for value in orders.by_shift)
    return (
        f"option orders: {orders.n:,} samples, each in every cyclic order, options listed by letter",
        (
            f"accuracy {_share(orders.accuracy)} ({rotations}); correct in every order (circular accuracy) "
            f"{_share(orders.circular_accuracy)} ({100 * orders.circular_low:.1f}–{100 * orders.circular_high:.1f}), "
            f"{_share(orders.circular_if_independent)} if orders were independent"
        ),
        f"the same option picked in every order: {_share(orders.consistency)}",
        f"positions picked: {shares}; p of equal shares {shown_p(orders.position_p)}",
    )


def _ranks(change: RankChange) -> RenderableType:
    table = plain_table()
    table.add_column(f"ranks on {change.task}", overflow="fold")
    for header in ("best", "worst"):
        table.add_column(header, justify="right")
    for name, best, worst in zip(change.models, change.agreement.best, change.agreement.worst, strict=True):
        table.add_row(name.rstrip("/").rpartition("/")[2], str(best), str(worst))
    w = f"Kendall's W {change.agreement.kendall_w:.2f} (1: every prompt variant gives the same order)"
    return Group(table, Text(f"{w}; {_orders_seen(change)}", style="dim"))


def _orders_seen(change: RankChange) -> str:
    n = change.agreement.n_orders
    return f"{n} different order{'' if n == 1 else 's'} seen"


def _strip(score: VariantScore, cells: int) -> str:
    """Draw the interval and its value on a scale from 0 to 100%."""
    low, high, value = (min(cells - 1, int(share * cells)) for share in (score.low, score.high, score.value))
    marks = ["━" if low <= index <= high else "·" for index in range(cells)]
    marks[value] = "●"
    return "".join(marks)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"
