"""Alarms: their definition, and one round of evaluation.

A stream is one metric of an alarm. Its values are turned into numbers in [0, 1] of which more is better, the first ones
freeze a baseline, and a `Detector` watches the others; without a baseline a `MeanChangeDetector` watches all. The state
is stored in the transaction that counts them, so that a repeated or a killed round changes nothing. A later rule
(another judge or another prompt) measures something else: then all begins anew.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from assaymark.applications.watch.alarm_log import AT_ONCE, AlarmLog, WatchedStream
from assaymark.applications.watch.alarm_rows import (
    AlarmEpoch,
    AlarmEvent,
    AlarmStream,
    AlarmValue,
    NewAlarm,
    PendingValue,
)
from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.change_of_mean import MeanChangeDetector, change_point
from assaymark.statistics.e_detector import Change, Detector, baseline_of, quantile_baseline, threshold_of
from assaymark.statistics.intervals import Interval
from assaymark.store import Store

ERRORS = "errors"
OF_TRACES = (ERRORS, "latency", "cost")
SCORE = "score:"
BASELINE, LEAST_BASELINE, MOST_BASELINE = 300, 30, 100_000
CONFIDENCE = 0.95  # of the baseline's interval, of which each end holds with 97.5%
QUANTILE = 0.9  # that is frozen of latencies and costs without a bound
_FALSE_ALARMS = re.compile(r"\s*([0-9.]+(?:e-?\d+)?)\s*(%?)\s+in\s+([0-9][0-9_,]*)\s*")


@dataclass(frozen=True, slots=True)
class RaisedAlarm:
    """An alarm that this round raised."""

    stream: AlarmStream
    event: AlarmEvent


def new_alarm(
    name: str,
    metrics: Sequence[str],
    false_alarms: str,
    *,
    bound: float | None = None,
    two_sided: bool = False,
    lower_is_better: bool = False,
    n_baseline: int = BASELINE,
    webhook: str | None = None,
    secret: str | None = None,
    allow_private: bool = False,
) -> NewAlarm:
    """Return an alarm as it is stored.

    Args:
        name: 1 to 128 characters.
        metrics: errors, latency, cost, or names of scorers (`score:errors` for one of such a name).
        false_alarms: a probability and a number of values, as "0.05 in 10000".
        bound: the largest value, where scores are not in [0, 1] or latencies and costs are watched by their mean.
        two_sided: an improvement is a change too.
        lower_is_better: of the scores.
        n_baseline: values from which the baseline is frozen; 0: none is, and a change of any mean is watched for.
        webhook: where raised alarms are sent.
        secret: with which its requests are signed.
        allow_private: whether it may be at a private address.

    Raises: UsageError with what was expected.
    """
    if not 0 < len(name.strip()) <= 128:
        raise UsageError(f"the alarm's name has {len(name.strip())} characters; expected 1 to 128")
    match = _FALSE_ALARMS.fullmatch(false_alarms)
    try:
        alpha = float(match[1]) / (100 if match[2] else 1) if match else 0.0
        horizon = int(match[3].replace(",", "").replace("_", "")) if match else 0
    except ValueError:
        alpha, horizon = 0.0, 0
    if not (0 < alpha < 1 and 0 < horizon <= 10**12):
        raise UsageError(
            f"--false_alarms is '{false_alarms:.60}'; expected a probability and a number of values, as '0.05 in 10000'"
        )
    if bound is not None and not 0 < bound < 1e300:
        raise UsageError(f"--bound is {bound:g}; expected the largest value, above 0")
    if n_baseline and not LEAST_BASELINE <= n_baseline <= MOST_BASELINE:
        raise UsageError(
            f"--baseline is {n_baseline}; expected {LEAST_BASELINE} to {MOST_BASELINE:,} values, or 0 for no baseline"
        )
    named = tuple(dict.fromkeys(_stored_name(metric) for metric in metrics))
    if not named:
        raise UsageError("no metric; name one with --metric: errors, latency, cost or a scorer")
    if lower_is_better and any(metric in OF_TRACES for metric in named):
        raise UsageError("--lower_is_better is for scorers; of errors, latency and cost lower is better anyway")
    if bound is not None and ERRORS in named:
        raise UsageError("--bound is for scores, latency and cost; errors are counted")
    if not n_baseline and bound is None and any(metric in OF_TRACES and metric != ERRORS for metric in named):
        raise UsageError(
            "--baseline 0 freezes no quantile of latency and cost; state with --bound which value is the largest"
        )
    return NewAlarm(
        name=name.strip(), metrics=named, alpha=alpha, horizon=horizon, bound=bound, is_two_sided=two_sided,
        lower_is_better=lower_is_better, n_baseline=n_baseline, webhook=webhook, signing_key=secret,
        allow_private=allow_private,
    )  # fmt: skip


def _stored_name(metric: str) -> str:
    stripped = metric.strip()
    if not 0 < len(stripped.removeprefix(SCORE)) <= 500:
        raise UsageError(f"--metric is '{metric:.40}'; expected errors, latency, cost or the name of a scorer")
    return stripped if stripped in OF_TRACES or stripped.startswith(SCORE) else SCORE + stripped


def metric_name(stream: AlarmStream) -> str:
    """Return a stream's metric as charts and tables name it."""
    return stream.metric.removeprefix(SCORE)


