"""Export of a stored run as lm-eval's files, with the same names and folders, so that existing scripts keep working.

The files are `<output_path>/<model>/results_<time>.json` and, with `log_samples`, `samples_<task>_<time>.jsonl` next to
it. As in lm-eval, a path that ends in `.json` is the results file itself.

A samples file has one line per sample and filter, with numbers inside answers as texts.

Scripts split lm-eval's printed table of results at its bars, so its layout is reproduced to the character: the order of
rows, four decimals, and how its table library then shortens them (a column of numbers shows as many decimals as its
longest value needs without trailing zeros; whether a number in a column with text is treated as one depends on the
cells above it). tests/interop compares it with lm-eval's own printer on random results.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from assaymark.drafts import open_whole
from assaymark.errors import UsageError, write_errors
from assaymark.interop.lm_eval_results import NOT_AVAILABLE, results_mapping, text_hash, tracker_mapping
from assaymark.platforms import portable_name
from assaymark.records import GenerateQuery, JsonValue, LoglikelihoodQuery, Output, Query, Request, RollingQuery, Score
from assaymark.records.json_values import float_of, object_at, object_of, objects_at, texts_of
from assaymark.results.evidence.records import item_of
from assaymark.results.views.samples import answer_text
from assaymark.scoring.metric import MULTIPLE_CHOICE
from assaymark.scoring.metrics import declared_for, is_auxiliary, names_for
from assaymark.store import Store
from assaymark.store.rows import SampleRecord

ARROWS = {True: "↑", False: "↓"}
HEADERS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
NOT_METRICS = frozenset({"alias", "name", "sample_len", "sample_count"})
NUMERIC = frozenset({"whole", "real"})
MINIMUM_WIDTH = 3
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


def lm_eval_table(results: Mapping[str, object], column: Literal["results", "groups"] = "results") -> str:
    """Return the Markdown table that lm-eval prints for `results`, the content of its results JSON.

    Source: behaviour of lm-eval 0.4.13 `utils.make_table`, observed.
    """
    headers = ("Groups" if column == "groups" else "Tasks", *HEADERS)
    rows = [row for name, depth in ordered_names(results, column) for row in _rows_of(results, column, name, depth)]
    cells = [[row[index] for row in rows] for index in range(len(headers))]
    columns = [_laid_out(header, values) for header, values in zip(headers, cells, strict=True)]
    return "".join(f"|{'|'.join(parts)}|\n" for parts in zip(*columns, strict=True))


def ordered_names(results: Mapping[str, JsonValue], column: str) -> list[tuple[str, int]]:
    """Return the rows' names with their depth: outermost groups, each followed by its members, then all others."""
    available = set(object_of(results[column], column))
    members = {name: texts_of(listed, name) for name, listed in object_at(results, "group_subtasks").items()}
    inner = {child for children in members.values() for child in children}
    ordered: list[tuple[str, int]] = []
    seen: set[str] = set()

    def visit(name: str, depth: int) -> None:
        seen.add(name)
        if name in available:
            ordered.append((name, depth))
        for child in sorted(members.get(name, ())):
            visit(child, depth + 1)

    for name in sorted(members):
        if name not in inner:
            visit(name, 0)
    # a task in two groups is shown at its last depth, since lm-eval has one depth per name
    depths = dict(ordered)
    return [(name, depths[name]) for name, _ in ordered] + [(name, 0) for name in sorted(available - seen)]


def _rows_of(results: Mapping[str, JsonValue], column: str, name: str, depth: int) -> list[list[object]]:
    values = object_at(object_of(results[column], column), name)
    directions = object_at(object_at(results, "higher_is_better"), name)
    alias = values.get("alias", name)
    label: object = f"{' ' * depth}- {alias}" if depth else alias
    version = object_of(results["versions"], "versions").get(name, "    N/A")
    shots = str(object_at(results, "n-shot").get(name, " "))
    rows: list[list[object]] = []
    for key in sorted(set(values) - NOT_METRICS):
        metric, _, name_of_filter = key.partition(",")
        if metric.endswith("_stderr"):
            continue
        value = values[key]
        value = f"{value:.4f}" if isinstance(value, float) else value
        error = values.get(f"{metric}_stderr,{name_of_filter}")
        ending = ["", ""] if error is None else ["±", "   N/A" if error == "N/A" else f"{float_of(error, key):.4f}"]
        is_higher = directions.get(metric)
        arrow = ARROWS[is_higher] if isinstance(is_higher, bool) else ""
        rows.append([label, version, name_of_filter, shots, metric, arrow, value])
        rows[-1].extend(ending)
        label = version = ""
    return rows


