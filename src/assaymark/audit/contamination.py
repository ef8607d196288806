"""Contamination audit: tests of whether a benchmark was seen in training, each with what it does not show.

None of them proves that a score is inflated, and a large p does not rule out contamination: a file that was read once,
out of order, or as paraphrases leaves no trace in log-likelihoods.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial

import numpy as np

from assaymark.audit.items import Item, items_of
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.min_k import MembershipScores, membership_scores
from assaymark.audit.order_test import OrderSettings, order_test
from assaymark.audit.overlap import WORDS, Corpus, overlap_with
from assaymark.audit.perturbed import TwinTest, compare_twins, number_twins, option_twins, twin_test
from assaymark.audit.stored import Keep, compute_only
from assaymark.errors import DataError, UsageError
from assaymark.models.local.token_moments import check_token_moments
from assaymark.models.model import Model
from assaymark.records import JsonValue, ModelIdentity, TaskPlan
from assaymark.statistics.multiplicity import holm
from assaymark.statistics.unpaired import compare_means
from assaymark.tasks.bound import BoundTask

__all__ = [
    "TESTS",
    "ContaminationSettings",
    "ContaminationTest",
    "audit_contamination",
    "check_tests",
    "corrected",
    "settings_json",
]

TESTS = ("order", "options", "numbers", "overlap", "min-k")

NOT_SHOWN = {
    "order": "A small p indicates that the file's order was seen, not that the score is inflated; a large one cannot "
    "rule out rows read once, out of order or reworded, and an order that is not arbitrary gives a small p by itself.",
    "options": "A small p indicates that the published order of options was seen, if that order is arbitrary; it says "
    "nothing about the answers, and a large one cannot rule out questions read without their options.",
    "numbers": "True numbers can be likelier than invented ones to a model that never saw the question: without a "
    "control model or control task this p alone is no evidence.",
    "overlap": "An n-gram in the corpus shows that the text is in it, not that the model was trained on it or profited "
    "from it; no hit cannot rule out paraphrases, translations or other corpora.",
    "min-k": "These scores separate seen from unseen texts of one distribution hardly better than chance (Duan et al. "
    "2024), and any two distributions differ: use them with a control of the same kind, never as a verdict.",
}


@dataclass(frozen=True, slots=True)
class ContaminationSettings:
    """Which tests to run, and their sizes."""

    tests: tuple[str, ...] = ()  # empty: all that can be run
    order: OrderSettings = field(default_factory=OrderSettings)
    corpus: Corpus | None = None
    n_words: int = WORDS  # of an n-gram
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ContaminationTest:
    """Result of one test on one task."""

    task: str
    test: str
    statistic_name: str
    statistic: float | None  # None: not tested; `notes` give the reason
    n: int
    p: float | None  # one-sided; None for a test without inference
    p_holm: float | None = None  # corrected over the tasks of this audit
    control_p: float | None = None  # p of the same test on a control
    notes: tuple[str, ...] = ()
    items: tuple[tuple[int, JsonValue], ...] = ()  # (sample index, value), for the JSON file

    @property
    def not_shown(self) -> str:
        """What this test does not show."""
        return NOT_SHOWN[self.test]


_Found = tuple[ContaminationTest, ...]
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Audit:
    """Arguments that the tests of one audit share."""

    likelihoods: Likelihoods
    settings: ContaminationSettings
    control: Likelihoods | None
    control_items: Sequence[Item]
    notify: Notify


def audit_contamination(
    likelihoods: Likelihoods,
    tasks: Sequence[BoundTask],
    settings: ContaminationSettings,
    *,
    control: Likelihoods | None = None,
    control_task: BoundTask | None = None,
    notify: Notify = lambda _: None,
    keep: Keep = compute_only,
) -> list[ContaminationTest]:
    """Run the tests on every task and correct each test's p over the tasks.

    Args:
        likelihoods: the model, queried for log-likelihoods only.
        tasks: bound without shots.
        settings: which tests to run, and their sizes.
        control: a model that cannot have seen the tasks; the number test then tests the difference from it.
        control_task: samples of the same kind that cannot have been seen; Min-K is then compared with them.
        notify: called with a line before each test.
        keep: returns a test's stored results, or computes and stores them.

    Raises: as `check_tests`.
    """
    check_tests(settings, likelihoods.model)
    control_items = items_of(control_task) if control_task is not None else []
    audit = _Audit(likelihoods, settings, control, control_items, notify)
    return corrected([test for bound in tasks for test in _tests_of(audit, bound, keep)])


def _tests_of(audit: _Audit, bound: BoundTask, keep: Keep) -> Iterator[ContaminationTest]:
    """Yield the results of a task's tests; its samples are read only if a result is not stored."""
    items = cache(lambda: items_of(bound))
    for test in audit.settings.tests or TESTS:
        if test != "overlap" or audit.settings.corpus is not None:
            yield from keep(
                f"{bound.plan.name}: {test}", _Found, partial(_one_test, audit, bound.plan.name, test, items)
            )


