"""Audits as terminal tables: of prompts, wrong answers, contamination and calibration."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.bias import BiasAudit
from assaymark.audit.calibration import CalibrationAudit
from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.diagnosis import CAUSES, CauseCount, Diagnosis
from assaymark.audit.efficiency import EfficiencyFit
from assaymark.audit.option_orders import OptionOrders
from assaymark.audit.prompts import PromptAudit, RankChange, VariantScore
from assaymark.audit.toxicity import ToxicityAudit
from assaymark.audit.verdicts import (
    CALIBRATION_METHODS,
    METHODS,
    PROMPT_METHODS,
    calibration_verdict,
    contamination_methods,
    contamination_verdict,
    prompts_verdict,
    was_run,
)
from assaymark.results.console import Text
from assaymark.results.numbers import (
    NOTHING,
    counted,
    short_model_name,
    shown_interval,
    shown_p,
    shown_value,
    significant,
)
from assaymark.results.views.cells import Sized, plain_table
from assaymark.statistics.prompt_spread import PromptSpread

BESIDE_STRIP = 66  # columns for names and numbers
STRIP_WIDTHS = (8, 40)
ABOUT_PROMPTS = (
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
    return Group(*parts, Padding(Text(ABOUT_PROMPTS, style="dim"), (0, 1)))


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
    n = change.agreement.n_orders
    return Group(table, Text(f"{w}; {n} different order{'' if n == 1 else 's'} seen", style="dim"))


def _strip(score: VariantScore, cells: int) -> str:
    """Draw the interval and its value on a scale from 0 to 100%."""
    low, high, value = (min(cells - 1, int(share * cells)) for share in (score.low, score.high, score.value))
    marks = ["━" if low <= index <= high else "·" for index in range(cells)]
    marks[value] = "●"
    return "".join(marks)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


CAUSE_COLUMNS = ("cause", "n", "share", "95% interval", "by chance ≤")
N_EXAMPLES = 1  # of each cause


def diagnosis_table(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """Return for each task how many wrong answers have which cause, an example of each, and the next experiments."""
    return Group(*(_of_task(diagnosis) for diagnosis in diagnoses))


def _of_task(diagnosis: Diagnosis) -> RenderableType:
    parts: list[RenderableType] = [Text(heading_of(diagnosis), style="bold")]
    notes = [Text(line, style="dim") for line in footnotes(diagnosis)]
    counts = [count for count in diagnosis.causes if count.n]
    if not counts:
        return Padding(Group(*parts, *notes), (0, 1, 1, 1))
    table = plain_table()
    table.add_column(CAUSE_COLUMNS[0], no_wrap=True)
    for header in CAUSE_COLUMNS[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("for example", overflow="fold")
    for count in counts:
        examples = [answer for answer in diagnosis.answers if answer.cause == count.cause][:N_EXAMPLES]
        table.add_row(
            *cause_cells(count), Text("; ".join(f"sample {answer.index}: {answer.why}" for answer in examples))
        )
    remedies = {cause.name: cause.remedy for cause in CAUSES}
    parts += [table, Text("next:", style="bold")]
    parts += [Text(f"  {count.cause}: {remedies[count.cause]}") for count in sorted(counts, key=lambda each: -each.n)]
    return Padding(Group(*parts, *notes), (0, 1, 1, 1))


def heading_of(diagnosis: Diagnosis) -> str:
    """Return model, task, and how many answers are wrong."""
    wrong = f"{diagnosis.n_wrong:,} of {counted(diagnosis.n, 'answer')} wrong"
    n_looked = diagnosis.n_diagnosed
    looked = "" if n_looked == diagnosis.n_wrong else f", of which {n_looked:,} were looked at"
    return f"{short_model_name(diagnosis.model)} · {diagnosis.task}: {wrong}{looked}"


def cause_cells(count: CauseCount) -> tuple[str, ...]:
    """Return the cells of CAUSE_COLUMNS."""
    return (
        count.cause, f"{count.n:,}", shown_value(count.share, proportion=True),
        shown_interval(count.low, count.high, proportion=True),
        shown_value(count.chance, proportion=True) if count.chance else NOTHING,
    )  # fmt: skip


def footnotes(diagnosis: Diagnosis) -> list[str]:
    """Describe what was not answered, how wrong answers were asked again, and why none is called ambiguous."""
    lines = []
    if diagnosis.n_failed:
        lines.append(f"{counted(diagnosis.n_failed, 'sample')} without an answer, which is not wrong")
    if any(count.n for count in diagnosis.causes):
        lines.append(f"asked again: {', '.join(diagnosis.tried)}" if diagnosis.tried else "not asked again")
        if diagnosis.n_better_models < 3:
            few = counted(diagnosis.n_better_models, "better model")
            lines.append(f"the store has {few} on this task; none is called ambiguous with fewer than 3")
    return lines


def contamination_table(tests: Sequence[ContaminationTest]) -> RenderableType:
    """Return the verdict in one sentence, one table per test over the tasks, and what each test does not show.

    Tests that could not be run are named in the sentence, with the reason, and have no table.
    """
    methods = contamination_methods(tests)
    opening = [Text(contamination_verdict(tests), style="bold"), *([Text(methods, style="dim")] if methods else [])]
    parts: list[RenderableType] = [Padding(Group(*opening), (0, 1, 1, 1))]
    run = [test for test in tests if was_run(test)]
    for name in dict.fromkeys(test.test for test in run):
        own = [test for test in run if test.test == name]
        table = plain_table()
        named, statistic, *numbers = test_headers(own)
        table.add_column(named, overflow="fold")
        table.add_column(statistic, no_wrap=True)
        for header in numbers:
            table.add_column(header, justify="right", no_wrap=True)
        for test in own:
            table.add_row(*test_cells(test, own))
        notes = [Text(f"{test.task}: {'; '.join(test.notes)}", style="dim") for test in own if test.notes]
        caveat = Text(f"Does not show: {own[0].not_shown}", style="italic")
        parts.append(Padding(Group(table, *notes, caveat), (0, 1, 1, 1)))
    return Group(*parts)


def _has_control(tests: Sequence[ContaminationTest]) -> bool:
    return any(test.control_p is not None for test in tests)


def test_headers(tests: Sequence[ContaminationTest]) -> list[str]:
    """Return the columns of a table of one test's results over tasks; its name is that of the tasks' column."""
    return [tests[0].test, "statistic", "n", "p", "p (Holm)", *(["control p"] if _has_control(tests) else [])]


def test_cells(test: ContaminationTest, tests: Sequence[ContaminationTest]) -> list[str]:
    """Return a row of that table."""
    cells = [test.task, _statistic(test), f"{test.n:,}", shown_p(test.p), shown_p(test.p_holm)]
    return [*cells, shown_p(test.control_p)] if _has_control(tests) else cells


def _statistic(test: ContaminationTest) -> str:
    if test.statistic is None:
        return NOTHING
    if test.test == "overlap":
        return f"{test.statistic:.1%} {test.statistic_name.removeprefix('share ')}"
    sign = "-" if test.statistic < 0 else ""
    return f"{test.statistic_name} {sign}{significant(abs(test.statistic), 3)}"


def contamination_json(tests: Sequence[ContaminationTest]) -> list[dict[str, object]]:
    """Return every test with stable names; `items` holds each sample's value."""
    return [
        {
            **asdict(test),
            "method": METHODS[test.test],
            "not_shown": test.not_shown,
            "items": [{"sample_index": index, "value": value} for index, value in test.items],
        }
        for test in tests
    ]


