"""Rules for scoring traces: creation, and loading of their scorers and filters."""

import math
import time
from pathlib import Path

from assaymark.applications.functions import is_reference, load_named
from assaymark.applications.live.rule_rows import NewRule, filter_is_live
from assaymark.applications.scorer import JudgedScorer
from assaymark.applications.scorers import scorers_of
from assaymark.applications.scorers.named import SCORERS, AnyScorer
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.span_adding import message_digest
from assaymark.errors import UsageError
from assaymark.records import canonical_json

IN_TRACES = frozenset({"contexts", "latency", "cost", "tokens"})  # the parts of a trace that a scorer may need
_LIVE_WORDS = "version, service, model, user, session, errors, slower, dearer"


def new_rule(
    name: str,
    scorer: str,
    *,
    filter: str = "",  # noqa: A002 - what the option is called
    rate: float = 1.0,
    judge: str | None = None,
    judge_args: str | None = None,
    past_hours: float = 0.0,
) -> NewRule:
    """Return a checked rule: its scorer can be loaded and needs only parts that traces have, and its filter is valid.

    Args:
        scorer: one scorer, as `assaymark run --scorers` has it; a file is stored with its whole path.
        filter: words such as `version=1.2 errors=yes`, as for the list of traces.
        rate: the share of the traces that are scored, 0 < rate <= 1.
        judge: the model that a judged scorer asks.
        past_hours: traces of these last hours are scored too; otherwise only later ones.

    Raises: UsageError, UnknownName.
    """
    if not (math.isfinite(rate) and 0 < rate <= 1):
        raise UsageError(f"the rate is {rate:g}; expected a share of the traces, above 0 and at most 1, such as 0.1")
    text = _whole_place(scorer.strip())
    loaded = rule_scorer(text)
    if isinstance(loaded, JudgedScorer) and judge is None:
        raise UsageError(f"scorer '{loaded.facts.name}' asks a judge; name one with --judge MODEL")
    if judge is not None and not isinstance(loaded, JudgedScorer):
        raise UsageError(f"a judge is named, and scorer '{loaded.facts.name}' asks none; omit --judge")
    if judge_args is not None and judge is None:
        raise UsageError("--judge_args is for a judge; name one with --judge MODEL, or omit it")
    query = ListQuery.of_text(filter)
    if not filter_is_live(query.filter()):
        raise UsageError(
            f"a rule decides when a trace is complete, by {_LIVE_WORDS}; omit words (q), times and "
            "scores, which come later"
        )
    return NewRule(
        name=name,
        filter=query.text,
        rate=rate,
        scorer=text,
        score=loaded.facts.name,
        judge=judge,
        judge_args=judge_args,
        version=rule_version(loaded, judge, judge_args, None),
        begins=time.time() - 3600 * past_hours,
        scale=loaded.facts.scale,
    )


def _whole_place(text: str) -> str:
    """Return the place of a function with the whole path of its file, so that a worker elsewhere finds it."""
    place, _, name = text.rpartition(":")
    if is_reference(text) and place.endswith(".py"):
        return f"{Path(place).expanduser().resolve()}:{name}"
    return text


def rule_scorer(text: str) -> AnyScorer:
    """Return the scorer that a rule names, as its file is now.

    Raises: UsageError for none, several, or one that needs parts that no trace has; UnknownName.
    """
    scorers = scorers_of(text)
    if len(scorers) != 1:
        raise UsageError(f"a rule has one scorer, and '{text[:80]}' names {len(scorers)}; make a rule for each")
    if lacking := sorted(scorers[0].facts.needs - IN_TRACES):
        raise UsageError(
            f"scorer '{scorers[0].facts.name}' needs {', '.join(lacking)}, which no live trace has; "
            "choose a scorer of the answer, the contexts, latency, cost or tokens"
        )
    return scorers[0]


def rule_code(text: str) -> object:
    """Return the function or object that a rule's scorer is, as it is loaded now; None for a registered one."""
    is_own = text.partition(":")[0] not in SCORERS and is_reference(text)
    return load_named(text, "scorer")[0] if is_own else None


def rule_version(scorer: AnyScorer, judge: str | None, judge_args: str | None, judge_hash: str | None) -> bytes:
    """Return a hash of everything that decides a rule's scores.

    judge: as it is named. judge_hash: of the judge's content; None if not known, as for a server's model.
    """
    content = canonical_json([scorer.content_hash, judge, judge_args, judge_hash])
    return message_digest(content)
