"""Reader of records of Every Eval Ever: one, or a folder of records of one model, with samples where they lie beside.

A record without samples gives its values as reported, with the intervals that it states. With samples, values of means
are computed from them; a metric over the whole corpus stays as reported. A checksum or a number of rows that does not
match is said, and so is each row that belongs to no result.

Source: the schemas of every-eval-ever 0.3.0; `every_eval_records` checks a record.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.every_eval_records import (
    SAMPLES,
    EvalRecord,
    Part,
    StatedResult,
    StatedSamples,
    has_records,
    is_record,
    read_record,
    record_files,
    sample_parts,
)
from assaymark.interop.imported import AnswerFacts, ForeignRun, ForeignSample, Importer
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metric import Scale
from assaymark.scoring.metrics import aggregation_of

FORMAT = "Every Eval Ever's records, with or without samples"


def holds_records(path: Path) -> bool:
    """Return whether a path is a record, a record's samples, or a folder with records."""
    return has_records(path) if path.is_dir() else is_record(path)


def read_every_eval(path: Path) -> ForeignRun:
    """Return the run in a record, or in a folder of records of one model.

    Raises: DataError if a record or a row is not as the format has it, or the records are of several models.
    """
    if path.is_dir():
        files, left_out = record_files(path)
        folder = path
    else:
        files, left_out, folder = [_aggregate_of(path)], [], path.parent
    every = [read_record(file) for file in files]
    models = sorted({record.model for record in every})
    if len(models) > 1:
        raise DataError(
            f"{path} has records of {len(models):,} models ({', '.join(models[:4])}); import one model's folder, or "
            f"show all of them as a board: assaymark board init --table {path}"
        )
    records, older = _latest(every)
    read = {record.file: _Rows(record) for record in records}
    for record in records:
        read[record.file].add_all(folder)
    libraries = {(record.library, record.library_version) for record in records}
    library, version = libraries.pop() if len(libraries) == 1 else ("every-eval-ever", None)
    date = datetime.fromtimestamp(max(record.date for record in records), UTC).isoformat()
    tasks = [task for record in records for task in _tasks(record)]
    return ForeignRun(
        tool="every-eval-ever" if library == "unknown" else library,
        model=models[0],
        tasks=tuple(tasks),
        samples=tuple(sample for record in records for sample in read[record.file].samples()),
        reported=tuple(value for record in records for value in _reported(record)),
        files=tuple(file for record in records for file in (record.file, *read[record.file].files)),
        version=version,
        date=date,
        dtype=next((record.details["dtype"] for record in records if "dtype" in record.details), "dtype unknown"),
        config={
            record.id: {"source": record.source, "organization": record.organization, "model": dict(record.details)}
            for record in records
        },
        notes=(*left_out, *older, *_remarks(records), *(note for rows in read.values() for note in rows.notes())),
        may_be_part=True,
        shots_known=all(result.num_fewshot is not None for record in records for result in record.results),
    )


def _aggregate_of(path: Path) -> Path:
    """Return the record of a file; of samples the one beside them."""
    if not path.name.endswith(SAMPLES):
        return path
    record = path.with_name(f"{path.name.removesuffix(SAMPLES)}.json")
    if not record.is_file():
        raise DataError(f"{path} is samples without their record; expected {record.name} beside them")
    return record


def _latest(records: Sequence[EvalRecord]) -> tuple[list[EvalRecord], list[str]]:
    """Return records without those of which a later one has the same results, and a line for each of them."""
    chosen: list[EvalRecord] = []
    left_out: list[str] = []
    for record in sorted(records, key=lambda each: (-each.date, each.file)):
        keys = {result.key for result in record.results}
        later = next((each for each in chosen if keys & {result.key for result in each.results}), None)
        if later is None:
            chosen.append(record)
        else:
            left_out.append(
                f"{record.file} has results that {later.file} has too, which is later, and is excluded; to have both, "
                "import each by its path"
            )
    return sorted(chosen, key=lambda each: each.file), left_out