def settings_json(
    settings: ContaminationSettings, control: ModelIdentity | None, control_task: TaskPlan | None
) -> dict[str, JsonValue]:
    """Return the settings that determine an audit's results besides model and tasks.

    A corpus is identified by its files' names, sizes and modification times.
    """
    files = [] if settings.corpus is None else settings.corpus.files()
    return {
        "tests": list(settings.tests),
        "order": asdict(settings.order),
        "n_words": settings.n_words,
        "seed": settings.seed,
        "corpus": [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files],
        "control": None if control is None else {**asdict(control), "name": None},
        "control_task": None if control_task is None else asdict(control_task),
    }


def check_tests(settings: ContaminationSettings, model: Model) -> None:
    """Check that the named tests can be run, before the model is queried.

    Raises: UsageError for an unknown test, a corpus without text, or Min-K with a model that returns sums only.
    """
    unknown = [name for name in settings.tests if name not in TESTS]
    if unknown:
        raise UsageError(f"unknown test '{unknown[0]}'; expected {', '.join(TESTS)}")
    if settings.corpus is not None:
        settings.corpus.files()
    if "min-k" in settings.tests:
        check_token_moments(model)


def _one_test(audit: _Audit, task: str, test: str, items: Callable[[], Sequence[Item]]) -> _Found:
    audit.notify(f"{task}: {test}")
    run = {"order": _order, "options": _options, "numbers": _numbers, "overlap": _overlap, "min-k": _min_k}[test]
    try:
        return tuple(run(audit, task, items()))
    except DataError as error:
        return (ContaminationTest(task, test, "", None, len(items()), None, notes=(str(error),)),)


def _order(audit: _Audit, task: str, items: Sequence[Item]) -> list[ContaminationTest]:
    found = order_test(audit.likelihoods, items, audit.settings.order, task)
    notes = [f"{found.rows_per_shard} rows per shard"]
    if found.sorted_by:
        columns = ", ".join(found.sorted_by)
        notes.append(f"the file is sorted by {columns}: only rows with equal values were exchanged")
    if found.control.p < 0.05:
        notes.append(f"the control (a shuffled file) has p {found.control.p:.3f}: 1 in 20 is below 0.05 by chance")
    return [
        ContaminationTest(
            task, "order", "t", found.found.statistic, found.found.n, found.found.p, control_p=found.control.p,
            notes=tuple(notes),
        )
    ]  # fmt: skip


def _options(audit: _Audit, task: str, items: Sequence[Item]) -> list[ContaminationTest]:
    twins = option_twins(items, task, audit.settings.seed)
    return [_of_twins(task, "options", compare_twins(audit.likelihoods, twins, f"{task}: options"), ())]


