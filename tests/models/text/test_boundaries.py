"""Safe splits: patterns that are proved safe are safe, and what is not understood is not cut."""

import pytest

from evalstone.models.text.boundaries import SplitRule, split_rule, pattern_is_safe
from tests.models.text.tokenizers_for_tests import LLAMA3, MADE, QWEN2, load

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.mark.parametrize("pattern", [GPT2, LLAMA3, QWEN2, O200K])
def test_patterns_of_the_field_are_proved(pattern: str) -> None:
    """The pre-tokenisation patterns of GPT-2, Llama 3, Qwen 2 and o200k never join a word with the next space."""
    assert pattern_is_safe(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+ \w+|\s+",  # two words
        r"[^a]+",  # anything, spaces too
        r".+",
        r"\p{L}+\s?|\s+",  # the space behind a word
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
def test_doubtful_patterns_are_not_cut(pattern: str) -> None:
    """A pattern that joins a word with a space, or that is not understood, is unsafe."""
    assert not pattern_is_safe(pattern)


@pytest.mark.parametrize("name", sorted(set(MADE) - {"wordpiece"}))
def test_common_tokenizers_have_a_rule(name: str) -> None:
    """Byte-level BPE and SentencePiece's BPE may be cut."""
    pytest.importorskip("tokenizers")
    assert split_rule(load(name).backend_tokenizer.to_str()) is not None


def test_a_vocabulary_with_words_that_hold_spaces_has_no_rule() -> None:
    """A token that spans two words forbids every cut."""
    pytest.importorskip("tokenizers")
    description = load("llama2").backend_tokenizer.to_str()
    assert split_rule(description.replace('"▁the"', '"t▁he"', 1)) is None


def test_an_added_token_that_holds_a_space_forbids_cuts() -> None:
    """Added tokens are found before anything else, so one with a space inside could be cut in two."""
    pytest.importorskip("tokenizers")
    tokenizer = load("gpt2")
    tokenizer.add_tokens(["two words"])
    assert split_rule(tokenizer.backend_tokenizer.to_str()) is None


def test_cuts_lie_before_single_spaces_between_visible_characters() -> None:
    """First and last safe place of a text; double spaces, line ends and ends of added tokens are passed over."""
    rule = SplitRule(drops_space=False, not_before=frozenset(">"), not_after=frozenset("<"))
    text = "<s> a  b\n c d e <s> f\n g "
    assert [at for at in range(len(text)) if rule.is_safe(text, at)] == [11, 13]
    assert (rule.first_split(text), rule.last_split(text)) == (11, 13)
    assert (rule.first_split("word"), rule.last_split(" word "), rule.first_split("")) == (None, None, None)