def threshold(stream: AlarmStream) -> float:
    """Return the evidence at which a stream's alarm is raised."""
    return threshold_of(stream.horizon, stream.alpha, stream.n_metrics)


def guarantee(stream: AlarmStream) -> str:
    """State the guarantee of a stream's alarm."""
    together = f" of its {stream.n_metrics} metrics together" if stream.n_metrics > 1 else ""
    promise = (
        f"without a change, an alarm{together} within {stream.horizon:,} values has a probability of at most "
        f"{100 * stream.alpha:.3g}%"
    )
    if not stream.n_baseline:
        return f"{promise}, whatever their mean, if each has the same one given those before it"
    return (
        f"{promise}, whatever their dependence; that is so unless the baseline's bound is wrong, "
        f"which it is with at most {100 * (1 - CONFIDENCE) / (1 if stream.is_two_sided else 2):.3g}%"
    )


def state_text(stream: AlarmStream, epoch: AlarmEpoch, *, is_raised: bool) -> str:
    """Return how far a stream is."""
    if is_raised:
        return "raised"
    if epoch.low is None and stream.n_baseline:
        n_gathered = stream.n_values - epoch.first
        return f"gathers its baseline, {n_gathered:,} of {stream.n_baseline:,}"
    return f"watches, evidence {epoch.evidence:,.1f} of {threshold(stream):,.0f}"


def event_text(stream: AlarmStream, event: AlarmEvent) -> str:
    """Describe the alarm in one sentence."""
    before = "" if event.mean_before is None else f" from {_measure(stream, event.mean_before)}"
    went = "fell" if event.is_drop == (not _is_turned(stream)) else "rose"
    version = f", version {event.version[:40]}" if event.version else ""
    return (
        f"{_subject(stream)} {went}{before} to {_measure(stream, event.mean_after)} over the last "
        f"{event.n_since:,} values (estimated){version}"
    )


def _is_turned(stream: AlarmStream) -> bool:
    """Return whether lower values are better, so that they were turned."""
    return stream.metric in OF_TRACES or stream.lower_is_better


def _subject(stream: AlarmStream) -> str:
    if stream.metric == ERRORS:
        return "the share of traces with a failed step"
    if stream.metric in OF_TRACES and stream.bound is None:
        return f"the share of traces whose {stream.metric} is above the baseline's {100 * QUANTILE:.0f}% quantile"
    return f"the mean of {metric_name(stream)[:100]}"


def _measure(stream: AlarmStream, mean: float) -> str:
    """Return a mean of turned values in the metric's own units."""
    own = 1 - mean if _is_turned(stream) else mean
    if stream.bound is not None:
        return f"{own * stream.bound:.4g}"
    return f"{100 * own:.1f}%"


def watch_once(store: Store, now: float, project: int | None = None) -> list[RaisedAlarm]:
    """Count the values that have become complete, for every alarm; return the alarms raised by them.

    now: seconds since 1970. project: of the alarms; None: of all projects.
    """
    raised = []
    for stream in AlarmLog(store).streams(project):
        is_done = not AlarmLog(store).is_due(stream, now)
        while not is_done:
            with AlarmLog(store).watching(stream.id) as watched:
                if watched is None:  # removed meanwhile
                    break
                pending = watched.pending(now)
                is_done = len(pending) < AT_ONCE
                raised += [RaisedAlarm(stream, event) for event in _count(watched, pending, now)]
                if is_done:
                    watched.looked(now)
    return raised


def _count(watched: WatchedStream, pending: Sequence[PendingValue], now: float) -> Iterator[AlarmEvent]:
    """Count values, in parts that one rule has scored; yield the alarms that they raise."""
    epoch = watched.epoch()
    for (source, rule, version), group in groupby(
        pending, key=lambda each: (each.source, each.rule, each.rule_version)
    ):
        values = list(group)
        if watched.stream.metric.startswith(SCORE):
            if epoch.source is None:
                epoch = replace(epoch, source=source, rule=rule, rule_version=version)
            elif source != epoch.source or (rule or 0) < (epoch.rule or 0):
                continue  # people's scores of the same name, or those of a rule that was replaced
            elif (rule, version) != (epoch.rule, epoch.rule_version):
                like = replace(epoch, source=source, rule=rule, rule_version=version)
                epoch = watched.restart("judge", like, keeps_baseline=False)
        counted = watched.count(epoch.epoch, values)
        if watched.event(epoch.epoch):
            continue
        epoch, event = _looked_at(watched, epoch, counted, now)
        watched.save(epoch)
        if event is not None:
            watched.raise_alarm(event)
            yield event


