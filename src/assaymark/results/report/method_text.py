"""The method section of a report: text that a paper can quote, specific to these runs, with references.

The works that a report's method section cites, numbered in the order of citation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.documents.numbers import NOTHING
from assaymark.results.comparison.records import Comparison
from assaymark.results.estimate_texts import shown_count
from assaymark.results.report.contents import ReportContents
from assaymark.results.views.cells import TableLine, leaf_estimates, table_rows
from assaymark.settings import VERSION
from assaymark.store import RunRow

WORKS = {
    "lm-eval": "Gao, L., Tow, J., Abbasi, B., et al. (2024). The Language Model Evaluation Harness. "
    "doi:10.5281/zenodo.12608602",
    "error bars": "Miller, E. (2024). Adding Error Bars to Evals: A Statistical Approach to Language Model "
    "Evaluations. arXiv:2411.00640",
    "wilson": "Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. Journal of "
    "the American Statistical Association 22(158), 209-212",
    "student": "Student (1908). The probable error of a mean. Biometrika 6(1), 1-25",
    "bca": "Efron, B. (1987). Better bootstrap confidence intervals. Journal of the American Statistical Association "
    "82(397), 171-185",
    "strata": "Cochran, W. G. (1977). Sampling Techniques, 3rd edition. Wiley",
    "score": "Martin Andres, A., Alvarez Hernandez, M., Herranz Tejedor, I. (2011). Inferences about a linear "
    "combination of proportions. Statistical Methods in Medical Research 20(4), 369-387",
    "mcnemar": "McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions or "
    "percentages. Psychometrika 12(2), 153-157",
    "tango": "Tango, T. (1998). Equivalence test and confidence interval for the difference in proportions for the "
    "paired-sample design. Statistics in Medicine 17(8), 891-908",
    "fisher": "Fisher, R. A. (1935). The Design of Experiments. Oliver and Boyd",
    "mover": "Zou, G. Y., Huang, W., Zhang, X. (2009). A note on confidence interval estimation for a linear function "
    "of binomial proportions. Computational Statistics and Data Analysis 53(4), 1080-1085",
    "holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of "
    "Statistics 6(2), 65-70",
    "calibration": "Naeini, M. P., Cooper, G. F., Hauskrecht, M. (2015). Obtaining well calibrated probabilities using "
    "Bayesian binning. Proceedings of AAAI 29, 2901-2907",
    "brier": "Brier, G. W. (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review "
    "78(1), 1-3",
}


class References:
    """Numbers works as they are cited."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cite(self, *works: str) -> str:
        """Return the marks of works, such as `[1, 4]`: keys of WORKS, or whole references."""
        texts = [WORKS.get(work, work).rstrip(".") for work in works]
        numbers = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in texts]
        return f"[{', '.join(map(str, sorted(set(numbers))))}]"

    @property
    def listed(self) -> tuple[str, ...]:
        """The works cited so far, in the order of their numbers."""
        return tuple(f"{text}." for text in self._numbers)


MOST_TASKS = 12  # described in the text; the table has the others


@dataclass(frozen=True, slots=True)
class MethodText:
    """Paragraphs and the works that they cite."""

    paragraphs: tuple[str, ...]
    references: tuple[str, ...]


def method_text(contents: ReportContents) -> MethodText:
    """Return the description of how these numbers were obtained."""
    references = References()
    models = [_model(row, view.label) for row, view in zip(contents.rows, contents.views, strict=True)]
    lines = [row for row in table_rows(contents.views, primary_only=True) if row.is_top and row.metric]
    tasks = [_task(line, contents, references) for line in lines[:MOST_TASKS]]
    if len(lines) > MOST_TASKS:
        tasks.append(f"{len(lines) - MOST_TASKS} more, listed in the table")
    were = "was" if len(models) == 1 else "were"
    paragraphs = [
        f"{_joined(models)} {were} evaluated on {'; '.join(tasks)}.",
        _prompts_and_scoring(contents.rows, references),
        _intervals(contents, references),
    ]
    if contents.comparison is not None:
        paragraphs.append(_tests(contents.comparison, references))
    if contents.curves:
        paragraphs.append(
            "The confidence of a multiple-choice answer is the share of the choices' probability that is on the best "
            "one. The calibration error is the mean absolute difference between confidence and accuracy over ten bins "
            f"of equally many answers {references.cite('calibration')}; it is reported with the value expected of a "
            "perfectly calibrated model with this number of answers."
        )
    return MethodText(tuple(paragraphs), references.listed)


def _model(row: RunRow, label: str) -> str:
    model = row.plan.model
    size = f"{_size(model.n_parameters)} parameters, " if model.n_parameters else ""
    # name and version of the other tool that made the run; empty for a run of ours
    imported: Mapping[str, object] = row.extra.get("imported") or {}
    tool = f"{imported['tool']} {imported.get('version') or ''}".strip() if imported else ""
    how = f"by {tool}, imported" if tool else f"with Assaymark {VERSION}"
    return f"{label} ({size}{model.dtype}; {how}, run {row.short_id})"


