"""A board's YAML file: reading it, and each fault as one line that names the file, the key and what was expected."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TypedDict, get_args

from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.leaderboard.about import task_name
from assaymark.leaderboard.board import (
    ANY_METRIC,
    RECORDS,
    SHOWN,
    Board,
    CitedScores,
    FaqEntry,
    RatingSource,
    Screening,
    TableFormat,
    TableSource,
    slug,
)
from assaymark.leaderboard.columns import FACTS_BY_KEY, canonical
from assaymark.leaderboard.screening import why_not_screened
from assaymark.limits.yaml_documents import load_yaml
from assaymark.models.cost.prices import HIGHEST, Price
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.tasks.catalog import LIBRARY
from assaymark.tasks.suites import Suite, suite_from
from assaymark.tasks.yaml_files import read_suite, suites_below

_KEYS = (
    "name", "title", "logo", "introduction", "about", "policy", "faq", "suite", "tasks", "table", "categories",
    "columns", "models", "prices", "aggregate", "column_weights", "normalise", "clip", "rank_together", "baselines",
    "win_rates", "claims", "runs", "results", "requests", "ratings", "cite", "private", "screening",
)  # fmt: skip
_TASK_KEYS = ("file", "task", "column", "category", "metric", "filter", "shots", "weight", "chance", "private")
_OWN_RULES = ("aggregate", "column_weights", "normalise", "clip")
_PRICE_KEYS = ("read", "generated", "source", "date")
_RATING_HEADINGS = ("model", "rating", "low", "high")
_LOGO_TYPES = (".svg", ".png", ".jpg", ".jpeg", ".webp")
LARGEST_FILE = 1 << 20
MOST_NUMBER = 1 << 31
LARGEST_LOGO = 1 << 19


def library_suites() -> dict[str, Suite]:
    """Return the suites that come with the package, by name and alias."""
    return suites_below(LIBRARY)


def board_of_suite(suite: Suite) -> Board:
    """Return the default board of a suite."""
    texts = _suite_texts()
    return Board(
        name=slug(suite.name),
        title=suite.title,
        about=suite.note,
        suite=suite,
        faq=tuple(FaqEntry(entry["question"], entry["answer"]) for entry in texts["faq"]),
        policy=texts["policy"],
    )


class _Faq(TypedDict):
    question: str
    answer: str


class _SuiteTexts(TypedDict):
    faq: list[_Faq]
    policy: str


@cache
def _suite_texts() -> _SuiteTexts:
    content: _SuiteTexts = load_yaml(Path(__file__).with_name("suite_texts.yaml").read_bytes())
    return content


def read_board(path: str | Path) -> Board:
    """Return the board of a file.

    Raises: UsageError if the file does not exist; DataError for invalid content, naming file and key.
    """
    try:
        place = Path(path).expanduser()
        is_file = _is_there(place) and place.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{str(path)!r:.80} is not a file name: {_short(error)}") from error
    if not is_file:
        raise UsageError(f"there is no board file {place}; make one with: assaymark board init {place}")
    if place.stat().st_size > LARGEST_FILE:
        raise DataError(f"{place} has {place.stat().st_size:,} bytes; a board's file has at most {LARGEST_FILE:,}")
    try:
        spec = load_yaml(place.read_bytes())
    except (DataError, OSError) as error:
        raise DataError(f"{place}: {error}") from error
    if not isinstance(spec, Mapping):
        raise DataError(f"{place}: expected keys such as `title:` and `suite:`; found {type(spec).__name__}")
    return _BoardReader(place.resolve(), spec).board()


class _BoardReader:
    """One file while it is being read; every fault names it."""

    def __init__(self, path: Path, spec: Mapping[str, JsonValue]) -> None:
        self.path = path
        self.spec = spec

    def board(self) -> Board:
        self.refuse_strange(self.spec, _KEYS, "")
        keys = [key for key in ("suite", "tasks", "table") if self.spec.get(key) is not None]
        if len(keys) != 1:
            present = " and ".join(keys) or "none of them"
            raise self.fault("", f"has {present}; expected exactly one of suite, tasks and table")
        title = self.text(self.spec, "title") or self.path.stem
        name = self.text(self.spec, "name") or slug(self.path.stem)
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
            raise self.fault("name", f"is {name!r:.80}; expected lower-case letters, digits, dots and dashes")
        suite = self.suite(keys[0], name, title)
        runs = self.mapping(self.spec, "runs")
        self.refuse_strange(runs, ("only", "exclude"), "runs")
        board = Board(
            name=name,
            title=title,
            introduction=self.text(self.spec, "introduction"),
            about=self.text(self.spec, "about"),
            policy=self.text(self.spec, "policy"),
            faq=self.faq(),
            logo=self.logo(),
            suite=suite,
            task_files=tuple(
                self.file(entry["file"], f"tasks[{at}].file") for at, entry in self.tasks() if "file" in entry
            ),
            table=self.table(),
            categories=self.categories(),
            shown_columns=self.shown(),
            rank_together=self.boolean("rank_together"),
            win_rates=self.boolean("win_rates"),
            baselines=self.cited("baselines", "name"),
            has_card_baselines=self.has_cards(),
            claims=self.cited("claims", "model"),
            only=self.words(runs, "only"),
            exclude=self.words(runs, "exclude"),
            results=tuple(self.file(word, "results", or_folder=True) for word in self.words(self.spec, "results")),
            requests=tuple(self.folder(word, "requests") for word in self.words(self.spec, "requests")),
            ratings=self.ratings(),
            models=self.models(),
            prices=self.prices(),
            cite=self.text(self.spec, "cite"),
            private=self.private(suite),
            screening=self.screening(suite),
            source=self.path,
        )
        self.check_columns(board)
        return board

    def fault(self, key: str, what: str) -> DataError:
        return DataError(f"{self.path}: {key} {what}" if key else f"{self.path}: {what}")

    # ----------------------------------------------------------------------------- plain values

    def text(self, spec: Mapping[str, JsonValue], key: str) -> str:
        value = spec.get(key, "")
        if not isinstance(value, str | None):
            raise self.fault(key, f"is {value!r:.80}; expected text")
        return (value or "").strip()

    def mapping(self, spec: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
        value = spec.get(key) or {}
        if not isinstance(value, Mapping):
            raise self.fault(key, f"is {value!r:.80}; expected keys with values")
        return value

    def words(self, spec: Mapping[str, JsonValue], key: str) -> tuple[str, ...]:
        value = spec.get(key) or ()
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, Sequence) or not all(isinstance(word, str) for word in listed):
            raise self.fault(key, f"is {value!r:.80}; expected a text or a list of texts")
        return tuple(listed)

    def boolean(self, key: str) -> bool:
        value = self.spec.get(key, False)
        if not isinstance(value, bool):
            raise self.fault(key, f"is {value!r:.80}; expected true or false")
        return value

    def file(self, name: object, key: str, *, or_folder: bool = False) -> Path:
        """Return a file that the board names: a regular one, since a device or a pipe may never end."""
        if not isinstance(name, str) or not name:
            raise self.fault(key, f"is {name!r:.80}; expected the name of a file")
        try:
            place = (self.path.parent / Path(name).expanduser()).resolve()
            is_there, is_known = _is_there(place), place.is_file() or (or_folder and place.is_dir())
        except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, `~` of a user that does not exist
            raise self.fault(key, f"is {name!r:.80}, which is not a file name: {_short(error)}") from error
        text = " ".join(name.split())[:200]
        if not is_there:
            raise self.fault(key, f"names {text}, which does not exist; expected a file beside {self.path.name}")
        if not is_known:
            expected = "a file or a folder" if or_folder else "a file"
            raise self.fault(key, f"names {text}, which is not a regular file; expected {expected}")
        return place

    def folder(self, name: object, key: str) -> Path:
        """Return a folder that the board names."""
        place = self.file(name, key, or_folder=True)
        if not place.is_dir():
            raise self.fault(key, f"names {name!r:.80}, which is a file; expected a folder")
        return place

    def refuse_strange(self, spec: Mapping[str, JsonValue], known: Sequence[str], key: str) -> None:
        strange = next((str(name) for name in spec if name not in known), None)
        if strange is not None:
            close = nearest(strange, known)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            raise self.fault(key, f"has the unknown key '{strange:.60}'{hint}; known: {', '.join(known)}")

    # -------------------------------------------------------------------------------- what is measured

    def suite(self, source: str, name: str, title: str) -> Suite | None:
        if source != "tasks":
            if own := [key for key in _OWN_RULES if key in self.spec]:
                raise self.fault(own[0], f"belongs to a board with `tasks`; this one has `{source}`, which has its own")
            return self.named_suite() if source == "suite" else None
        members = [self.member(entry, at) for at, entry in self.tasks()]
        if not members:
            raise self.fault("tasks", "is empty; expected at least one file or task")
        rules = {key: self.spec[key] for key in _OWN_RULES if key in self.spec}
        try:
            suite = suite_from({"name": name, "title": title, "members": members, "reproduced": True, **rules})
        except DataError as error:
            raise self.fault("tasks", f"make no board: {error}") from error
        return suite

    def named_suite(self) -> Suite:
        name = self.text(self.spec, "suite")
        known = library_suites()
        if name in known:
            return known[name]
        if Path(name).suffix in {".yaml", ".yml"}:
            return read_suite(self.file(name, "suite"))
        error = UnknownName("suite", name, nearest(name, known), f"known: {', '.join(sorted(known))}")
        raise self.fault("suite", f"names an {error}") from error

    def tasks(self) -> list[tuple[int, Mapping[str, JsonValue]]]:
        value = self.spec.get("tasks") or ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.fault("tasks", f"is {value!r:.80}; expected a list of files or task names")
        entries = []
        for at, task in enumerate(value, start=1):
            entry = {("file" if _is_file_name(task) else "task"): task} if isinstance(task, str) else task
            if not isinstance(entry, Mapping) or ("file" in entry) == ("task" in entry):
                raise self.fault(f"tasks[{at}]", f"is {task!r:.80}; expected a file, a task name, or file: or task:")
            self.refuse_strange(entry, _TASK_KEYS, f"tasks[{at}]")
            entries.append((at, entry))
        return entries

    def member(self, entry: Mapping[str, object], at: int) -> dict[str, JsonValue]:
        """Return one task set as a member of a suite; without a metric the task's primary one is used."""
        name = self.task_of(entry, at)
        rest = {key: entry[key] for key in ("filter", "shots", "weight", "chance") if key in entry}
        if "metric" not in entry:
            rest["metric"] = [ANY_METRIC]
        else:
            rest["metric"] = entry["metric"]
        if self.spec.get("normalise") == "chance" and "chance" not in rest:
            rest["chance"] = "1/choices"
        return {"task": name, "column": entry.get("column") or name, **rest}

    def task_of(self, entry: Mapping[str, object], at: int) -> str:
        """Return the name of a task set's task."""
        name = entry.get("task") or task_name(self.path.parent / str(entry.get("file")))
        if not isinstance(name, str):
            raise self.fault(f"tasks[{at}].task", f"is {name!r:.80}; expected a name")
        return name

    def private(self, suite: Suite | None) -> frozenset[str]:
        """Return the tasks whose rows are not shown: those of entries that say so, or all of a private board."""
        is_whole = self.boolean("private")
        names = set() if suite is None or not is_whole else {member.task for member in suite.members}
        for at, entry in self.tasks():
            is_private = entry.get("private", False)
            if not isinstance(is_private, bool):
                raise self.fault(f"tasks[{at}].private", f"is {is_private!r:.80}; expected true or false")
            if is_private:
                names.add(self.task_of(entry, at))
        return frozenset(names)

    def screening(self, suite: Suite | None) -> Screening | None:
        """Return how submissions are screened: `screening: true`, or its settings."""
        value = self.spec.get("screening", False)
        if value is False or value is None:
            return None
        if value is not True and not isinstance(value, dict):
            raise self.fault("screening", f"is {value!r:.60}; expected true, false, or {{at_least: N, seed: N}}")
        spec = value if isinstance(value, dict) else {}
        self.refuse_strange(spec, ("at_least", "seed"), "screening")
        if why := why_not_screened(suite):
            raise self.fault("screening", f"is not possible on this board: {why}")
        numbers = {}
        for key, least in (("at_least", 1), ("seed", 0)):
            number = spec.get(key, getattr(Screening(), key))
            if type(number) is not int or not least <= number <= MOST_NUMBER:
                raise self.fault(f"screening.{key}", f"is {number!r:.60}; expected a whole number from {least}")
            numbers[key] = number
        return Screening(**numbers)

    def table(self) -> TableSource | None:
        if self.spec.get("table") is None:
            return None
        spec = self.mapping(self.spec, "table")
        self.refuse_strange(spec, ("file", "format", "columns", "sizes", "per_cent"), "table")
        named = spec.get("format", "csv")
        form: TableFormat | None = next((known for known in get_args(TableFormat) if known == named), None)
        if form is None:
            raise self.fault("table.format", f"is {named!r:.60}; expected one of {', '.join(get_args(TableFormat))}")
        columns, sizes = self.mapping(spec, "columns"), self.mapping(spec, "sizes")
        if form == "csv" and not columns:
            raise self.fault("table.columns", "is missing; expected `Title: heading in the file` for each score column")
        whole = {str(title): size for title, size in sizes.items() if isinstance(size, int) and size > 0}
        if len(whole) < len(sizes):
            raise self.fault("table.sizes", f"is {dict(sizes)!r:.120}; expected a number of questions for each column")
        per_cent = spec.get("per_cent", True)
        if not isinstance(per_cent, bool):
            raise self.fault("table.per_cent", f"is {per_cent!r:.60}; expected true or false")
        return TableSource(
            self.file(spec.get("file"), "table.file", or_folder=form == RECORDS),
            form,
            {str(title): str(heading) for title, heading in columns.items()},
            whole,
            per_cent,
        )

    # ------------------------------------------------------------------------------------- how it looks

    def faq(self) -> tuple[FaqEntry, ...]:
        value = self.spec.get("faq") or ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.fault("faq", f"is {value!r:.80}; expected a list of question and answer")
        questions = []
        for at, entry in enumerate(value, start=1):
            if not isinstance(entry, Mapping) or set(entry) != {"question", "answer"}:
                raise self.fault(f"faq[{at}]", f"is {entry!r:.80}; expected question: and answer:")
            questions.append(FaqEntry(self.text(entry, "question"), self.text(entry, "answer")))
        return tuple(questions)

    def logo(self) -> Path | None:
        name = self.text(self.spec, "logo")
        if not name:
            return None
        place = self.file(name, "logo")
        if place.suffix.lower() not in _LOGO_TYPES or not place.is_file() or place.stat().st_size > LARGEST_LOGO:
            raise self.fault("logo", f"is {name}; expected {', '.join(_LOGO_TYPES)} of at most {LARGEST_LOGO:,} bytes")
        return place

    def categories(self) -> dict[str, tuple[str, ...]]:
        named = {str(key): self.words(self.mapping(self.spec, "categories"), key)
                 for key in self.mapping(self.spec, "categories")}  # fmt: skip
        for at, entry in self.tasks():
            if category := self.text(entry, "category"):
                title = str(entry.get("column") or self.member(entry, at)["task"])
                named[category] = (*named.get(category, ()), title)
        return {name: tuple(dict.fromkeys(titles)) for name, titles in named.items()}

    def shown(self) -> tuple[str, ...]:
        if "columns" not in self.spec:
            return SHOWN
        wanted = self.words(self.spec, "columns")
        for name in wanted:
            if name not in FACTS_BY_KEY:
                close = nearest(name, FACTS_BY_KEY)
                hint = f"; nearest: {', '.join(close)}" if close else ""
                raise self.fault("columns", f"names '{name:.60}'{hint}; known: {', '.join(FACTS_BY_KEY)}")
        return wanted

    def models(self) -> dict[str, dict[str, str | float | bool]]:
        models: dict[str, dict[str, str | float | bool]] = {}
        for name, facts in self.mapping(self.spec, "models").items():
            stated = self.mapping({"models." + str(name): facts}, f"models.{name}")
            if "price" in stated or "price_source" in stated:
                raise self.fault(f"models.{name}.price", "is stated without its date and source; expected `prices:` "
                                 "with read, generated, date and source for this model")  # fmt: skip
            self.refuse_strange(stated, tuple(FACTS_BY_KEY), f"models.{name}")
            models[str(name)] = {
                str(key): self.fact(f"models.{name}.{key}", key, value) for key, value in stated.items()
            }
        return models

    def prices(self) -> dict[str, Price]:
        """Return the stated prices by model; each has its source and date, since prices change."""
        prices: dict[str, Price] = {}
        for name, entry in self.mapping(self.spec, "prices").items():
            key = f"prices.{name}"
            spec = self.mapping({key: entry}, key)
            self.refuse_strange(spec, _PRICE_KEYS, key)
            parts: list[float] = []
            for part in ("read", "generated"):
                value = spec.get(part)
                if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= HIGHEST:
                    raise self.fault(f"{key}.{part}", f"is {value!r:.60}; expected US dollars per million tokens")
                parts.append(float(value))
            source = self.text(spec, "source")
            if not source:
                raise self.fault(f"{key}.source", "is missing; expected where the price is stated")
            try:
                day = date.fromisoformat(str(spec.get("date")))
            except ValueError:
                raise self.fault(f"{key}.date", f"is {spec.get('date')!r:.60}; expected a date as 2026-01-31") from None
            prices[str(name)] = Price(parts[0], parts[1], day.isoformat(), source)
        return prices

    def fact(self, where: str, key: str, value: JsonValue) -> str | float | bool:
        column = FACTS_BY_KEY[key]
        kind = "flag" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"
        wanted = column.kind if column.kind in {"flag", "number"} else "text"
        if not isinstance(value, str | int | float) or kind != wanted:
            raise self.fault(where, f"is {value!r:.60}; expected a {column.kind}")
        if not isinstance(value, str) or column.kind != "choice":
            return value
        try:
            return canonical(column, value)
        except UnknownName as error:
            raise self.fault(where, f"is not known: {error}") from error

    def cited(self, listed: str, name: str) -> tuple[CitedScores, ...]:
        """Return a list of cited numbers; `name` is the key of the baseline's or the model's name."""
        value = self.spec.get(listed) or ()
        if listed == "baselines" and value == CARDS:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            expected = "a list, or the word cards" if listed == "baselines" else "a list"
            raise self.fault(listed, f"is {value!r:.80}; expected {expected}")
        cited_scores = []
        entries = [entry for entry in value if listed != "baselines" or entry != CARDS]
        for at, entry in enumerate(entries, start=1):
            key = f"{listed}[{at}]"
            if not isinstance(entry, Mapping) or not entry.get(name) or not entry.get("source"):
                raise self.fault(key, f"lacks its {name} or source; expected {name}:, source: and scores:")
            self.refuse_strange(entry, (name, "source", "scores"), key)
            scores = self.mapping(entry, "scores")
            numbers = {
                column: score
                for column, score in scores.items()
                if isinstance(score, int | float) and type(score) is not bool
            }
            if len(numbers) < len(scores) or not all(abs(score) < 1e6 for score in numbers.values()):
                raise self.fault(f"{key}.scores", f"is {dict(scores)!r:.120}; expected a number for each column")
            if listed == "claims" and not all(0 <= score <= 100 for score in numbers.values()):  # as `report --claims`
                raise self.fault(f"{key}.scores", f"is {dict(scores)!r:.120}; expected per cent, 0 to 100")
            cited_scores.append(CitedScores(str(entry[name]), numbers, str(entry["source"])))
        return tuple(cited_scores)

    def has_cards(self) -> bool:
        """Return whether people's scores in the cards of tasks are rows: `baselines: cards`, or `cards` in its list."""
        value = self.spec.get("baselines")
        return value == CARDS or (isinstance(value, Sequence) and CARDS in value and not isinstance(value, str))

    def ratings(self) -> tuple[RatingSource, ...]:
        value = self.spec.get("ratings") or ()
        listed = [value] if isinstance(value, Mapping) else value
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise self.fault("ratings", f"is {value!r:.80}; expected file: and column:, or a list of such")
        sources = []
        for at, entry in enumerate(listed, start=1):
            key = f"ratings[{at}]"
            spec = self.mapping({key: entry}, key)
            self.refuse_strange(spec, ("file", "column", "language", *_RATING_HEADINGS), key)
            headings = {name: self.text(spec, name) or name for name in _RATING_HEADINGS}
            language = self.text(spec, "language")
            title = self.text(spec, "column") or (f"Rating, {language}" if language else "Rating")
            file = self.file(spec.get("file"), f"{key}.file")
            sources.append(RatingSource(file, title, **headings, language=language))
        titles = [source.title for source in sources]
        if len(set(titles)) < len(titles):
            raise self.fault("ratings", f"has the columns {', '.join(titles)}; expected different ones")
        return tuple(sources)

    def check_columns(self, board: Board) -> None:
        """Refuse categories and cited numbers that name columns which the board does not have."""
        if board.table is not None and (board.table.format != "csv" or not board.table.columns):
            return
        titles = board.suite.columns if board.suite is not None else tuple(board.table.columns if board.table else ())
        named = [("categories", title) for listed in board.categories.values() for title in listed]
        named += [("baselines", title) for scores in board.baselines for title in scores.scores]
        named += [("claims", title) for scores in board.claims for title in scores.scores]
        for key, title in named:
            if title not in titles:
                raise self.fault(key, f"names the column '{title:.60}'; columns: {', '.join(titles)}")


CARDS = "cards"  # in a list of baselines: those that task cards cite


def _is_file_name(text: str) -> bool:
    return "/" in text or Path(text).suffix in {".csv", ".tsv", ".jsonl", ".json", ".parquet", ".yaml", ".yml"}


def _is_there(place: Path) -> bool:
    """Return whether a file exists. Raises: OSError for what is no name, which `Path.exists` of Python 3.14 hides."""
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _short(error: Exception) -> str:
    """Return the system's message about a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or f"{error!s:.80}"
