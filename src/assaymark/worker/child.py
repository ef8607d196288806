"""The process that does a job: `python -m assaymark.worker.child JOB.json`, in a folder of its own.

It prints one JSON object per line: progress, then either what it made or why it failed and whose fault that is. It ends
when its standard input does, so that it never outlives its worker. It writes into the job's own store and knows no
other.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assaymark.errors import AssaymarkError, DataError, ModelUnavailable, Permanent, Retryable, UsageError

__all__ = ["main"]

_THEIRS = (UsageError, ModelUnavailable, Permanent)


def main(argv: list[str]) -> int:
    """Do what a job's file says; return the exit status."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    spec = json.loads(Path(argv[1]).read_text(encoding="utf-8"))
    try:
        _say(_fetch(spec) if spec["step"] == "fetch" else _evaluate(spec))
    except MemoryError:
        _say({"failed": "ours", "reason": "out of memory"})
        return 1
    except AssaymarkError as error:
        _say({"failed": _fault(error, spec), "reason": str(error)})
        return 1
    except Exception as error:  # noqa: BLE001 - reported to the worker in one line, with the traceback in its log
        import traceback

        traceback.print_exc()
        _say({"failed": "ours", "reason": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
        return 1
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock a thread would hold at the interpreter's end
        pass
    os._exit(1)


def _say(value: Mapping[str, Any]) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201 - the worker reads it


def _fault(error: AssaymarkError, spec: Mapping[str, Any]) -> str:
    """Return whose fault an error is: of data sets, the store and the network it is ours."""
    if isinstance(error, Retryable | DataError) or (spec["step"] == "fetch" and isinstance(error, UsageError)):
        return "ours"
    return "theirs" if isinstance(error, _THEIRS) else "ours"


def _fetch(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fetch the model, and the data sets of the tasks; this step has the network."""
    from assaymark.leaderboard.submission.hub_models import HubModels
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
    from assaymark.runner.prepare import prepare_run

    source: ModelSource = (
        FolderModels([Path(one) for one in spec["folders"]])
        if spec["source"] == "folder"
        else HubModels(cache=Path(spec["cache"]))
    )
    model = source.fetch(spec["model"], spec["revision"])
    base = source.fetch(spec["base"], spec["base_revision"]) if spec["base"] else None
    _say({"stage": "fetching data"})
    for name in spec["tasks"]:
        prepare_run("fake", name, {"profile": spec["options"].get("profile")})
    return {"model": str(model), "base": None if base is None else str(base)}


def _evaluate(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate, resuming what an earlier attempt stored in the job's own store."""
    from assaymark.api.evaluate import evaluate
    from assaymark.runner.execute import RunProgress

    def observe(progress: RunProgress) -> None:
        chunk = progress.model
        done, total = chunk.n_outputs_done + progress.n_stored, chunk.n_outputs + progress.n_stored
        if chunk.n_tokens_distinct:  # windows end more often than outputs are complete
            done = max(done, round(total * chunk.n_tokens_done / chunk.n_tokens_distinct))
        share = (progress.chunk - 1 + done / max(1, total)) / progress.n_chunks
        _say({"stage": f"evaluating {progress.tasks[0]}"[:32], "done": round(1000 * share), "total": 1000})

    runs = []
    for tasks, shots in spec["parts"]:
        options = {**spec["options"], "num_fewshot": shots, "store": spec["store"]}
        run = evaluate("hf", tasks, model_args=spec["model_args"], observe=observe, command="worker", **options)
        runs.append(run)
        if run.result is not None and run.result.stop_reason:
            return {"failed": "ours", "reason": run.result.stop_reason}
        if run.nothing_answered:
            return {"failed": "theirs", "reason": "every request failed: the model gives no finite numbers, or no text"}
    ids = [run.id for run in runs]
    for run in runs:
        run.store.close()
    return {"runs": ids}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