def _laid_out(header: str, values: Sequence[JsonValue]) -> list[str]:
    """Return a column's cells, header and rule first, padded to one width."""
    kinds = _kinds(values)
    present = set(kinds) - {"blank"}
    decimals = max(
        (_decimals(float(str(v))) for v, kind in zip(values, kinds, strict=True) if kind in NUMERIC), default=0
    )
    is_text_column = not present or "text" in present or set(kinds) in ({"nan"}, {"infinity"})
    is_whole_column = present == {"whole"}
    texts = []
    for value, kind in zip(values, kinds, strict=True):
        with_point = kind == "real" or (kind == "whole" and not is_text_column and not is_whole_column)
        texts.append(_cell_text(value, kind, decimals if with_point else None))
    width = max([MINIMUM_WIDTH, len(header), *(len(text) for text in texts)])
    rule = "-" * width if is_text_column else "-" * (width - 1) + ":"
    body = [
        text.ljust(width) if is_text_column and kind not in NUMERIC else text.rjust(width)
        for text, kind in zip(texts, kinds, strict=True)
    ]
    return [f"{header:^{width}}", rule, *body]


def _kinds(values: Sequence[object]) -> list[str]:
    """Return the type that its table library assigns to each cell.

    It proceeds downwards: while most cells so far are text, the next one is text as well, even if it is a number.
    """
    counts: Counter[str] = Counter()
    kinds = []
    for value in values:
        leading = counts.most_common(1)[0][0] if counts else ""
        kind = "text" if leading == "text" and isinstance(value, str) and value else _kind(value)
        counts[kind] += 1
        kinds.append(kind)
    return kinds


def _kind(value: object) -> str:
    text = str(value)
    if not text.strip():
        return "blank"
    if not NUMBER.fullmatch(text):
        return "text"
    number = float(text)
    if not math.isfinite(number):
        return "nan" if math.isnan(number) else "infinity"
    return "whole" if number == int(number) else "real"


def _decimals(value: float) -> int:
    """Return the number of decimals of the shortest text of `value`."""
    if value == int(value):
        return 0
    mantissa, _, exponent = repr(abs(value)).partition("e-")
    return int(exponent) if exponent else len(mantissa.partition(".")[2])


def _cell_text(value: JsonValue, kind: str, decimals: int | None) -> str:
    match kind:
        case "blank":
            return ""
        case "text":
            return str(value)
        case "nan":
            return "NaN"
        case "infinity":
            return "Infinity" if float(str(value)) > 0 else "-Infinity"
        case _:
            number = float(str(value))
            return f"{number:.{decimals}f}" if decimals is not None else str(int(number))


