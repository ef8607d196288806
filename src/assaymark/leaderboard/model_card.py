"""A model card (README.md) from stored runs: results, strengths and weaknesses, set-up, and gaps.

A benchmark's skill is the score's position between the best baseline (guessing, or always the same answer) and a
perfect score. A strength has an interval above the mean of the model's skills; a weakness has one below it, or one that
reaches the baseline.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from assaymark.documents.numbers import NOTHING, counted, shown_interval, shown_value
from assaymark.documents.plain_text import markdown_inline
from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.board import ANY_METRIC
from assaymark.leaderboard.evidence import benchmarks, own_board
from assaymark.leaderboard.guide import capabilities, capabilities_of_task
from assaymark.leaderboard.own_rows import estimates_of_member, prompt_set
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns, model_label
from assaymark.limits.shown_paths import without_folders
from assaymark.models.checkpoint.identity import arguments_of_name
from assaymark.options.of_plans import short_hash
from assaymark.records import Estimate, JsonValue, content_hash, with_filter
from assaymark.registry import meant, nearest
from assaymark.results.estimate_texts import is_proportion, shown_count, truncation_of
from assaymark.results.evidence.baselines import highest_baseline
from assaymark.results.evidence.from_store import part_evaluated
from assaymark.settings import VERSION
from assaymark.store import Store
from assaymark.tasks.suites import Member

MARK = "Written by Assaymark"
_LAST = re.compile(r"last(~\d+)?")
MOST_LISTED = 5  # strengths, and weaknesses above the baseline


@dataclass(frozen=True, slots=True)
class _Result:
    """One benchmark of a model."""

    estimate: Estimate
    run: StoredRun
    shots: int | None

    @property
    def skill(self) -> tuple[float, float, float] | None:
        """The score's position between the best baseline and 1, with its interval; None if that is meaningless."""
        estimate = self.estimate
        if (
            not is_proportion(estimate)
            or not estimate.higher_is_better
            or estimate.value is None
            or truncation_of(estimate)
        ):
            return None
        if estimate.low is None or estimate.high is None:
            return None
        base = self.baseline
        if base >= 1.0:
            return None
        value, low, high = ((end - base) / (1.0 - base) for end in (estimate.value, estimate.low, estimate.high))
        return value, low, high

    @property
    def baseline(self) -> float:
        """The best baseline, a share; 0 where there are no choices to guess from."""
        highest = highest_baseline(self.estimate)
        return 0.0 if highest is None else highest[1]


def runs_of_model(runs: Sequence[StoredRun], name: str) -> list[StoredRun]:
    """Return the runs with results of a name, the latest first; their weights may differ.

    Raises: UnknownName for a model without any, with the nearest names.
    """
    known = {label: run for run in runs if run.estimates for label in (run.model, run.plan.model.name)}
    name = meant(name, {run.model for run in runs if run.estimates} if name not in known else ())
    of_model = [run for run in runs if run.estimates and name in {run.model, run.plan.model.name}]
    if not of_model:
        raise UnknownName(
            "model", name[:100], nearest(name, known), f"{counted(len(known), 'name')} with results in the store"
        )
    return of_model


def model_card(store: Store, name: str, licence: str = "") -> str:
    """Return the model card of a model in the store, as Markdown with its YAML front matter.

    Args:
        name: the model's name in the runs or on pages, or its last part; `last` for the model of the last run.
        licence: identifier on the Hub, such as apache-2.0; empty leaves it out, since runs do not know it.

    Raises: UnknownName; UsageError for a model without a result.
    """
    return card_of(StoredRuns(store), store.run(name).model if _LAST.fullmatch(name) else name, licence)


def card_of(stored: StoredRuns, name: str, licence: str = "") -> str:
    """Return the model card of a model from the runs that may be shown. Raises: as `model_card`."""
    every = [run for run in stored.runs() if run.origin != "reported"]  # a card is of what was measured
    named = runs_of_model(every, name)
    hashes = {run.run_id: run.plan.model.content_hash for run in named}
    latest = next(filter(None, hashes.values()), None)  # those that an import does not know may be the same
    runs = [run for run in named if hashes[run.run_id] in {None, latest}]
    results = list(_results(runs))
    if not results:
        raise UsageError(
            f"no run of {runs[0].model} has a result; see what failed: assaymark show {runs[0].row.short_id}"
        )
    used = list({result.run.run_id: result.run for result in results}.values())
    sections = [
        ("Results", _results_table(results)),
        ("Strengths and weaknesses", [*_strengths(results), *_ranks(stored, every, results)]),
        ("Set-up", _set_up(used)),
        ("Lineage", _lineage(runs[0])),
        ("What was not measured", _not_measured(results)),
        ("How to reproduce the results", _commands(used)),
    ]
    lines = [_front_matter(stored, used, licence), f"# {markdown_inline(runs[0].model)}", ""]
    lines += [f"{MARK} {VERSION} from {counted(len(used), 'stored run')}. Intervals are 95%."]
    if len(named) > len(runs):
        others = counted(len(named) - len(runs), "run")
        lines += ["", f"Left out: {others} of other weights, configuration or tokenizer under this name."]
    for title, body in sections:
        lines += ["", f"## {title}", "", *body]
    return "\n".join(lines) + "\n"


