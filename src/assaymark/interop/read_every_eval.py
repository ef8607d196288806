"""Reader of records of Every Eval Ever: one, or a folder of records of one model, with samples where they lie beside.

A record without samples gives its values as reported, with the intervals that it states. With samples, values of means
are computed from them; a metric over the whole corpus stays as reported. A checksum or a number of rows that does not
match is said, and so is each row that belongs to no result. The question is the unit: rows of one `sample_id` with the
same question are its trials.

Source: the schemas of every-eval-ever 0.3.0; `every_eval_records` checks a record.
"""

import hashlib
import math
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
    RecordResult,
    StatedSamples,
    has_records,
    is_record,
    read_record,
    record_files,
    sample_parts,
)
from assaymark.interop.imported import AnswerFacts, ForeignRun, ForeignSample, Importer
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue, content_hash
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metric import Scale
from assaymark.scoring.metrics import aggregation_of

FORMAT = "Every Eval Ever's records, with or without samples"


ROUNDING = 0.02  # relative: of a stated value in one of two units that are a hundredfold apart


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
    gathered, excluded = _merged([(record, read[record.file]) for record in records])
    tasks = tuple(_tasks([result for record in records for result in record.results]))
    chances = {task.name: task.chance for task in tasks}
    return ForeignRun(
        tool="every-eval-ever" if library == "unknown" else library,
        model=models[0],
        tasks=tasks,
        samples=tuple(sample for task, own in gathered.items() for sample in _samples(task, own, chances.get(task))),
        reported=tuple(value for record in records for value in _reported(record, read[record.file].n)),
        files=tuple(file for record in records for file in (record.file, *read[record.file].files)),
        version=version,
        date=date,
        dtype=next((record.details["dtype"] for record in records if "dtype" in record.details), "dtype unknown"),
        config={
            record.id: {"source": record.source, "organization": record.organization, "model": dict(record.details)}
            for record in records
        },
        notes=(
            *left_out,
            *older,
            *_remarks(records),
            *(note for rows in read.values() for note in rows.notes()),
            *excluded,
        ),
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


def _tasks(results: Sequence[RecordResult]) -> Iterator[TaskSummaryInput]:
    of_tasks: dict[str, list[RecordResult]] = {}
    for result in results:
        of_tasks.setdefault(result.name, []).append(result)
    for name, own in of_tasks.items():
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


def _scale(result: RecordResult) -> Scale | None:
    """Return what a result's bounds say of it; None where they are not stated."""
    if result.bounds is None:
        return None
    return "share" if result.bounds == (0.0, 1.0) else "number"


def _chance(result: RecordResult) -> float | None:
    try:
        chance = float(result.details.get("chance", ""))
    except ValueError:
        return None
    return chance if 0.0 <= chance <= 1.0 else None


def _reported(record: EvalRecord, n: Mapping[tuple[str, str, str], int]) -> Iterator[ReportedValue]:
    for each in record.results:
        yield ReportedValue(
            each.name, each.metric, each.value, each.stderr, n.get(each.key, each.n), each.filter,
            interval=each.interval,
        )  # fmt: skip


def _remarks(records: Sequence[EvalRecord]) -> Iterator[str]:
    """Yield a line for each value that is shown otherwise than its record has it."""
    for record in records:
        for result in record.results:
            what = f"{result.name} {result.metric}"
            yield from (f"{what}: {note}" for note in result.notes)
            if result.scale != 1.0:
                yield f"{what} is stated in per cent, and is shown as the share that it is of {result.scale:g}"


@dataclass(frozen=True, slots=True)
class _Trial:
    """What a row says of one time that its question was asked."""

    answers: tuple[str, ...]
    error: str | None
    counts: AnswerFacts


@dataclass
class _Sample:
    """What the rows of one question say together."""

    row: Mapping[str, JsonValue]
    prompt: str
    target: str
    n_choices: int | None
    n_shots: int
    trials: list[_Trial] = field(default_factory=list)
    scores: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)  # by metric and filter, of trials

    @property
    def answers(self) -> list[tuple[tuple[str, ...], str | None]]:
        """What the model answered, or why it did not, in each trial."""
        return [(trial.answers, trial.error) for trial in self.trials]


_Samples = dict[tuple[str, str], _Sample]  # by id and the hash of the question


