"""Audits as documents: of prompts, wrong answers, contamination, calibration, bias, toxicity and efficiency.

A report begins with a verdict, and names the published methods that the audit used.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from assaymark.audit.bias import BiasAudit
from assaymark.audit.calibration import ALL, CalibrationAudit
from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.diagnosis import CAUSES, CauseCount, Diagnosis
from assaymark.audit.efficiency import EfficiencyFit
from assaymark.audit.option_orders import OptionOrders
from assaymark.audit.prompts import PromptAudit, RankChange, VariantScore
from assaymark.audit.toxicity import ToxicityAudit
from assaymark.documents.blocks import Block, Bullets, Cell, Column, Drawn, Figure, Heading, Paragraph, table
from assaymark.documents.charts import INK, IntervalPoint, calibration_chart, can_draw, interval_charts
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted, shown_interval, shown_p, shown_value, significant
from assaymark.results.model_names import short_model_name
from assaymark.statistics.prompt_spread import PromptSpread

ALPHA = 0.05
METHODS = {
    "order": "order of the rows (Oren et al. 2023)",
    "options": "order of the options (Oren et al. 2023, within samples)",
    "numbers": "published against other numbers (Oren et al. 2023, within samples)",
    "overlap": "n-gram overlap (Brown et al. 2020; nearly complete texts: Touvron et al. 2023)",
    "min-k": "Min-K% (Shi et al. 2023) and Min-K%++ (Zhang et al. 2024)",
}
PROMPT_METHODS = (
    "Methods: spread over prompt variants (Sclar et al. 2023) against random relabelling (Pitman 1938); option orders "
    "(CircularEval, Liu et al. 2023)."
)
CALIBRATION_METHODS = "Methods: calibration error in bins of equal size; Brier score decomposition of Murphy (1973)."
MOST_CURVES = 6  # as many as there are colours of runs
DRAWN = Column("", "drawn")
ABOUT_PROMPTS = (
    "All prompt variants are evaluated on the same samples with the same shots, in the variant's wording. 'By noise "
    "alone' is the spread of the same answers when each sample's are assigned to the variants at random: only the "
    "excess over it is an effect of the wording."
)


def prompts_document(audits: Sequence[PromptAudit], changes: Sequence[RankChange] = ()) -> Document:
    """Return the verdict in one sentence, the results of each model and task, and how the models' ranks change.

    The results are those of prompt variants, system prompts and option orders.
    """
    parts: list[Block] = []
    if audits:
        parts += [Paragraph(prompts_verdict(audits), "verdict"), Paragraph(PROMPT_METHODS, "facts")]
    for audit in audits:
        title = title_of(audit) if len(audits) > 1 else ""
        spreads = {
            "prompt variants": audit.spread, "cloze variants": audit.cloze_spread,
            "listed by letter or number": audit.letter_spread, "system prompts": audit.system_spread,
        }  # fmt: skip
        lines = [spread_line(name, spread) for name, spread in spreads.items() if spread is not None]
        parts += [Heading(title_of(audit) + size_of(audit), 4), *_scores("prompt variant", audit.forms, title)]
        parts += _scores("system prompt", audit.systems, title) if audit.systems else []
        parts.append(Bullets((*lines, *(order_lines(audit.orders) if audit.orders is not None else ()))))
    for change in changes:
        parts += _ranks(change)
    return document(parts, Paragraph(ABOUT_PROMPTS, "facts"))


def title_of(audit: PromptAudit) -> str:
    """Return model and task."""
    return f"{short_model_name(audit.model)} on {audit.task}"


def size_of(audit: PromptAudit) -> str:
    """Return samples and shots, and how many samples are excluded."""
    shots = f", {audit.num_fewshot} shots" if audit.num_fewshot else ", no shots"
    excluded = f", {audit.n_left_out:,} excluded" if audit.n_left_out else ""
    return f" · {audit.n:,} samples{shots}{excluded}"


def _scores(header: str, scores: Sequence[VariantScore], title: str) -> list[Block]:
    ordered = sorted(scores, key=lambda score: -score.value)
    body = [
        (
            each.name, each.metric, _share(each.value), shown_interval(each.low, each.high, proportion=True),
            Cell("", drawn=Drawn(each.value, each.low, each.high)),
        )
        for each in ordered
    ]  # fmt: skip
    points = [IntervalPoint(each.name, "", each.value, each.low, each.high) for each in ordered]
    figure = _intervals(points, f"Accuracy under each {header}, with 95% intervals.", title)
    return [table((header, "metric", "value", "95% interval", DRAWN), body, n_text=2), *figure]


def _intervals(points: Sequence[IntervalPoint], caption: str, title: str) -> list[Block]:
    """Return a figure of one row per point, with a title where a document has several."""
    if not points or not can_draw():
        return []
    titled = {"title": {"text": title, "anchor": "start", "color": INK, "fontSize": 12}} if title else {}
    return [Figure("values", caption, lambda: [{**spec, **titled} for spec in interval_charts(points)])]


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


def _ranks(change: RankChange) -> list[Block]:
    agreement = change.agreement
    body = [
        (name.rstrip("/").rpartition("/")[2], str(best), str(worst))
        for name, best, worst in zip(change.models, agreement.best, agreement.worst, strict=True)
    ]
    w = f"Kendall's W {agreement.kendall_w:.2f} (1: every prompt variant gives the same order)"
    seen = counted(agreement.n_orders, "different order")
    return [table((f"ranks on {change.task}", "best", "worst"), body), Paragraph(f"{w}; {seen} seen", "facts")]


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


CAUSE_COLUMNS = ("cause", "n", "share", "95% interval", "by chance ≤")


N_EXAMPLES = 1  # of each cause


def diagnosis_document(diagnoses: Sequence[Diagnosis]) -> Document:
    """Return for each task the number of wrong answers by cause, with an example of each, and the next experiments."""
    parts: list[Block] = []
    remedies = {cause.name: cause.remedy for cause in CAUSES}
    for diagnosis in diagnoses:
        parts.append(Heading(heading_of(diagnosis), 4))
        if counts := [count for count in diagnosis.causes if count.n]:
            body = [(*cause_cells(count), _examples(diagnosis, count)) for count in counts]
            parts.append(table((*CAUSE_COLUMNS, Column("for example", "text")), body))
            parts += _intervals(
                [IntervalPoint(count.cause, "", count.share, count.low, count.high) for count in counts],
                "Share of each cause among the wrong answers that were looked at, with 95% intervals.",
                diagnosis.task if len(diagnoses) > 1 else "",
            )
            by_size = sorted(counts, key=lambda count: -count.n)
            parts.append(Bullets(tuple(f"next, {count.cause}: {remedies[count.cause]}" for count in by_size)))
        parts += [Paragraph(line, "facts") for line in footnotes(diagnosis)]
    return document(parts)


def _examples(diagnosis: Diagnosis, count: CauseCount) -> str:
    of_cause = [answer for answer in diagnosis.answers if answer.cause == count.cause]
    return "; ".join(f"sample {answer.index}: {answer.why}" for answer in of_cause[:N_EXAMPLES])


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
    """Describe missing answers, the ways of asking again, and why none is called ambiguous."""
    lines = []
    if diagnosis.n_failed:
        lines.append(f"{counted(diagnosis.n_failed, 'sample')} without an answer, which is not wrong")
    if any(count.n for count in diagnosis.causes):
        lines.append(f"asked again: {', '.join(diagnosis.tried)}" if diagnosis.tried else "not asked again")
        if diagnosis.n_better_models < 3:
            few = counted(diagnosis.n_better_models, "better model")
            lines.append(f"the store has {few} on this task; none is called ambiguous with fewer than 3")
    return lines


def contamination_document(tests: Sequence[ContaminationTest]) -> Document:
    """Return the verdict in one sentence, one table per test over the tasks, and each test's limits.

    Tests that could not be run are named in the sentence, with the reason, and have no table.
    """
    parts: list[Block] = [Paragraph(contamination_verdict(tests), "verdict")]
    if methods := contamination_methods(tests):
        parts.append(Paragraph(methods, "facts"))
    run = [test for test in tests if was_run(test)]
    for name in dict.fromkeys(test.test for test in run):
        own = [test for test in run if test.test == name]
        parts.append(table(test_headers(own), [test_cells(test, own) for test in own], n_text=2))
        parts += [Paragraph(f"{test.task}: {'; '.join(test.notes)}", "facts") for test in own if test.notes]
        parts.append(Paragraph(f"Does not show: {own[0].not_shown}", "facts"))
    return document(parts)


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


def calibration_document(audits: Sequence[CalibrationAudit]) -> Document:
    """Return the verdict in one sentence, a summary over tasks, and each task's reliability curve."""
    parts: list[Block] = [Paragraph(calibration_verdict(audits), "verdict"), Paragraph(CALIBRATION_METHODS, "facts")]
    parts.append(table(("task", *SUMMARY), [summary_cells(audit) for audit in audits]))
    parts.append(Paragraph(about_calibration(audits), "facts"))
    drawn = audits if len(audits) <= MOST_CURVES else [audit for audit in audits if audit.task == ALL]
    if drawn and can_draw():
        caption = (
            "Share of right answers against confidence, in bins of equally many answers, with 95% Wilson "
            "intervals. The dashed line is perfect calibration."
        )
        curves = [(one.task, one.error) for one in drawn]
        parts.append(Figure("calibration", caption, lambda: [calibration_chart(curves)]))
    for audit in audits:
        parts += _curve(audit)
    return document(parts)


