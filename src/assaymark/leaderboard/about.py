"""A board's facts about its benchmarks: shots, metric, what each measures, its faults, and a command.

Also the names under which stored runs have the task sets that a board's file names.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.errors import DataError
from assaymark.leaderboard.board import ANY_METRIC, Board, slug
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.limits.yaml_documents import load_yaml
from assaymark.platforms import relative_path
from assaymark.records import JsonValue
from assaymark.scoring.metrics import find_metric
from assaymark.settings import VERSION
from assaymark.tasks.catalog import LIBRARY, Catalog
from assaymark.tasks.describe import find_card_named
from assaymark.tasks.suites import Member

_NAME = r"^{}:[ \t]*(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\[\"'#][^#\n]*?))[ \t]*(?:#.*)?$"
LARGEST_FILE = 1 << 20


def task_name(file: Path) -> str:
    """Return the name that a YAML file gives its group or task, and for other files their name without endings.

    The file is searched for this line rather than loaded, since it may name Python functions.
    """
    if file.suffix.lower() in {".yaml", ".yml"} and file.is_file() and file.stat().st_size <= LARGEST_FILE:
        text = file.read_text(encoding="utf-8", errors="replace")
        for key in ("group", "task"):
            match = re.search(_NAME.format(key), text, re.MULTILINE)
            if match is not None:
                return next(part for part in match.groups() if part)
    return file.name.split(".")[0]


_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}")


@dataclass(frozen=True, slots=True)
class TaskAbout:
    """One benchmark of a board."""

    column: str
    task: str
    shots: int | None  # None: the task's own
    metric: str
    formula: str
    chance: str
    command: str
    card: Mapping[str, JsonValue]  # title, measures, dataset, known_faults, citation ...; empty where there is none


def task_card(task: str) -> Mapping[str, object]:
    """Return a task's card from the library; empty if it has none, or if the name cannot be a file's."""
    if not _FILE_NAME.fullmatch(task):  # the name may come from a URL: no path and no pattern
        return {}
    try:
        return find_card_named(task, (), LIBRARY) or {}
    except DataError:
        return {}


@dataclass(frozen=True, slots=True)
class CitedHuman:
    """The score of people, as a task's card cites it; value: a share."""

    value: float
    source: str


def cited_human(task: str) -> CitedHuman | None:
    """Return people's score in a task by its own card; a benchmark's score is not used for its subjects."""
    card = task_card(task) if task in _tasks_with_cards() else {}
    human = card.get("human")
    return CitedHuman(float(human["value"]), str(human["source"])) if isinstance(human, Mapping) else None


@cache
def _tasks_with_cards() -> frozenset[str]:
    """Return the tasks with a card of their own, without those that share a benchmark's card by pattern or prefix."""
    files = list(LIBRARY.rglob("*.card.yaml"))
    served = [name for file in files for name in load_yaml(file.read_bytes()).get("serves") or ()]
    return frozenset({file.name.removesuffix(".card.yaml") for file in files} | {n for n in served if "*" not in n})


def tasks_about(board: Board) -> tuple[TaskAbout, ...]:
    """Return the benchmarks of a board, in its order; none for a published table."""
    if board.suite is None:
        return ()
    files = _files(board)
    return tuple(_about(board, member, files) for member in board.suite.members)


def column_help(column: ScoreColumn) -> str:
    """Return the description of a column: from its card, else its tasks; and the board's note."""
    measured = [str(card["measures"]) for task in column.tasks[:1] if (card := task_card(task)).get("measures")]
    names = [", ".join(column.tasks)] if column.tasks and not measured and column.tasks != (column.title,) else []
    return " ".join(filter(None, [*measured, *names, column.note]))


def formulas_of(metrics: Iterable[str]) -> dict[str, str]:
    """Return the formula of each metric that has one in the table of metrics, in the order given."""
    rows = {name: find_metric(name) for name in metrics}
    return {name: row.formula for name, row in rows.items() if row is not None and row.formula}


