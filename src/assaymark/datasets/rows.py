"""Rows of one split: a lazy sequence of dictionaries, with the methods that task files call on a data set.

Task files use methods of `datasets.Dataset` (`map`, `filter`, `select`, ...). `Rows` has the simple ones, so that our
own library of tasks needs pyarrow alone. A row is decoded on first access, because a few-shot draw from a large
training split needs only some of its rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

from assaymark.errors import DataError, install_line
from assaymark.records import Skipped

if TYPE_CHECKING:
    from pyarrow import Table

Row = dict[str, Any]
_BLOCK = 256  # rows decoded together


@dataclass(frozen=True, slots=True)
class ClassLabel:
    """A column of integers that represent names."""

    names: tuple[str, ...]

    def int2str(self, value: int) -> str:
        """Return the name of a number."""
        return self.names[value]

    def str2int(self, name: str) -> int:
        """Return the number of a name."""
        return self.names.index(name)


Features = Mapping[str, ClassLabel | None]  # of the columns; None: it is not known to be a label


class NoSuchMethod(DataError, AttributeError):
    """A task file called a method that only `datasets.Dataset` has."""


class Rows(Sequence[Row]):
    """One split. Rows are decoded on first access and cached; do not modify them."""

    def __init__(self, n_rows: int, read: Callable[[int, int], list[Row]], features: Features) -> None:
        self._n_rows = n_rows
        self._read = read
        self._features = dict(features)
        self._known: dict[int, Row] = {}
        self.table: Table | None = None  # the pyarrow table from which the rows are decoded, if any
        self.skipped = Skipped()  # what was left out when the file was read
        self.places: Callable[[Sequence[int]], list[str]] = _row_numbers  # where rows stand in their file
        self._column: Callable[[str], Iterator[object]] | None = None

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, object]], features: Features | None = None) -> "Rows":
        """Return rows from memory; columns that a row lacks are None."""
        names: dict[str, ClassLabel | None] = dict.fromkeys(name for row in rows for name in row)
        names.update(features or {})
        whole = [{name: row.get(name) for name in names} for row in rows]
        return cls(len(whole), lambda start, stop: whole[start:stop], names)

    @classmethod
    def of_table(cls, table: "Table", features: Features | None = None) -> "Rows":
        """Return the rows of a pyarrow table."""
        names: dict[str, ClassLabel | None] = dict.fromkeys(table.column_names)
        names.update(features or {})

        def read(start: int, stop: int) -> list[Row]:
            return cast("list[Row]", table.slice(start, stop - start).to_pylist())

        rows = cls(table.num_rows, read, names)
        rows.table = table
        return rows

    @classmethod
    def of_source(
        cls,
        n_rows: int,
        read: Callable[[int, int], list[Row]],
        column: Callable[[str], Iterator[object]],
        names: list[str],
    ) -> "Rows":
        """Return rows that are not in memory: `read` returns those of a range, `column` the values of one column."""
        rows = cls(n_rows, read, dict.fromkeys(names))
        rows._column = column
        return rows

    def __len__(self) -> int:
        return self._n_rows

    def passing(self) -> Iterator[Row]:
        """Yield all rows once without keeping them, for checks of files that are larger than memory."""
        for start in range(0, self._n_rows, _BLOCK):
            yield from self._read(start, min(start + _BLOCK, self._n_rows))

    def values(self, name: str) -> Iterator[Any]:
        """Yield a column's values without keeping them."""
        if self._column is not None:
            return self._column(name)
        if self.table is not None:
            return (value for chunk in self.table[name].chunks for value in chunk.to_pylist())
        return (row[name] for row in self.passing())

    def _row(self, index: int) -> Row:
        if index not in self._known:
            start = index - index % _BLOCK
            stop = min(start + _BLOCK, self._n_rows)
            for offset, row in enumerate(self._read(start, stop)):
                self._known.setdefault(start + offset, row)
        return self._known[index]

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> list[Row]: ...
    @overload
    def __getitem__(self, key: str) -> list[object]: ...
    def __getitem__(self, key: int | slice | str) -> Row | list[Row] | list[object]:
        """Return a row, a list of rows, or (by name) a column."""
        if isinstance(key, str):
            if key not in self._features:
                raise DataError(f"no column '{key}'; the columns are {', '.join(self._features)}")
            if self.table is not None:  # no need to decode the other columns
                return cast("list[object]", self.table[key].to_pylist())
            if self._column is not None:
                return list(self._column(key))
            return [row[key] for row in self]
        if isinstance(key, slice):
            return [self._row(i) for i in range(*key.indices(self._n_rows))]
        if not -self._n_rows <= key < self._n_rows:
            raise IndexError(key)
        return self._row(key % self._n_rows)

    def __iter__(self) -> Iterator[Row]:
        return (self._row(i) for i in range(self._n_rows))

    @property
    def features(self) -> Features:
        """The columns by name; the value is a ClassLabel if it is known, else None."""
        return self._features

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._features)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    def to_list(self) -> list[Row]:
        """Return all rows."""
        return list(self)

    def map(
        self, function: Callable[[Row], Mapping[str, object]], *, remove_columns: Sequence[str] = (), **_: object
    ) -> "Rows":
        """Return rows updated with the columns that `function` returns for each.

        It is called at once, once per row and in order, because some task files draw random numbers in it.
        """
        removed = set(remove_columns)
        changed: list[Row] = []
        for row in self:
            kept = {name: value for name, value in row.items() if name not in removed}
            changed.append({**kept, **{name: _plain(value) for name, value in function(dict(row)).items()}})
        names = changed[0] if changed else [name for name in self._features if name not in removed]
        features = {
            name: self._features.get(name) if changed and changed[0][name] == self[0].get(name) else None
            for name in names
        }
        return Rows(len(changed), lambda start, stop: changed[start:stop], features)

    def changed(self, change: Callable[[Row], Row]) -> "Rows":
        """Return rows that `change` is applied to when they are read, each as often as it is read."""
        changed_rows = Rows(
            self._n_rows, lambda start, stop: [change(row) for row in self._read(start, stop)], self._features
        )
        changed_rows.skipped, changed_rows.places = self.skipped, self.places
        return changed_rows

    def filter(self, function: Callable[[Row], bool], **_: object) -> "Rows":
        """Return the rows for which `function` is true."""
        return self.select([i for i in range(self._n_rows) if function(self._row(i))])

    def select(self, indices: Sequence[int]) -> "Rows":
        """Return the rows at `indices`, in that order."""
        chosen = list(indices)
        return Rows(len(chosen), lambda start, stop: [self._row(i) for i in chosen[start:stop]], self._features)

    def rename_column(self, old: str, new: str) -> "Rows":
        """Return rows with one column renamed."""
        return self.rename_columns({old: new})

    def rename_columns(self, names: Mapping[str, str]) -> "Rows":
        """Return rows with some columns renamed; they are read as these are, from a table or a file."""
        features = {names.get(name, name): kind for name, kind in self._features.items()}
        if self.table is not None:
            table = self.table.rename_columns([names.get(name, name) for name in self.table.column_names])
            renamed_rows = Rows.of_table(table, features)
        else:

            def read(start: int, stop: int) -> list[Row]:
                return [{names.get(k, k): v for k, v in row.items()} for row in self._read(start, stop)]

            renamed_rows = Rows(self._n_rows, read, features)
        if (column := self._column) is not None:
            before = {new: old for old, new in names.items()}
            renamed_rows._column = lambda name: column(before.get(name, name))
        renamed_rows.skipped, renamed_rows.places = self.skipped, self.places
        return renamed_rows

    def remove_columns(self, names: str | Sequence[str]) -> "Rows":
        """Return rows without some columns."""
        removed = {names} if isinstance(names, str) else set(names)

        def read(start: int, stop: int) -> list[Row]:
            return [{k: v for k, v in self._row(i).items() if k not in removed} for i in range(start, stop)]

        return Rows(self._n_rows, read, {k: v for k, v in self._features.items() if k not in removed})

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoSuchMethod(
            f"a task file called '{name}' on its rows, which needs the library `datasets`; "
            f"install it {install_line('hub')}"
        )


def _row_numbers(indices: Sequence[int]) -> list[str]:
    return [f"row {index + 1}" for index in indices]


def _plain(value: object) -> object:
    """Return tuples as lists, as a table would return them."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value
