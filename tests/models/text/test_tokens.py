"""Tokens: equal to lm-evaluation-harness's for every text, however much of the work is shared."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assaymark.models.text.tokens import ContinuationPair, Encoder, rolling_windows
from tests.models.text.tokenizers_for_tests import MADE, REAL, load

pytest.importorskip("transformers")
huggingface = pytest.importorskip("lm_eval.models.huggingface")
lm_eval_utils = pytest.importorskip("lm_eval.utils")
NAMES = (*MADE, *REAL)
CUTTING = ("gpt2", "gpt2-bos", "llama3", "qwen2", "llama2", "llama2-metaspace", "llama2-eos", "stories260K")


@cache
def tokenizer_named(name: str) -> Any:
    """Return a tokenizer, created or loaded once."""
    return load(name)


def oracle(name: str, add_bos_token: bool | None = None) -> Any:
    """Return lm-eval's own model class with only a tokenizer."""
    model = huggingface.HFLM.__new__(huggingface.HFLM)
    model.tokenizer = tokenizer_named(name)
    model.backend = "causal"
    model.add_bos_token = add_bos_token
    model.custom_prefix_token_id = None
    return model


def expected_pair(model: Any, context: str, continuation: str) -> tuple[list[int], list[int]] | None:
    """Return lm-eval's tokens of a pair, or None if it fails with an assertion or an index error."""
    taken: list[Any] = []
    model._loglikelihood_tokens = lambda requests, **_: taken.extend(requests)

    class Instance:
        args = (context, continuation)

    try:
        huggingface.TemplateLM.loglikelihood(model, [Instance()], disable_tqdm=True)
    except (AssertionError, IndexError):
        return None
    return taken[0][1], taken[0][2]


def check(name: str, pairs: list[ContinuationPair], add_bos_token: bool | None = None) -> None:
    """Compare all pairs, encoded in one call, with lm-eval's one by one; pairs that it cannot encode are skipped."""
    model = oracle(name, add_bos_token)
    encoder = Encoder(tokenizer_named(name), add_bos_token=add_bos_token)
    for pair, ours in zip(pairs, encoder.encode_pairs(pairs), strict=True):
        theirs = expected_pair(model, "".join(pair.segments), pair.continuation)
        if theirs is None or not theirs[0]:
            continue
        assert ours.context.tolist() == theirs[0], pair
        assert ours.scored.tolist() == theirs[1], pair


SNIPPETS = (
    "Question:",
    "\nAnswer:",
    " the dog",
    "Once upon a time",
    " A",
    " B",
    "A",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    " \n",
    "'s",
    " don't",
    "...",
    "?",
    " (",
    ")",
    "<s>",
    "</s>",
    " <s>",
    "<s> ",
    "▁",
    "é",
    "e\u0301",
    " \u0301",
    "東京",
    "😀",
    "\u00a0",
    "\u200b",
    "\u2003",
    "\x1c",
    "42",
    " 3",
    "1000000",
    "x" * 40,
    " _",
    "[inst]",
    "_[inst]",
    "\r\n",
    "\x00",
)
nasty = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=6)), max_size=6).map("".join)
segments = st.lists(nasty, min_size=1, max_size=5).map(tuple)


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_pairs_equal_lm_evals(name: str, data: st.DataObject) -> None:
    """Context and continuation get lm-eval's tokens for any text, whatever contexts are shared in the batch."""
    shots = data.draw(segments)
    pairs = []
    for _ in range(3):
        context = (*shots, data.draw(nasty))
        pairs += [ContinuationPair(context, data.draw(nasty)) for _ in range(2)]
    pairs.append(ContinuationPair(("",), data.draw(nasty)))
    check(name, pairs, data.draw(st.sampled_from([None, None, True, False])))


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_benchmark_prompts_equal_lm_evals(name: str) -> None:
    """Few-shot prompts with shared shots, as in benchmarks, get lm-eval's tokens."""
    shots = tuple(f"Question: Which is number {i} of the 12 apples?\nAnswer: the {i}th one.\n\n" for i in range(5))
    pairs = [
        ContinuationPair(
            ("The following are questions (with answers).\n\n", *shots, f"Question: How old is {who}?\nAnswer:"), choice
        )
        for who in ("Anna", "the queen's dog", "café 3.5")
        for choice in (" A", " B", " forty-two years", " (A)", "C", " ", "\nno")
    ]
    check(name, pairs)


@pytest.mark.parametrize("name", CUTTING)
def test_shots_are_encoded_once(name: str) -> None:
    """If the tokenizer allows a proof, 100 prompts with the same shots pass the shots to the tokenizer once."""
    encoder = Encoder(tokenizer_named(name))
    assert encoder.rule is not None
    shots = tuple(f"Question: Which is number {i} of the 12 apples?\nAnswer: the {i}th one.\n\n" for i in range(20))
    pairs = [
        ContinuationPair((*shots, f"Question: Is {n} even?\nAnswer:"), c) for n in range(100) for c in (" yes", " no")
    ]
    n_characters = 0
    original = encoder._encode_batch

    def counting(texts: Any, *, specials: bool) -> Any:
        nonlocal n_characters
        n_characters += sum(map(len, texts))
        return original(texts, specials=specials)

    encoder._encode_batch = counting  # type: ignore[method-assign]
    encoder.encode_pairs(pairs)
    n_requested = sum(len("".join(pair.segments)) * 2 for pair in pairs)
    proof = 32 * len("".join(pairs[0].segments)) * 1.2  # contexts that are encoded whole to check the proof
    assert n_characters - proof < n_requested / 20


def test_a_wrong_proof_is_detected() -> None:
    """If the parts do not give the whole's tokens, the encoder continues without splitting, and tokens stay correct."""
    name = "wordpiece"
    encoder = Encoder(tokenizer_named(name))
    assert encoder.rule is None
    encoder.rule = Encoder(tokenizer_named("llama2")).rule
    pairs = [ContinuationPair(("a b c d " * 3, "the dog 's tail"), " is wet")]
    encoder.tokenizer = tokenizer_named("llama2")  # drops a space that this backend does not put back
    encoder._backend = load("gpt2").backend_tokenizer
    plain = Encoder(tokenizer_named("gpt2")).encode_pairs(pairs)[0]
    ours = encoder.encode_pairs(pairs)[0]
    assert encoder.rule is None
    assert ours.scored.tolist() == plain.scored.tolist()


@pytest.mark.oracle
@settings(max_examples=150, deadline=None)
@given(n=st.integers(0, 60), max_length=st.integers(1, 12))
def test_rolling_windows_equal_lm_evals(n: int, max_length: int) -> None:
    """A text's windows equal lm-eval's, for any length and any number of positions."""
    tokens = np.arange(100, 100 + n, dtype=np.int32)
    theirs = [
        lm_eval_utils.make_disjoint_window(pair)
        for pair in lm_eval_utils.get_rolling_token_windows(tokens.tolist(), 7, max_length, 1)
    ]
    ours = rolling_windows(tokens, 7, max_length)
    assert [(window[:-k].tolist(), window[-k:].tolist()) for window, k in ours] == [(a, b) for a, b in theirs]


@pytest.mark.parametrize("name", ["gpt2", "llama2"])
def test_a_context_of_white_space_is_the_prefix_token(name: str) -> None:
    """A context of only white space has at least one token before the scored ones."""
    encoder = Encoder(tokenizer_named(name))
    for pair in encoder.encode_pairs(
        [ContinuationPair((" ",), "dog"), ContinuationPair(("\n",), " dog"), ContinuationPair(("",), "dog")]
    ):
        assert pair.context.size >= 1
        assert pair.scored.size >= 1
