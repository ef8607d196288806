"""The process that does one step of a job, started by `worker.process`.

It reads its job from the first line of its standard input and prints one JSON object per line: progress, then either
the result or the cause of the failure and whose fault it is (`worker.messages`). It ends when its standard input does,
so that it never outlives its worker.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import AssaymarkError, DataError, ModelUnavailable, Permanent, Retryable, UsageError
from assaymark.leaderboard.submission.worker.messages import LONGEST_REASON, LONGEST_STAGE
from assaymark.limits.resources import Resources, limit_this_process
from assaymark.platforms import collect_garbage_rarely

if TYPE_CHECKING:
    from assaymark.leaderboard.submission.worker.job_steps import (
        CheckStep,
        EvaluateStep,
        FetchStep,
        JobStep,
        ScreeningSpec,
    )
    from assaymark.runs.evaluate_options import EvaluateOptions

_THEIRS = (UsageError, ModelUnavailable, Permanent)
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory", "bad_alloc")


def main() -> int:
    """Do the step that standard input describes; return the exit status."""
    collect_garbage_rarely()
    first = json.loads(_first_line())
    limit_this_process(Resources(**first.pop("limits")))
    spec: JobStep = first
    threading.Thread(target=_end_with_parent, daemon=True).start()
    channel = _Channel()
    channel.say(kind="started")
    try:
        channel.say(**_take_step(spec, channel))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - native code raises errors of its own kinds (PanicException)
        fault, reason = _fault(error, spec["step"]), " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, AssaymarkError):
            import traceback

            traceback.print_exc()  # for the log
            reason = f"{type(error).__name__}: {reason[:300]}"
        reason = reason[:LONGEST_REASON].replace("\0", " ").encode("utf-8", "replace").decode()
        channel.say(kind="failed", fault=fault, reason=reason)
        return 1
    return 0


class _Channel:
    """The channel to the worker; the output of libraries goes to the log."""

    def __init__(self) -> None:
        self._pipe = os.dup(1)
        os.dup2(2, 1)

    def say(self, **message: object) -> None:
        os.write(self._pipe, json.dumps(message).encode() + b"\n")

    def stage(self, text: str, done: int = 0, total: int = 0) -> None:
        self.say(kind="stage", text=text[:LONGEST_STAGE], done=done, total=total)


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):  # nothing follows the line
        piece = os.read(0, 1 << 16)  # not sys.stdin, whose lock a thread would hold at the interpreter's end
        if not piece:
            os._exit(1)
        line += piece
    return line


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def _fault(error: BaseException, step: str) -> str:
    """Return the party at fault for an error; data sets, the store and the network are infrastructure."""
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY):
        return "killed"
    if step == "check":
        return "submission" if isinstance(error, _Refused) else "infrastructure"
    if isinstance(error, Retryable | DataError) or (step == "fetch" and isinstance(error, UsageError)):
        return "infrastructure"
    if not isinstance(error, Exception):  # a panic of native code, which reads only submitted files
        return "submission"
    return "submission" if isinstance(error, _THEIRS) else "infrastructure"


class _Refused(AssaymarkError):
    """The results are not those of the job."""


def _take_step(spec: "JobStep", channel: _Channel) -> dict[str, object]:
    if spec["step"] == "fetch":
        return _fetch(spec, channel)
    return _evaluate(spec, channel) if spec["step"] == "evaluate" else _check(spec, channel)


def _fetch(spec: "FetchStep", channel: _Channel) -> dict[str, object]:
    """Fetch the model, and the data sets of the tasks; this step has the network."""
    from assaymark.leaderboard.submission.hub_models import HubModels
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
    from assaymark.runs.prepare import prepare_run

    source: ModelSource = (
        FolderModels([Path(folder) for folder in spec["folders"]]) if spec["source"] == "folder" else HubModels()
    )
    into = Path(spec["into"])
    model = source.fetch(spec["model"], spec["revision"], into)
    base = source.fetch(spec["base"], spec["base_revision"], into) if spec["base"] else None
    channel.stage("fetching data")
    for names, _ in spec["parts"]:
        prepare_run("fake", names, {"profile": spec["options"].get("profile")})
    return {"kind": "fetched", "model": str(model), "base": None if base is None else str(base)}


def _evaluate(spec: "EvaluateStep", channel: _Channel) -> dict[str, object]:
    """Evaluate, resuming what an earlier attempt stored in the job's own store."""
    from assaymark.runs.evaluate import evaluate
    from assaymark.runs.execute import RunProgress

    def observe(progress: RunProgress) -> None:
        chunk = progress.model
        done, total = chunk.n_outputs_done + progress.n_stored, chunk.n_outputs + progress.n_stored
        if chunk.n_tokens_distinct:  # windows end more often than outputs are complete
            done = max(done, round(total * chunk.n_tokens_done / chunk.n_tokens_distinct))
        share = (progress.chunk - 1 + done / max(1, total)) / progress.n_chunks
        channel.stage(f"evaluating {progress.tasks[0]}", round(1000 * share), 1000)

    if spec["screening"] is not None:
        return _screened(spec, spec["screening"], channel)
    for tasks, options in _parts(spec):
        own: EvaluateOptions = {**options, "store": spec["store"], "observe": observe, "command": "worker"}
        run = evaluate("hf", tasks, **own)
        stop_reason, is_empty = run.result and run.result.stop_reason, run.nothing_answered
        run.store.close()
        if stop_reason:
            return {"kind": "failed", "fault": "infrastructure", "reason": stop_reason}
        if is_empty:
            return _nothing_answered()
    return {"kind": "evaluated"}


