"""Reading the store: the one place of this part that does.

Estimates are read once for each state of a run and cached; samples are read when a page shows them. No audits.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from evalstone.errors import UnknownName
from evalstone.records import Estimate, JsonValue, RunPlan
from evalstone.report.comparison.compare import compare_runs
from evalstone.report.comparison.records import Comparison
from evalstone.report.evidence.from_store import run_evidence
from evalstone.report.evidence.stored_samples import deciding_score, is_wrong
from evalstone.store import AttemptRow, RunRow, SampleRecord, Store

__all__ = ["SampleLine", "SamplePage", "StoredRun", "StoredRuns", "model_label"]

SNIPPET = 200  # characters
KEPT_LISTS = 8  # tasks whose samples' facts are cached
CATEGORIES = ("category", "subject", "topic", "domain", "type", "level")  # columns that sort a task's samples
_SPACE = re.compile(r"\s+")


def model_label(name: str) -> str:
    """Return a model's name as pages show it: of a folder its last two parts, since the rest is this machine's."""
    shown = []
    for part in name.split("+"):
        parts = [one for one in part.split("/") if one not in {"", ".", "..", "~"}]
        is_path = part.startswith(("/", ".", "~")) or len(parts) > 2
        shown.append("/".join(parts[-2:]) if is_path and parts else part)
    return "+".join(shown)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with its estimates."""

    row: RunRow
    estimates: tuple[Estimate, ...]
    source: str = ""  # the file it was read from; empty for a run of the store

    @property
    def model(self) -> str:
        """The model's name as pages show it."""
        return model_label(self.row.model)

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.row.run_id

    @property
    def plan(self) -> RunPlan:
        """Its plan."""
        return self.row.plan


@dataclass(frozen=True, slots=True)
class SampleLine:
    """One sample of a list."""

    index: int
    turn: int
    snippet: str  # the end of its prompt, in one line
    category: str
    metric: str | None
    score: float | None
    status: str | None  # scored, unparsed or failed; None: not scored
    wrong: bool
    n_cut_tokens: int


@dataclass(frozen=True, slots=True)
class SamplePage:
    """Some of a task's samples."""

    lines: tuple[SampleLine, ...]
    n_matching: int
    n_total: int
    n_wrong: int
    categories: tuple[tuple[str, int], ...]  # with their number of samples