STRIP = 40
SUMMARY = ("n", "accuracy", "confidence", "error", "if calibrated", "p")
ABOUT_CONFIDENCE = {
    "choices": "Confidence is the share of the choices' probability on the one picked",
    "answers": "Confidence is the probability of the whole generated text, which is low for long ones",
}


def about_calibration(audits: Sequence[CalibrationAudit]) -> str:
    """Explain the numbers of audits."""
    confidence = ABOUT_CONFIDENCE[audits[0].of if audits else "choices"]
    return (
        f"{confidence}; bins hold equally many samples. The error is never 0 in a finite sample: 'if calibrated' is "
        "the value expected of a calibrated model with these confidences."
    )


def calibration_table(audits: Sequence[CalibrationAudit]) -> RenderableType:
    """Return the verdict in one sentence, a summary over tasks, and each task's reliability curve."""
    summary = plain_table()
    summary.add_column("task", overflow="fold")
    for header in SUMMARY:
        summary.add_column(header, justify="right", no_wrap=True)
    for audit in audits:
        summary.add_row(*summary_cells(audit))
    curves = [_curve(audit) for audit in audits]
    opening = Group(Text(calibration_verdict(audits), style="bold"), Text(CALIBRATION_METHODS, style="dim"))
    return Group(
        Padding(opening, (0, 1, 1, 1)),
        Padding(summary, (0, 1)),
        Padding(Text(about_calibration(audits), style="dim"), (1, 1)),
        *curves,
    )


def summary_cells(audit: CalibrationAudit) -> tuple[str, ...]:
    """Return a task's name and the cells of SUMMARY."""
    error = audit.error
    return (
        audit.task, f"{audit.n:,}", _share(audit.accuracy), _share(audit.confidence), _share(error.value),
        f"{_share(error.null_value)} (≤{_share(error.null_high)})", shown_p(error.p),
    )  # fmt: skip


def bias_table(audits: Sequence[BiasAudit]) -> RenderableType:
    """Return the measures of each task's generated texts, one line each; 0: the groups are named equally."""
    table = plain_table()
    table.add_column("task", overflow="fold")
    table.add_column("bias of generated texts", overflow="fold")
    table.add_column("distance", justify="right", no_wrap=True)
    table.add_column("texts", justify="right", no_wrap=True)
    for audit in audits:
        for name, value in audit.measures.items():
            table.add_row(
                Text(audit.task), name, "none named" if value is None else f"{value:.4f}", f"{audit.n_texts:,}"
            )
    return Padding(table, (0, 1))


