"""Safe splits: patterns that are proved safe are safe, and anything not recognised is not split."""

import pytest

from assaymark.models.text.boundaries import SplitRule, pattern_is_safe, split_rule
from tests.models.text.tokenizers_for_tests import LLAMA3, MADE, QWEN2, load

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.mark.parametrize("pattern", [GPT2, LLAMA3, QWEN2, O200K])
def test_common_patterns_are_proved(pattern: str) -> None:
    """The pre-tokenisation patterns of GPT-2, Llama 3, Qwen 2 and o200k never join a word with the next space."""
    assert pattern_is_safe(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+ \w+|\s+",  # two words
        r"[^a]+",  # anything, spaces too
        r".+",
        r"\p{L}+\s?|\s+",  # the space after a word
        r"\p{L}+(?!\s)|\s+",  # an unknown look-ahead
        r"\p{L}+[ -~]|\s+",  # a range that begins with the space
        r"\p{L}+\P{L}|\s+",
        r"\p{L}+\x20",
        r"(\p{L}+ )+",
        r"\p{L}+[[:space:]]",
        r"\p{Separator}*\p{L}\p{Separator}",
        r"a\N",
        r"[a",
    ],
)
def test_doubtful_patterns_are_not_split(pattern: str) -> None:
    """A pattern that joins a word with a space, or that is not recognised, is unsafe."""
    assert not pattern_is_safe(pattern)


@pytest.mark.parametrize("name", sorted(set(MADE) - {"wordpiece"}))
def test_common_tokenizers_have_a_rule(name: str) -> None:
    """Byte-level BPE and SentencePiece's BPE may be split."""
    pytest.importorskip("tokenizers")
    assert split_rule(load(name).backend_tokenizer.to_str()) is not None


def test_a_vocabulary_with_words_that_contain_spaces_has_no_rule() -> None:
    """A token that spans two words forbids every split."""
    pytest.importorskip("tokenizers")
    description = load("llama2").backend_tokenizer.to_str()
    assert split_rule(description.replace('"▁the"', '"t▁he"', 1)) is None


def test_an_added_token_that_contains_a_space_forbids_splits() -> None:
    """Added tokens are matched before anything else, so one with a space inside could be split in two."""
    pytest.importorskip("tokenizers")
    tokenizer = load("gpt2")
    tokenizer.add_tokens(["two words"])
    assert split_rule(tokenizer.backend_tokenizer.to_str()) is None


def test_splits_are_before_single_spaces_between_visible_characters() -> None:
    """First and last safe position of a text; double spaces, line ends and ends of added tokens are skipped."""
    rule = SplitRule(drops_space=False, not_before=frozenset(">"), not_after=frozenset("<"))
    text = "<s> a  b\n c d e <s> f\n g "
    assert [at for at in range(len(text)) if rule.is_safe(text, at)] == [11, 13]
    assert (rule.first_split(text), rule.last_split(text)) == (11, 13)
    assert (rule.first_split("word"), rule.last_split(" word "), rule.first_split("")) == (None, None, None)