def _screened(spec: "EvaluateStep", screening: "ScreeningSpec", channel: _Channel) -> dict[str, object]:
    """Evaluate until the rank set on the board is settled; a board that screens has one part."""
    from assaymark.leaderboard.submission.worker.screened import evaluate_screened

    ((tasks, options),) = _parts(spec)
    chosen: EvaluateOptions = {**options, "store": spec["store"]}

    def observe(task: str, n_seen: int, n: int) -> None:
        channel.stage(f"screening {task}", round(1000 * n_seen / n), 1000)

    stop_reason, is_empty = evaluate_screened(tasks, screening, observe, chosen)
    if stop_reason:
        return {"kind": "failed", "fault": "infrastructure", "reason": stop_reason}
    return _nothing_answered() if is_empty else {"kind": "evaluated"}


def _nothing_answered() -> dict[str, object]:
    reason = "every request failed: the model gives no finite numbers, or no text"
    return {"kind": "failed", "fault": "submission", "reason": reason}


def _check(spec: "CheckStep", channel: _Channel) -> dict[str, object]:
    """Copy the job's runs into a new store, and compute their estimates again.

    The evaluation's store may have been written by whoever controls the model. So the plans of the job's runs are made
    here, from the board, the submission and the fetched files alone; of the model only the configuration is read. Runs
    of other models, tasks or settings are left behind.
    """
    from assaymark.interop.one_file import copy_run
    from assaymark.leaderboard.submission.worker.results import check_content, check_run
    from assaymark.leaderboard.submission.worker.screened import mark_screened, settled_after
    from assaymark.runs.prepare import prepare_run
    from assaymark.runs.run import Run
    from assaymark.store import Store

    screening = spec["screening"]
    with _refusing():
        check_content(Path(spec["results"]))
    run_ids = []
    with Store.open(spec["results"]) as source, Store.open(spec["store"]) as target:
        with _refusing():
            if problems := source.verify():
                raise _Refused(f"the results do not verify: {problems[0]}")
        for tasks, options in _parts(spec):
            channel.stage("checking")
            _, prepared = prepare_run("hf", tasks, options)
            with _refusing():
                run_id, is_complete = check_run(source, prepared.plan, may_stop=screening is not None)
                copied, _ = copy_run(source, target, run_id)
                target.save_estimates(copied, [], {})
            Run(target, copied, None).summarise(prepared)
            if screening is not None and not is_complete:
                with _refusing():
                    n_seen = settled_after(target, copied, prepared, screening)
                n = sum(task.n_samples for task in prepared.plan.tasks)
                mark_screened(Run(target, copied, None), n_seen, n, screening)
            run_ids.append(copied)
    return {"kind": "checked", "runs": run_ids}


@contextmanager
def _refusing() -> Iterator[None]:
    """Report errors while reading the results as faults of the results."""
    try:
        yield
    except (MemoryError, _Refused):
        raise
    except DataError as error:
        raise _Refused(str(error)) from error
    except Exception as error:
        raise _Refused(f"the results cannot be read: {' '.join(str(error).split())[:300]}") from error


def _parts(spec: "EvaluateStep | CheckStep") -> "Iterator[tuple[list[str], EvaluateOptions]]":
    """Yield the tasks that are evaluated together, with the options of that run."""
    for tasks, shots in spec["parts"]:
        yield tasks, {**spec["options"], "model_args": spec["model_args"], "num_fewshot": shots}