def _numbers(audit: _Audit, task: str, items: Sequence[Item]) -> list[ContaminationTest]:
    twins = number_twins(items, task, audit.settings.seed)
    name = f"{task}: numbers"
    found = compare_twins(audit.likelihoods, twins, name)
    if audit.control is None:
        return [_of_twins(task, "numbers", found, ("no control model: see below",))]
    control = compare_twins(audit.control, twins, name)
    of_control = dict(control.differences)
    excess = [(index, value - of_control[index]) for index, value in found.differences if index in of_control]
    tested = twin_test(excess)
    note = f"beyond {audit.control.model.identity.name}: mean {tested.t_test.mean:+.3g} nats"
    return [replace(_of_twins(task, "numbers", tested, (note,)), control_p=control.t_test.p)]


def _of_twins(task: str, test: str, found: TwinTest, notes: tuple[str, ...]) -> ContaminationTest:
    share = f"{found.sign_test.statistic:.0%} of samples likelier as published (sign test p {found.sign_test.p:.3g})"
    return ContaminationTest(
        task, test, "t", found.t_test.statistic, found.t_test.n, found.t_test.p, notes=(share, *notes),
        items=tuple(found.differences),
    )  # fmt: skip


def _overlap(audit: _Audit, task: str, items: Sequence[Item]) -> list[ContaminationTest]:
    corpus = audit.settings.corpus
    if corpus is None:
        return []
    found = overlap_with(items, corpus, audit.settings.n_words)
    notes = [f"{len(found.found):,} samples, {len(found.mostly):,} of them nearly complete",
             f"{found.n_corpus_words:,} words read"]  # fmt: skip
    if found.n_short:
        notes.append(f"{found.n_short:,} samples are shorter than {found.n_words} words and were not searched for")
    share = len(found.found) / found.n if found.n else None
    items_found = tuple((index, index in found.mostly) for index in found.found)
    name = f"share with {found.n_words} words in a row"
    return [ContaminationTest(task, "overlap", name, share, found.n, None, notes=tuple(notes), items=items_found)]


def _min_k(audit: _Audit, task: str, items: Sequence[Item]) -> list[ContaminationTest]:
    try:
        own = membership_scores(audit.likelihoods.model, [item.text for item in items])
    except UsageError as error:  # this kind of model returns sums only: the other tests are still valid
        raise DataError(str(error)) from error
    of_control = membership_scores(audit.likelihoods.model, [item.text for item in audit.control_items])
    listed = tuple((item.index, _score_json(score)) for item, score in zip(items, own, strict=True))
    results = []
    for name, key in (("Min-20%", "min_k"), ("Min-20%++", "min_k_plus")):
        values = [value for score in own if (value := getattr(score, key)) is not None]
        controls = [value for score in of_control if (value := getattr(score, key)) is not None]
        mean = float(np.mean(values)) if values else None
        result = ContaminationTest(task, "min-k", name, mean, len(values), None, items=listed if key == "min_k" else ())
        if len(controls) >= 2 and len(values) >= 2:
            apart = compare_means(np.array(controls), np.array(values))
            p = apart.p / 2 if apart.difference > 0 else 1 - apart.p / 2
            interval = f"{apart.low:+.3g} to {apart.high:+.3g}"
            note = f"{name} {apart.difference:+.3g} ({interval}) compared with {len(controls)} control samples"
            result = replace(result, p=p, notes=(note,))
        else:
            result = replace(result, notes=("no control samples: nothing to compare with",))
        results.append(result)
    return results


def _score_json(score: MembershipScores) -> JsonValue:
    return {name: getattr(score, name) for name in score.__slots__}


def corrected(found: Sequence[ContaminationTest]) -> list[ContaminationTest]:
    """Return the tests with p corrected by Holm's method, for each kind of test over its tasks."""
    adjusted: dict[int, float] = {}
    for key in dict.fromkeys((test.test, test.statistic_name) for test in found):
        indices = [i for i, test in enumerate(found) if (test.test, test.statistic_name) == key and test.p is not None]
        values = [p for i in indices if (p := found[i].p) is not None]
        if values:
            adjusted.update(zip(indices, holm(values).tolist(), strict=True))
    return [replace(test, p_holm=adjusted.get(i)) for i, test in enumerate(found)]