def _about(board: Board, member: Member, files: Mapping[str, str]) -> TaskAbout:
    named = [name for name in member.metrics if name != ANY_METRIC]
    formulas = list(formulas_of(named).values())
    words = ["--tasks", files.get(member.task, member.task)]
    words += [] if member.shots is None else ["--num_fewshot", str(member.shots)]
    return TaskAbout(
        column=member.column,
        task=member.task,
        shots=member.shots,
        metric=", ".join(named) or "the task's primary metric",
        formula="; ".join(formulas),
        chance=""
        if member.chance is None
        else f"{member.chance:.3g}"
        if isinstance(member.chance, float)
        else member.chance,
        command=_command(words, board.suite.profile if board.suite else "") if _can_be_named(board, member) else "",
        card=task_card(member.task),
    )


def _files(board: Board) -> dict[str, str]:
    """Return the board's task files by the name of their task, relative to the board's file."""
    return {task_name(path): _beside(board, path) for path in board.task_files}


def _beside(board: Board, path: Path) -> str:
    return path.name if board.source is None else relative_path(path, board.source.parent)


def _command(words: Sequence[str], profile: str) -> str:
    profile_option = [] if profile in {"", "lm-eval-0.4.13"} else ["--profile", profile]
    return f"assaymark run --model hf --model_args pretrained=MODEL {shlex.join([*words, *profile_option])}"


def command_of_board(board: Board) -> str:
    """Return the command that measures a model on the whole board; empty for a published table."""
    if board.suite is None:
        return ""
    if board.suite.source is not None:
        is_ours = board.suite.source.is_relative_to(LIBRARY)
        name = board.suite.name if is_ours else _beside(board, board.suite.source)
        return _command(["--tasks", f"suite:{name}" if is_ours else name], "")
    files = _files(board)
    by_shots: dict[int | None, list[str]] = {}
    for member in board.suite.members:
        if _can_be_named(board, member):
            by_shots.setdefault(member.shots, []).append(files.get(member.task, member.task))
    commands = []
    for shots, names in by_shots.items():
        words = ["--tasks", ",".join(dict.fromkeys(names))]
        words += [] if shots is None else ["--num_fewshot", str(shots)]
        commands.append(_command(words, board.suite.profile))
    return "\n".join(commands)


def _can_be_named(board: Board, member: Member) -> bool:
    """Return whether a command can name a task: on a board of the store, paths of users' task files are not known."""
    is_of_file = board.source is not None or (board.suite is not None and board.suite.source is not None)
    return is_of_file or member.task in _names_of_tasks()


@cache
def _names_of_tasks() -> frozenset[str]:
    return frozenset(entry.name for entry in Catalog.open([]).entries())


def bibtex(board: Board, updated_at: str) -> str:
    """Return BibTeX for the board, for this program, and notes that name the works behind its benchmarks."""
    year = updated_at[:4]
    entries = [
        board.cite
        or "\n".join(
            [
                f"@misc{{{slug(board.name)},",
                f"  title = {{{_tex(board.title)}}},",
                f"  year = {{{year}}}," if year else "  year = {},",
                f"  note = {{Leaderboard, as of {updated_at[:10] or 'an unknown date'}}},",
                "}",
            ]
        ),
        "\n".join(
            [
                "@software{assaymark,",
                "  title = {Assaymark: standardised evaluation of language models},",
                f"  version = {{{VERSION}}},",
                "}",
            ]
        ),
    ]
    cited = {
        str(about.card["citation"]): slug(about.task) for about in tasks_about(board) if about.card.get("citation")
    }
    works = [f"@misc{{{key},\n  note = {{{_tex(text)}}},\n}}" for text, key in cited.items()]
    return "\n\n".join([*entries, *works])


def _tex(text: str) -> str:
    return " ".join(text.translate({ord("{"): "(", ord("}"): ")", ord("\\"): "/"}).split())