def summary_cells(audit: CalibrationAudit) -> tuple[str, ...]:
    """Return a task's name and the cells of SUMMARY."""
    error = audit.error
    return (
        audit.task, f"{audit.n:,}", _share(audit.accuracy), _share(audit.confidence), _share(error.value),
        f"{_share(error.null_value)} (≤{_share(error.null_high)})", shown_p(error.p),
    )  # fmt: skip


def bias_document(audits: Sequence[BiasAudit]) -> Document:
    """Return the measures of each task's generated texts, one line each; 0: the groups are named equally."""
    body = [
        (audit.task, name, "none named" if value is None else f"{value:.4f}", f"{audit.n_texts:,}")
        for audit in audits
        for name, value in audit.measures.items()
    ]
    return document(table(("task", "bias of generated texts", "distance", "texts"), body, n_text=2))


def toxicity_document(audits: Sequence[ToxicityAudit]) -> Document:
    """Return the measures of each task's generated texts, one line each, under names with the scorer's."""
    body = []
    for audit in audits:
        for measure in audit.measures:
            ends = NOTHING if measure.low is None or measure.high is None else f"{measure.low:.4f}–{measure.high:.4f}"
            counts = (f"{audit.n_samples:,}", f"{audit.n_texts:,}", f"{audit.n_empty:,}")
            body.append((audit.task, measure.metric, f"{measure.value:.4f}", ends, *counts))
    columns = ("task", "toxicity (scorer)", "value", "95% interval", "samples", "texts", "empty")
    return document(table(columns, body, n_text=2))


