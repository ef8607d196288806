"""Stored runs as rows of a board: members found in the runs' estimates, columns and averages by the suite's rule.

A row is one model in one setup (precision, prompt set, profile, limit). Several runs of it fill the columns together,
with the latest run of each benchmark. A benchmark evaluated with other shots than the board's is excluded, and the row
has a note. If one run evaluated the whole suite, its stored composite is used, since its intervals account for members
that share questions.

Also the facts about model and setup that a row shows.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assaymark.documents.numbers import counted
from assaymark.errors import few
from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.board import ANY_METRIC, Board
from assaymark.leaderboard.columns import billed_price, price_facts
from assaymark.leaderboard.rows import Average, BoardRow, Fact, IntervalValue, RowScore, ScoreColumn, StoppedEarly
from assaymark.leaderboard.stored import StoredRun
from assaymark.leaderboard.table import row_id
from assaymark.models.checkpoint.identity import arguments_of_name
from assaymark.models.checkpoint.quantisation import quantised_as
from assaymark.options.of_plans import part_shown, positions, short_hash
from assaymark.records import Estimate, EstimateDetails, JsonValue, ModelIdentity, RunPlan
from assaymark.results.comparison.stopped_runs import AT_ANY_TIME
from assaymark.results.estimate_texts import reported_words, truncation_of
from assaymark.scoring.metrics import is_credit
from assaymark.statistics.board_scores import SHARES, Part, average, reported_part
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.tasks.aliases import GROUP_SIZES, PresentName, present_name
from assaymark.tasks.prompt_presets import system_prompts
from assaymark.tasks.suite_scores import MemberScore, SuiteScore, score_suite
from assaymark.tasks.suites import Member, Suite

PLAIN_TEXT = "plain text"


def identity_of(plan: RunPlan) -> dict[str, JsonValue]:
    """Return the key that is equal for runs of the same row: model, numbers, the prompts' layout, rules and limit."""
    model = plan.model
    return {
        "model": model.content_hash or model.name,
        "name": model.name,
        "dtype": model.dtype,
        "numerics": model.numerics,
        "options": [list(option) for option in model.options],
        "profile": plan.profile,
        "limit": plan.limit,
        **({"samples": chosen} if (chosen := positions(plan)) else {}),
        "template": plan.apply_chat_template and (model.template_hash or str(plan.apply_chat_template)),
        "turns": plan.fewshot_as_multiturn and bool(plan.apply_chat_template),
        "system": plan.system_instruction,
        "preset": None if plan.prompt_preset is None else plan.prompt_preset.content,
        "prompt_style": plan.prompt_style,
    }


def prompt_set(plan: RunPlan) -> str:
    """Return how prompts were built, in words; rows that differ in it are ranked separately."""
    words = []
    if plan.prompt_preset is not None:
        words.append(f"preset {plan.prompt_preset.name}")
    elif plan.apply_chat_template:
        words.append("chat template")
    if plan.prompt_style is not None:
        words.append(f"style {plan.prompt_style}")
    if plan.system_instruction is not None:
        words.append(f"system prompt {_system_name(plan.system_instruction)}")
    return ", ".join(words) or PLAIN_TEXT


def _system_name(text: str) -> str:
    named = next((name for name, known in system_prompts().items() if known == text), None)
    return named if named is not None else " ".join(text.split())[:60]


def _set_up(plan: RunPlan, board: Board) -> str:
    """Return the prompt set, with limit and profile if they are not the board's; such rows rank separately."""
    words = [*filter(None, [part_shown(plan)]), prompt_set(plan)]  # narrow badges show the beginning only
    if board.suite is not None and plan.profile != board.suite.profile and plan.model.kind != "imported":
        words.append(f"profile {plan.profile}")
    return ", ".join(words)


def setup_of(plan: RunPlan) -> str:
    """Return precision, limit and prompts of a run in words, each only if there is something to say of it."""
    prompts = prompt_set(plan)
    return ", ".join(filter(None, (_precision(plan.model), part_shown(plan), "" if prompts == PLAIN_TEXT else prompts)))


