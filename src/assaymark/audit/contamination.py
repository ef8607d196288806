"""Contamination audit: tests of whether a benchmark was seen in training, each with its limits.

None of them proves that a score is inflated, and a large p does not rule out contamination: a file that was read once,
out of order, or as paraphrases leaves no trace in log-likelihoods.

Membership scores are the likelihood of a text, and that of its least likely tokens. They hardly separate seen from
unseen samples of one distribution (Duan et al. 2024: near chance). So no p is computed for a set alone, only for its
difference from a control set that cannot have been seen. They need log-probabilities token by token, which only a model
in this process gives.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from assaymark.audit.items import AuditItem, items_of
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.option_orders import OrderSettings, order_test
from assaymark.audit.overlap import Corpus, overlap_with
from assaymark.audit.perturbed import TwinTest, compare_twins, number_twins, option_twins, twin_test
from assaymark.audit.stored import Keep, compute_only
from assaymark.errors import DataError, UsageError
from assaymark.models.local.local_model import LocalModel
from assaymark.models.model import Model
from assaymark.records import JsonValue, ModelIdentity, TaskPlan
from assaymark.statistics.groups import compare_means
from assaymark.statistics.multiplicity import holm
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.training_examples import NGRAM_WORDS

if TYPE_CHECKING:
    from assaymark.models.local.own_engine import OwnEngine

SHARE = 0.2  # k of Min-K%, as published


@dataclass(frozen=True, slots=True)
class _TextMoments:
    """Token statistics of one text, up to the model's maximum length.

    Shapes: each [tokens]. Units: nats.
    """

    logprobs: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]  # of log-probabilities, as the model expected them at that place
    deviations: npt.NDArray[np.float64]


def _check_token_moments(model: Model) -> LocalModel:
    """Return the model if it provides log-probabilities token by token; loads no weights.

    Raises: UsageError if it does not.
    """
    if not isinstance(model, LocalModel) or not model.is_in_process:
        raise UsageError(
            f"model '{model.identity.name}' ({model.identity.kind}) provides only sums of log-probabilities, and Min-K "
            "needs them token by token: use a local model without --workers, --cluster or vLLM"
        )
    return model


def token_moments_of(model: Model, texts: Sequence[str]) -> Iterator[_TextMoments]:
    """Yield each text's token statistics, starting from the model's beginning-of-text token.

    Raises: UsageError for a model outside this process, or whose tokenizer has no beginning-of-text token.
    """
    local = _check_token_moments(model)
    engine = cast("OwnEngine", local.engine)  # of a model in this process
    prefix = local.encoder.prefix_token_id
    if prefix is None:
        raise UsageError("this tokenizer has neither BOS nor EOS to begin a text with; set prefix_token_id=")
    for tokens in local.encoder.encode_all(list(texts)):
        kept = tokens[: local.max_length]
        sequence = kept if kept.size and int(kept[0]) == prefix else np.concatenate([[prefix], kept])
        if sequence.size < 2:
            yield _TextMoments(np.zeros(0), np.zeros(0), np.zeros(0))
            continue
        moments = engine.token_moments(sequence)
        yield _TextMoments(moments.logprobs, moments.means, moments.deviations)


@dataclass(frozen=True, slots=True)
class MembershipScores:
    """Scores of one text. Higher is stronger evidence of membership, except `bits_per_byte`; None without tokens."""

    min_k: float | None  # mean of the lowest 20% of token log-probabilities
    min_k_plus: float | None  # the same after standardising by the model's own distribution at each token
    mean_nats: float | None  # per token
    nats_per_zip_byte: float | None
    bits_per_byte: float | None  # lower is likelier; does not depend on the tokenizer


def membership_scores(model: Model, texts: Sequence[str]) -> list[MembershipScores]:
    """Return each text's scores.

    Raises: UsageError for a model that returns sums of log-probabilities only.
    Source: Shi et al. 2023 (Min-K%, arXiv 2310.16789); Zhang et al. 2024 (Min-K%++, arXiv 2404.02936); Carlini et al.
    2021 (zlib).
    """
    return [_scores(text, moments) for text, moments in zip(texts, token_moments_of(model, texts), strict=True)]


def _scores(text: str, moments: _TextMoments) -> MembershipScores:
    if not moments.logprobs.size:
        return MembershipScores(None, None, None, None, None)
    count = max(1, math.ceil(SHARE * moments.logprobs.size))
    standard = (moments.logprobs - moments.means) / np.maximum(moments.deviations, 1e-6)
    total = float(moments.logprobs.sum())
    raw = text.encode("utf-8", "surrogatepass")
    return MembershipScores(
        min_k=float(np.sort(moments.logprobs)[:count].mean()),
        min_k_plus=float(np.sort(standard)[:count].mean()),
        mean_nats=total / moments.logprobs.size,
        nats_per_zip_byte=total / len(zlib.compress(raw)),
        bits_per_byte=-total / math.log(2) / max(len(raw), 1),
    )


TESTS = ("order", "options", "numbers", "overlap", "min-k")
NOT_SHOWN = {
    "order": "A small p indicates that the file's order was seen, not that the score is inflated; a large one cannot "
    "rule out rows read once, out of order or reworded, and an order that is not arbitrary gives a small p by itself.",
    "options": "A small p indicates that the published order of options was seen, if that order is arbitrary; it says "
    "nothing about the answers, and a large one cannot rule out questions read without their options.",
    "numbers": "True numbers can be likelier than invented ones to a model that never saw the question: without a "
    "control model or control task this p alone is not evidence.",
    "overlap": "An n-gram in the corpus shows that the text is in it, not that the model was trained on it or profited "
    "from it; no hit cannot rule out paraphrases, translations or other corpora.",
    "min-k": "These scores separate seen from unseen texts of one distribution hardly better than chance (Duan et al. "
    "2024), and any two distributions differ: use them with a control of the same kind, never as a verdict.",
}


@dataclass(frozen=True, slots=True)
class ContaminationSettings:
    """The tests to run, and their sizes."""

    tests: tuple[str, ...] = ()  # empty: all that can be run
    order: OrderSettings = field(default_factory=OrderSettings)
    corpus: Corpus | None = None
    n_words: int = NGRAM_WORDS  # of an n-gram
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
        """The limits of what this test shows."""
        return NOT_SHOWN[self.test]


_Found = tuple[ContaminationTest, ...]
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Audit:
    """Arguments that the tests of one audit share."""

    likelihoods: Likelihoods
    settings: ContaminationSettings
    control: Likelihoods | None
    control_items: Sequence[AuditItem]
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
        _check_token_moments(model)


def _one_test(audit: _Audit, task: str, test: str, items: Callable[[], Sequence[AuditItem]]) -> _Found:
    audit.notify(f"{task}: {test}")
    run = {"order": _order, "options": _options, "numbers": _numbers, "overlap": _overlap, "min-k": _min_k}[test]
    try:
        return tuple(run(audit, task, items()))
    except DataError as error:
        return (ContaminationTest(task, test, "", None, len(items()), None, notes=(str(error),)),)


def _order(audit: _Audit, task: str, items: Sequence[AuditItem]) -> list[ContaminationTest]:
    test = order_test(audit.likelihoods, items, audit.settings.order, task)
    notes = [f"{test.rows_per_shard} rows per shard"]
    if test.sorted_by:
        columns = ", ".join(test.sorted_by)
        notes.append(f"the file is sorted by {columns}: only rows with equal values were exchanged")
    if test.control.p < 0.05:
        notes.append(f"the control (a shuffled file) has p {test.control.p:.3f}: 1 in 20 is below 0.05 by chance")
    return [
        ContaminationTest(
            task, "order", "t", test.of_file.statistic, test.of_file.n, test.of_file.p, control_p=test.control.p,
            notes=tuple(notes),
        )
    ]  # fmt: skip


def _options(audit: _Audit, task: str, items: Sequence[AuditItem]) -> list[ContaminationTest]:
    twins = option_twins(items, task, audit.settings.seed)
    return [_of_twins(task, "options", compare_twins(audit.likelihoods, twins, f"{task}: options"), ())]


def _numbers(audit: _Audit, task: str, items: Sequence[AuditItem]) -> list[ContaminationTest]:
    twins = number_twins(items, task, audit.settings.seed)
    name = f"{task}: numbers"
    test = compare_twins(audit.likelihoods, twins, name)
    if audit.control is None:
        return [_of_twins(task, "numbers", test, ("no control model: see below",))]
    control = compare_twins(audit.control, twins, name)
    of_control = dict(control.differences)
    excess = [(index, value - of_control[index]) for index, value in test.differences if index in of_control]
    tested = twin_test(excess)
    note = f"beyond {audit.control.model.identity.name}: mean {tested.t_test.mean:+.3g} nats"
    return [replace(_of_twins(task, "numbers", tested, (note,)), control_p=control.t_test.p)]


def _of_twins(task: str, test: str, result: TwinTest, notes: tuple[str, ...]) -> ContaminationTest:
    share = f"{result.sign_test.statistic:.0%} of samples likelier as published (sign test p {result.sign_test.p:.3g})"
    return ContaminationTest(
        task, test, "t", result.t_test.statistic, result.t_test.n, result.t_test.p, notes=(share, *notes),
        items=tuple(result.differences),
    )  # fmt: skip


def _overlap(audit: _Audit, task: str, items: Sequence[AuditItem]) -> list[ContaminationTest]:
    corpus = audit.settings.corpus
    if corpus is None:
        return []
    overlap = overlap_with(items, corpus, audit.settings.n_words)
    notes = [f"{len(overlap.overlapping):,} samples, {len(overlap.mostly):,} of them nearly complete",
             f"{overlap.n_corpus_words:,} words read"]  # fmt: skip
    if overlap.n_short:
        notes.append(f"{overlap.n_short:,} samples are shorter than {overlap.n_words} words and were not searched for")
    share = len(overlap.overlapping) / overlap.n if overlap.n else None
    items_found = tuple((index, index in overlap.mostly) for index in overlap.overlapping)
    name = f"share with {overlap.n_words} words in a row"
    return [ContaminationTest(task, "overlap", name, share, overlap.n, None, notes=tuple(notes), items=items_found)]


def _min_k(audit: _Audit, task: str, items: Sequence[AuditItem]) -> list[ContaminationTest]:
    try:
        own = membership_scores(audit.likelihoods.model, [item.text for item in items])
    except UsageError as error:  # this kind of model returns sums only: the other tests are still valid
        raise DataError(str(error)) from error
    of_control = membership_scores(audit.likelihoods.model, [item.text for item in audit.control_items])
    listed = tuple(
        (item.index, {name: getattr(score, name) for name in score.__slots__})
        for item, score in zip(items, own, strict=True)
    )
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
            is_first = key == "min_k"  # both statistics lack the same samples: one note
            result = replace(result, notes=("no control samples: nothing to compare with",) if is_first else ())
        results.append(result)
    return results


def corrected(tests: Sequence[ContaminationTest]) -> list[ContaminationTest]:
    """Return the tests with p corrected by Holm's method, for each kind of test over its tasks."""
    adjusted: dict[int, float] = {}
    for key in dict.fromkeys((test.test, test.statistic_name) for test in tests):
        indices = [i for i, test in enumerate(tests) if (test.test, test.statistic_name) == key and test.p is not None]
        values = [p for i in indices if (p := tests[i].p) is not None]
        if values:
            adjusted.update(zip(indices, holm(values).tolist(), strict=True))
    return [replace(test, p_holm=adjusted.get(i)) for i, test in enumerate(tests)]
