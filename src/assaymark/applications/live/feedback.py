"""Feedback: read into a bounded record, and stored as scores under an id.

The sender has a token of the project, but the content may come from anybody. So every field has a type and a bound,
unknown fields are refused, and each feedback of a request is accepted or rejected by itself.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from assaymark.applications.live.feedback_log import FeedbackLog
from assaymark.applications.traces.otlp import id_of
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.span_adding import message_digest
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.errors import DataError
from assaymark.limits.characters import is_storable
from assaymark.records import JsonValue, canonical_json
from assaymark.registry import nearest

COMPLETED = "completed"  # the name of the score for "was the task completed?"
THUMBS = "thumbs"
LONGEST_ID = 200  # characters, of ids and names
LONGEST_LABEL = 200
LONGEST_COMMENT = 10_000
LONGEST_CORRECTION = 100_000
LARGEST_VALUE = 1e12
FIELDS = (
    *("id", "trace_id", "span_id", "session_id", "response_id", "name", "value", "score", "label", "comment"),
    *("correction", "completed", "user"),
)
_THUMBS = {"up": 1.0, "down": 0.0}


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback on a trace, a span, a session or a response."""

    id: str | None
    trace_id: bytes | None
    span_id: bytes | None
    session_id: str | None
    response_id: str | None
    name: str
    value: float | None
    label: str | None
    comment: str | None
    correction: str | None  # a text, or a mapping or list as JSON
    completed: bool | None
    user: str | None  # the user; only a keyed hash is stored


@dataclass(frozen=True, slots=True)
class StoredFeedback:
    """The outcome of a request. n_new: number of ids that were not stored before; rejected: (position, reason)."""

    n_accepted: int
    n_new: int
    rejected: tuple[tuple[int, str], ...]


def read_feedback(sent: object) -> Feedback:
    """Return a feedback from its JSON. Raises: DataError with the wrong field and the expected value."""
    if not isinstance(sent, Mapping):
        raise DataError(f"the feedback is a {type(sent).__name__}; expected an object")
    for name in sent:
        if name not in FIELDS:
            near = ", ".join(nearest(str(name), FIELDS)) or ", ".join(FIELDS)
            raise DataError(f"unknown field '{str(name)[:40]}'; nearest: {near}")
    if sent.get("value") is not None and sent.get("score") is not None:
        raise DataError("value and score are the same; send one of them")
    value, is_thumb = _value(sent.get("value") if sent.get("value") is not None else sent.get("score"))
    made = Feedback(
        id=_text(sent, "id", LONGEST_ID),
        trace_id=_hex(sent, "trace_id", 16),
        span_id=_hex(sent, "span_id", 8),
        session_id=_text(sent, "session_id", LONGEST_ID),
        response_id=_text(sent, "response_id", LONGEST_ID),
        name=_text(sent, "name", 128) or (THUMBS if is_thumb else "feedback"),
        value=value,
        label=_text(sent, "label", LONGEST_LABEL),
        comment=_text(sent, "comment", LONGEST_COMMENT),
        correction=_correction(sent.get("correction")),
        completed=_completed(sent.get("completed")),
        user=_text(sent, "user", LONGEST_ID),
    )
    if (made.trace_id, made.span_id, made.session_id, made.response_id) == (None,) * 4:
        raise DataError("it is of nothing; expected one of trace_id, span_id, session_id, response_id")
    if (made.value, made.label, made.comment, made.correction, made.completed) == (None,) * 5:
        raise DataError("it says nothing; expected one of value, label, comment, correction, completed")
    return made


def _value(sent: object) -> tuple[float | None, bool]:
    """Return a value, and whether it is a thumb up or down."""
    if sent is None:
        return None, False
    if isinstance(sent, bool):
        return float(sent), True
    if isinstance(sent, str) and sent.lower() in _THUMBS:
        return _THUMBS[sent.lower()], True
    if isinstance(sent, int | float) and abs(sent) <= LARGEST_VALUE:  # NaN is not
        return float(sent), False
    raise DataError(f"value is {sent!r:.40}; expected a number, true, false, up or down")