def _looked_at(
    watched: WatchedStream, epoch: AlarmEpoch, counted: Sequence[AlarmValue], now: float
) -> tuple[AlarmEpoch, AlarmEvent | None]:
    """Return an epoch after more values, and the alarm that they raise. counted: these; they are stored already."""
    stream = watched.stream
    if not stream.n_baseline:
        return _looked_at_any_mean(watched, epoch, counted, now)
    n_baseline = 0 if epoch.is_inherited else stream.n_baseline
    if epoch.low is None:
        values = watched.values(epoch)
        if len(values) < n_baseline:
            return epoch, None
        quantile, bounds = _baseline(stream, _raw(values[:n_baseline]))
        epoch = replace(epoch, low=bounds.low, high=bounds.high, quantile=quantile)
        counted = values[n_baseline:]
    detector = Detector(Interval(epoch.low or 0.0, epoch.high or 0.0), threshold(stream), two_sided=stream.is_two_sided)
    if epoch.state is not None:
        detector.resume(np.frombuffer(epoch.state, "<f8"), epoch.n_watched)
    change = detector.add(_turned(stream, _raw(counted), epoch.quantile))
    mean_before, values = None, list(counted)
    if change is not None:  # all values say when it began
        values = watched.values(epoch)
        turned = _turned(stream, _raw(values), epoch.quantile)
        detector.restart()
        change = detector.add(turned[n_baseline:])
        if change is not None and n_baseline + change.since:
            # with the baseline: a change may begin with the first value after it
            mean_before = float(turned[: n_baseline + change.since].mean())
    state = detector.state.astype("<f8").tobytes()
    epoch = replace(epoch, n_watched=detector.n_seen, evidence=detector.evidence, state=state)
    event = None if change is None else _event(stream, epoch, change, mean_before, values[n_baseline:], now)
    return epoch, event


def _looked_at_any_mean(
    watched: WatchedStream, epoch: AlarmEpoch, counted: Sequence[AlarmValue], now: float
) -> tuple[AlarmEpoch, AlarmEvent | None]:
    """Return an epoch without a baseline after more values, and the alarm that they raise.

    After an improvement, which raises none unless both sides are watched, later values are compared with it: the
    detector restarts within the epoch, whose `n_watched` counts from there.
    """
    stream = watched.stream
    detector = MeanChangeDetector(threshold(stream))
    if epoch.state is not None:
        detector.resume(np.frombuffer(epoch.state, "<f8"), epoch.n_watched)
    turned = _turned(stream, _raw(counted), None)
    event, begin = None, 0
    while event is None and begin < len(turned):
        n_before = detector.n_seen
        position = detector.add(turned[begin:])
        if position is None:
            break
        begin += position + 1 - n_before
        until = counted[begin - 1].position
        values = [each for each in watched.values(epoch) if until - position <= each.position <= until]
        change = change_point(_turned(stream, _raw(values), None), detector.evidence)
        if change.is_drop or stream.is_two_sided:
            event = _event(stream, epoch, change, change.mean_before, values, now)
        else:
            detector.restart()
    state = detector.state.astype("<f8").tobytes()
    return replace(epoch, n_watched=detector.n_seen, evidence=detector.evidence, state=state), event


def _raw(values: Sequence[AlarmValue]) -> Floats:
    return np.array([each.value for each in values], dtype=np.float64)


def _baseline(stream: AlarmStream, raw: Floats) -> tuple[float | None, Interval]:
    if stream.metric in OF_TRACES and stream.metric != ERRORS and stream.bound is None:
        return quantile_baseline(raw, QUANTILE, CONFIDENCE)
    return None, baseline_of(_turned(stream, raw, None), CONFIDENCE)


def _turned(stream: AlarmStream, raw: Floats, quantile: float | None) -> Floats:
    """Return values in [0, 1], where higher is better. Values beyond the stated bound are clipped to it."""
    if quantile is not None:
        return np.asarray(raw <= quantile, dtype=np.float64)
    shares = np.clip(raw / (stream.bound or 1.0), 0.0, 1.0)
    return 1 - shares if _is_turned(stream) else shares


def _event(
    stream: AlarmStream,
    epoch: AlarmEpoch,
    change: Change,
    mean_before: float | None,
    watched: Sequence[AlarmValue],
    now: float,
) -> AlarmEvent:
    last, first = watched[change.position], watched[change.since]
    return AlarmEvent(
        stream=stream.id,
        epoch=epoch.epoch,
        id=secrets.token_hex(16),
        raised=now,
        at=last.at,
        trace_id=last.trace_id,
        version=last.version,
        n_watched=change.position + 1,
        evidence=change.evidence,
        threshold=threshold(stream),
        since=first.at,
        n_since=change.position - change.since + 1,
        mean_before=mean_before,
        mean_after=change.mean,
        is_drop=change.is_drop,
    )


def reset(store: Store, project: int, name: str, *, new_baseline: bool = False) -> None:
    """Let an alarm watch again from the next value on.

    new_baseline: whether the next values freeze another baseline; otherwise it keeps that which it has.

    Raises: UnknownName.
    """
    for stream in AlarmLog(store).named(project, name):
        with AlarmLog(store).watching(stream.id) as watched:
            if watched is not None:
                watched.restart("reset", watched.epoch(), keeps_baseline=not new_baseline)