def _results(runs: Sequence[StoredRun]) -> Iterator[_Result]:
    """Yield the latest result of each benchmark, shots and prompts; of a part of its samples if there is no other."""
    seen: set[tuple[object, ...]] = set()
    whole_first = sorted(
        runs, key=lambda run: part_evaluated(run.row) is not None
    )  # stable: the latest first within each
    for run in whole_first:
        for name in dict.fromkeys(name for name, _ in benchmarks(run)):
            for estimate in estimates_of_member(Member(task=name, column=name, metrics=(ANY_METRIC,)), run):
                shots = estimate.details.get("n_shots")
                key = (estimate.task, estimate.metric, estimate.filter, shots, prompt_set(run.plan))
                if key not in seen:
                    seen.add(key)
                    yield _Result(estimate, run, shots if isinstance(shots, int) else None)


def _front_matter(stored: StoredRuns, runs: Sequence[StoredRun], licence: str) -> str:
    named = arguments_of_name(runs[0].plan.model.name)
    entries: dict[str, dict[str, JsonValue]] = {}  # each result once, from the run that the tables have it from
    for run in runs:
        for entry in stored.model_index(run):
            entries.setdefault(content_hash([entry["dataset"], prompt_set(run.plan)]), entry)
    content = {
        **({"license": licence} if licence else {}),
        **({"base_model": model_label(named["pretrained"])} if "peft" in named else {}),
        "model-index": [{"name": runs[0].model, "results": list(entries.values())}],
    }
    return f"---\n{yaml.safe_dump(content, sort_keys=False, allow_unicode=True)}---\n"