def _completed(sent: object) -> bool | None:
    if sent is None or isinstance(sent, bool):
        return sent
    if sent in (0, 1):
        return bool(sent)
    raise DataError(f"completed is {sent!r:.40}; expected true or false")


def _correction(sent: object) -> str | None:
    if isinstance(sent, Mapping | list):
        try:
            sent = json.dumps(sent, ensure_ascii=False, allow_nan=False, sort_keys=True)
        except ValueError:
            raise DataError("correction has a number that is not finite; expected what JSON can hold") from None
    return _text({"correction": sent}, "correction", LONGEST_CORRECTION)


def _text(sent: Mapping[str, object], name: str, longest: int) -> str | None:
    """Return a field's text; None if it is missing or empty. Raises: DataError."""
    text = sent.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise DataError(f"{name} is a {type(text).__name__}; expected a text")
    if not is_storable(text):
        raise DataError(f"{name} has NUL or half a surrogate pair; expected Unicode text")
    if len(text) > longest:
        raise DataError(f"{name} has {len(text):,} characters; expected at most {longest:,}")
    return text if text.strip() else None


def _hex(sent: Mapping[str, object], name: str, size: int) -> bytes | None:
    text = _text(sent, name, 200)
    if text is None:
        return None
    if (read := id_of(text, size)) is None:
        raise DataError(f"{name} is '{text[:40]}'; expected {2 * size} hexadecimal digits, not all 0")
    return read


def store_feedback(
    log: FeedbackLog, project: int, sent: Sequence[object], redaction: Redaction, rater_of: Callable[[str], str]
) -> StoredFeedback:
    """Store feedback; an invalid one is rejected alone, with the reason.

    Feedback with the same id replaces the earlier one. Without an id, equal feedback on the same object counts once.

    Args:
        sent: as JSON.
        redaction: of texts, before they are stored.
        rater_of: returns a keyed hash of a user's id.

    Raises: StoreBusy, StoreError; nothing is stored then.
    """
    scores: dict[bytes, TraceScore] = {}
    replaced: set[bytes] = set()
    rejected: list[tuple[int, str]] = []
    for at, each in enumerate(sent):
        try:
            feedback = read_feedback(each)
        except DataError as error:
            rejected.append((at, str(error)))
            continue
        made, gone = _scores(feedback, redaction, rater_of)
        for digest in gone:  # of the same id, earlier in this request
            scores.pop(digest, None)
        scores.update((score.digest, score) for score in made)
        replaced.update(gone)
    n_new = log.put(project, list(scores.values()), sorted(replaced)) if scores else 0
    return StoredFeedback(len(sent) - len(rejected), n_new, tuple(rejected))


def _scores(
    feedback: Feedback, redaction: Redaction, rater_of: Callable[[str], str]
) -> tuple[list[TraceScore], list[bytes]]:
    """Return the scores of a feedback, and the digests of all scores that its id may have left before."""
    identity = feedback.id if feedback.id is not None else _content(feedback)
    digests = {part: message_digest(f"feedback {part} {identity}") for part in ("said", COMPLETED)}
    rater = None if feedback.user is None else rater_of(feedback.user)
    score_of = partial(
        TraceScore, trace_id=feedback.trace_id, span_id=feedback.span_id, response_id=feedback.response_id,
        session=feedback.session_id, observed=time.time_ns(), source="feedback", rater=rater,
    )  # fmt: skip
    scores = []
    if (feedback.value, feedback.label, feedback.comment, feedback.correction) != (None,) * 4:
        scores.append(
            score_of(
                digest=digests["said"],
                name=redaction.text(feedback.name),
                value=feedback.value,
                label=None if feedback.label is None else redaction.text(feedback.label),
                explanation=None if feedback.comment is None else redaction.text(feedback.comment),
                correction=None if feedback.correction is None else redaction.text(feedback.correction),
            )
        )
    if feedback.completed is not None:
        completed = float(feedback.completed)
        scores.append(score_of(digest=digests[COMPLETED], name=COMPLETED, value=completed))
    return scores, list(digests.values())


def _content(feedback: Feedback) -> str:
    content: dict[str, JsonValue] = {
        name: value.hex() if isinstance(value := getattr(feedback, name), bytes) else value
        for name in Feedback.__slots__
    }
    return canonical_json(content)
