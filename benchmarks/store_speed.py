"""How fast the store gives boards and pages what they show, and how long an old store takes to be brought up to date.

python benchmarks/store_speed.py [--runs 1000] [--requests 1000000] [--samples 200000] [--dir DIR] [--store URL]

Prints three figures, each beside what it should stay below: the estimates of all runs in one query, the migration of a
store of the schema before `sample_facts` (with `fill_facts`, which is what takes the time), and the pages of one run:
opened, filtered, searched for a text, and cut out of the middle. With `--store postgresql://...` the same on a server
(an empty database); the migration is measured on a file only.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlalchemy import insert, text

from assaymark.records import (
    Estimate,
    EstimateDetails,
    LoglikelihoodQuery,
    ModelIdentity,
    Request,
    RunPlan,
    TaskPlan,
    content_hash,
)
from assaymark.store import Store, migrate
from assaymark.store.packing import pack_hash, pack_json, pack_text, text_digest, to_json
from assaymark.store.request_texts import TextDigests, hash_of, split_request
from assaymark.store.run_facts import facts_row
from assaymark.store.schema import (
    attempts,
    checksum_of,
    insert_rows,
    outputs,
    requests,
    run_facts,
    run_tasks,
    runs,
    scores,
    scorings,
    texts,
    with_checksum,
)

BEFORE = "0002"  # the schema without sample facts
AIMS = {"estimates": 0.05, "migration": 120.0, "pages": 1.0}  # seconds
TASKS_PER_RUN = 6
WORDS = (
    *("which", "of", "these", "rivers", "planet", "cell", "energy", "king", "treaty", "number", "angle"),
    *("poem", "market", "court", "theory", "water"),
)
SUBJECTS = ("physics", "history", "law", "biology", "economics")
NOW = "2026-01-01T00:00:00.000000Z"


def main() -> None:
    """Measure all three and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--dir", type=Path, default=None, help="where the stores are made")
    parser.add_argument("--store", default=None, help="URL of an empty PostgreSQL database")
    inputs = parser.parse_args()
    print(f"load before: {' '.join(f'{each:.2f}' for each in os.getloadavg())} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=inputs.dir) as folder:
        if inputs.runs:
            measure_estimates(inputs.store or str(Path(folder) / "runs.sqlite"), inputs.runs)
        if inputs.samples:
            measure_pages(inputs.store or str(Path(folder) / "large.sqlite"), inputs.samples)
        if inputs.requests and inputs.store is None:
            measure_migration(Path(folder) / "old.sqlite", inputs.requests)
    print(f"load after: {' '.join(f'{item:.2f}' for item in os.getloadavg())}")


def line(what: str, times: tuple[float, float], aim: float, detail: str = "") -> None:
    """Print one figure: wall time, and processor time, which other processes on the machine change less."""
    wall, processor = (f"{seconds * 1000:,.1f} ms" for seconds in times)
    print(f"{what:<58} {wall:>14}   processor {processor:>13}   aim < {aim * 1000:,.0f} ms{detail}", flush=True)


def median_of(call: Callable[[], Any], repeats: int = 7) -> tuple[float, float]:
    """Return the median times of a call: wall and processor. Units: seconds."""
    times = [timed(call) for _ in range(repeats)]
    return statistics.median(wall for wall, _ in times), statistics.median(processor for _, processor in times)


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return how long a call takes: wall and processor. Units: seconds."""
    begun = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


# ------------------------------------------------------------------------------------- estimates


def plan_of(number: int, names: list[str], n_samples: int) -> RunPlan:
    """Return the plan of one of many models."""
    model = ModelIdentity(f"lab/model-{number}", "hf", content_hash(number), content_hash("t"), None, "bfloat16",
                          "float32", 4096, 7_000_000_000 + number)  # fmt: skip
    tasks = tuple(
        TaskPlan(name, "1.0", content_hash(name), content_hash([name, "rows"]), 5, n_samples) for name in names
    )
    return RunPlan(model, "open-llm-v2", tasks)


def estimate_of(task: str, number: int, kind: str = "task") -> Estimate:
    """Return a plausible estimate with the details of a real one."""
    value = 0.25 + (number * 37 % 500) / 1000
    details: EstimateDetails = {
        "kind": kind, "alias": task, "version": "1.0", "output_type": "multiple_choice", "n_shots": 5, "n_total": 1319,
        "n_leaked": 0, "n_cut": 0, "n_mostly_cut": 0, "brier": 0.61, "calibration_error": 0.08,
        "calibration_error_null": 0.02, "calibration_p": 0.4, "path": [], "primary": True, "unit": "proportion",
        "n_tied": 3, "lm_eval_value": value, "lm_eval_stderr": 0.013, "lm_eval_n": 1319,
    }  # fmt: skip
    return Estimate(task, "acc_norm", "none", value, value - 0.03, value + 0.03, "wilson", 1319, stderr=0.013,
                    chance=0.25, details=details)  # fmt: skip


def measure_estimates(url: str, n_runs: int) -> None:
    """Print how long one query over all runs takes."""
    names = [f"task_{i}" for i in range(TASKS_PER_RUN)]
    with Store.open(url) as store:
        for number in range(n_runs):
            opened = store.open_run(plan_of(number, names, 1319), facts={})
            results = [estimate_of(name, number + i) for i, name in enumerate(names)]
            store.save_estimates(opened.run_id, [*results, estimate_of("board", number, "composite")])
            store.close_run(opened.run_id, opened.attempt_id, "finished")
        every = store.estimates_of_runs()
        n = sum(len(each.estimates) for each in every)
        assert (len(every), n) == (n_runs, n_runs * (TASKS_PER_RUN + 1))
        line(f"{n:,} estimates of {n_runs:,} runs with their facts", median_of(store.estimates_of_runs),
             AIMS["estimates"])  # fmt: skip
        line("  the composite of each of them", median_of(lambda: store.estimates_of_runs(tasks=["board"])),
             AIMS["estimates"])  # fmt: skip


# ------------------------------------------------------------------------------------- large stores


class LargeStore:
    """Writes rows as an evaluation writes them, many at once: the rows of tables that the earlier schema has too."""

    def __init__(self, store: Store, *, has_facts: bool) -> None:
        self.database, self.has_facts = store._database, has_facts
        self.ids = {"text": 0, "request": 0, "task": 0}
        self.known: dict[str, int] = {}
        self.digests = TextDigests()

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        with self.database.writing() as connection:
            yield connection

    def add_run(self, number: int, names: list[str], n_samples: int) -> None:
        """Add a run of tasks; runs share their texts, as runs of the same benchmark do."""
        plan = plan_of(number, names, n_samples)
        run_id = plan.key.removeprefix("sha256:")[:12]
        n = n_samples * len(names)
        seal = to_json({"n_requests": n, "n_outputs": 4 * n, "n_failed": 0, "n_scores": 2 * n})
        with self._writing() as connection:
            row = {"id": number, "run_id": run_id, "key": pack_hash(plan.key), "plan": pack_text(to_json(plan.content)),
                   "status": "finished", "created_at": NOW, "updated_at": NOW, "summary": None, "extra": None,
                   "seal": seal, "visibility": None}  # fmt: skip
            row = with_checksum(runs, row)
            if not self.has_facts:  # the earlier schema has no such column
                del row["visibility"]
            connection.execute(insert(runs), row)
            attempt = {"run": number, "number": 1, "status": "finished", "started_at": NOW, "ended_at": NOW,
                       "host": "h", "process_id": 1, "command": None, "facts": pack_json({}),
                       "summary": None}  # fmt: skip
            connection.execute(insert(attempts), with_checksum(attempts, attempt))
            if self.has_facts:
                connection.execute(insert(run_facts), facts_row(number, plan))
        for position, name in enumerate(names):
            self._add_task(number, position, name, n_samples)

    def _add_task(self, run: int, position: int, name: str, n_samples: int) -> None:
        self.ids["task"] += 1
        task = self.ids["task"]
        with self._writing() as connection:
            row = {"id": task, "run": run, "position": position, "name": name}
            connection.execute(insert(run_tasks), with_checksum(run_tasks, row))
            for place, metric in enumerate(("acc", "acc_norm")):
                scoring = {"id": 2 * task + place, "run_task": task, "scoring_hash": pack_hash(content_hash("s")),
                           "filter": "none", "metric": metric, "sequence": 1}  # fmt: skip
                connection.execute(insert(scorings), with_checksum(scorings, scoring))
        for start in range(0, n_samples, 5000):
            with self._writing() as connection:
                self._add_samples(connection, task, name, range(start, min(start + 5000, n_samples)))

    def _add_samples(self, connection: Any, task: int, name: str, indices: range) -> None:
        new: list[dict[str, Any]] = []
        rows: dict[str, list[dict[str, Any]]] = {"requests": [], "outputs": [], "scores": []}
        for index in indices:
            question = " ".join(WORDS[(index * step + step) % len(WORDS)] for step in range(1, 30)) + f" {index}?"
            row = {"question": question, "subject": SUBJECTS[index % len(SUBJECTS)], "choices": ["a", "b", "c", "d"],
                   "answer": index % 4}  # fmt: skip
            queries = tuple(LoglikelihoodQuery(i, letter) for i, letter in enumerate((" A", " B", " C", " D")))
            request = Request(name, index, content_hash(index), ("shots " * 200, question), queries,
                              target=str(index % 4), n_shots=5)  # fmt: skip
            apart = split_request(request)
            pieces = [self._text(piece, new) for piece in apart.pieces]
            self.ids["request"] += 1
            number = self.ids["request"]
            rows["requests"].append(with_checksum(requests, {
                "id": number, "run_task": task, "sample_index": index, "turn": 0,
                "content_hash": hash_of(apart, self.digests),
                "sample_sha256": pack_hash(request.sample_sha256), "n_outputs": 4, "pieces": to_json(pieces),
                "form": self._text(apart.form, new), "sample_row": self._text(to_json(row), new),
            }))  # fmt: skip
            rows["outputs"] += [self._output(number, i) for i in range(4)]
            right = float((index * 7 + task) % 10 < 6)
            detail = pack_json({"picked": index % 4, "gold": [index % 4], "n_tied": 1, "n_near": 1, "credit": right,
                                "n_choices": 4, "nats": [-1.5, -2.25, -3.5, -4.75]})  # fmt: skip
            rows["scores"] += [
                with_checksum(scores, {"request": number, "scoring": 2 * task + place, "value": right,
                                       "status": "scored", "parts": None, "detail": detail})
                for place in range(2)
            ]  # fmt: skip
        insert_rows(connection, _INSERT["texts"], new)
        for table, entry in rows.items():
            insert_rows(connection, _INSERT[table], entry)

    @staticmethod
    def _output(request: int, query: int) -> dict[str, Any]:
        return with_checksum(outputs, {
            "request": request, "ask_index": query, "repeat": 0, "attempt": 1, "total_nats": -1.5 - query,
            "is_greedy": 0, "text": None, "reasoning": None, "tool_calls": None, "finish_reason": None,
            "n_context_tokens": 700, "n_tokens": 1, "n_cut_tokens": 0, "cache_key": None, "from_cache": 0,
            "error": None, "error_kind": None,
        })  # fmt: skip

    def _text(self, content: str, new: list[dict[str, Any]]) -> int:
        if content not in self.known:
            self.ids["text"] += 1
            self.known[content] = self.ids["text"]
            new.append({"id": self.ids["text"], "sha256": text_digest(content), "content": pack_text(content)})
        return self.known[content]


_INSERT = {table.name: insert(table) for table in (texts, requests, outputs, scores)}


def measure_migration(path: Path, n_requests: int) -> None:
    """Print how long a store of the earlier schema takes until its lists are fast."""
    names = [f"task_{i}" for i in range(TASKS_PER_RUN)]
    n_samples = min(2000, max(1, n_requests // TASKS_PER_RUN))
    n_runs = -(-n_requests // (TASKS_PER_RUN * n_samples))
    with patch.multiple(migrate, HEAD=BEFORE, TARGET=BEFORE), Store.open(str(path)) as store:
        large = LargeStore(store, has_facts=False)
        for number in range(1, n_runs + 1):
            large.add_run(number, names, n_samples)
            with store._database.writing() as connection:
                connection.execute(_EARLIER_ESTIMATE, [_earlier(number, i, name) for i, name in enumerate(names)])
    migrated = timed(Store.open(str(path)).close)
    with Store.open(str(path)) as store:
        filled = timed(store.fill_facts)
        assert store.fill_facts() == 0
    n, size = n_runs * n_samples * TASKS_PER_RUN, path.stat().st_size / 2**20
    detail = f"   (schema and estimates {migrated[0]:.1f} s, facts {filled[0]:.1f} s; {size:,.0f} MiB)"
    both = (migrated[0] + filled[0], migrated[1] + filled[1])
    line(f"{n:,} requests of {n_runs} runs migrated and filled", both, AIMS["migration"], detail)


_EARLIER_ESTIMATE = text("INSERT INTO estimates (run, position, content, checksum) VALUES (:run, :position, :content, "
                         ":checksum)")  # fmt: skip


def _earlier(run: int, position: int, task: str) -> dict[str, Any]:
    item = estimate_of(task, run)
    content = pack_json({name: getattr(item, name) for name in item.__slots__})
    values = (run, position, content)
    checksum = checksum_of([b"run", b"position", b"content"], values)
    return {"run": run, "position": position, "content": content, "checksum": checksum}


# ------------------------------------------------------------------------------------------- pages


def measure_pages(url: str, n_samples: int) -> None:
    """Print how long the pages of one large run take."""
    with Store.open(url) as store:
        LargeStore(store, has_facts=True).add_run(1_000_000, ["large"], n_samples)
    with Store.open(url) as store:
        (run_id,) = [row.run_id for row in store.runs() if row.tasks == ("large",)]
        wall, processor = timed(lambda: store.save_estimates(run_id, [estimate_of("large", 1)]))
        print(f"  facts of {n_samples:,} samples stored in {wall:.1f} s, processor {processor:.1f} s")
        wall, processor = timed(lambda: store.index_samples(run_id))
        print(f"  search index of {n_samples:,} samples made in {wall:.1f} s, processor {processor:.1f} s")
    middle = n_samples // 5
    pages: dict[str, Callable[[Store], Any]] = {
        "first page": lambda store: store.sample_list(run_id, "large"),
        "wrong ones, from the middle": lambda store: store.sample_list(run_id, "large", wrong_only=True, offset=middle),
        "one category, wrong ones": lambda store: store.sample_list(
            run_id, "large", wrong_only=True, category="law", offset=middle // 10
        ),
        "a text in the snippet": lambda store: store.sample_list(run_id, "large", query=f"{n_samples - 7}?"),
        "categories": lambda store: store.categories(run_id, "large"),
        "words by the index": lambda store: store.sample_list(run_id, query=f"treaty {n_samples - 7}"),
    }
    with Store.open(url, read_only=True) as store:
        for what, call in pages.items():
            result = call(store)
            n = result.total if hasattr(result, "total") else len(result)
            detail = f"   ({n:,} found)"
            line(f"{n_samples:,} samples: {what}", median_of(partial(call, store), 3), AIMS["pages"], detail)


if __name__ == "__main__":
    main()