def _results_table(results: Sequence[_Result]) -> list[str]:
    lines = ["| Benchmark | Measures | Metric | Shots | Value | 95% interval | Baseline | n |",
             "|---|---|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for result in results:
        estimate, is_share = result.estimate, is_proportion(result.estimate)
        base = highest_baseline(estimate)
        cells = [
            estimate.task,
            ", ".join(capabilities()[key].title.lower() for key in capabilities_of_task(estimate.task)) or NOTHING,
            with_filter(estimate.metric, estimate.filter),
            NOTHING if result.shots is None else str(result.shots),
            shown_value(estimate.value, proportion=is_share),
            shown_interval(estimate.low, estimate.high, proportion=is_share),
            NOTHING if base is None else shown_value(base[1], proportion=True),
            shown_count([estimate]),
        ]
        lines.append("| " + " | ".join(markdown_inline(cell) for cell in cells) + " |")
    for result in results:
        if note := truncation_of(result.estimate):
            lines += ["", markdown_inline(f"{result.estimate.task}: {note}")]
    if any(highest_baseline(result.estimate) is not None for result in results):
        lines += ["", "The baseline is the highest of guessing and always giving the same answer."]
    return lines


# ------------------------------------------------------------------------------------------ judgement


def _strengths(results: Sequence[_Result]) -> Iterator[str]:
    """Yield the model's strengths and weaknesses, as lines of Markdown."""
    known = sorted(
        ((result, skill) for result in results if (skill := result.skill) is not None), key=lambda pair: -pair[1][0]
    )
    if not known:
        yield "No result has an interval and a scale on which it can be judged."
        return
    mean = sum(skill[0] for _, skill in known) / len(known)
    yield (
        "Shares of the way from the best baseline (0%) to a perfect score (100%), with 95% intervals; the mean over "
        f"{counted(len(known), 'benchmark')} is {100 * mean:.1f}%."
    )
    yield ""
    chance = [pair for pair in known if pair[1][1] <= 0.0]
    strong = [pair for pair in known if pair[1][1] > max(mean, 0.0)]
    weak = [pair for pair in reversed(known) if pair[1][2] < mean and pair not in chance]
    yield from (f"- Strength, above the mean: {_skill_line(*pair)}" for pair in strong[:MOST_LISTED])
    yield from (f"- Weakness, below the mean: {_skill_line(*pair)}" for pair in weak[:MOST_LISTED])
    yield from (f"- Weakness, not significantly above the baseline: {_skill_line(*pair)}" for pair in chance)
    if not (strong or weak or chance):
        yield "- No benchmark differs significantly from the mean."
    yield ""
    yield "Benchmarks differ in difficulty: a low share can be the benchmark's, where other models have no more."


def _skill_line(result: _Result, skill: tuple[float, float, float]) -> str:
    value, low, high = (f"{100 * end:.1f}" for end in skill)
    shots = "" if result.shots is None else f", {result.shots}-shot"
    return f"{markdown_inline(result.estimate.task)}{shots}: {value}% ({low} to {high})"


def _ranks(stored: StoredRuns, every: Sequence[StoredRun], results: Sequence[_Result]) -> Iterator[str]:
    """Yield the model's ranks among the store's models, as ranges; nothing if it is the only one.

    Scores of mostly truncated prompts have none.
    """
    run_ids = {result.run.run_id for result in results}
    meaningless = {result.estimate.task for result in results if truncation_of(result.estimate)}
    board = own_board(every, (), ())
    table = Site([], stored).table(board) if board is not None else None
    if table is None:
        return
    lines = []
    for column in table.columns:
        if column.is_neutral or meaningless & set(column.tasks):
            continue
        among = table.index.may_rank
        ranks = table.index.ranks_among(table.index.scores(column.key), among)
        n = int((ranks.rank > 0).sum())
        cells = [row.cells.get(column.key) for row in table.rows]
        own = (at for at, cell in enumerate(cells) if cell is not None and cell.run_id in run_ids)
        at = next((at for at in own if ranks.rank[at] > 0), None)
        if at is not None and n > 1 and column.higher_is_better:
            best, worst = int(ranks.best[at]), int(ranks.worst[at])
            place = f"{best}" if best == worst else f"{best} to {worst}"
            lines.append(f"- {markdown_inline(column.title)}: {place} of {n}")
    if lines:
        yield from (
            "",
            "Rank among the rows of the same store (95%, all at once; rows of a limit included):",
            "",
            *lines,
        )


# ------------------------------------------------------------------------------------------ facts


def _set_up(runs: Sequence[StoredRun]) -> list[str]:
    lines = [
        "| Run | Precision | Numerics | Profile | Prompts | Samples | Finished (UTC) |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        plan = run.plan
        cells = [run.row.short_id, plan.model.dtype, plan.model.numerics, plan.profile, prompt_set(plan),
                 part_evaluated(run.row) or ("not known" if plan.model.kind == "imported" else "all"),
                 run.row.updated_at[:16].replace("T", " ")]  # fmt: skip
        lines.append("| " + " | ".join(markdown_inline(cell) for cell in cells) + " |")
    for run in runs:
        if run.plan.system_instruction:
            text = markdown_inline(run.plan.system_instruction)
            lines += ["", f"System prompt of run {run.row.short_id}: {text}"]
    return lines


def _lineage(run: StoredRun) -> list[str]:
    model = run.plan.model
    named = arguments_of_name(model.name)
    lines = []
    if "peft" in named:
        adapter_name, base_name = (markdown_inline(model_label(named[part])) for part in ("peft", "pretrained"))
        lines.append(f"- Adapter {adapter_name} on the base model {base_name}.")
    if model.n_parameters is not None:
        lines.append(f"- Parameters: {model.n_parameters:,}")
    if model.revision:
        lines.append(f"- Revision: {markdown_inline(model.revision)}")
    if model.content_hash:
        lines.append(f"- Content hash of weights, configuration and tokenizer: {short_hash(model.content_hash)}")
    if model.template_hash:
        lines.append(f"- Content hash of the chat template: {short_hash(model.template_hash)}")
    if "peft" not in named:
        lines.append("- What it was trained from is not recorded in the runs.")
    return lines


def _not_measured(results: Sequence[_Result]) -> list[str]:
    estimates = [result.estimate for result in results]
    measured = {key for estimate in estimates for name in (estimate.task, *estimate.details.get("path", ()))
                for key in capabilities_of_task(name)}  # fmt: skip
    lines = []
    for key, capability in capabilities().items():
        if key not in measured:
            hint = f" (`assaymark run --tasks {capability.suggested}` would)" if capability.suggested else ""
            lines.append(f"- {capability.title}: no benchmark measures it{hint}")
    for result in results:
        failed = result.estimate.n_failed
        if failed:
            name = markdown_inline(result.estimate.task)
            lines.append(f"- {name}: {counted(failed, 'request')} failed, which count as not evaluated")
        if part := part_evaluated(result.run.row):
            lines.append(f"- {markdown_inline(result.estimate.task)}: evaluated in part, {part}")
    lines.append("- Safety, bias, cost and speed are not judged by this card.")
    return lines


def _commands(runs: Sequence[StoredRun]) -> list[str]:
    lines = ["```bash"]
    for run in runs:
        typed = run.row.command or ""
        is_one_line = typed.isprintable() and "```" not in typed  # another would be another command
        command = str(without_folders(typed)) if is_one_line else ""  # paths of this machine are private
        lines.append(command or f"assaymark reproduce {run.row.short_id}   # with the store that holds the run")
    return [*lines, "```"]
