"""Profiles: whose rules a run follows.

Begin-of-sequence token, few-shot seed and scheme, and the treatment of leaking shots have changed over the years. A
profile fixes all of them, so that a score is comparable with the published ones of its time.
"""

from dataclasses import dataclass
from typing import Literal

from assaymark.errors import UnknownName
from assaymark.records import RunPlan
from assaymark.registry import nearest
from assaymark.settings import FORMER_NAME

OWN_RULES = "assaymark"


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules of one tool or leaderboard."""

    name: str
    meaning: str
    add_bos: bool | None = None  # None: as the tokenizer does by default
    seed: int = 1234  # of the few-shot draw
    # sequential: one generator over the samples in order; shuffled: the samples are shuffled first, by the same
    # generator; others: sequential, among the other rows of the evaluated split; per-sample: the seed is the sample's
    # name, so its shots do not depend on which others are evaluated
    draw: Literal["sequential", "shuffled", "others", "per-sample"] = "sequential"
    leaks: Literal["allow", "forbid"] = "allow"  # allow: counted; forbid: never drawn, nor a near-duplicate
    numerics: str | None = None  # None: float32


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("lm-eval-0.4.13", "lm-evaluation-harness 0.4.13 on one process"),
        Profile(
            "open-llm-v1", "Open LLM Leaderboard, 2023 (harness b281b092)", add_bos=False, seed=42, draw="shuffled"
        ),
        Profile("open-llm-v2", "Open LLM Leaderboard, 2024 (harness 0.4.3)", add_bos=False),
        Profile("nous", "Nous and YALL suites (harness fork add-agieval)", add_bos=False, seed=42, draw="shuffled"),
        Profile("gauntlet-v0.3", "Mosaic Eval Gauntlet v0.3 (llm-foundry 8c8dd48f)", draw="others"),
        Profile(OWN_RULES, "our own rules: no leaks, shots by sample", draw="per-sample", leaks="forbid"),
    )
}
DEFAULT_PROFILE = PROFILES["lm-eval-0.4.13"]


def find_profile(name: str) -> Profile:
    """Return the profile of that name.

    Raises: UnknownName with the nearest ones.
    """
    if name not in PROFILES:
        raise UnknownName("profile", name, nearest(name, PROFILES), "known: " + ", ".join(PROFILES))
    return PROFILES[name]


def profile_of(plan: RunPlan) -> str:
    """Return the name of a stored plan's profile; our own rules had the name of the program, which was another one."""
    return OWN_RULES if plan.profile == FORMER_NAME else plan.profile