def _tasks(record: EvalRecord) -> Iterator[TaskSummaryInput]:
    for name in dict.fromkeys(result.name for result in record.results):
        own = [result for result in record.results if result.name == name]
        chances = {chance for result in own if (chance := _chance(result)) is not None}
        yield TaskSummaryInput(
            name=name,
            metrics=tuple(
                MetricInput(
                    metric,
                    aggregation_of(metric),
                    higher_is_better=next(each.higher_is_better for each in own if each.metric == metric),
                    filters=tuple(each.filter for each in own if each.metric == metric),
                    scale=_scale(next(each for each in own if each.metric == metric)),
                )
                for metric in dict.fromkeys(each.metric for each in own)
            ),
            output_type="unknown",
            num_fewshot=next((each.num_fewshot for each in own if each.num_fewshot is not None), 0),
            n_total=next((each.n_total for each in own if each.n_total is not None), None),
            chance=chances.pop() if len(chances) == 1 else None,
        )


def _scale(result: StatedResult) -> Scale | None:
    """Return what a result's bounds say of it; None where they are not stated."""
    if result.bounds is None:
        return None
    return "share" if result.bounds == (0.0, 1.0) else "number"


def _chance(result: StatedResult) -> float | None:
    try:
        chance = float(result.details.get("chance", ""))
    except ValueError:
        return None
    return chance if 0.0 <= chance <= 1.0 else None


def _reported(record: EvalRecord) -> Iterator[ReportedValue]:
    for each in record.results:
        yield ReportedValue(
            each.name, each.metric, each.value, each.stderr, each.n, each.filter, interval=each.interval
        )


def _remarks(records: Sequence[EvalRecord]) -> Iterator[str]:
    """Yield a line for each value that is shown otherwise than its record has it."""
    for record in records:
        for result in record.results:
            what = f"{result.name} {result.metric}"
            yield from (f"{what}: {note}" for note in result.notes)
            if result.scale != 1.0:
                yield f"{what} is stated in per cent, and is shown as the share that it is of {result.scale:g}"


@dataclass
class _Sample:
    """What the rows of one sample say together."""

    row: Mapping[str, JsonValue]
    prompt: str
    target: str
    answers: tuple[str, ...]
    counts: tuple[AnswerFacts, ...]
    n_choices: int | None
    n_shots: int
    scores: dict[tuple[str, str], float | None] = field(default_factory=dict)  # by metric and filter