def _size(n_parameters: int) -> str:
    for unit, scale in (("billion", 1e9), ("million", 1e6)):
        if n_parameters >= scale:
            return f"{n_parameters / scale:.3g} {unit}"
    return f"{n_parameters:,}"


def _task(line: TableLine, contents: ReportContents, references: References) -> str:
    """Return one task with its citation, shots, metric and size."""
    leaves = [leaf for view in contents.views for leaf in leaf_estimates(view, line.name if line.is_group else None)]
    own = [leaf for leaf in leaves if line.is_group or leaf.task == line.name]
    shots = sorted({n for leaf in own if isinstance(n := leaf.details.get("n_shots"), int)})
    shots_text = f"{' to '.join(str(n) for n in dict.fromkeys((*shots[:1], *shots[-1:])))}-shot, " if shots else ""
    n_tasks = len({leaf.task for leaf in own})
    many = f"{n_tasks} tasks, " if n_tasks > 1 else ""
    size = shown_count(cell for cell in line.cells if cell is not None)
    size = "not reported" if size == NOTHING else size.replace("–", " to ")
    cited = contents.cards.get(line.name, {}).get("citation")
    mark = f" {references.cite(' '.join(str(cited).split()))}" if cited else ""
    return f"{line.label}{mark} ({many}{shots_text}{line.metric}, n = {size})"


def _prompts_and_scoring(rows: Sequence[RunRow], references: References) -> str:
    own = [row for row in rows if row.plan.model.kind != "imported"]
    if not own:
        return "Prompts, answers and scores are those logged by the tool named above; no request was sent again."
    plans = [row.plan for row in own]
    profiles = _joined(list(dict.fromkeys(plan.profile for plan in plans)))
    seeds = _joined(sorted({str(plan.seed) for plan in plans}))
    harness = f"the Language Model Evaluation Harness {references.cite('lm-eval')}"
    parts = [f"Prompts, few-shot examples (seed {seeds}) and scoring follow {harness}, under the profile {profiles}."]
    chat = sum(bool(plan.apply_chat_template) for plan in plans)
    parts.append(
        "No chat template was applied."
        if not chat
        else "The model's chat template was applied to the prompts."
        if chat == len(plans)
        else f"In {chat} of {len(plans)} runs the model's chat template was applied to the prompts."
    )
    if all(plan.model.numerics == "float32" for plan in plans):
        parts.append("Log-probabilities were computed in float32 from the model's logits.")
    if any(plan.limit is not None for plan in plans):
        parts.append("Only the first samples of each task were evaluated, as the sizes above show.")
    if len(own) < len(rows):
        parts.append("Imported runs are reported as the tools that made them logged them.")
    return " ".join(parts)


_INTERVALS = (
    ("wilson", "Wilson intervals for proportions of correct answers", ("wilson",)),
    ("t", "Student's t intervals for the means of graded scores", ("student",)),
    ("bca", "bias-corrected and accelerated bootstrap intervals if graded scores are few or skewed", ("bca",)),
    ("ratio t", "intervals from the delta method for ratios such as bits per byte and perplexities", ()),
    ("micro", "groups pool the samples of their tasks, with score intervals over the strata", ("strata", "score")),
    ("macro", "macro averages weight their tasks equally, with score intervals over the strata", ("strata", "score")),
)


def _intervals(contents: ReportContents, references: References) -> str:
    text = f"Values are given with 95% intervals {references.cite('error bars')}"
    methods = {estimate.method for view in contents.views for estimate in view.estimates}
    used = [
        text + (f" {references.cite(*works)}" if works else "")
        for key, text, works in _INTERVALS
        if any(method == key or (key in {"micro", "macro"} and method.startswith(key)) for method in methods)
    ]
    text += f": {'; '.join(used)}." if used else "."
    return (
        f"{text} Choices that tie for the best share the credit. Failed requests are excluded and counted; "
        "answers that could not be parsed count as wrong. Chance is one over the number of choices, averaged."
    )


def _tests(comparison: Comparison, references: References) -> str:
    lines = [line for pair in comparison.pairs for line in pair.tasks]
    methods = " ".join(line.method for line in lines)
    tests = []
    if "McNemar" in methods:
        tests.append(
            f"binary scores by McNemar's exact test {references.cite('mcnemar')} with Tango's interval "
            f"{references.cite('tango')}"
        )
    if "sign-flip" in methods:
        tests.append(f"graded scores by a sign-flip permutation test {references.cite('fisher')}")
    text = f"Runs were compared on the same samples, paired by content: {'; '.join(tests)}."
    if any(len(pair.tasks) > 1 for pair in comparison.pairs):
        text += f" p-values over tasks are corrected by Holm's method {references.cite('holm')}."
    overall = [pair.overall for pair in comparison.pairs if pair.overall is not None and pair.overall.n_tasks > 1]
    if overall:
        recovered = any("MOVER" in line.method for line in overall)
        how = f", its interval is recovered from those of its parts {references.cite('mover')}" if recovered else ""
        text += f" The overall difference is the mean over tasks and groups with equal weights{how}."
    return text


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