class _Rows:
    """The rows of a record's samples, gathered by sample."""

    def __init__(self, record: EvalRecord) -> None:
        self.record = record
        self.files: tuple[Path, ...] = ()
        self.by_task: dict[str, _Samples] = {}
        self.n: dict[tuple[str, str, str], int] = {}  # questions of each result, where it counts their rows
        self._said: list[str] = []
        self._counts: Counter[str] = Counter()
        self._by_id = {result.id: result for result in record.results if result.id is not None}
        by_name: dict[str, list[RecordResult]] = {}
        for result in record.results:
            whole = result.name if result.filter == "none" else f"{result.name}/{result.filter}"
            by_name.setdefault(whole, []).append(result)
        self._by_name = {name: own[0] for name, own in by_name.items() if len(own) == 1}

    def add_all(self, folder: Path) -> None:
        """Read the samples, if the record has any, and compare their file with what the record says of it."""
        stated = self.record.samples
        if stated is None:
            return
        if not stated.file.exists():
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
        for result in self.record.results:
            self._convert(result)
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
        if aggregation_of(result.metric) != "mean" or result.details.get("aggregation", "mean") != "mean":
            self._counts[f"of {result.metric}, which is no mean over samples: its reported value is shown"] += 1
            return
        score: float | None = part.part("evaluation", needed=True).number("score")
        made, trial = _sample_of(part, result)
        if trial.error is not None:
            self._counts["with an error, which have failed and are excluded"] += 1
        if trial.error is not None or (result.has_unknown_level and score == -1.0):
            score = None
        place = part.text("sample_id"), content_hash(dict(made.row))
        sample = self.by_task.setdefault(result.name, {}).setdefault(place, made)
        scores = sample.scores.setdefault((result.metric, result.filter), [])
        if len(scores) == len(sample.trials):  # rows of other metrics have the same answers
            sample.trials.append(trial)
        elif sample.trials[len(scores)].error is not None and trial.error is None:  # only the other metric failed
            sample.trials[len(scores)] = trial
        scores.append(score)

    def _convert(self, result: RecordResult) -> None:
        """Convert a result's scores to the unit of its value; scores whose unit is not known are left out."""
        key = (result.metric, result.filter)
        samples = [each for each in self.by_task.get(result.name, {}).values() if key in each.scores]
        own = [sample.scores[key] for sample in samples]
        if result.n == sum(map(len, own)):
            self.n[result.key] = len(own)
        means = [mean for scores in own if (mean := _mean(scores)) is not None]
        if not means:
            return
        largest = max(score for scores in own for score in scores if score is not None)
        unit = _unit_of_rows(result, sum(means) / len(means), largest)
        if unit is None:
            self._said.append(
                f"{result.name} {result.metric}: its samples' scores give the reported value neither as shares nor in "
                "per cent; the reported value is shown, without them"
            )
        for sample in samples:
            scores = sample.scores.pop(key)
            if unit is not None:
                sample.scores[key] = [None if score is None else score / unit for score in scores]

    def notes(self) -> Iterator[str]:
        """Yield a line for each thing that does not match."""
        yield from self._said
        file = f"{self.record.file.stem}{SAMPLES}"
        yield from (f"{file}: {count:,} rows {what}" for what, count in self._counts.items())


def _unit_of_rows(result: RecordResult, mean: float, largest: float) -> float | None:
    """Return by what the scores of a result's rows are divided; None where that is not known.

    No key states the rows' unit. Scores above 1 are in per cent; others may be shares of a value in per cent, which
    the value itself says.
    """
    if result.scale == 1.0 or largest > 1.0:
        return result.scale
    fitting = (unit for unit in (result.scale, 1.0) if _is_near(mean / unit, result.value))
    return next(fitting, None)


def _is_near(value: float, stated: float | None) -> bool:
    return stated is not None and math.isclose(value, stated, rel_tol=ROUNDING, abs_tol=1e-9)