class _Rows:
    """The rows of a record's samples, gathered by sample."""

    def __init__(self, record: EvalRecord) -> None:
        self.record = record
        self.files: tuple[Path, ...] = ()
        self._by_task: dict[str, dict[tuple[str, int], _Sample]] = {}
        self._seen: Counter[tuple[str, str, str, str]] = Counter()
        self._said: list[str] = []
        self._counts: Counter[str] = Counter()
        self._by_id = {result.id: result for result in record.results if result.id is not None}
        by_name: dict[str, list[StatedResult]] = {}
        for result in record.results:
            whole = result.name if result.filter == "none" else f"{result.name}/{result.filter}"
            by_name.setdefault(whole, []).append(result)
        self._by_name = {name: own[0] for name, own in by_name.items() if len(own) == 1}

    def add_all(self, folder: Path) -> None:
        """Read the samples, if the record has any, and compare their file with what the record says of it."""
        stated = self.record.samples
        if stated is None:
            return
        if not stated.file.is_file():
            self._said.append(f"{self.record.file.name} names samples, and {stated.file.name} is not beside it")
            return
        digest = hashlib.new(stated.algorithm or "sha256", usedforsecurity=False)
        n_rows = 0
        for part, line in sample_parts(stated, folder):
            digest.update(line)
            if part.content:
                n_rows += 1
                self._add(part)
        self.files = (stated.file,)
        self._compare(stated, digest.hexdigest(), n_rows)

    def _compare(self, stated: StatedSamples, checksum: str, n_rows: int) -> None:
        if stated.checksum is not None and stated.checksum.rpartition(":")[2].lower() != checksum:
            self._said.append(f"{stated.file.name} is not the file whose checksum {self.record.file.name} states")
        if stated.total_rows is not None and stated.total_rows != n_rows:
            self._said.append(
                f"{stated.file.name} has {n_rows:,} rows, and {self.record.file.name} states {stated.total_rows:,}"
            )

    def _add(self, part: Part) -> None:
        if part.text("evaluation_id") != self.record.id:
            self._counts["of another evaluation (evaluation_id)"] += 1
            return
        if part.text("model_id") != self.record.model:
            self._counts["of another model (model_id)"] += 1
            return
        named = part.text_or("evaluation_result_id")
        result = self._by_id.get(named) if named is not None else self._by_name.get(part.text("evaluation_name"))
        if result is None:
            self._counts["of no result of the record, or of one of several"] += 1
            return
        evaluation = part.part("evaluation", needed=True)
        score: float | None = evaluation.number("score") / result.scale
        if result.has_unknown_level and score == -1.0:
            score = None
        name = part.text("sample_id")
        key = (*result.key, name)
        sample = self._sample(part, result, (name, self._seen[key]))
        self._seen[key] += 1
        if part.content.get("error") is not None:
            self._counts["with an error and a score, which counts as the file has it"] += 1
        if aggregation_of(result.metric) != "mean" or result.details.get("aggregation", "mean") != "mean":
            self._counts[f"of {result.metric}, which is no mean over samples: its reported value is shown"] += 1
        else:
            sample.scores[result.metric, result.filter] = score

    def _sample(self, part: Part, result: StatedResult, place: tuple[str, int]) -> _Sample:
        own = self._by_task.setdefault(result.name, {})
        if place not in own:
            own[place] = _sample_of(part, result)
        return own[place]

    def samples(self) -> Iterator[ForeignSample]:
        """Yield the samples by task; an id that is a position is the sample's, else they are counted."""
        for task, own in self._by_task.items():
            with_scores = {place: sample for place, sample in own.items() if sample.scores}
            names = [name for name, _ in with_scores]
            are_positions = len(set(names)) == len(names) and all(
                name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name for name in names
            )
            for at, ((name, _), sample) in enumerate(with_scores.items()):
                yield ForeignSample(
                    task=task,
                    index=int(name) if are_positions else at,
                    row=sample.row,
                    prompt=sample.prompt,
                    target=sample.target,
                    scores={metric: value for (metric, by), value in sample.scores.items() if by == "none"},
                    filtered={key: value for key, value in sample.scores.items() if key[1] != "none"},
                    answers=sample.answers,
                    counts=sample.counts,
                    n_choices=sample.n_choices,
                    n_shots=sample.n_shots,
                )

    def notes(self) -> Iterator[str]:
        """Yield a line for each thing that does not match."""
        yield from self._said
        file = f"{self.record.file.stem}{SAMPLES}"
        yield from (f"{file}: {count:,} rows {what}" for what, count in self._counts.items())


def _sample_of(part: Part, result: StatedResult) -> _Sample:
    asked = part.part("input", needed=True)
    raw = asked.content.get("raw")
    if not isinstance(raw, str):
        raise asked.fault("raw", "a text")
    reference, choices = (_listed(asked, key) for key in ("reference", "choices"))
    prompt = asked.content.get("formatted")
    if part.text("interaction_type") == "single_turn":
        answers = tuple(_listed(part.part("output", needed=True), "raw"))
        prompt = prompt if isinstance(prompt, str) else raw
    else:
        messages = part.parts("messages")
        last = max((at for at, each in enumerate(messages) if each.text("role") == "assistant"), default=len(messages))
        prompt = "\n\n".join(_spoken(message) for message in messages[:last]) or raw
        answers = tuple(_said(message) for message in messages[last:])
    usage = part.part("token_usage")
    counts: tuple[AnswerFacts, ...] = ()
    if usage.content and len(answers) == 1:
        counts = (AnswerFacts(usage.count("input_tokens") or 0, usage.count("output_tokens") or 0),)
    return _Sample(
        {"input": raw, "reference": reference, **({"choices": choices} if choices else {})},
        prompt, ", ".join(reference), answers, counts, len(choices) or None, result.num_fewshot or 0,
    )  # fmt: skip


def _listed(part: Part, key: str) -> list[str]:
    value = part.content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise part.fault(key, "a list of texts")
    return value


def _spoken(message: Part) -> str:
    return f"{message.text('role')}: {_said(message)}"


def _said(message: Part) -> str:
    """Return a message's text, and the calls of tools in it."""
    calls = [] if message.content.get("tool_calls") is None else message.parts("tool_calls")
    named = [f"[call {call.text('name')} {dict(call.part('arguments').content)}]" for call in calls]
    content = message.content.get("content")
    return "\n".join([*([content] if isinstance(content, str) and content else []), *named])


IMPORTER = Importer(holds_records, read_every_eval, FORMAT)
