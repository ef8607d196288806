"""Profiles: whose rules a run follows."""

import pytest

from assaymark.errors import UnknownName
from assaymark.tasks.profiles import DEFAULT_PROFILE, PROFILES, find_profile


def test_the_default_is_lm_eval_0_4_13() -> None:
    """By default a run follows lm-eval 0.4.13: the tokenizer's own BOS, seed 1234, leaks counted."""
    assert find_profile("lm-eval-0.4.13") is DEFAULT_PROFILE
    assert (DEFAULT_PROFILE.add_bos, DEFAULT_PROFILE.seed, DEFAULT_PROFILE.leaks) == (None, 1234, "allow")


def test_older_profiles_add_no_bos() -> None:
    """The leaderboards of 2023 and 2024 and the Nous suite ran without a begin-of-sequence token."""
    assert all(PROFILES[name].add_bos is False for name in ("open-llm-v1", "open-llm-v2", "nous"))
    assert {PROFILES[name].draw for name in ("open-llm-v1", "nous")} == {"shuffled"}


def test_unknown_profiles_offer_the_nearest() -> None:
    """The error about a misspelt profile lists the nearest and all known ones."""
    with pytest.raises(UnknownName, match="nearest: open-llm-v1"):
        find_profile("openllm-v1")