def _mean(scores: Sequence[float | None]) -> float | None:
    """Return the mean of the trials that have a score; None without any."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def _merged(every: Sequence[tuple[EvalRecord, _Rows]]) -> tuple[dict[str, _Samples], list[str]]:
    """Return the samples of all records by task, and a line for each record with other samples under the same ids.

    Records of one task have other metrics. A question with the same answers is one sample with all of them; of others
    with an equal id those of the latest record are kept.
    """
    merged: dict[str, _Samples] = {}
    notes = []
    for record, rows in sorted(every, key=lambda each: (-each[0].date, each[0].file)):
        for task, samples in rows.by_task.items():
            known = merged.setdefault(task, {})
            ids = {name for name, _ in known}
            n_others = 0
            for place, sample in samples.items():
                if not sample.scores:
                    continue
                same = known.get(place)
                if place[0] not in ids:
                    known[place] = sample
                elif same is not None and same.answers == sample.answers:
                    same.scores |= sample.scores
                else:
                    n_others += 1
            if n_others:
                notes.append(
                    f"{record.file}: {n_others:,} samples of {task} have the sample_id of another question or answer "
                    "in a later record, and are excluded; to have both, import each by its path"
                )
    return merged, notes


def _samples(task: str, own: _Samples, chance: float | None) -> Iterator[ForeignSample]:
    """Yield a task's samples; an id that is a position is the sample's, else they are counted."""
    names = [name for name, _ in own]
    are_positions = len(set(names)) == len(names) and all(
        name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name for name in names
    )
    for at, ((name, _), sample) in enumerate(own.items()):
        unfiltered = {metric: scores for (metric, by), scores in sample.scores.items() if by == "none"}
        by_trial = {
            metric: tuple(score for score in scores if score is not None) for metric, scores in unfiltered.items()
        }
        yield ForeignSample(
            task=task,
            index=int(name) if are_positions else at,
            row=sample.row,
            prompt=sample.prompt,
            target=sample.target,
            scores={metric: _mean(scores) for metric, scores in unfiltered.items()},
            filtered={key: _mean(scores) for key, scores in sample.scores.items() if key[1] != "none"},
            answers=tuple(answer for trial in sample.trials for answer in trial.answers),
            counts=tuple(trial.counts for trial in sample.trials for _ in trial.answers),
            n_choices=sample.n_choices,
            chance=chance,
            n_shots=sample.n_shots,
            error=sample.trials[0].error if all(trial.error is not None for trial in sample.trials) else None,
            by_trial=by_trial if len(sample.trials) > 1 else {},
        )


def _sample_of(part: Part, result: RecordResult) -> tuple[_Sample, _Trial]:
    """Return the question of a row, and what it says of this trial; of one with an error no answer is read."""
    asked = part.part("input", needed=True)
    raw = asked.content.get("raw")
    if not isinstance(raw, str):
        raise asked.fault("raw", "a text")
    reference, choices = (_listed(asked, key) for key in ("reference", "choices"))
    prompt = asked.content.get("formatted")
    error = part.content.get("error")
    answers: tuple[str, ...] = ()
    if part.text("interaction_type") == "single_turn":
        prompt = prompt if isinstance(prompt, str) else raw
        if error is None:
            answers = tuple(_listed(part.part("output", needed=True), "raw"))
    else:
        messages = part.parts("messages")
        last = max((at for at, each in enumerate(messages) if each.text("role") == "assistant"), default=len(messages))
        prompt = "\n\n".join(f"{message.text('role')}: {_said(message)}" for message in messages[:last]) or raw
        if error is None:
            answers = tuple(_said(message) for message in messages[last:])
    usage = part.part("token_usage")
    counts = AnswerFacts()
    if usage.content and len(answers) == 1:
        counts = AnswerFacts(usage.count("input_tokens") or 0, usage.count("output_tokens") or 0)
    sample = _Sample(
        {"input": raw, "reference": reference, **({"choices": choices} if choices else {})},
        prompt, ", ".join(reference), len(choices) or None, result.num_fewshot or 0,
    )  # fmt: skip
    return sample, _Trial(answers, None if error is None else str(error), counts)


def _listed(part: Part, key: str) -> list[str]:
    value = part.content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise part.fault(key, "a list of texts")
    return value


def _said(message: Part) -> str:
    """Return a message's text, and the calls of tools in it."""
    calls = [] if message.content.get("tool_calls") is None else message.parts("tool_calls")
    named = [f"[call {call.text('name')} {dict(call.part('arguments').content)}]" for call in calls]
    content = message.content.get("content")
    return "\n".join([*([content] if isinstance(content, str) and content else []), *named])


IMPORTER = Importer(holds_records, read_every_eval, FORMAT)
