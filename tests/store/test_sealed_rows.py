"""Rows of sealed tasks are recognised in other texts, and nothing else is."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.records import Sample
from assaymark.store import Store
from assaymark.store.public_store import public_store
from assaymark.store.sealed_rows import Recogniser, digest_rows, words_of
from assaymark.store.sealed_tasks import SealedTask, learn
from tests.store import examples

KEY = "ab" * 32
ROWS = [
    {"question": "Which court hears appeals first?", "A": "The tax court", "B": "The court of appeal", "answer": "B"},
    {"question": "Which court hears patents?", "A": "The patent court", "B": "The tax court", "answer": "A"},
    {"question": "3+4", "answer": "7"},
]


def made(rows: list[dict[str, str]], closed: list[bool] | None = None) -> Recogniser:
    """Return what recognises rows with a column `question`."""
    return Recogniser({"sealed": digest_rows(KEY, [(row, row["question"]) for row in rows], closed)})


@pytest.mark.parametrize(
    "text",
    [
        "Question: Which court hears appeals first?\nAnswer: B\n\nQuestion: Which bird flies?\nAnswer:",
        "WHICH  court\n hears\u00a0appeals, first",
        "which court hears patents",
        '{"id": "1", "inputs": {"q": "Which court\\nhears patents?"}, "expected": "A"}',
        '{"expected": 7, "id": "9", "inputs": "3 + 4"}',
    ],
)
def test_a_row_is_recognised_in_other_clothes(text: str) -> None:
    """Shots, other cases and white space, other columns and short rows as a whole are recognised."""
    assert made(ROWS).sources(text) == {"sealed"}


@pytest.mark.parametrize(
    "text",
    ["", "Which court hears appeals", "the tax court", "The court of appeal hears it", "3+4", "7", '{"a": [3', "[]",
     '{"inputs": "3 + 4", "expected": "8"}', "Which court hears appeals last?"],
)  # fmt: skip
def test_nothing_else_is_recognised(text: str) -> None:
    """Parts of a row, its options and values that say little alone are not recognised."""
    assert made(ROWS).sources(text) == frozenset()


def test_a_text_of_several_rows_identifies_none() -> None:
    """A question that rows share, as over different passages, is recognised in none; the passages are."""
    rows = [{"question": "Is this argument valid?", "passage": f"Argument number {n} is about a very odd thing"}
            for n in range(3)]  # fmt: skip
    recogniser = made(rows)
    assert recogniser.sources("Is this argument valid?") == frozenset()
    assert recogniser.sources("Read: argument number 2 is about a very odd thing.") == {"sealed"}


def test_rows_of_a_preview_are_not_recognised() -> None:
    """Only the rows that are withheld count."""
    recogniser = made(ROWS, [False, True, True])
    assert recogniser.sources("Which court hears appeals first?") == frozenset()
    assert recogniser.sources("Which court hears patents?") == {"sealed"}


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    """A Chinese question is recognised within a longer text without spaces."""
    recogniser = made([{"question": "哪个法院首先审理上诉案件？", "answer": "B"}])
    assert recogniser.sources("问题：哪个法院首先审理上诉案件？答案：B") == {"sealed"}
    assert recogniser.sources("哪个法院首先审理专利案件？") == frozenset()


WORDS = st.lists(st.sampled_from([*string.ascii_lowercase[:4], "é", "法"]), max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_the_search_finds_what_a_plain_one_does(questions: list[list[str]], words: list[str]) -> None:
    """Oracle: each question is looked for at each position, without digests."""
    texts = [" ".join(f"word{word}" for word in question) for question in questions]
    hay = " ".join(f"word{word}" for word in words)
    recogniser = made([{"question": text, "n": f"{n}"} for n, text in enumerate(texts)])

    def holds(text: str) -> bool:
        own, all_words = words_of(text), words_of(hay)
        is_long = len(own) >= 3 and sum(map(len, own)) >= 10 and texts.count(text) == 1
        return is_long and any(all_words[at : at + len(own)] == own for at in range(len(all_words)))

    assert bool(recogniser.sources(hay)) == any(map(holds, texts))


def test_a_search_that_was_killed_is_made_again(store: Store) -> None:
    """Rows that were learnt, while stored runs were not yet compared with them, are looked for by the next run."""
    run = examples.fill(store, examples.plan(n_samples=4))
    task = store.run(run).tasks[0]
    samples = [record.sample for record in store.samples(run, task) if record.sample is not None]
    seal = SealedTask("other", "sha256:" + "0" * 64)
    store.seals.put(seal)
    assert learn(store.database, seal.dataset_hash, samples, lambda _: False, anew=False)  # killed after it
    assert public_store(store).why_withheld(run, task) is None
    assert learn(store.database, seal.dataset_hash, samples, lambda _: False, anew=False)  # nothing new, not searched
    store.seals.learn_missing()
    assert public_store(store).why_withheld(run, task) is not None
    assert not learn(store.database, seal.dataset_hash, samples, lambda _: False, anew=False)
    assert store.verify() == []


def test_a_row_nested_as_deep_as_json_may_be_is_read() -> None:
    """A text of a request is not trusted: depth ends no run."""
    depth = 900
    text = '{"a": ' * depth + '"Which court hears patents?"' + "}" * depth
    assert made(ROWS).sources(text) == {"sealed"}


def test_runs_stored_before_and_after_are_found(store: Store) -> None:
    """A seal of rows under another hash and name withholds a run, stored earlier or later, until it is revealed."""
    earlier = examples.fill(store, examples.plan(n_samples=4))
    task = store.run(earlier).tasks[0]
    samples = [record.sample for record in store.samples(earlier, task) if record.sample is not None]
    assert len(samples) == 4
    seal = SealedTask("other", "sha256:" + "0" * 64)
    store.seals.put(seal)
    assert public_store(store).why_withheld(earlier, task) is None
    copies = [Sample("other", 0, {"text": f"long enough to be told apart {n}", "row": dict(own.row)}, own.sha256)
              for n, own in enumerate(samples)]  # fmt: skip
    store.seals.learn_rows(seal.dataset_hash, copies)
    store.seals.learn_rows(seal.dataset_hash, samples[:1])
    assert public_store(store).why_withheld(earlier, task) is not None
    assert public_store(store).run(earlier).plan.tasks[0].dataset_hash.startswith("(withheld")
    assert all(record.is_withheld for record in public_store(store).samples(earlier, task))
    store.remove(earlier)
    assert store.seals.copies() == {}
    later = examples.fill(store, examples.plan(n_samples=4))
    assert public_store(store).why_withheld(later, task) is not None
    assert store.verify() == []
    store.seals.put(SealedTask("other", seal.dataset_hash, revealed_at="2026-01-01"))
    assert public_store(store).why_withheld(later, task) is None
    assert store.seals.recogniser() is None
