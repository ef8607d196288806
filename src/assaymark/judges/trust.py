"""One sentence on whether a judge can stand in for people, from its agreement with them."""

from assaymark.judges.agreement import RaterAgreement, Share

__all__ = ["FEWEST", "trust_sentence"]

FEWEST = 50  # labelled pairs: with fewer the interval of agreement is wider than 25 points
ENOUGH = 0.6  # kappa, where people's own agreement is not known: "substantial" by Landis and Koch 1977
SOME = 0.4  # "moderate"


def trust_sentence(found: RaterAgreement) -> str:
    """Return whether the judge can be trusted for this, and why.

    Too few labels: it cannot be said. Agreement within chance, or not above that of a judge that always names the model
    that people prefer of two: no. Agreement that is at least people's own, within the
    interval: yes. Otherwise by Cohen's kappa of the verdicts: from 0.6 on with the corrected win rate, from 0.4 on only
    to find large differences, below that no.
    """
    judge, kappa = found.judge, found.judge.kappa
    if found.n_labelled < FEWEST:
        return (
            f"It cannot be said whether this judge can be trusted: people have voted on {found.n_labelled} of its "
            f"pairs, and at least {FEWEST} are needed."
        )
    if kappa is None or kappa.value is None or kappa.low is None or kappa.low <= 0:
        return (
            f"This judge cannot be trusted here: it agrees with people in {_shown(judge)}, and "
            f"{_percent(judge.chance)} would be expected by chance."
        )
    if (constant := found.beside_constant) is None or constant.gain.low is None or constant.gain.low <= 0:
        known = "" if constant is None else f" ({_percent(constant.constant)})"
        return (
            f"This judge cannot be trusted here: it agrees with people in {_shown(judge)}, and not clearly more than a "
            f"judge that always names whichever of two models people prefer{known}."
        )
    if (beside := _as_people(found)) is not None:
        return beside
    why = f"it agrees with people in {_shown(judge)} (kappa {kappa.value:.2f})"
    if found.people.estimate is not None:
        why += f", people with each other in {_shown(found.people)}"
    if kappa.value >= ENOUGH:
        return f"This judge can be trusted here with the corrected win rates: {why}."
    if kappa.value >= SOME:
        return f"This judge can show large differences here, and small ones only after correction: {why}."
    return f"This judge cannot be trusted here: {why}."


def _as_people(found: RaterAgreement) -> str | None:
    """Return the sentence for a judge that agrees with people as they do with each other; None for others."""
    judge, people = found.judge, found.people
    if people.estimate is None or people.n < FEWEST or judge.estimate is None:
        return None
    low = people.estimate.value if people.estimate.low is None else people.estimate.low
    if judge.estimate.value < low:
        return None
    return (
        f"This judge can be trusted here as one more person could: it agrees with people in {_shown(judge)}, and "
        f"people agree with each other in {_shown(people)}."
    )


def _shown(share: Share) -> str:
    return f"{_percent(share.n_agreeing / share.n)} of {share.n:,} comparisons"


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.1%}"
