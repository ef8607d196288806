"""The contamination tests on a model trained here, with k copies of the file in its training data."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assaymark.audit.items import AuditItem
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.option_orders import JOINT, OrderSettings, order_test, sorted_by
from assaymark.audit.overlap import Corpus, overlap_with
from assaymark.audit.perturbed import compare_twins, number_twins, option_twins
from assaymark.errors import DataError, UsageError
from assaymark.models.fake import FakeModel
from tests.audit.counting_model import CountingModel
from tests.audit.made_items import base_text, made_items

SETTINGS = OrderSettings(n_shards=8, n_shuffles=6)
FILES = 50


def file_text(items: list[AuditItem]) -> str:
    """Return the file as it would occur in a corpus: rows in their order."""
    return JOINT.join(item.text for item in items)


def listed_text(items: list[AuditItem]) -> str:
    """Return the file with its options listed."""
    options = ["\n".join(f"{m}. {o}" for m, o in zip("ABCD", item.options, strict=True)) for item in items]
    return "\n".join(f"{item.question}\n{listed}" for item, listed in zip(items, options, strict=True))


def distance_from_uniform(p_values: list[float]) -> float:
    """Return Kolmogorov's distance between p-values and the uniform distribution."""
    ordered = np.sort(p_values)
    n = len(ordered)
    return float(max(np.max(np.arange(1, n + 1) / n - ordered), np.max(ordered - np.arange(n) / n)))


@pytest.mark.slow
def test_the_order_tests_p_is_uniform_where_nothing_was_planted() -> None:
    """Over 50 files that the model never saw, p and the control's p are uniformly distributed."""
    likelihoods = Likelihoods(CountingModel().train(base_text()))
    tests = [order_test(likelihoods, made_items(seed, 24), SETTINGS, f"file {seed}") for seed in range(FILES)]
    limit = 1.63 / FILES**0.5  # Kolmogorov's 1% point
    assert distance_from_uniform([test.of_file.p for test in tests]) < limit
    assert distance_from_uniform([test.control.p for test in tests]) < limit


@pytest.mark.slow
def test_the_order_tests_p_falls_with_the_number_of_copies() -> None:
    """The statistic grows with the number of planted copies, and the shuffled control detects none."""
    items = made_items(7)
    results = {}
    for copies in (0, 1, 4, 16):
        model = CountingModel().train(base_text())
        for _ in range(copies):
            model.train(file_text(items))
        results[copies] = order_test(Likelihoods(model), items, SETTINGS, "planted")
    statistics = [test.of_file.mean for test in results.values()]
    assert results[0].of_file.p > 0.01
    assert statistics == sorted(statistics)
    assert results[4].of_file.p < 1e-4
    assert results[16].control.p > 0.01


def test_options_in_the_published_order_are_likelier_only_where_planted() -> None:
    """The option test's p is large without a copy and tiny with four copies."""
    items = made_items(3)
    twins = option_twins(items, "made")
    clean = compare_twins(Likelihoods(CountingModel().train(base_text())), twins)
    model = CountingModel().train(base_text())
    for _ in range(4):
        model.train(listed_text(items))
    planted = compare_twins(Likelihoods(model), twins)
    assert clean.t_test.p > 0.01
    assert planted.t_test.p < 1e-6
    assert planted.sign_test.p < 1e-6


def test_copies_of_a_sample_are_no_further_evidence() -> None:
    """A file with every row twice has the p of the file with each once."""
    items = made_items(3)
    copies = [*items, *(replace(item, index=item.index + 100) for item in items)]
    assert option_twins(copies, "made") == option_twins(items, "made")
    assert number_twins(copies, "made") == number_twins(items, "made")


def test_number_twins_change_numbers_and_nothing_else() -> None:
    """A twin has other digits in the same positions, and the same text around them."""
    items = made_items(5, 12)
    for twin, item in zip(number_twins(items, "made"), items, strict=True):
        other = twin.context + twin.others[0]
        assert twin.context + twin.published == item.text
        assert [c.isdigit() for c in other] == [c.isdigit() for c in item.text]
        assert other != item.text
        assert "".join(c for c in other if not c.isdigit()) == "".join(c for c in item.text if not c.isdigit())


@pytest.mark.slow
def test_a_sorted_file_is_detected_and_shuffled_within_equal_rows() -> None:
    """A column in which neighbouring rows are equal is reported, and rows are shuffled within its values only."""
    items = made_items(11)
    by_subject = [
        AuditItem(i.index, {**i.row, "subject": "ab"[i.index >= 20]}, i.request, i.text, i.question, i.options, i.gold)
        for i in items
    ]
    assert sorted_by(by_subject) == ("subject",)
    assert sorted_by(items) == ()
    result = order_test(Likelihoods(CountingModel().train(base_text())), by_subject, SETTINGS, "sorted")
    assert result.sorted_by == ("subject",)


def test_rows_that_do_not_fit_are_refused() -> None:
    """The order test raises an error if two rows do not fit the context, or there are too few shards."""
    with pytest.raises(DataError, match="two rows"):
        order_test(Likelihoods(CountingModel(max_length=40)), made_items(1), SETTINGS, "long")
    with pytest.raises(DataError, match="shards"):
        order_test(Likelihoods(CountingModel()), made_items(1, 4), SETTINGS, "few")


def test_failed_queries_are_excluded() -> None:
    """A model that fails on some queries gives fewer differences, never a low likelihood."""
    model = FakeModel(fail=0.02)
    result = compare_twins(Likelihoods(model), option_twins(made_items(2), "made"))
    assert result.t_test.n < 40
    assert np.isfinite(result.t_test.mean)


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.jsonl", "corpus.txt.gz"])
def test_overlap_finds_samples_in_a_corpus(tmp_path: Path, name: str) -> None:
    """A planted sample is found despite other case and punctuation; the others are not found."""
    texts = [f"{i} and then one two three four five six seven eight nine ten" for i in range(20)]
    items = [AuditItem(i, {}, made_items(0, 1)[0].request, text) for i, text in enumerate(texts)]
    planted = f"before. {items[3].text.upper().replace(' ', ',  ')}! after"
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(planted.encode()))
    else:
        path.write_text(json.dumps({"text": planted}) + "\n" if name.endswith("jsonl") else planted)
    result = overlap_with(items, Corpus(tmp_path), n_words=13)
    assert result.overlapping == result.mostly == (3,)
    assert len(overlap_with(items, Corpus(path), n_words=10).overlapping) == 20
    with pytest.raises(UsageError):
        overlap_with(items, Corpus(tmp_path / "nothing"))