def sample_lines(records: Iterable[SampleRecord], task: Mapping[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
    """Yield the lines of one task's file: all samples of the first filter, then of the next.

    task: the task's facts from `report.task_facts`.

    Source: lm-eval 0.4.13 `evaluate` and `EvaluationTracker.save_results_samples`, observed.
    """
    samples = list(records)
    for name_of_filter in texts_of(task.get("filters", ["none"]), "filters"):
        for record in samples:
            yield _line(record, name_of_filter, task)


def task_hash(lines: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return the hash over all of a task's samples, prompts and targets."""
    return text_hash("".join(f"{line['doc_hash']}{line['prompt_hash']}{line['target_hash']}" for line in lines))


def _line(record: SampleRecord, name_of_filter: str, task: Mapping[str, object]) -> dict[str, JsonValue]:
    request = record.request
    row = dict(record.sample.row) if record.sample is not None else {}
    scores = _own_scores(record.scores, name_of_filter, task)
    queries = [
        query for query in request.queries if not (isinstance(query, LoglikelihoodQuery) and query.role == "rotated")
    ]
    answers = [_answers(query, record.outputs) for query in queries]
    return {
        "doc_id": request.sample_index,
        **({"turn": request.turn} if request.turn else {}),
        "doc": row,
        "target": request.target,
        "arguments": {
            f"gen_args_{index}": {f"arg_{number}": part for number, part in enumerate(_arguments(query, request))}
            for index, query in enumerate(queries)
        },
        "resps": answers,
        "filtered_resps": [_filtered(query, answer, scores) for query, answer in zip(queries, answers, strict=True)],
        "filter": name_of_filter,
        "metrics": [score.metric for score in scores],
        "doc_hash": text_hash(json.dumps(row, indent=2, default=str, ensure_ascii=False)),
        "prompt_hash": text_hash(request.prompt),
        "target_hash": text_hash(request.target),
        **{score.metric: _value(score, task) for score in scores},
    }


def _own_scores(scores: Sequence[Score], name_of_filter: str, task: Mapping[str, JsonValue]) -> list[Score]:
    """Return the scores that lm-eval has too, in its order."""
    listed = [metric["name"] for metric in objects_at(task, "metrics")]
    order = names_for(MULTIPLE_CHOICE) if task.get("output_type") == MULTIPLE_CHOICE else listed
    own = [score for score in scores if score.filter == name_of_filter and not is_auxiliary(score.metric)]
    return sorted(own, key=lambda score: order.index(score.metric) if score.metric in order else len(order))


def _arguments(query: Query, request: Request) -> list[JsonValue]:
    match query:
        case RollingQuery():
            return [query.text]
        case LoglikelihoodQuery():
            return ["".join(request.segments if query.segments is None else query.segments), query.continuation]
        case GenerateQuery():
            return ["".join(request.segments), _generation(query)]


def _generation(query: GenerateQuery) -> dict[str, JsonValue]:
    """Return generation settings under the names of lm-eval's task files."""
    settings = query.settings
    named: dict[str, JsonValue] = {
        "until": list(settings.stop),
        "do_sample": settings.do_sample,
        "temperature": settings.temperature,
        "max_gen_toks": settings.max_tokens,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "min_p": settings.min_p,
        **dict(settings.extra),
    }
    return {key: value for key, value in named.items() if value is not None}


def _answers(query: Query, outputs: Sequence[Output]) -> list[JsonValue]:
    """Return one query's answers, one per repeat, with numbers as texts."""
    own = sorted((output for output in outputs if output.ask_index == query.index), key=lambda output: output.repeat)
    return [_answer(query, output) for output in own]


def _answer(query: Query, output: Output) -> JsonValue:
    if output.error is not None:
        return [NOT_AVAILABLE, NOT_AVAILABLE] if isinstance(query, LoglikelihoodQuery) else NOT_AVAILABLE
    if isinstance(query, LoglikelihoodQuery):
        return [str(output.total_nats), str(bool(output.is_greedy))]
    if isinstance(query, RollingQuery):
        return str(output.total_nats)
    return output.text if output.tool_calls is None else answer_text(output)  # its format has no place for calls


def _filtered(query: Query, answers: Sequence[JsonValue], scores: Sequence[Score]) -> JsonValue:
    """Return the filtered answer: for a generation the one stored with the score, else the first answer."""
    if isinstance(query, GenerateQuery):
        for score in scores:
            if isinstance(score.detail, Mapping) and "extracted" in score.detail:
                return score.detail["extracted"]
    return answers[0] if answers else NOT_AVAILABLE


def _value(score: Score, task: Mapping[str, object]) -> JsonValue:
    """Return a score as lm-eval logs it: the item that it aggregates, even if that is more than a number."""
    facts = declared_for(score.metric, str(task.get("output_type")))
    logged_as = None if facts is None else facts.logged_as
    if isinstance(item := item_of(score.value, score.parts, score.detail), tuple):
        parts = list(item)
        if logged_as == "array" and len(parts) == 2:
            import numpy as np

            return [parts[0], str(np.asarray(parts[1], dtype=np.float64))]
        return parts
    return int(item) if logged_as == "whole number" and isinstance(item, float) else item


UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')


def write_lm_eval_files(
    store: Store,
    run_id: str,
    output_path: str | Path,
    *,
    log_samples: bool = False,
    tasks: Collection[str] | None = None,
    place: str | None = None,
    with_scores: bool = True,
) -> list[Path]:
    """Write lm-eval's results JSON, and with `log_samples` one samples JSONL per task; return the written files.

    Args:
        run_id: the run's id; the run must have been summarised (`report.from_store.save_summary`).
        output_path: a folder, in which the model gets a subfolder, or a path ending in `.json`.
        log_samples: write every sample as well.
        tasks: those whose samples are written; None: all.
        place: the model's subfolder; None: named as lm-eval does.
        with_scores: False: outputs alone, as after --predict_only.

    Raises: UsageError if the run was not summarised yet; StoreError if the files cannot be written.
    """
    run = store.run(run_id)
    attempts = store.attempts(run.run_id)
    estimates = store.estimates(run.run_id)
    if not run.extra.get("tasks"):
        raise UsageError(f"run {run.short_id} has no results yet (it is {run.status}); finish it by running it again")
    results = results_mapping(run, estimates, attempts)
    if not with_scores:  # "acc,none" and the like are scores, "sample_len" is none
        of_tasks = object_at(results, "results")
        results["results"] = {
            name: {key: value for key, value in object_at(of_tasks, name).items() if "," not in key}
            for name in of_tasks
        }
        results.pop("groups", None)
    stamp = datetime.now().isoformat().replace(":", "-")  # noqa: DTZ005 - lm-eval's file names have local time
    file, folder = _targets(Path(output_path), place or sanitised_model(run.model), stamp)
    samples: dict[str, list[dict[str, object]]] = {}
    if log_samples:
        for plan in (task_plan for task_plan in run.plan.tasks if tasks is None or task_plan.name in tasks):
            task = object_at(object_at(run.extra, "tasks"), plan.name)
            records = (record for record in store.samples(run.run_id, plan.name) if not record.is_withheld)
            if not with_scores:
                records = (replace(record, scores=()) for record in records)
            if lines := list(sample_lines(records, task)):
                samples[plan.name] = lines
    results["task_hashes"] = {name: task_hash(lines) for name, lines in samples.items()}
    results |= tracker_mapping(run, attempts, sanitised_model(run.model))
    with write_errors("results", "the run is stored; name another folder", to=folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write(file, [json.dumps(results, indent=2, default=str, ensure_ascii=False)])
        written = [file]
        for name, lines in samples.items():
            written.append(folder / f"samples_{portable_name(name)}_{stamp}.jsonl")
            _write(written[-1], [json.dumps(line, default=str, ensure_ascii=False) + "\n" for line in lines])
    return written


def results_table(store: Store, run_id: str) -> str:
    """Return the tables that lm-eval prints at the end of such a run: tasks, and groups if there are any."""
    run = store.run(run_id)
    results = results_mapping(run, store.estimates(run.run_id))
    tables = lm_eval_table(results)
    return tables + "\n" + lm_eval_table(results, "groups") if "groups" in results else tables


def sanitised_model(name: str) -> str:
    """Return lm-eval's folder name for a model, or where Windows could not have it one like that."""
    return portable_name(UNSAFE.sub("__", name))


def _targets(path: Path, model: str, stamp: str) -> tuple[Path, Path]:
    """Return the results file and the folder of the samples files."""
    if path.suffix == ".json":
        return path.with_name(f"{path.stem}_{stamp}.json"), path.parent
    return path / model / f"results_{stamp}.json", path / model


def _write(path: Path, texts: list[str]) -> None:
    with open_whole(path, "surrogatepass") as file:
        file.writelines(texts)
