"""`evaluate` for applications: call a target for each row, score its answers, store the run with its estimates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from assaymark.applications.calls import CallRules
from assaymark.applications.human_labels import add_human_labels, read_human_scores
from assaymark.applications.judging_scores import add_judged_scores
from assaymark.applications.rows import Row, Source, name_of_rows, read_rows
from assaymark.applications.scorer import JudgedScorer, Scorer
from assaymark.applications.scorers import check_needs, scorers_of
from assaymark.applications.scorers.plain import Cost, Latency, Tokens
from assaymark.applications.target import TargetModel, TargetOptions, target_of
from assaymark.applications.task import ApplicationTask, check_names
from assaymark.errors import UnknownName, UsageError
from assaymark.options.option import check_limit
from assaymark.records import RunPlan
from assaymark.registry import nearest
from assaymark.runs.evaluate_options import EvaluateKeywords, TargetKeywords
from assaymark.runs.execute import execute
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun, RunOptions
from assaymark.runs.prepare import open_store
from assaymark.runs.run import Run
from assaymark.settings import data_folder
from assaymark.tasks.task import Selection

PROFILE = "assaymark"
MOST_REPEATS = 10_000  # all calls of a row are held in memory
_KEYWORDS = (
    *TargetKeywords.__annotations__, "store", "limit", "data_dir", "observe", "notify", "command", "wait",
)  # fmt: skip


def evaluate_application(target: object, rows: Source, **keywords: Unpack[EvaluateKeywords]) -> Run:
    """Call a target for each row, score its answers, and return the stored run.

    The same target, version, rows and scorers are the same run: it is continued, or returned if it is finished.

    Args:
        target: a function or coroutine function, an object with `__call__`, `FILE.py:NAME`, `module:name`, a URL, or
            `exec:COMMAND`.
        rows: a file, a Hub id, or a list of mappings; see `read_rows`.
        keywords: see `TargetKeywords`; and store, limit, data_dir, observe, notify, wait as for a model.

    Raises: UsageError before the first call, for whatever does not fit; DataError for rows that cannot be read;
        StoreError; ModelUnavailable where the target hangs again and again.
    """
    ready = prepare_application(target, rows, **keywords)
    store = open_store({"store": keywords.get("store")})
    result = execute(
        ready.prepared,
        ready.model,
        store,
        observe=keywords.get("observe"),
        command=keywords.get("command"),
        wait=keywords.get("wait") is not False,
        notify=keywords.get("notify") or no_notice,
    )
    run = Run(store, result.run_id, result)
    run.summarise(ready.prepared)
    if ready.judged:
        notify = keywords.get("notify") or no_notice
        judge_args = keywords.get("judge_args") or ""
        judge, command = keywords.get("judge"), keywords.get("command")
        add_judged_scores(run, ready.judged, judge, notify, model_args=judge_args, command=command)
    if (human_labels := keywords.get("human_labels")) is not None:
        add_human_labels(run, human_labels, ready.scored)
    return run


@dataclass(frozen=True)
class PreparedApplication:
    """A checked evaluation of a target, before its first call."""

    model: TargetModel
    task: ApplicationTask
    prepared: PreparedRun
    judged: tuple[JudgedScorer, ...]
    scored: tuple[str, ...]  # names of all scorers, judged ones first
    rows: tuple[Row, ...]
    repeats: int


def prepare_application(target: object, rows: Source, **keywords: Unpack[EvaluateKeywords]) -> PreparedApplication:
    """Check everything that `evaluate_application` takes, and return it ready to be carried out; see there.

    Raises: UsageError; DataError for rows that cannot be read.
    """
    for name in keywords:
        if name not in _KEYWORDS:
            raise UnknownName("option of evaluate with scorers", name, nearest(name, _KEYWORDS))
    repeats = _whole(keywords, "repeats", 1, 1, MOST_REPEATS)
    limit = keywords.get("limit")
    if limit is not None:
        check_limit(limit)
    options = _target_options(keywords)
    read = read_rows(rows, data_folder(keywords.get("data_dir")))
    scorers: list[Scorer] = []
    judged: list[JudgedScorer] = []
    for scorer in scorers_of(keywords.get("scorers") or ()):
        if isinstance(scorer, JudgedScorer):
            judged.append(scorer)
        elif not isinstance(scorer, Cost | Latency | Tokens):  # every run has the scores of its calls
            scorers.append(scorer)
    judge = keywords.get("judge")
    if judged and judge is None:
        raise UsageError(f"scorer '{judged[0].facts.name}' asks a judge; name one with judge=MODEL (--judge MODEL)")
    human_labels = keywords.get("human_labels")
    scored = [*(each.facts.name for each in judged), *(each.facts.name for each in scorers)]
    if human_labels is not None:
        if not scored:
            raise UsageError("human_labels are compared with scores, and no scorer is named; name one with scorers=")
        read_human_scores(human_labels, scored)  # before the first call: the file can be read
    if judge is not None and not judged:
        raise UsageError("a judge is named, and no scorer asks one; add one, such as faithfulness")
    check_names(scorers)
    check_needs([*scorers, *judged], read)
    model = TargetModel(target_of(target, options), read, options)
    source = str(Path(rows).expanduser().absolute()) if isinstance(rows, str | Path) and Path(rows).is_file() else ""
    task = ApplicationTask(
        name_of_rows(rows),
        read,
        model.bound,
        scorers,
        repeats=repeats,
        timeout_s=options.rules.timeout_s,
        limit=limit,
        source=source,
    )
    plan = RunPlan(model.identity, PROFILE, (task.plan,), limit=limit)
    prepared = PreparedRun(plan, (task,), Selection((task.task,), names=(task.task.name,)), RunOptions())
    return PreparedApplication(model, task, prepared, tuple(judged), tuple(scored), tuple(read), repeats)


def _target_options(keywords: TargetKeywords) -> TargetOptions:
    """Return the options of a target. Raises: UsageError for a value of a wrong type."""
    files = keywords.get("files") or ()
    headers = keywords.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(isinstance(each, str) for pair in headers.items() for each in pair):
        raise UsageError(f"headers are {list(headers)!r:.80}; expected a mapping of names to texts")
    for name in ("name", "version", "answer_path"):
        if not isinstance(keywords.get(name), str | None):
            raise UsageError(f"{name} is {keywords[name]!r:.80}; expected a text")
    return TargetOptions(
        name=keywords.get("name"),
        version=keywords.get("version"),
        files=tuple(map(str, [files] if isinstance(files, str | Path) else files)),
        body=keywords.get("body"),
        answer_path=keywords.get("answer_path"),
        headers=dict(headers),
        public_only=bool(keywords.get("public_only")),
        rules=CallRules(
            _whole(keywords, "concurrency", 8, 1),
            _seconds(keywords, "timeout_s", 300.0),
            _whole(keywords, "retries", 0, 0),
        ),
    )


def _whole(keywords: Mapping[str, object], name: str, default: int, least: int, most: int | None = None) -> int:
    value = keywords.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        up_to = "" if most is None else f" to {most:,}"
        raise UsageError(f"{name} is {value!r:.40}; expected a whole number from {least}{up_to}")
    return value


def _seconds(keywords: Mapping[str, object], name: str, default: float) -> float:
    value = keywords.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name} is {value!r:.40}; expected a number of seconds above 0")
    return float(value)
