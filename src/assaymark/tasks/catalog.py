"""The catalogue of tasks: our library, an installed lm_eval, the user's folders and files.

Opening the catalogue reads only cached indexes. A task file is read when its task is selected, and the code it names
is imported later still. Where names are equal, the user's task wins over ours and ours over lm_eval's; `lm-eval:NAME`
and `assaymark:NAME` select one of them. A suite's name counts where no task or group has it; `suite:NAME` is always
the suite.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from glob import escape
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from assaymark.errors import DataError, MissingExtra, PlanError, UnknownName, UsageError, few, install_line
from assaymark.registry import Registry, nearest
from assaymark.tasks import lm_eval_names
from assaymark.tasks.aliases import framed, known_aliases, longer_names, spelled_alike, why_elsewhere
from assaymark.tasks.eval_yaml import FILE, PREFIX, benchmark_file, tasks_of_folder, tasks_of_hub
from assaymark.tasks.own_rows import (
    OwnData,
    dataset_name,
    is_rows_file,
    row_file_names,
    task_from_dataset,
    task_from_rows,
)
from assaymark.tasks.selecting import Expander, TaskSource
from assaymark.tasks.suites import ChosenSuite, Suite, is_suite
from assaymark.tasks.task import CatalogEntry, Origin, Selection
from assaymark.tasks.task_index import (
    IndexedFile,
    describe_file,
    index_folder,
    index_package,
    index_user_folder,
    indexed_task,
    task_files,
)
from assaymark.tasks.user_code import declarations_in, refuse_broken
from assaymark.tasks.yaml_files import notes_on_file, read_suite, read_task_file, suites_below

LIBRARY = Path(__file__).resolve().parents[1] / "library"
# our own task files, and no others, may name functions here by dotted path: `!function assaymark.scoring.…`
OWN_CODE = (
    LIBRARY.parent / "scoring",
    *(Path(__file__).resolve().with_name(f"{name}_metrics.py") for name in ("code", "reading")),
)
SHOWN_NAMES = 8  # longer names that an error about a short one lists
MANY_TASKS = 200  # names of a pattern from which on reading their files is announced
ANNOUNCED_EVERY_S = 5.0
SHOWN_MISSING = 40  # missing members of a suite that an error lists
_MISSING = f"only lm_eval has it; install it {install_line('lm-eval')}"


def _registered_folders() -> list[Path]:
    """Return the folders of task files that installed packages register, without importing those packages.

    Raises: DataError for a place that is not a package.
    """
    folders = []
    for name, place in Registry[object]("tasks", "folder of tasks").places().items():
        package = place.target.partition(":")[0]
        top, *rest = package.split(".")
        spec = find_spec(top)
        roots = [Path(location, *rest) for location in (spec.submodule_search_locations or () if spec else ())]
        if not (root := next((each.resolve() for each in roots if each.is_dir()), None)):
            raise DataError(f"the entry point '{name}' of assaymark.tasks names {package}, which is not a package")
        folders.append(root)
    return folders


@dataclass(frozen=True)
class _Folder:
    """One indexed folder."""

    root: Path
    origin: Origin
    files: Sequence[IndexedFile]

    @cached_property
    def named(self) -> Mapping[str, tuple[IndexedFile, "_Folder"]]:
        """The files by name; the first of a folder counts."""
        named: dict[str, tuple[IndexedFile, _Folder]] = {}
        for file in self.files:
            named.setdefault(file.name, (file, self))
        return named

    @cached_property
    def tags(self) -> Mapping[str, set[str]]:
        """The names of the tasks by tag."""
        tags: dict[str, set[str]] = {}
        for file, _ in self.named.values():
            if file.kind == "task" and not file.broken:
                for tag in file.tags:
                    tags.setdefault(tag, set()).add(file.name)
        return tags


_PACKAGES: dict[Path, _Folder] = {}


def _package(root: Path, origin: Origin, version: str = "") -> _Folder:
    """Return an installed package's folder, the one that another catalogue of this process has where it is the same."""
    files, known = index_package(root, version), _PACKAGES.get(root)
    if known is None or known.files is not files:
        known = _PACKAGES[root] = _Folder(root, origin, files)
    return known


