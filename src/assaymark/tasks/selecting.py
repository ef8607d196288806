"""Expand names to tasks: groups and tags to their members, with a group's overrides applied to its tasks.

Keys of a group that are not the group's own (and the keys beside a member) override those of its tasks; an outer
group's override an inner's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.suites import ChosenSuite
from assaymark.tasks.task import FunctionRef, Group, GroupMetric, Origin, Task
from assaymark.tasks.task_index import IndexedFile
from assaymark.tasks.user_code import read_task, with_line
from assaymark.tasks.yaml_files import read_task_file

_GROUP_KEYS = frozenset({"group", "group_alias", "task", "aggregate_metric_list", "metadata"})

# Keys of a task itself.
_TASK_KEYS = frozenset({"dataset_path", "doc_to_text", "doc_to_target", "output_type", "test_split"})


@dataclass(frozen=True, slots=True)
class TaskSource:
    """The file that defines a name, and the folders whose code it may run."""

    file: IndexedFile
    path: Path
    origin: Origin
    trusted: tuple[Path, ...]


class Expander:
    """Collects tasks and groups, each once."""

    def __init__(
        self, find: Callable[[str], TaskSource | None], tags: Mapping[str, set[str]], own: OwnData | None = None
    ) -> None:
        self._find = find
        self._tags = tags
        self.own = own or OwnData()
        self.row_files: Mapping[Path, str] = {}  # files of rows that were named -> the names of their tasks
        self._tasks: dict[str, Task] = {}
        self._groups: dict[str, Group] = {}
        self.notes: list[str] = []
        self.announce: Callable[[str], None] | None = None  # called while the files of many tasks are read
        self.suites: list[ChosenSuite] = []
        self._shots: dict[str, int] = {}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks so far, in the order in which they were added."""
        return tuple(self._tasks.values())

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups so far, outer before inner."""
        return tuple(self._groups.values())

    @property
    def shots(self) -> tuple[tuple[str, int], ...]:
        """The tasks with a fixed number of shots, and that number."""
        return tuple(self._shots.items())

    def fix_shots(self, tasks: Iterable[str], shots: int) -> None:
        """Fix the number of shots of these tasks, whatever the run's option.

        Raises: UsageError if it was fixed at another number before.
        """
        for task in tasks:
            if self._shots.setdefault(task, shots) != shots:
                raise UsageError(
                    f"task '{task}' is requested at {self._shots[task]} and at {shots} shots; "
                    "a run evaluates each task once: use separate runs"
                )

    def tasks_of(self, name: str) -> list[str]:
        """Return the tasks below an added group, each once, in its order; for an added task, itself."""
        if name not in self._groups:
            return [name]
        return list(dict.fromkeys(task for child in self._groups[name].children for task in self.tasks_of(child)))

    def add(self, name: str, overrides: Mapping[str, object] | None = None, chain: tuple[str, ...] = ()) -> list[str]:
        """Add the tasks of a known name; return the names of the added tasks or groups."""
        source = self._find(name)
        if source is not None:
            return [self.add_source(source, overrides, chain)]
        return [part for member in sorted(self._tags[name]) for part in self.add(member, overrides, chain)]

    def add_source(
        self, source: TaskSource, overrides: Mapping[str, object] | None = None, chain: tuple[str, ...] = ()
    ) -> str:
        """Add the task or group that a file defines."""
        if source.file.broken:
            raise DataError(source.file.reason or f"{source.path} cannot be read")
        if source.path.suffix == ".py":
            return self.add_task(self._declared_task(source, overrides or {}), chain)
        spec = read_task_file(source.path)
        if source.file.kind == "group":
            return self._add_group(source.file.name, spec, source, overrides or {}, chain)
        if isinstance(labels := spec.get("group"), list) and source.origin == "user":
            self.notes.append(f"{source.path}: `group: {labels}` in a task's file has no effect; write `tag: {labels}`")
        merged = {**spec, **(overrides or {}), "task": source.file.name}
        return self.add_task(task_from_spec(merged, source.path, source.origin, source.trusted), chain)

    def _declared_task(self, source: TaskSource, overrides: Mapping[str, object]) -> Task:
        """Return the task that a Python file declares. Raises: DataError with file and line."""
        name = source.file.name
        spec = {**read_task(source.path, name), **overrides, "task": name}
        try:
            return task_from_spec(spec, source.path, source.origin, source.trusted)
        except DataError as error:
            raise with_line(error, source.path, name) from error

    def add_task(self, task: Task, chain: tuple[str, ...] = ()) -> str:
        """Add a task.

        Raises: UsageError if a different task of that name was added before.
        """
        known = self._tasks.get(task.name)
        # the hash of a task has no path, so equal files beside different data have one hash
        if known is not None and (known.spec_hash != task.spec_hash or _has_other_data(known, task)):
            raise UsageError(
                f"two different tasks are called '{task.name}': {known.source} and {task.source}, "
                "or a group changes it; evaluate them in separate runs"
            )
        groups = tuple(dict.fromkeys((*(known.groups if known else ()), *chain)))
        self._tasks[task.name] = replace(known or task, groups=groups)
        return task.name

    def _add_group(
        self,
        name: str,
        spec: Mapping[str, object],
        source: TaskSource,
        overrides: Mapping[str, object],
        chain: tuple[str, ...],
    ) -> str:
        if name in chain:
            raise DataError(f"{source.path}: group '{name}' contains itself: {' -> '.join((*chain, name))}")
        group = _read_group(name, spec, source)
        self._groups.setdefault(name, group)  # before the groups inside it
        inherited = {**{key: value for key, value in spec.items() if key not in _GROUP_KEYS}, **overrides}
        members = spec.get("task")
        children: list[str] = []
        for member in members if isinstance(members, list) else [members] if members else []:
            children += self._add_member(member, name, source, inherited, (*chain, name))
        self._groups[name] = replace(group, children=tuple(dict.fromkeys(children)))
        return name

    def _add_member(
        self, member: object, group: str, source: TaskSource, overrides: Mapping[str, object], chain: tuple[str, ...]
    ) -> list[str]:
        if isinstance(member, Mapping) and "group" in member:
            own = {key: value for key, value in member.items() if key != "group"}
            if self._find(member["group"]) is not None:
                return self.add(member["group"], {**overrides, **own}, chain)
            return [self._add_group(f"{group}::{member['group']}", member, source, overrides, chain)]
        name = member.get("task") if isinstance(member, Mapping) else member
        if not isinstance(name, str):
            raise DataError(f"{source.path}: group '{group}' has the member {member!r:.120}; expected a name of a task")
        merged = {**overrides, **member} if isinstance(member, Mapping) else dict(overrides)
        merged.pop("task", None)
        merged.pop("tag", None)
        if name in self._tags or self._find(name) is not None:
            return self.add(name, merged, chain)
        if isinstance(member, str) and overrides.keys() & _TASK_KEYS:
            raise DataError(
                f"{source.path}: `group: {group}` beside `task: {name}` is how early versions of lm-eval labelled a "
                f"task; write `tag: {group}` in its place"
            )
        if not isinstance(member, Mapping) or not merged:
            raise DataError(f"{source.path}: group '{group}' has '{name}', and no task, group or tag has that name")
        spec = {**merged, "task": f"{group}::{name}"}
        return [self.add_task(task_from_spec(spec, source.path, source.origin, source.trusted), chain)]


def _has_other_data(first: Task, second: Task) -> bool:
    own = [task.spec.get("dataset_kwargs") for task in (first, second)]
    folders = {task.source.parent for task in (first, second)}
    return len(folders) > 1 and all(isinstance(kwargs, Mapping) and "data_files" in kwargs for kwargs in own)


def _read_group(name: str, spec: Mapping[str, object], source: TaskSource) -> Group:
    metadata = spec.get("metadata")
    listed = spec.get("aggregate_metric_list") or []
    items = listed if isinstance(listed, list) else [listed]
    return Group(
        name=name,
        alias=str(spec.get("group_alias") or name),
        children=(),
        metrics=tuple(_group_metric(item, source.path) for item in items),
        version=str(metadata["version"]) if isinstance(metadata, Mapping) and "version" in metadata else "",
        source=source.path,
        origin=source.origin,
    )


def _group_metric(item: object, path: Path) -> GroupMetric:
    if not isinstance(item, Mapping) or "metric" not in item:
        raise DataError(f"{path}: aggregate_metric_list has {item!r:.120}; expected items such as `metric: acc`")
    aggregation = item.get("aggregation", "mean")
    if aggregation != "mean" and not isinstance(aggregation, FunctionRef):
        raise DataError(f"{path}: aggregation of '{item['metric']}' is {aggregation!r}; expected mean or !function")
    filters = item.get("filter_list")
    if isinstance(filters, str):
        filters = [filters]
    return GroupMetric(
        str(item["metric"]), aggregation, bool(item.get("weight_by_size", True)), tuple(filters) if filters else None
    )
