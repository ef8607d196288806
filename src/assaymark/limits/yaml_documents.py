"""Load YAML from files and command lines within limits on the result. Every YAML text of a user passes through here.

libyaml's loader recurses on the C stack (50,000 opening brackets end the process), an alias may refer to the
collection that contains it, and nested aliases grow exponentially as soon as something walks the result. So the
structure is measured on the parser's events, which needs no recursion, before anything is constructed.
"""

import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml

from assaymark.errors import DataError

MAX_DEPTH = 100  # nested collections; the deepest of lm-eval's 14,000 task files has 6
MAX_ALIASED_NODES = 100_000  # total number of nodes to which the aliases of a document expand
MAX_NUMBER = 1000  # characters of an integer or float: Python converts at most 4,300 digits, at quadratic cost
_CONVERSION_ERRORS = (ValueError, OverflowError, AttributeError, KeyError, IndexError, TypeError)  # by PyYAML
_BLOCK_INDICATORS = re.compile(rb"[ \t\x00?:-]{8,}")
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times faster, the results are equal


class SafeLoader(_Base):  # type: ignore[misc]
    """YAML's safe loader; a scalar that Python cannot convert is a YAML error with its line."""


def _converted(tag: str) -> Callable[[yaml.SafeLoader, yaml.ScalarNode], object]:
    constructor = _Base.yaml_constructors[tag]

    def construct(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
        kind = tag.rpartition(":")[2]
        if kind in {"int", "float"} and len(node.value) > MAX_NUMBER:
            problem = f"a number of {len(node.value):,} characters; at most {MAX_NUMBER:,} are allowed"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        try:
            return constructor(loader, node)
        except _CONVERSION_ERRORS as error:
            fault = f"{str(node.value)[:60]!r} is not a valid {kind}"
            raise yaml.constructor.ConstructorError(None, None, fault, node.start_mark) from error

    return construct


def _refused(_: yaml.SafeLoader, node: yaml.Node) -> NoReturn:
    problem = f"the type !!{node.tag.rpartition(':')[2]} is not supported; expected text, numbers, lists and mappings"
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


for _tag in ("int", "float", "bool"):
    SafeLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _converted(f"tag:yaml.org,2002:{_tag}"))
# JSON has no dates, so an unquoted date is read as text
SafeLoader.add_constructor("tag:yaml.org,2002:timestamp", _Base.yaml_constructors["tag:yaml.org,2002:str"])
for _tag in ("set", "binary", "omap", "pairs"):
    SafeLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _refused)


_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def front_matter(card: bytes | str) -> str:
    """Return the YAML between two lines `---` at the beginning of a card (README.md); empty without it."""
    text = card if isinstance(card, str) else card.decode("utf-8", "replace")
    matched = _FRONT.match(text)
    return "" if matched is None else matched["yaml"]


def load_yaml(data: bytes | str, make_loader: Callable[[bytes | str], yaml.SafeLoader] = SafeLoader) -> Any:
    """Return the value of a text with one YAML document.

    Args:
        data: the text; bytes are UTF-8, or UTF-16 with a byte order mark.
        make_loader: returns the loader for the text; a subclass of `SafeLoader` if there are tags of our own.

    Raises: DataError with line and column, for text that is not valid YAML or exceeds the limits. The caller names
    the file.
    """
    try:
        _check_structure(data)
        loader = make_loader(data)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        raise DataError(f"a character that YAML does not accept, at {error.position}; expected UTF-8") from error
    except yaml.YAMLError as error:
        raise DataError(f"not valid YAML: {_one_line(error)}") from error
    except (UnicodeError, RecursionError) as error:
        raise DataError(f"not valid YAML: {error}") from error


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or re.sub(r"\s+", " ", str(error))
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _check_structure(data: bytes | str) -> None:
    """Raise DataError for a document that is too deep, or whose aliases are cyclic or expand too far."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    if _is_shallow(raw) and not (b"&" in raw and b"*" in raw):
        return
    open_nodes: list[_Collection] = []
    anchors: dict[str, _Collection] = {}
    n_aliased = 0
    for event in yaml.parse(data, Loader=_Base):
        if isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(_Collection(event.anchor))
            _refuse_depth(len(open_nodes), event)
        elif isinstance(event, yaml.CollectionEndEvent):
            _close(open_nodes, anchors)
        elif isinstance(event, yaml.ScalarEvent):
            _add(open_nodes, 1, 0)
            if event.anchor:
                anchors[event.anchor] = _Collection(event.anchor, height=0)
        elif isinstance(event, yaml.AliasEvent):
            _refuse_cycle(open_nodes, event)
            target = anchors.get(event.anchor or "")
            if target is not None:  # otherwise the loader reports it with its position
                n_aliased += target.n_nodes
                _refuse_expansion(n_aliased, event)
                _refuse_depth(len(open_nodes) + target.height, event)
                _add(open_nodes, target.n_nodes, target.height)


class _Collection:
    """A sequence or mapping (or an anchored scalar, of height 0) while its events are read."""

    __slots__ = ("anchor", "height", "n_nodes")

    def __init__(self, anchor: str | None, height: int = 1) -> None:
        self.anchor = anchor
        self.height = height  # nested collections, itself included
        self.n_nodes = 1  # itself included, aliases expanded


def _add(open_nodes: list[_Collection], n_nodes: int, height: int) -> None:
    if open_nodes:
        open_nodes[-1].n_nodes += n_nodes
        open_nodes[-1].height = max(open_nodes[-1].height, height + 1)


def _close(open_nodes: list[_Collection], anchors: dict[str, _Collection]) -> None:
    closed = open_nodes.pop()
    _add(open_nodes, closed.n_nodes, closed.height)
    if closed.anchor:
        anchors[closed.anchor] = closed


def _is_shallow(raw: bytes) -> bool:
    """Return whether a text cannot exceed the depth limit, by an upper bound that is cheap to compute.

    Each flow collection has its own bracket. A block collection is further right than the one around it, after
    only indentation and indicators; a sequence may also be directly below a mapping's key, hence the factor 2.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH // 2:
        return False
    longest = max((len(run) for run in _BLOCK_INDICATORS.findall(raw)), default=8)
    return 2 * (longest + 1) <= MAX_DEPTH // 2


def _position(event: yaml.Event) -> str:
    mark = event.start_mark
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else "an unknown position"


def _refuse_depth(depth: int, event: yaml.Event) -> None:
    if depth > MAX_DEPTH:
        raise DataError(f"{_position(event)}: nested deeper than {MAX_DEPTH} levels")


def _refuse_cycle(open_nodes: list[_Collection], event: yaml.AliasEvent) -> None:
    if any(node.anchor == event.anchor for node in open_nodes):
        raise DataError(f"{_position(event)}: the alias *{event.anchor} is inside the node that it refers to")


def _refuse_expansion(n_nodes: int, event: yaml.AliasEvent) -> None:
    if n_nodes > MAX_ALIASED_NODES:
        raise DataError(
            f"{_position(event)}: the aliases up to *{event.anchor} expand to {n_nodes:,} nodes; at most "
            f"{MAX_ALIASED_NODES:,} are allowed"
        )