def _work(work: object) -> dict[str, float]:
    """Return speed and memory of a run's latest attempt, rounded to their reproducible digits."""
    if not isinstance(work, Mapping):
        return {}
    facts = {}
    n_tokens, seconds, peak = (work.get(name) for name in ("n_tokens", "seconds", "peak_bytes"))
    if isinstance(n_tokens, int) and n_tokens and isinstance(seconds, float) and seconds > 0:
        facts["speed"] = float(f"{n_tokens / seconds:.3g}")
    if isinstance(peak, int):
        facts["memory"] = round(peak / 1e9, 2)
    return facts


def _price(run: StoredRun, board: Board) -> dict[str, float | str]:
    """Return the price that the board's file states, else the one that the run was billed at."""
    stated = board.prices.get(run.model) or board.prices.get(run.plan.model.name)
    if stated is not None or run.is_upload:
        return price_facts(stated, is_billed=False)
    return price_facts(billed_price(run.row.summary.get("cost")), is_billed=True)


def _precision(model: ModelIdentity) -> str:
    """Return a model's dtype, or its quantisation on loading."""
    own = dict(model.options).get("quantization_config")
    return quantised_as({"quantization_config": own}) or model.dtype


def _prompt_spread(run: StoredRun) -> float | None:
    """Return the mean spread over wordings of the run's tasks that were audited, in points; None if none was."""
    spreads = [spread for task, spread in run.spreads.items() if task in run.row.tasks]
    return round(sum(spreads) / len(spreads), 1) if spreads else None