def efficiency_document(fit: EfficiencyFit) -> Document:
    """Return the times of a fit, its quality, and the machine."""
    body = [
        (f"{n:,}", f"{1000 * seconds:,.2f} ms", f"{n / seconds:,.0f}" if seconds > 0 else NOTHING)
        for n, seconds in sorted(fit.prompt_seconds.items())
    ]
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
    times = table(("prompt tokens", "until the first token", "tokens a second"), body, n_text=0)
    return document(times, [Paragraph(line) for line in lines])


def _curve(audit: CalibrationAudit) -> list[Block]:
    body = [
        (
            _share(each.confidence), _share(each.accuracy), f"{each.n:,}",
            Cell("", drawn=Drawn(each.accuracy, beside=each.confidence)),
        )
        for each in audit.error.bins
    ]  # fmt: skip
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
    curve = table(("confidence", "accuracy", "n", DRAWN), body, n_text=0)
    return [Heading(audit.task, 4), curve, *(Paragraph(line, "facts") for line in lines)]


def _platt(audit: CalibrationAudit) -> str:
    """Return the Platt slope with its interpretation, by the mean confidence where it is not defined."""
    slope = audit.platt.slope
    if slope is None:
        why = {1.0: "all answers are right", 0.0: "all answers are wrong"}.get(audit.accuracy, "one confidence for all")
        return f"no Platt slope ({why}): {'over' if audit.confidence > audit.accuracy else 'under'}confident"
    if slope <= 0:
        return f"Platt slope {slope:.2f}: more confident answers are no better"
    return f"Platt slope {slope:.2f}: {'overconfident' if slope < 1 else 'underconfident'}"