def toxicity_table(audits: Sequence[ToxicityAudit]) -> RenderableType:
    """Return the measures of each task's generated texts, one line each, under names with the scorer's."""
    table = plain_table()
    table.add_column("task", overflow="fold")
    table.add_column("toxicity (scorer)", overflow="fold")
    for header in ("value", "95% interval", "samples", "texts", "empty"):
        table.add_column(header, justify="right", no_wrap=True)
    for audit in audits:
        for measure in audit.measures:
            ends = "–" if measure.low is None or measure.high is None else f"{measure.low:.4f}–{measure.high:.4f}"
            counts = (f"{audit.n_samples:,}", f"{audit.n_texts:,}", f"{audit.n_empty:,}")
            table.add_row(Text(audit.task), Text(measure.metric), f"{measure.value:.4f}", ends, *counts)
    return Padding(table, (0, 1))


def efficiency_table(fit: EfficiencyFit) -> RenderableType:
    """Return the times of a fit, how well it fits, and the machine that they are of."""
    table = plain_table()
    for header in ("prompt tokens", "until the first token", "tokens a second"):
        table.add_column(header, justify="right", no_wrap=True)
    for n, seconds in sorted(fit.prompt_seconds.items()):
        table.add_row(f"{n:,}", f"{1000 * seconds:,.2f} ms", f"{n / seconds:,.0f}" if seconds > 0 else NOTHING)
    each, low, high = (1000 * value for value in (fit.token_seconds, fit.low, fit.high))
    facts = [fit.machine.get(name) for name in ("processor_name", "device", "platform")]
    where = ", ".join(str(fact) for fact in [*facts, f"{fit.machine.get('n_cores')} cores"] if fact)
    residuals = f"{1000 * fit.residual_seconds:,.2f} ms (root mean square), at most {fit.worst_share:.0%} of a time"
    lines = [
        f"each further token of the answer: {each:,.3f} ms (95% interval {low:,.3f} to {high:,.3f})",
        f"residuals of the shortest times of {len(fit.answers):,} answers: {residuals}",
        f"{fit.model.get('name')} {fit.model.get('dtype')} on {where}",
    ]
    if fit.load is not None:
        lines.append(f"meanwhile: {fit.load.line()}")
        if fit.load.is_busy:
            lines.append("this machine was busy, so these times are not its own: measure again when nothing else runs")
    if fit.is_noisy:
        lines.append(
            "the times do not have this form: let nothing else run, and use longer --answers or more --repeats"
        )
    return Group(Padding(table, (0, 1)), *(Text(f" {line}") for line in lines))


def _curve(audit: CalibrationAudit) -> RenderableType:
    table = plain_table()
    for header in ("confidence", "accuracy", "n"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column(f"0%{'100%':>{STRIP - 2}}", no_wrap=True)
    for calibration_bin in audit.error.bins:
        table.add_row(
            _share(calibration_bin.confidence),
            _share(calibration_bin.accuracy),
            f"{calibration_bin.n:,}",
            _bin_strip(calibration_bin.confidence, calibration_bin.accuracy),
        )
    brier = audit.brier
    answered = ", ".join(f"{share:.0%}: {_share(accuracy)}" for share, accuracy in audit.selective)
    lines = [
        (
            f"Brier score of the top choice {brier.brier:.3f} = "
            f"miscalibration {brier.reliability:.3f} - discrimination {brier.resolution:.3f} "
            f"+ uncertainty of the task {brier.uncertainty:.3f} + within bins {brier.within:+.3f}"
        ),
        f"{_platt(audit)}; error after it {_share(audit.error_after_platt)}",
        f"accuracy when only the most confident are answered: {answered}",
        (
            f"by HELM's definitions: ece_10_bin {audit.helm.ece_10_bin:.4f}, ece_1_bin {audit.helm.ece_1_bin:.4f}, "
            f"selective_cov_acc_area {audit.helm.selective_cov_acc_area:.4f}, selective_acc@10 "
            f"{audit.helm.selective_acc_at_10:.4f}, platt_ece_10_bin {audit.helm.platt_ece_10_bin:.4f}"
        ),
    ]
    notes = [Text(line, style="dim") for line in lines]
    return Padding(Group(Text(audit.task, style="bold"), table, *notes), (0, 1, 1, 1))


def _platt(audit: CalibrationAudit) -> str:
    """Return the Platt slope with its interpretation, by the mean confidence where it is not defined."""
    slope = audit.platt.slope
    if slope is None:
        why = {1.0: "all answers are right", 0.0: "all answers are wrong"}.get(audit.accuracy, "one confidence for all")
        return f"no Platt slope ({why}): {'over' if audit.confidence > audit.accuracy else 'under'}confident"
    if slope <= 0:
        return f"Platt slope {slope:.2f}: more confident answers are no better"
    return f"Platt slope {slope:.2f}: {'overconfident' if slope < 1 else 'underconfident'}"


def _bin_strip(confidence: float, accuracy: float) -> str:
    """Draw accuracy (●) and confidence (│, where the two should meet) on a scale from 0 to 100%."""
    marks = ["·"] * STRIP
    marks[min(STRIP - 1, int(confidence * STRIP))] = "│"
    marks[min(STRIP - 1, int(accuracy * STRIP))] = "●"
    return "".join(marks)