class Catalog:
    """Looks up tasks, groups, tags and suites by name."""

    def __init__(self, folders: Sequence[_Folder], known_elsewhere: Mapping[str, str]) -> None:
        self._folders = folders
        self._elsewhere = known_elsewhere  # lm_eval's names where it is not installed
        self._files: dict[str, tuple[IndexedFile, _Folder]] = {}
        self._by_origin: dict[str, dict[str, tuple[IndexedFile, _Folder]]] = {}
        self._tags: dict[str, set[str]] = {}
        self._beside: _Folder | None = None  # of a group's file that was named: its members may be beside it
        lm_root = next((folder.root for folder in folders if folder.origin == "lm-eval"), None)
        self._installed = tuple(root for root in (LIBRARY, lm_root) if root is not None)
        for folder in folders:
            for tag, names in folder.tags.items():
                self._tags[tag] = self._tags[tag] | names if tag in self._tags else names
            self._files.update(folder.named)
            self._by_origin.setdefault(folder.origin, {}).update(folder.named)

    @classmethod
    def open(cls, include_paths: Sequence[Path] = (), *, lm_eval: bool = True) -> "Catalog":
        """Return the catalogue of our library, of lm_eval (if installed and wanted) and of the user's folders.

        Raises: DataError for an include path that is not a directory.
        """
        folders = []
        elsewhere: Mapping[str, str] = {}
        lm_folder = lm_eval_names.task_folder() if lm_eval else None
        if lm_folder is not None:
            folders.append(_package(lm_folder.resolve(), "lm-eval", lm_eval_names.installed_version()))
        else:
            elsewhere = lm_eval_names.known_names()
        folders.append(_package(LIBRARY, "assaymark"))
        folders += [_Folder(root, "user", index_user_folder(root)) for root in _registered_folders()]
        for path in include_paths:
            root = Path(path).expanduser()
            if not root.is_dir():
                raise DataError(f"include path '{path}' is not a directory; expected a folder with .yaml task files")
            folders.append(_Folder(root.resolve(), "user", index_user_folder(root)))
        return cls(folders, elsewhere)

    def _find(self, name: str) -> TaskSource | None:
        """Return where a task or group is defined; a prefix `<origin>:` selects whose."""
        entry = self._files.get(name)
        if entry is None and ":" in name:
            origin, _, bare = name.partition(":")
            entry = self._by_origin.get(origin, {}).get(bare)
        if entry is None and self._beside is not None:
            entry = next(((file, self._beside) for file in self._beside.files if file.name == name), None)
        if entry is None:
            return None
        file, folder = entry
        trusted = self._trusted(folder.origin, folder.root)
        return TaskSource(file, folder.root / file.path, folder.origin, trusted)

    def _trusted(self, origin: Origin, root: Path) -> tuple[Path, ...]:
        """Return the folders whose code a task may import: installed task files, and its own folder or our scoring."""
        own = {"assaymark": OWN_CODE, "user": (root,)}.get(origin, ())
        return (*own, *self._installed)

    @cached_property
    def _names(self) -> list[str]:
        return sorted({*self._files, *self._tags})

    @cached_property
    def _suites(self) -> dict[str, Suite]:
        """Suites by name and alias; the user's win over ours."""
        suites: dict[str, Suite] = {}
        for folder in self._folders:
            suites.update(suites_below(folder.root))
        return suites

    def entries(self) -> Sequence[CatalogEntry]:
        """Return every known name, sorted: tasks, groups, tags and suites; with the reason where one cannot run."""
        entries = [self._entry(name) for name in self._names]
        entries += [self._suite_entry(suite) for name, suite in self._suites.items() if name == suite.name]
        lacking = [
            CatalogEntry(name, kind, "lm-eval", runnable_here=False, reason=_MISSING)  # type: ignore[arg-type]
            for name, kind in self._elsewhere.items()
            if name not in self._files and name not in self._tags
        ]
        return sorted([*entries, *lacking], key=lambda entry: entry.name)

    def _entry(self, name: str) -> CatalogEntry:
        if name not in self._files:
            members = self._tags[name]
            return CatalogEntry(name, "tag", self._files[next(iter(members))][1].origin, n_tasks=len(members))
        file, folder = self._files[name]
        runnable = file.reason is None
        return CatalogEntry(name, file.kind, folder.origin, runnable, file.reason, tuple(file.tags), file.n_members)

    def _suite_entry(self, suite: Suite) -> CatalogEntry:
        absent = [each.task for each in suite.members if each.task not in self._files and each.task not in self._tags]
        reasons = [] if suite.reproduced else [f"not reproduced: {suite.unshown}"]
        if absent:
            reasons.append(f"no task here is called {few(absent)}")
        home = next(
            (f for f in self._folders if suite.source is not None and suite.source.is_relative_to(f.root)), None
        )
        origin: Origin = home.origin if home else "user"
        return CatalogEntry(suite.name, "suite", origin, not absent, "; ".join(reasons) or None, (), len(suite.members))

    def select(
        self, names: Sequence[str], *, partial: bool = False, own: OwnData | None = None, leave_out: bool = False,
        announce: Callable[[str], None] | None = None,
    ) -> Selection:  # fmt: skip
        """Return the tasks, groups and suites named by `names`.

        A name may be a task, group or tag, a suite, a glob, an old alias, a YAML, CSV or JSONL file, a folder of YAML
        files or of rows, the Hub id of a data set (`org/name:config:split`), which is then read, or a benchmark
        (`hub:org/name`, or a folder with an eval.yaml). `partial` omits
        missing members of a suite, which are an error otherwise; `own` is how files of rows are read; `leave_out`
        leaves out, with a note, names that need an extra which is not installed, as long as others are left; `announce`
        is called with a line before the files of a pattern's many tasks are read, and every few seconds meanwhile.

        Raises: UnknownName with the nearest names; MissingExtra for a task only lm_eval has; DataError for bad files;
        PlanError for a suite with missing members; UsageError if one name would be two different tasks.
        """
        expander = Expander(self._find, self._tags, own)
        paths = (Path(name.strip()).expanduser() for name in names)
        expander.row_files = row_file_names(_place_of(path) for path in paths if is_rows_file(path) and path.is_file())
        meant: list[str] = []
        expander.announce = announce
        lacking: list[MissingExtra] = []
        for name in names:
            try:
                meant += self._resolve(name.strip(), expander)
            except MissingExtra as error:
                if not leave_out:
                    raise
                lacking.append(error)
                expander.notes.append(f"left out: {name}: {error}")
        if lacking and not expander.tasks:
            raise lacking[0]
        for chosen in expander.suites:
            if chosen.missing and not partial:
                raise PlanError(missing_members(chosen.suite.name, chosen.missing))
        if not expander.tasks:
            raise UsageError(f"no tasks: {', '.join(names) or 'nothing'} selects none; see `assaymark ls tasks`")
        return Selection(
            expander.tasks, expander.groups, tuple(dict.fromkeys(meant)), tuple(expander.notes), tuple(expander.suites),
            expander.shots
        )  # fmt: skip

    def _resolve(self, name: str, expander: Expander) -> list[str]:
        """Add the tasks of one name; return the present names it resolved to."""
        is_file = self._find(name) is not None
        if not is_file and (name.startswith("suite:") or name in self._suites):
            return self._add_suite(self._find_suite(name.removeprefix("suite:")), expander)
        if is_file or name in self._tags:
            expander.add(name)
            return [name]
        if (old := self._old_name(name, expander)) is not None:
            return old
        added = self._add_benchmark(name, expander)
        if added or self._add_path(name, expander) or self._add_dataset(name, expander):
            return [name]
        if any(sign in name for sign in "*?["):
            return self._globbed(name, expander)
        if name in self._elsewhere:
            raise MissingExtra(f"task '{name}'", "lm-eval")
        for spelling in spelled_alike(name):
            if spelling in self._files or spelling in self._tags:
                return self._renamed(name, (spelling,), expander)
        if "," in name:
            return [
                meant for part in name.split(",") if part.strip() for meant in self._resolve(part.strip(), expander)
            ]
        raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownName:
        """Return the error about an unknown name: the needs of a benchmark that is elsewhere, or similar names."""
        if (why := why_elsewhere(name)) is not None:
            return UnknownName("task", name, (), f"neither this library nor lm-eval has it: {why}")
        if here := _files_called(name):
            return UnknownName("task", name, here, "a file is named with its ending")
        longer = longer_names(name, {*self._names, *self._elsewhere})
        if longer:
            first_names = longer[:SHOWN_NAMES]
            lacking = "" if any(each in self._names for each in first_names) else f"; {_MISSING}"
            ways = "one name begins or ends" if len(longer) == 1 else f"{len(longer)} names begin or end"
            remedy = f"{ways} with it (listed by `assaymark ls tasks`)"
            return UnknownName("task", name, first_names, remedy + lacking)
        refuse_broken([folder.root for folder in self._folders if folder.origin == "user"])  # one may declare it
        known = [*self._names, *self._suites, *known_aliases().exact, *self._elsewhere]
        return UnknownName("task", name, nearest(name, known), "see `assaymark ls tasks`")

    def _renamed(self, name: str, meant: Iterable[str], expander: Expander) -> list[str]:
        present_names = [part for new in meant for part in self._resolve(new, expander)]
        expander.notes.append(f"{name} is now called {', '.join(present_names)}")
        return present_names

    def _old_name(self, name: str, expander: Expander) -> list[str] | None:
        """Add the tasks of an old name, with the shots of one like `harness|hellaswag|10`."""
        old = framed(name)
        if old is None:
            meant = known_aliases().meaning(name)
            return self._renamed(name, meant, expander) if meant else None
        task, shots = old
        meant = known_aliases().exact.get(name, (task,))
        present_names = [part for new in meant for part in self._resolve(new, expander)]
        expander.fix_shots((leaf for part in present_names for leaf in expander.tasks_of(part)), shots)
        expander.notes.append(f"{name} is now called {few(present_names)}, at {shots} shots")
        return present_names

    def _find_suite(self, name: str) -> Suite:
        if name in self._suites:
            return self._suites[name]
        path = Path(name).expanduser()
        if path.is_file():
            return read_suite(path.resolve())
        raise UnknownName("suite", name, nearest(name, self._suites), "see `assaymark ls suites`")

    def _add_suite(self, suite: Suite, expander: Expander) -> list[str]:
        """Add a suite's members at their shots, and note which of them are missing."""
        leaves: list[tuple[str, ...]] = []
        missing: list[tuple[str, str]] = []
        for member in suite.members:
            try:
                names = self._resolve(member.task, expander)
            except (UnknownName, MissingExtra) as error:
                missing.append((member.task, str(error)))
                names = []
            tasks = tuple(dict.fromkeys(leaf for name in names for leaf in expander.tasks_of(name)))
            leaves.append(tasks)
            if member.shots is not None:
                expander.fix_shots(tasks, member.shots)
        expander.suites.append(ChosenSuite(suite, tuple(leaves), tuple(missing)))
        return [suite.name]

    def _tasks_of(self, group: str) -> list[str]:
        """Return the tasks of a group or task; none if it is not known."""
        if self._find(group) is None:
            return []
        expander = Expander(self._find, self._tags)
        expander.add(group)
        return expander.tasks_of(group)

    def _globbed(self, pattern: str, expander: Expander) -> list[str]:
        matches = [name for name in self._names if fnmatchcase(name, pattern)]
        if not matches:
            meant = known_aliases().matching(pattern, self._tasks_of)
            if meant:
                return [part for name in meant for part in self._resolve(name, expander)]
            if any(fnmatchcase(name, pattern) for name in self._elsewhere):
                raise MissingExtra(f"what '{pattern}' matches", "lm-eval")
            bare = pattern.strip("*?[]")
            raise UnknownName("task pattern", pattern, nearest(bare, self._names), "see `assaymark ls tasks`")
        announce = expander.announce if len(matches) >= MANY_TASKS else None
        if announce is not None:
            announce(f"'{pattern}' selects {len(matches):,} names; the files of their tasks are read")
        last = monotonic()
        for n_read, name in enumerate(matches):
            if announce is not None and monotonic() - last >= ANNOUNCED_EVERY_S:
                last = monotonic()
                announce(f"{n_read:,} of {len(matches):,} names read")
            expander.add(name)
        return matches

    def _add_benchmark(self, name: str, expander: Expander) -> bool:
        """Add the tasks of an eval.yaml: of a data set of the Hub, of a folder, or one task of either."""
        if name.startswith(PREFIX):
            tasks, notes = tasks_of_hub(name, expander.own.data_dir)
        else:
            path = Path(name).expanduser()
            is_whole = path.is_dir() or (path.name == FILE and path.is_file())
            is_one = not path.exists() and "/" in path.as_posix() and not any(sign in name for sign in "*?[")
            folder = path if path.is_dir() else path.parent
            if not (is_whole or is_one) or benchmark_file(folder) is None:
                return False
            tasks, notes = tasks_of_folder(folder.resolve(), "" if is_whole else path.name)
        for task in tasks:
            expander.add_task(task)
        expander.notes += notes
        return True

    def _add_path(self, name: str, expander: Expander) -> bool:
        path = Path(name).expanduser()
        if path.is_dir():
            files = task_files(path)
            if not files and dataset_name(name) is not None:
                return False
            if not files:
                raise DataError(f"folder '{name}' has no .yaml task file")
            for file in files:
                self._add_file(file.resolve(), path.resolve(), expander, alone=False)
            return True
        if path.suffix == ".py" and path.is_file():
            file = path.resolve()
            declared = [each for each in declarations_in(file) if each.kind == "tasks"]
            if not declared:
                raise DataError(f"{name} declares no task; expected a function with @assaymark.task(...)")
            for each in declared:
                entry = indexed_task(each, file.parent)
                expander.add_source(TaskSource(entry, file, "user", self._trusted("user", file.parent)))
            return True
        if path.suffix in {".yaml", ".yml"} or is_rows_file(path):
            if not path.is_file():
                raise DataError(f"no file '{name}' in {Path.cwd()}; expected a task's YAML file or a file of rows")
            if is_rows_file(path):
                file = _place_of(path)
                task, notes = task_from_rows(file, expander.own, expander.row_files.get(file))
                expander.add_task(task)
                expander.notes += notes
            else:
                self._add_file(path.resolve(), path.resolve().parent, expander, alone=True)
            return True
        return False

    def _add_dataset(self, name: str, expander: Expander) -> bool:
        """Add the task that is guessed of a data set, named by its Hub id or its folder of rows."""
        dataset = dataset_name(name)
        if dataset is None:
            return False
        task, notes = task_from_dataset(dataset, expander.own)
        expander.add_task(task)
        expander.notes += notes
        names_it = re.compile(rf"(?m)^dataset_path: *{re.escape(dataset.path)} *$")
        files = LIBRARY.rglob("*.yaml")
        families = {file.parent.name for file in files if names_it.search(file.read_text(encoding="utf-8"))}
        if families:
            nearest_family = min(families, key=lambda family: (family not in dataset.path.lower(), family))
            expander.notes.append(
                f"the library has tasks with published prompts on {dataset.path}: see "
                f"`assaymark ls tasks {nearest_family}`"
            )
        return True

    def _add_file(self, path: Path, root: Path, expander: Expander, *, alone: bool) -> None:
        """Add the task or group of a YAML file; a file without either is an error only if it was named itself."""
        home = next((folder for folder in self._folders if path.is_relative_to(folder.root)), None)
        origin: Origin = home.origin if home else "user"
        trusted = self._trusted(origin, root)
        file = describe_file(read_task_file(path), path.name)
        if file is not None and file.kind == "group" and alone:
            self._beside = _Folder(path.parent, origin, index_folder(path.parent))
        if file is not None:
            expander.add_source(TaskSource(file, path, origin, trusted))
            expander.notes += notes_on_file(path)
        elif alone and is_suite(read_task_file(path)):
            self._add_suite(read_suite(path), expander)
        elif alone:
            named = read_task_file(path).get("task")
            if named is not None:
                raise DataError(
                    f"{path}: task is {named!r:.60}, a {type(named).__name__}; expected a name, `task: <name>`"
                )
            raise DataError(f"{path}: has neither 'task' nor 'group'; expected `task: <name>`")


def _place_of(path: Path) -> Path:
    """Return where a file of rows lies; a link keeps its name where only that says of which kind the file is."""
    real = path.resolve()
    return real if is_rows_file(real) else path.absolute()


def _files_called(name: str) -> list[str]:
    """Return the files of questions that are called as a name but for their ending."""
    place = Path(name)
    if not place.name or not place.parent.is_dir():
        return []
    found = sorted(place.parent.glob(f"{escape(place.name)}.*"))
    return [str(path) for path in found if is_rows_file(path)]


def missing_members(suite: str, missing: Sequence[tuple[str, str]]) -> str:
    """Return the error message about a suite's missing members, one line per member."""
    lines = "".join(f"\n  {member}: {why}" for member, why in missing[:SHOWN_MISSING])
    lines += f"\n  and {len(missing) - SHOWN_MISSING} more" if len(missing) > SHOWN_MISSING else ""
    return (
        f"suite {suite}: {len(missing)} of its tasks cannot be evaluated, and the composite needs all of them; "
        f"fix them, or add --partial to run the others without a composite:{lines}"
    )