def was_run(test: ContaminationTest) -> bool:
    """Return whether a test has a result."""
    return test.statistic is not None


def contamination_verdict(tests: Sequence[ContaminationTest]) -> str:
    """Return one sentence: signs of contamination, in how many tests, and which could not be run or interpreted."""
    concluded = [test for test in tests if was_run(test) and _concludes(test)]
    signs = [test for test in concluded if _is_sign(test)]
    if signs:
        named = ", ".join(f"{test.test} on {test.task}{_strength(test)}" for test in signs)
        parts = [f"Signs of contamination in {len(signs)} of {counted(len(concluded), 'test')}: {named}"]
    elif concluded:
        parts = [f"No sign of contamination in {counted(len(concluded), 'test')}"]
    else:
        parts = ["No test shows whether there is contamination"]
    open_tests = [test for test in tests if was_run(test) and not _concludes(test)]
    if open_tests:
        names = ", ".join(dict.fromkeys(test.test for test in open_tests))
        parts.append(f"{len(open_tests)} cannot be interpreted without a control ({names})")
    failed = [test for test in tests if not was_run(test)]
    if failed:
        parts.append(f"{len(failed)} could not be run because {_reasons(failed)}")
    return "; ".join(parts) + "."


def _concludes(test: ContaminationTest) -> bool:
    """Return whether a test's result can be interpreted by itself; numbers and Min-K need a control."""
    if test.test == "numbers":
        return test.control_p is not None
    return test.test == "overlap" or test.p is not None


def _is_sign(test: ContaminationTest) -> bool:
    if test.test == "overlap":
        return bool(test.statistic)
    p = test.p if test.p_holm is None else test.p_holm
    return p is not None and p < ALPHA


def _strength(test: ContaminationTest) -> str:
    if test.test == "overlap":
        return f" ({test.statistic:.1%} of samples)"
    p_text = shown_p(test.p if test.p_holm is None else test.p_holm)
    return f" (p {p_text})" if p_text.startswith("<") else f" (p = {p_text})"


def _reasons(failed: Sequence[ContaminationTest]) -> str:
    """Return the reasons, each with the tests that could not be run because of it."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    tasks = {test.task for test in failed}
    for test in failed:
        name = test.test if len(tasks) == 1 else f"{test.test} on {test.task}"
        tests["; ".join(test.notes) or "there was nothing to test"].append(name)
    return "; ".join(f"{reason} ({', '.join(dict.fromkeys(names))})" for reason, names in tests.items())


def contamination_methods(tests: Sequence[ContaminationTest]) -> str:
    """Return the published methods of the tests that were run, with authors and year."""
    used = dict.fromkeys(test.test for test in tests if was_run(test))
    return f"Methods: {'; '.join(METHODS[name] for name in used)}." if used else ""


def prompts_verdict(audits: Sequence[PromptAudit]) -> str:
    """Return in how many comparisons the prompt has a significant effect, and the largest spread."""
    significant = [audit for audit in audits if audit.spread.p < ALPHA]
    n = len(audits)
    if not significant:
        comparisons = counted(n, "comparison")
        return f"No significant effect of the prompt: the spread is within noise in each of {comparisons}."
    worst = max(significant, key=lambda audit: audit.spread.spread)
    return (
        f"The prompt has a significant effect in {len(significant)} of {n} comparisons; largest on {worst.task}: "
        f"{100 * worst.spread.spread:.1f} points between the best and the worst prompt variant."
    )


def calibration_verdict(audits: Sequence[CalibrationAudit]) -> str:
    """Return on how many tasks the confidences are significantly miscalibrated."""
    wrong = [audit for audit in audits if audit.error.p < ALPHA]
    n = len(audits)
    tasks = counted(n, "task")
    if not wrong:
        return f"No sign of miscalibration on {tasks}."
    worst = max(wrong, key=lambda audit: audit.error.value)
    return (
        f"Miscalibrated on {len(wrong)} of {tasks}; most on {worst.task}: confidence {100 * worst.confidence:.1f}%, "
        f"accuracy {100 * worst.accuracy:.1f}%."
    )