class StoredRuns:
    """A store's runs, as pages need them. May be used by several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._estimates: dict[str, tuple[str, tuple[Estimate, ...]]] = {}
        self._lists: dict[tuple[str, str, str], list[SampleLine]] = {}
        self._compared: dict[tuple[str, ...], Comparison] = {}

    @property
    def url(self) -> str:
        """Where the store is, without a password."""
        return self._store.url

    def runs(self) -> list[StoredRun]:
        """Return every run, the latest first."""
        return [self._with_estimates(row) for row in self._store.runs()]

    def run(self, name: str) -> StoredRun:
        """Return one run by its id or the beginning of it.

        Raises: UnknownName.
        """
        if not re.fullmatch(r"[0-9A-Za-z._-]{4,64}", name):
            raise UnknownName("run", name[:80], remedy="a run's id has at least four letters and digits")
        return self._with_estimates(self._store.run(name))

    def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Return when, where and with which versions a run was worked on."""
        return self._store.attempts(run_id)

    def comparison(self, run_ids: Sequence[str]) -> Comparison:
        """Return the paired comparison of stored runs, the first one the reference.

        Raises: UsageError where they have no task in common.
        """
        rows = [self._store.run(run_id) for run_id in run_ids]
        key = tuple(f"{row.run_id} {row.updated_at} {row.n_scores}" for row in rows)
        with self._lock:
            known = self._compared.get(key)
        if known is None:
            known = compare_runs([run_evidence(self._store, row.run_id) for row in rows])
            with self._lock:
                self._compared[key] = known
                while len(self._compared) > KEPT_LISTS:
                    self._compared.pop(next(iter(self._compared)))
        return known

    def _with_estimates(self, row: RunRow) -> StoredRun:
        with self._lock:
            known = self._estimates.get(row.run_id)
        state = f"{row.updated_at} {row.status} {row.n_scores}"
        if known is None or known[0] != state:
            known = (state, tuple(self._store.estimates(row.run_id)))
            with self._lock:
                self._estimates[row.run_id] = known
        return StoredRun(row, known[1])

    # -------------------------------------------------------------------------------------- samples

    def sample_page(
        self,
        run: RunRow,
        task: str,
        *,
        text: str = "",
        wrong_only: bool = False,
        category: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> SamplePage:
        """Return some of a task's samples, and how many there are.

        Raises: UnknownName for a task that the run does not have.
        """
        lines = self._lines(run, task)
        wanted = text.lower()
        keep: Callable[[SampleLine], bool] = lambda line: (  # noqa: E731
            (not wrong_only or line.wrong)
            and (not category or line.category == category)
            and (not wanted or wanted in line.snippet.lower() or wanted == str(line.index))
        )
        matching = [line for line in lines if keep(line)]
        counts: dict[str, int] = {}
        for line in lines:
            counts[line.category] = counts.get(line.category, 0) + 1
        return SamplePage(
            tuple(matching[offset : offset + limit]),
            len(matching),
            len(lines),
            sum(line.wrong for line in lines),
            tuple(sorted(counts.items())) if len(counts) > 1 else (),
        )

    def _lines(self, run: RunRow, task: str) -> list[SampleLine]:
        key = (run.run_id, task, f"{run.updated_at} {run.n_scores}")
        with self._lock:
            known = self._lists.get(key)
        if known is None:
            known = [_line(record) for record in self._store.samples(run.run_id, task)]
            with self._lock:
                self._lists[key] = known
                while len(self._lists) > KEPT_LISTS:
                    self._lists.pop(next(iter(self._lists)))
        return known

    def sample(self, run_id: str, task: str, index: int) -> list[SampleRecord]:
        """Return all turns of one sample.

        Raises: UnknownName for a task or a sample that the run does not have.
        """
        found = list(self._store.samples(run_id, task, indices=[index]))
        if not found:
            raise UnknownName("sample", f"{task} {index}", remedy="the run did not evaluate it")
        return found

    def same_sample(self, of: SampleRecord, besides: str, most: int = 40) -> Iterator[tuple[RunRow, SampleRecord]]:
        """Yield the same sample, by its hash, as other runs answered it, the latest run first."""
        request = of.request
        runs = [row for row in self._store.runs() if row.run_id != besides and request.task in row.tasks]
        for row in runs[:most]:
            for record in self._store.samples(row.run_id, request.task, indices=[request.sample_index]):
                if record.request.sample_sha256 == request.sample_sha256 and record.request.turn == request.turn:
                    yield row, record


def _line(record: SampleRecord) -> SampleLine:
    request = record.request
    score = deciding_score(record)
    row: Mapping[str, JsonValue] = record.sample.row if record.sample is not None else {}
    return SampleLine(
        index=request.sample_index,
        turn=request.turn,
        snippet=_snippet(row, request.prompt),
        category=next((str(row[name]) for name in CATEGORIES if isinstance(row.get(name), str | int)), ""),
        metric=None if score is None else score.metric,
        score=None if score is None else score.value,
        status=None if score is None else str(score.status),
        wrong=is_wrong(record),
        n_cut_tokens=max((output.n_cut_tokens for output in record.outputs), default=0),
    )


def _snippet(row: Mapping[str, Any], prompt: str) -> str:
    """Return a line that identifies a sample: its question where its row has one, else the end of its prompt."""
    for name in ("question", "query", "prompt", "problem", "sentence", "ctx", "text", "goal"):
        if isinstance(row.get(name), str) and row[name].strip():
            return _cut(row[name], from_end=False)
    return _cut(prompt, from_end=True)


def _cut(text: str, *, from_end: bool) -> str:
    near = text[-2 * SNIPPET :] if from_end else text[: 2 * SNIPPET]
    plain = _SPACE.sub(" ", near).strip()
    if len(plain) <= SNIPPET and len(text) <= 2 * SNIPPET:
        return plain
    return f"… {plain[-SNIPPET:]}" if from_end else f"{plain[:SNIPPET]} …"