def facts_of_run(run: StoredRun, board: Board) -> dict[str, Fact]:
    """Return the facts of a row; the board's file takes precedence over the run."""
    plan = run.plan
    model, preset = plan.model, plan.prompt_preset
    sha = model.revision or (short_hash(model.content_hash) if model.content_hash else None)
    is_known = "unknown" not in model.dtype
    facts: dict[str, Fact] = {
        "type": "unknown",
        "weight": "adapter" if "peft" in arguments_of_name(model.name) else None,
        "precision": _precision(model) if is_known else None,
        "params": None if model.n_parameters is None else model.n_parameters / 1e9,
        "sha": sha,
        "chat_template": bool(plan.apply_chat_template) or preset is not None,
        "preset": None if preset is None else preset.name,
        "system": None if plan.system_instruction is None else _system_name(plan.system_instruction),
        "prompts": _set_up(plan, board),
        "limit": part_shown(plan),
        "profile": plan.profile,
        "date": run.row.updated_at[:10],
        **(run.mark.facts if run.mark is not None else {}),
        "prompt_spread": _prompt_spread(run),
        **_work(run.row.summary.get("work")),
        **_price(run, board),
        **(_of_report(run) if run.is_hub_report else {}),
        **board.models.get(run.model, {}),
        **board.models.get(model.name, {}),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _of_report(run: StoredRun) -> dict[str, Fact]:
    """Return what a model's repository states of itself: when, and nothing of prompts."""
    return {"prompts": None, "chat_template": None, "profile": None, "date": _date_of(run)[:10] or None}


COMPOSITE = "composite"
TASK_IN_FILE: Final = "task_in_file"  # detail of an estimate whose task has another name in the stored run


@dataclass(frozen=True, slots=True)
class Found:
    """A run's results for one member of a suite."""

    score: MemberScore
    estimates: tuple[Estimate, ...]
    run: StoredRun

    @property
    def is_share(self) -> bool:
        """Whether all values lie in [0, 1]."""
        return all(estimate.details.get("unit") == "proportion" for estimate in self.estimates)


def rows_of_runs(board: Board, runs: Sequence[StoredRun]) -> list[BoardRow]:
    """Return the rows of a board's models, the latest runs first; none for a run without results of the board."""
    if board.suite is None:
        return []
    ways: dict[tuple[bool, bool, str], list[StoredRun]] = {}
    for run in map(with_present_names, latest_reports(runs)):
        if _counts(board, run):
            # numbers from a file never fill a measured row, whatever name and revision the file states
            ways.setdefault((run.is_upload, run.origin != "measured", row_id(identity_of(run.plan))), []).append(run)
    rows = []
    names: set[str] = set()
    for (_, _, name), of_row in sorted(ways.items(), key=lambda way: way[0][:2]):
        row = _row(board, board.suite, name, of_row)
        if row is not None:
            row_name = next(
                candidate for candidate in (name, f"{name}-reported", f"{name}-uploaded") if candidate not in names
            )
            names.add(row_name)
            rows.append(replace(row, id=row_name))
    return _told_apart(rows)


def _told_apart(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Return the rows, each with the parts of its setup in which it differs from another row of its model."""
    setups: dict[str, list[tuple[Fact, Fact]]] = {}
    for row in rows:
        setups.setdefault(row.model, []).append((row.fact("precision"), row.fact("prompts")))
    return [
        replace(row, setup=tuple(str(own).replace(f", {PLAIN_TEXT}", "") for own, others in zip(
            (row.fact("precision"), row.fact("prompts")), zip(*setups[row.model], strict=True), strict=True
        ) if own and len(set(others)) > 1))
        for row in rows
    ]  # fmt: skip


def agreeing_runs(board: Board, runs: Sequence[StoredRun]) -> tuple[list[StoredRun], list[str]]:
    """Return the runs without results that cannot be ranked in their column, and a line on each task with such results.

    Files of one name may have other questions, or other answers, and an application's scorer is another metric than a
    model's. The data that most models have count, then the metric; of equally many, the latest run's. Results from
    files are not compared: their data are not known.

    board: the board, with a suite; all runs agree on one without. runs: the latest first.
    """
    named = [with_present_names(run) for run in runs]
    left_out: dict[int, set[str]] = {}  # by the run's place: tasks and groups
    lines: list[str] = []
    voting = {at: run for at, run in enumerate(named) if run.origin == "measured" and _counts(board, run)}
    for member in board.suite.members if board.suite is not None else ():
        found = {at: match for at, run in voting.items() if (match := _latest(member, [run], [])) is not None}
        data = {at: _data_of(member, match) for at, match in found.items()}
        metrics = {at: _metrics_of(member, match) for at, match in found.items()}
        chosen_data = _of_most(voting, data)
        same = {at: metrics[at] for at, own in data.items() if not _differing(own, chosen_data)}
        chosen_metrics = _of_most(voting, same)
        reasons: Counter[str] = Counter()
        for at in found:
            others = _differing(metrics[at], chosen_metrics)
            if others or at not in same:
                left_out.setdefault(at, set()).add(member.task)
                reasons[f"by {', '.join(others)}" if others else "on other data"] += 1
        if reasons:
            words = [f"{counted(n, 'run')} {why}" for why, n in reasons.items()]
            lines.append(f"{member.task}: {', '.join(words)}")
    kept = [_without(run, left_out[at]) if at in left_out else run for at, run in enumerate(named)]
    return kept, list(dict.fromkeys(lines))


def _of_most(runs: Mapping[int, StoredRun], values: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """Return each task's value that most models have; of equally many the first, which is the latest run's."""
    models: dict[str, dict[str, set[str]]] = {}
    for at, own in values.items():
        for task, value in own.items():
            models.setdefault(task, {}).setdefault(value, set()).add(runs[at].model)
    return {task: max(by_value, key=lambda value: len(by_value[value])) for task, by_value in models.items()}


def _differing(own: Mapping[str, str], chosen: Mapping[str, str]) -> list[str]:
    """Return a run's values that are others than those chosen."""
    return sorted({value for task, value in own.items() if chosen.get(task, value) != value})


def _data_of(member: Member, match: Found) -> dict[str, str]:
    """Return the data's hash of each task of a member.

    A Python class reads its rows itself: the hash is that of the evaluated ones, and says nothing if these are a part.
    """
    plan, facts = match.run.plan, match.run.row.extra.get("tasks", {})
    below = [e for e in match.run.estimates if member.task in (e.task, *_path(e))]
    names = {name for e in below for name in (e.task, *_path(e))}
    classes = {name for name in names if name in facts and "class" in facts[name].get("spec", {})}
    return {
        task.name: task.dataset_hash
        for task in plan.tasks
        if task.name in names and (task.name not in classes or (plan.limit is None and task.sample_indices is None))
    }


def _metrics_of(member: Member, match: Found) -> dict[str, str]:
    """Return the main metric of each task; none where the board names it, or a prompt style makes it another.

    Of a prompt style, both metrics say whether an answer is right, as in comparisons.
    """
    if member.metrics != (ANY_METRIC,):
        return {}
    is_styled = match.run.plan.prompt_style is not None
    return {e.task: e.metric for e in match.estimates if not (is_styled and is_credit(e.metric))}


def _without(run: StoredRun, names: Container[str]) -> StoredRun:
    """Return a run without its results of some tasks and groups, and of the suites whose average counts them."""
    kept = [e for e in run.estimates if e.details.get("kind") != COMPOSITE
            and not any(name in names for name in (e.task, *_path(e)))]  # fmt: skip
    return replace(run, estimates=tuple(kept))


def latest_reports(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs, and of what each model's repository states only what is latest.

    Of the store's runs the latest come first, and of files' too. A folder that is read now counts before a run of the
    store, unless both state dates and the run's is later.
    """
    known: dict[tuple[str, bool], StoredRun] = {}
    for run in runs:
        if run.is_hub_report:
            key = (run.model, run.is_upload)
            known[key] = _latest_of(known.get(key, run), run)
    return [run for run in runs if not run.is_hub_report or known[run.model, run.is_upload] is run]


def _latest_of(first: StoredRun, second: StoredRun) -> StoredRun:
    """Return the later of two runs; the first of two of the store, or of two of files."""
    if bool(first.source) == bool(second.source):
        return first
    of_file, of_store = (first, second) if first.source else (second, first)
    dates = [_date_of(run) for run in (of_file, of_store)]
    return of_store if all(dates) and dates[1] > dates[0] else of_file


def _date_of(run: StoredRun) -> str:
    """Return the date that an imported run's files state; empty without one."""
    imported: Mapping[str, object] = run.row.extra.get("imported") or {}
    return str(imported.get("date") or "")


def _counts(board: Board, run: StoredRun) -> bool:
    """Return whether a run is one of the board's; unfinished or unsummarised runs have no estimates."""
    if (not run.estimates and not run.is_damaged) or any(
        run.run_id.startswith(beginning) for beginning in board.exclude
    ):
        return False
    searched = " ".join([run.run_id, run.row.model, run.plan.profile, *run.row.tasks]).lower()
    return all(word.lower() in searched for word in board.only)


def is_of_board(board: Board, run: StoredRun) -> bool:
    """Return whether a run is one of a board's: its file does not leave it out, and it holds something of its suite."""
    if board.suite is None:
        return False
    named = with_present_names(run)
    return _counts(board, named) and (
        any(estimates_of_member(member, named) for member in board.suite.members) or _is_damaged_of(board.suite, named)
    )


def _is_damaged_of(suite: Suite, run: StoredRun) -> bool:
    return run.is_damaged and any(member.task in run.row.tasks for member in suite.members)


def _row(board: Board, suite: Suite, name: str, runs: Sequence[StoredRun]) -> BoardRow | None:
    notes: list[str] = []
    columns_by_shots = {(member.task, member.shots) for member in suite.members}
    matches = [_latest(member, runs, notes, columns_by_shots) for member in suite.members]
    damaged = [run for run in runs if _is_damaged_of(suite, run)]
    notes += [f"run {run.row.short_id} is damaged: its stored numbers are not as they were saved" for run in damaged]
    found = [match for match in matches if match is not None]
    if not found and not damaged:
        return None
    columns = board.score_columns
    counted, raw = scored_columns(suite, [None if match is None else match.score for match in matches])
    notes += [f"{member.task}: what guessing scores is not known, so it has no normalised score; give it a `chance` in "
              "the board's file" for member, match in zip(suite.members, matches, strict=True)
              if match is not None and _lacks_chance(suite, match.score)]  # fmt: skip
    cells = _cells(suite, columns, matches, counted, raw)
    # the latest run's composite of this very suite
    whole = next((estimate for run in runs if run.stopped is None for estimate in _composites(suite, run)), None)
    if whole is not None:
        cells |= _composite_cells(whole, cells, columns)
    averaged = _average(suite, columns, cells, matches, counted, whole)
    stopped = {match.run.run_id: match.run.stopped for match in found if match.run.stopped}
    if stopped:
        cells = _without_fixed_intervals(columns, cells, suite, matches)
        averaged = _average_at_any_time(suite, columns, cells, averaged, matches)
    used = {match.run.run_id: match.run for match in found}
    latest = next((run for run in runs if run.run_id in used), None) or damaged[0]
    facts = facts_of_run(latest, board)
    notes += [match.run.mark.note for match in found if match.run.mark is not None and match.run.mark.note]
    notes += [note for match in found for note in match.run.notes]
    every = [estimate for match in found for estimate in match.estimates]
    notes += [f"{estimate.task}: {note}" for estimate in every if (note := truncation_of(estimate))]
    by_rule = [run for run in stopped.values() if run is not None]
    return BoardRow(
        id=name,
        model=latest.model,
        origin=latest.origin,
        cells=cells,
        average=averaged,
        facts={**facts, "origin": latest.origin},
        run_ids=tuple(run_id for run_id, run in used.items() if not run.source),
        notes=tuple(dict.fromkeys(notes)),
        stopped=StoppedEarly(sum(run.n_seen for run in by_rule), sum(run.n for run in by_rule)) if by_rule else None,
        is_upload=latest.is_upload,
    )


def _without_fixed_intervals(
    columns: Sequence[ScoreColumn], cells: Mapping[str, RowScore], suite: Suite, matches: Sequence[Found | None]
) -> dict[str, RowScore]:
    """Return the cells; a cell of several estimates of a run that a rule stopped has no valid interval."""
    kept = dict(cells)
    for column in columns:
        of_column = [
            match
            for member, match in zip(suite.members, matches, strict=True)
            if match is not None and member.column == column.title and match.run.stopped is not None
        ]
        cell = cells.get(column.key)
        if of_column and cell is not None and cell.number.method != AT_ANY_TIME:
            raw = None if cell.raw is None else IntervalValue(cell.raw.value)
            kept[column.key] = replace(cell, number=IntervalValue(cell.number.value), raw=raw)
    return kept


def _average_at_any_time(
    suite: Suite, columns: Sequence[ScoreColumn], cells: Mapping[str, RowScore], plain: Average | None,
    matches: Sequence[Found | None],
) -> Average | None:  # fmt: skip
    """Return the average of a row that a rule stopped, from the ends of its columns' intervals.

    These intervals are simultaneous if they are of one run. Otherwise, and if the average is no weighted mean, there is
    no interval, and the row may have any rank.
    """
    if plain is None or len(columns) == 1:
        return plain
    weights = [column.weight for column in columns]
    numbers = [cells[column.key].number for column in columns if column.key in cells]
    is_mean = suite.normalise == "none" and suite.aggregate not in {"geometric", "winrate"}
    is_one_run = len({match.run.run_id for match in matches if match is not None}) == 1
    lows, highs = [number.low for number in numbers], [number.high for number in numbers]
    if not is_mean or not is_one_run or len(numbers) < len(columns) or None in lows or None in highs:
        return replace(plain, number=IntervalValue(plain.number.value))
    low, high = (
        sum(weight * (end or 0.0) for weight, end in zip(weights, ends, strict=True)) / sum(weights)
        for ends in (lows, highs)
    )
    return replace(plain, number=IntervalValue(plain.number.value, low, high, None, AT_ANY_TIME))


def _latest(
    member: Member, runs: Sequence[StoredRun], notes: list[str], others: Container[tuple[str, int | None]] = ()
) -> Found | None:
    """Return the latest run's score of a member, and note runs with other shots that no column shows."""
    for run in runs:
        estimates = estimates_of_member(member, run)
        if not estimates:
            lacking = {task for e in run.estimates if e.task == member.task for task in e.details.get("lacking", ())}
            if lacking:
                notes.append(f"{member.task}: run {run.row.short_id} has no result of {few(sorted(lacking), 3)}")
            continue
        shots = {n for e in estimates if (n := e.details.get("n_shots")) is not None}
        if member.shots is not None and shots and shots != {member.shots}:
            if all((member.task, n) in others for n in shots):
                continue
            of_run = ", ".join(map(str, sorted(shots)))
            notes.append(f"{member.task}: run {run.row.short_id} has {of_run} shots, the board {member.shots}")
            continue
        score = _member_score(member, estimates)
        if score is not None:
            return Found(score, tuple(estimates), run)
    return None


def holds_member(member: Member, run: StoredRun) -> bool:
    """Return whether a board with this member shows a run: it has the member's metrics, at the board's shots."""
    return _latest(member, [run], []) is not None


def estimates_of_member(member: Member, run: StoredRun) -> list[Estimate]:
    """Return a member's estimates in a run: of its task, or of each task below the group that it names.

    There are none where one of these has no value: the mean of the other tasks is another number.
    """
    if member.metrics == (ANY_METRIC,):
        return _standing_for(member.task, run)
    found = [e for e in _leaves(member, run) if e.metric in member.metrics and e.filter == member.filter]
    return found if all(e.value is not None for e in found) else []


def _standing_for(name: str, run: StoredRun) -> list[Estimate]:
    """Return the representative estimate of a task or a group: its primary metric, or that of its tasks."""
    own = [
        e
        for e in run.estimates
        if e.task == name and e.value is not None and e.details.get("kind") != COMPOSITE and is_score(e)
    ]
    metrics = {(e.metric, e.filter) for e in run.estimates if e.details.get("primary") and name in _path(e)}
    primary = [e for e in own if e.details.get("primary")] or [e for e in own if (e.metric, e.filter) in metrics]
    if primary:
        return primary[:1]
    tasks = [
        e
        for e in run.estimates
        if e.details.get("primary") and e.details.get("kind", "task") == "task" and name in _path(e)
    ]
    # estimates of different units or directions have no mean: `show` has none either
    are_alike = len({(e.details.get("unit"), e.higher_is_better) for e in tasks}) == 1
    return tasks if are_alike and all(e.value is not None for e in tasks) else []


def is_score(estimate: Estimate) -> bool:
    """Return whether an estimate says how good answers are: all that an application has without scorers is its time."""
    return estimate.metric != "latency_s"


def _path(estimate: Estimate) -> tuple[str, ...]:
    return tuple(estimate.details.get("path", ()))


def _leaves(member: Member, run: StoredRun) -> list[Estimate]:
    tasks = [e for e in run.estimates if e.details.get("kind", "task") == "task"]
    own = [e for e in tasks if e.task == member.task] or [e for e in tasks if member.task in _path(e)]
    return own or [e for e in run.estimates if e.task == member.task and e.details.get("kind") == "subject"]


def with_present_names(run: StoredRun) -> StoredRun:
    """Return the run of a results file of the first leaderboard under the present names of tasks and metrics."""
    if not any("|" in estimate.task for estimate in run.estimates):
        return run
    named = [(estimate, present_name(estimate.task, estimate.metric)) for estimate in run.estimates]
    sizes = Counter(group for group, _ in {(name.group, name.task) for _, name in named if name is not None})
    whole = {group for group, n_tasks in GROUP_SIZES.items() if sizes[group] == n_tasks}
    return replace(
        run, estimates=tuple(estimate if name is None else _renamed(estimate, name, whole) for estimate, name in named)
    )


def _renamed(estimate: Estimate, name: PresentName, groups: Container[str]) -> Estimate:
    path = (name.group,) if name.group is not None and name.group in groups else ()
    details: EstimateDetails = {**estimate.details, "path": path, TASK_IN_FILE: estimate.task}
    return replace(
        estimate,
        task=name.task,
        metric=name.metric,
        filter=name.filter if estimate.filter == "none" else estimate.filter,
        details=details,
    )


def _member_score(member: Member, estimates: Sequence[Estimate]) -> MemberScore | None:
    by_task: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        by_task.setdefault(estimate.task, []).append(estimate)
    wanted = 1 if member.metrics == (ANY_METRIC,) else len(member.metrics)
    if any(len(of_task) != wanted for of_task in by_task.values()):
        return None
    parts = [average([_part(task_estimate) for task_estimate in of_task]) for of_task in by_task.values()]
    weights = [float(part.n) for part in parts] if member.within == "weighted" else [1.0] * len(parts)
    chances = [of_task[0].chance for of_task in by_task.values()]
    chance = member.chance if isinstance(member.chance, float) else _mean(chances, weights)
    return MemberScore(average(parts, weights), chance)


def _part(estimate: Estimate) -> Part:
    """Return an estimate with its error; metrics of the same task are treated as fully correlated."""
    bounds = SHARES if estimate.details.get("unit") == "proportion" else None
    known = IntervalEstimate(float(estimate.value or 0.0), estimate.low, estimate.high, estimate.stderr,
                             estimate.method, estimate.n, estimate.confidence)  # fmt: skip
    return reported_part(known, estimate.task, bounds)


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not sum(weights):
        return None
    return sum(weight * value for weight, value in zip(weights, known, strict=True)) / sum(weights)


# ------------------------------------------------------------------------------------------ columns


def scored_columns(suite: Suite, members: Sequence[MemberScore | None]) -> tuple[SuiteScore, SuiteScore | None]:
    """Return a suite's columns as they count, and raw where the suite normalises.

    Where what guessing scores is not known, there is no normalised score: a raw one would be on another scale.
    """
    raw = replace(suite, normalise="none", clip=False)
    known = [None if member is None or _lacks_chance(suite, member) else member for member in members]
    return score_suite(suite, known), None if suite.normalise == "none" else score_suite(raw, members)


def _lacks_chance(suite: Suite, score: MemberScore) -> bool:
    return suite.normalise == "chance" and score.corrected is None and score.chance is None


def _cells(
    suite: Suite, columns: Sequence[ScoreColumn], matches: Sequence[Found | None], counted: SuiteScore,
    raw: SuiteScore | None,
) -> dict[str, RowScore]:  # fmt: skip
    keys = {column.title: column.key for column in columns}
    raws = {} if raw is None else {name: number_of(number) for name, number in raw.columns}
    cells: dict[str, RowScore] = {}
    for title, number in counted.columns:
        of_column = [match for member, match in zip(suite.members, matches, strict=True)
                     if member.column == title and match is not None]  # fmt: skip
        estimates = [estimate for match in of_column for estimate in match.estimates]
        # a group has no samples of its own: its number leads to the run
        own = [estimate for estimate in estimates if estimate.details.get("kind", "task") == "task"]
        tasks = list(dict.fromkeys(estimate.details.get(TASK_IN_FILE, estimate.task) for estimate in own))
        has_group = any(estimate.details.get("kind", "task") != "task" for estimate in estimates)
        is_one = len(estimates) == 1 and suite.normalise == "none"
        cells[keys[title]] = RowScore(
            number_of(estimates[0] if is_one else number),
            raws.get(title),
            n=sum({estimate.task: estimate.n for estimate in estimates}.values()) or None,  # 0: not stated
            n_failed=sum({estimate.task: estimate.n_failed for estimate in estimates}.values()),
            run_id=None if of_column[0].run.source else of_column[0].run.run_id,
            task=tasks[0] if len(tasks) == 1 and not has_group else None,
            is_share=all(match.is_share for match in of_column),
            higher_is_better=all(estimate.higher_is_better for estimate in estimates),
            is_neutral=any(estimate.details.get("is_neutral") for estimate in estimates),
            reported="; ".join(dict.fromkeys(filter(None, map(reported_words, estimates)))),
        )
    return cells


def number_of(estimate: IntervalEstimate | Estimate) -> IntervalValue:
    """Return an estimate as a board's number."""
    value = float(estimate.value or 0.0)
    return IntervalValue(value, estimate.low, estimate.high, estimate.stderr, estimate.method)


def _composites(suite: Suite, run: StoredRun) -> Iterator[Estimate]:
    for estimate in run.estimates:
        is_this = estimate.details.get("kind") == COMPOSITE and estimate.task == suite.name
        if is_this and estimate.value is not None and estimate.details.get("version") == suite.version:
            yield estimate


def _composite_cells(
    whole: Estimate, cells: Mapping[str, RowScore], columns: Sequence[ScoreColumn]
) -> dict[str, RowScore]:
    keys = {column.title: column.key for column in columns}
    replaced: dict[str, RowScore] = {}
    for column in whole.details.get("columns", ()):
        key = keys.get(column["name"], "")
        cell = cells.get(key)
        if cell is not None and column.get("value") is not None:
            number = IntervalValue(column["value"], column["low"], column["high"], column["stderr"], column["method"])
            replaced[key] = replace(cell, number=number)
    return replaced


def _average(
    suite: Suite,
    columns: Sequence[ScoreColumn],
    cells: Mapping[str, RowScore],
    matches: Sequence[Found | None],
    counted: SuiteScore,
    whole: Estimate | None,
) -> Average | None:
    if suite.aggregate == "winrate":
        return None
    if len(columns) == 1 and columns[0].key in cells and cells[columns[0].key].is_share:
        return Average(cells[columns[0].key].number, 1)
    if whole is not None:
        return Average(number_of(whole), len(columns))
    if counted.value is not None and all(match is None or match.is_share for match in matches):
        return Average(number_of(counted.value), len(columns))
    shares = [column for column in columns if column.key not in cells or cells[column.key].is_share]
    return average_of(shares, cells, "geometric" if suite.aggregate == "geometric" else "weighted")
