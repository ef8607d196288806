"""The audit of prompts for people."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from evalstone.audit.option_orders import OptionOrders
from evalstone.audit.prompts import FormScore, PromptAudit, RankChange
from evalstone.audit.verdicts import PROMPT_METHODS, prompts_verdict
from evalstone.report.console import Text
from evalstone.report.numbers import short_model_name, shown_p
from evalstone.report.views.cells import Sized, plain_table
from evalstone.statistics.prompt_spread import PromptSpread

__all__ = ["prompts_table"]

BESIDE_STRIP = 66  # columns that names and numbers need
STRIP_WIDTHS = (8, 40)
ABOUT = (
    "All forms are asked of the same samples with the same shots, put in the form's wording. 'By noise alone' is the "
    "spread that the same answers show when each sample's are dealt to the forms at random: only what lies above it is "
    "the wording's."
)


def prompts_table(audits: Sequence[PromptAudit], changes: Sequence[RankChange] = ()) -> RenderableType:
    """Return the result in one sentence, each model's and task's forms, systems and orders, and how ranks change."""
    opening = [Text(prompts_verdict(audits), style="bold"), Text(PROMPT_METHODS, style="dim")]
    parts: list[RenderableType] = [Padding(Group(*opening), (0, 1, 1, 1))] if audits else []
    for audit in audits:
        title = Text(f"{short_model_name(audit.model)} on {audit.task}", style="bold")
        shots = f", {audit.num_fewshot} shots" if audit.num_fewshot else ", no shots"
        title.append(f" · {audit.n:,} samples{shots}", style="not bold dim")
        title.append(f", {audit.n_left_out:,} left out" if audit.n_left_out else "", style="not bold yellow")
        lines = [_spread_line("forms", audit.spread)]
        lines += [_spread_line("cloze forms", audit.cloze_spread)] if audit.cloze_spread else []
        lines += [_spread_line("listed by letter or number", audit.letter_spread)] if audit.letter_spread else []
        parts.append(Padding(Group(title, _scores(audit.forms), *map(Text, lines)), (0, 1, 1, 1)))
        if audit.systems:
            lines = [_spread_line("system prompts", audit.system_spread)] if audit.system_spread else []
            parts.append(Padding(Group(_scores(audit.systems), *map(Text, lines)), (0, 1, 1, 1)))
        if audit.orders is not None:
            parts.append(Padding(_orders(audit.orders), (0, 1, 1, 1)))
    parts += [Padding(_ranks(change), (0, 1, 1, 1)) for change in changes]
    return Group(*parts, Padding(Text(ABOUT, style="dim"), (0, 1)))


def _scores(scores: Sequence[FormScore]) -> RenderableType:
    def laid_out(width: int) -> RenderableType:
        strip = max(STRIP_WIDTHS[0], min(STRIP_WIDTHS[1], width - BESIDE_STRIP))
        table = plain_table()
        table.add_column("form", overflow="fold")
        table.add_column("metric", no_wrap=True)
        for header in ("value", "95% interval"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column(f"0%{'100%':>{strip - 2}}", no_wrap=True)
        for score in sorted(scores, key=lambda score: -score.value):
            interval = f"{100 * score.low:.1f}–{100 * score.high:.1f}"
            table.add_row(score.name, score.metric, _share(score.value), interval, _strip(score, strip))
        return table

    return Sized(laid_out)


def _spread_line(what: str, spread: PromptSpread) -> str:
    mean = f"mean {_share(spread.mean)} ({100 * spread.low:.1f}–{100 * spread.high:.1f})"
    seen = f"{100 * spread.spread:.1f} points ({100 * spread.spread_low:.1f}–{100 * spread.spread_high:.1f})"
    null = f"{100 * spread.null_spread:.1f} (95% below {100 * spread.null_high:.1f})"
    return f"{what}: {mean}, spread {seen}, by noise alone {null}, p {shown_p(spread.p)}"


def _orders(orders: OptionOrders) -> RenderableType:
    shares = ", ".join(
        f"{letter} {_share(share)}" for letter, share in zip("ABCDEFGHIJ", orders.picked_share, strict=False)
    )
    turned = ", ".join(_share(value) for value in orders.by_shift)
    lines = (
        f"option orders: {orders.n:,} samples, each in every cyclic order, options listed by letter",
        (
            f"accuracy {_share(orders.accuracy)} ({turned}); right in every order (circular accuracy) "
            f"{_share(orders.circular_accuracy)} ({100 * orders.circular_low:.1f}–{100 * orders.circular_high:.1f}), "
            f"{_share(orders.circular_if_independent)} if orders had nothing to do with each other"
        ),
        f"the same option picked in every order: {_share(orders.consistency)}",
        f"places picked: {shares}; p of even shares {shown_p(orders.position_p)}",
    )
    return Group(*map(Text, lines))


def _ranks(change: RankChange) -> RenderableType:
    table = plain_table()
    table.add_column(f"ranks on {change.task}", overflow="fold")
    for header in ("best", "worst"):
        table.add_column(header, justify="right")
    for name, best, worst in zip(change.models, change.agreement.best, change.agreement.worst, strict=True):
        table.add_row(name.rstrip("/").rpartition("/")[2], str(best), str(worst))
    said = f"Kendall's W {change.agreement.kendall_w:.2f} (1: every form gives the same order); {_orders_seen(change)}"
    return Group(table, Text(said, style="dim"))


def _orders_seen(change: RankChange) -> str:
    n = change.agreement.n_orders
    return f"{n} different order{'' if n == 1 else 's'} seen"


def _strip(score: FormScore, cells: int) -> str:
    """Draw the interval and its value on a scale from 0 to 100 per cent."""
    low, high, value = (min(cells - 1, int(share * cells)) for share in (score.low, score.high, score.value))
    marks = ["━" if low <= index <= high else "·" for index in range(cells)]
    marks[value] = "●"
    return "".join(marks)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"
