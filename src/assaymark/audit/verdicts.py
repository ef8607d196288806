"""The verdict sentence at the top of an audit's report, and the published methods that the audit used."""

from collections import defaultdict
from collections.abc import Sequence

from assaymark.audit.calibration import CalibrationAudit
from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.prompts import PromptAudit
from assaymark.documents.numbers import shown_p

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


def was_run(test: ContaminationTest) -> bool:
    """Return whether a test has a result."""
    return test.statistic is not None


def contamination_verdict(tests: Sequence[ContaminationTest]) -> str:
    """Return one sentence: signs of contamination, in how many tests, and which could not be run or interpreted."""
    concluded = [test for test in tests if was_run(test) and _concludes(test)]
    signs = [test for test in concluded if _is_sign(test)]
    if signs:
        named = ", ".join(f"{test.test} on {test.task}{_strength(test)}" for test in signs)
        parts = [f"Signs of contamination in {len(signs)} of {_tests(len(concluded))}: {named}"]
    elif concluded:
        parts = [f"No sign of contamination in {_tests(len(concluded))}"]
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


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


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
        comparisons = f"{n} comparison{'' if n == 1 else 's'}"
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
    tasks = f"{n} task{'' if n == 1 else 's'}"
    if not wrong:
        return f"No sign of miscalibration on {tasks}."
    worst = max(wrong, key=lambda audit: audit.error.value)
    return (
        f"Miscalibrated on {len(wrong)} of {tasks}; most on {worst.task}: confidence {100 * worst.confidence:.1f}%, "
        f"accuracy {100 * worst.accuracy:.1f}%."
    )
