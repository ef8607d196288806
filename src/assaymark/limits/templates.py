"""Limit the resources of rendering a template, so that an endless loop is an error and not a hang.

Every round of a loop and every call counts against a budget, and so does every text created. Single operations with
large results (products, sums, formats, `center`, `replace`) are measured before they are computed. No signal and no
thread is needed, so the limits hold on any thread; the clock is the thread's processor time. They work for any
environment of Jinja's sandbox: that of task files, and that of transformers, in which chat templates run.

One call in C cannot be interrupted, and some create far more than their arguments: `"".center(4000000000)`, `replace`,
`join`, formats with a width. Each of these is listed here with the size of its result. All others create about as much
as they are given, so counting their results is enough.

"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import TypeVar, cast

from jinja2 import Template, nodes
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_ROUNDS = 1_000_000  # rounds of all loops, macros and calls in one rendering
MAX_CHARACTERS = 20_000_000  # maximum of one text; about fifty times the longest prompt of any task we know
MAX_TOTAL = 10 * MAX_CHARACTERS  # of all texts and lists that one rendering creates
MAX_SECONDS = 10.0  # processor time of this thread
LARGE = 10_000  # characters: after values of this size the clock is checked
MAX_PARTS = 1_000_000  # of a value that is converted to text


T = TypeVar("T")


class TemplateTooLarge(Exception):
    """A rendering exceeded a limit; the message names it."""


class RenderBudget(threading.local):
    """The remaining budget; its clock is the thread's processor time, so a busy machine fails no valid template."""

    rounds = MAX_ROUNDS
    characters = MAX_TOTAL
    deadline = 0.0  # set by the first check of the clock, which few renderings reach

    def begin(self) -> None:
        """Restore the full budget for a new rendering."""
        self.rounds = MAX_ROUNDS
        self.characters = MAX_TOTAL
        self.deadline = 0.0

    def step(self) -> None:
        """Count a round. Raises: TemplateTooLarge."""
        self.rounds = rounds = self.rounds - 1
        if rounds < 0:
            raise TemplateTooLarge(f"its loops exceeded {MAX_ROUNDS:,} rounds")
        if not rounds & 63:
            self.check_clock()

    def check_clock(self) -> None:
        """Raise TemplateTooLarge once the time is used up."""
        now = time.thread_time()
        if not self.deadline:
            self.deadline = now + MAX_SECONDS
        elif now > self.deadline:
            raise TemplateTooLarge(f"it took more than {MAX_SECONDS:.0f} s")

    def make(self, size: int) -> None:
        """Count a text or list of this size, before it is created if possible. Raises: TemplateTooLarge."""
        if size > MAX_CHARACTERS:
            raise TemplateTooLarge(f"a value would have {size:,} characters or parts; the limit is {MAX_CHARACTERS:,}")
        self.characters -= size
        if size > LARGE:
            self.check_clock()
        if self.characters < 0:
            raise TemplateTooLarge(f"its values have more than {MAX_TOTAL:,} characters or parts in all")


def weigh(value: object) -> int:
    """Return the approximate number of characters of a value converted to text.

    A list may contain another one many times, which contains a third one many times: a value that is small in memory
    can be endless as text, so every part is counted as often as it would be written.

    Raises: TemplateTooLarge as soon as the count exceeds the limits.
    """
    size, n_parts, left = 0, 0, [value]
    while left:
        part = left.pop()
        n_parts += 1
        if isinstance(part, str | bytes):
            size += len(part)
        elif isinstance(part, dict):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            left += part
        if size > MAX_CHARACTERS or n_parts + len(left) > MAX_PARTS:
            raise TemplateTooLarge(
                f"a value would have more than {MAX_CHARACTERS:,} characters or {MAX_PARTS:,} parts as text"
            )
    return size + n_parts


Sizes = Mapping[str, Callable[..., int]]
SIZED = (str, bytes, list, tuple)  # faster than str | bytes | ...
NUMBER = re.compile(r"\d+")
NESTED = re.compile(r"\{[^{}]*\{")
LONGEST_NUMBER = len(str(MAX_CHARACTERS))
LARGEST_COUNT = {"batch": 1_000_000, "slice": 1_000_000, "lipsum": 1000, "generate_lorem_ipsum": 1000, "round": 300,
                 "tojson": 1000, "pprint": 1000}  # fmt: skip


def _largest(values: Sequence[object]) -> int:
    """Return the largest whole number among arguments; at least 0."""
    return max((each for each in values if isinstance(each, int)), default=0)


def _padded(value: object, *arguments: object) -> int:
    return max(_length(value), _largest(arguments))


def _replaced(value: object, old: object = "", new: object = "", *_: object) -> int:
    text, old, new = str(value), str(old), str(new)
    n = text.count(old) if old else len(text) + 1
    return len(text) + n * max(0, len(new) - len(old))


def _joined(separator: object, items: object = (), *_: object) -> int:
    n_items = len(items) if isinstance(items, Sequence) else 0
    return weigh(items) + n_items * _length(separator)


def _in_lines(value: object, *arguments: object) -> int:
    """Return the size of calls that repeat their arguments for each line or word."""
    longest = max((len(each) if isinstance(each, str) else 0 for each in arguments), default=0)
    text = str(value)
    n_lines = text.count("\n") + 1 if not longest else len(text) + 1
    return len(text) + n_lines * max(longest, _largest(arguments))


def _tabs(value: object, *arguments: object) -> int:
    return _length(value) + str(value).count("\t") * max(8, _largest(arguments))


def _translated(value: object, table: object = None, *_: object) -> int:
    values = table.values() if isinstance(table, Mapping) else ()
    return _length(value) * max((len(each) for each in values if isinstance(each, str)), default=1)


def _formatted(value: object, *arguments: object) -> int:
    """Return the size of `str.format`: a field may have any width, which another field may set."""
    text = str(value)
    spoken = [text, *(str(each) for each in arguments if isinstance(each, str | int) and NESTED.search(text))]
    if NESTED.search(text):
        weigh(list(arguments))
        spoken += [repr(each) for each in arguments if isinstance(each, Mapping | list | tuple)]
    return _widths(spoken) + len(text) + text.count("{") * max(map(weigh, arguments), default=0)


def size_of_percent(text: object, operand: object) -> int:
    """Return the size of a text formatted with `%`."""
    values = operand if isinstance(operand, tuple) else (operand,)
    spoken = [str(text), *(str(each) for each in values if "*" in str(text) and isinstance(each, int))]
    return _widths(spoken) + len(str(text)) + str(text).count("%") * weigh(operand)


def _widths(texts: Sequence[str]) -> int:
    """Return the sum of the numbers in these texts, any of which may be a width."""
    numbers = [each for text in texts for each in NUMBER.findall(text)]
    return sum(int(each) if len(each) <= LONGEST_NUMBER else MAX_CHARACTERS + 1 for each in numbers)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _written_size(value: object, *_: object) -> int:
    return weigh(value)


def _extended(_: object, items: object = (), *__: object) -> int:
    return _length(items)


PAD = dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes", "truncate"), _padded)
METHODS: Sizes = {**PAD, "replace": _replaced, "join": _joined, "expandtabs": _tabs, "translate": _translated,
                  "format": _formatted, "format_map": _formatted, "extend": _extended}  # fmt: skip
FILTERS: Sizes = {
    **PAD, "replace": _replaced, "join": lambda items, separator="", *_: _joined(separator, items),
    "indent": _in_lines, "wordwrap": _in_lines, "format": lambda text, *arguments: size_of_percent(text, arguments),
    "tojson": _written_size, "pprint": _written_size, "string": _written_size,
}  # fmt: skip
NOW = "strftime_now"  # of chat templates; a format such as %255d becomes up to 256 times as long, by Python's own limit
MEASURED = frozenset({*METHODS, *LARGEST_COUNT, NOW})


def size_of_call(function: object, arguments: tuple[object, ...]) -> int:
    """Return the size of a call's result, 0 if it creates no more than it is given.

    Raises: TemplateTooLarge for a count above its own limit.
    """
    name = getattr(function, "__name__", "")
    if name not in MEASURED:
        return 0
    _refuse_count(name, arguments)
    if name == NOW:
        return 256 * sum(map(_length, arguments))
    owner = getattr(function, "__self__", None)
    if owner is None:  # str.format is wrapped by the sandbox
        owner = getattr(getattr(function, "__wrapped__", None), "__self__", None)
    if name in METHODS and isinstance(owner, str | bytes | list | int):
        return METHODS[name](owner, *arguments)
    return 0


def _refuse_count(name: str, arguments: tuple[object, ...]) -> None:
    if name in LARGEST_COUNT and _largest(arguments) > LARGEST_COUNT[name]:
        raise TemplateTooLarge(f"{name}({_largest(arguments):,}) is over its limit of {LARGEST_COUNT[name]:,}")


def counted(budget: RenderBudget, result: T) -> T:
    """Return the result of a call after counting its size, if it has one."""
    if isinstance(result, SIZED):
        budget.make(len(result))
    return result


def bounded_filter(name: str, function: Callable[..., object], budget: RenderBudget) -> Callable[..., object]:
    """Return a Jinja filter that counts against the budget and is measured before it is applied."""
    n_passed = int(getattr(function, "jinja_pass_arg", None) is not None)
    size_of = FILTERS.get(name)

    @wraps(function)
    def within(*args: object, **kwargs: object) -> object:
        budget.step()
        arguments = args[n_passed:]
        if size_of is not None and arguments:
            if name == "join" and not isinstance(arguments[0], list | tuple | str):
                arguments = (list(cast("Iterable[object]", arguments[0])), *arguments[1:])
                args = (*args[:n_passed], *arguments)
            budget.make(size_of(*arguments, *kwargs.values()))
        if name in LARGEST_COUNT:
            _refuse_count(name, (*arguments, *kwargs.values()))
        return counted(budget, function(*args, **kwargs))

    return within


MAX_BITS = 10_000  # of a number that a template computes
MAX_SOURCE = 2_000_000  # characters of a template
STEP = "assaymark_step"  # called by loops; no template has this name
CUT = "assaymark_cut"  # computes slices
WEIGHED = "assaymark_weighed"  # measures values before they are compared
CONTAINERS = (list, tuple, dict, set, frozenset)
_budget = RenderBudget()


def _step() -> str:
    _budget.step()
    return ""


def _cut(value: Sequence[object], *bounds: int | None) -> object:
    return counted(_budget, value[slice(*bounds)])


class _Bounds(SandboxedEnvironment):
    """Added to a sandboxed environment: operators, calls and texts are measured."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute an operation unless the result would be huge."""
        _measure(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: object, /, *args: object, **kwargs: object) -> object:
        """Call an object unless the result would be huge."""
        if called is _step:
            return called()
        _budget.step()
        size = size_of_call(called, (*args, *kwargs.values()))
        if size:
            _budget.make(size)
        return counted(_budget, super().call(context, called, *args, **kwargs))

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join the output of a block or a macro."""
        texts = list(pieces)
        _budget.make(sum(map(len, texts)))
        return "".join(texts)


def _measure(operator: str, left: object, right: object) -> None:
    """Count the result of an operator. Raises: TemplateTooLarge."""
    if isinstance(left, int) and isinstance(right, int):
        bits = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * max(right, 0)}.get(operator, 0)
        if bits > MAX_BITS:
            raise TemplateTooLarge(f"a number would have {bits:,} bits; the limit is {MAX_BITS:,}")
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, str | bytes | list | tuple) and isinstance(times, int):
                _budget.make(len(value) * max(times, 0))
    elif operator == "+" and isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
        _budget.make(len(left) + len(right))
    elif operator == "%" and isinstance(left, str | bytes):
        _budget.make(size_of_percent(left, right))


def _written(value: object) -> object:
    """Return a value to be output, after checking that it is not endless as text."""
    if isinstance(value, CONTAINERS):
        _budget.make(weigh(value))
    return value


def _join(pieces: Iterable[object]) -> str:
    """Join as the operator `~` does."""
    texts = [str(_written(piece)) for piece in pieces]
    _budget.make(sum(map(len, texts)))
    return "".join(texts)


@cache
def _class_of(kind: type[SandboxedEnvironment]) -> type[SandboxedEnvironment]:
    return type(f"Bounded{kind.__name__}", (_Bounds, kind), {"__doc__": "A sandbox whose templates end."})


def bounded(environment: SandboxedEnvironment) -> SandboxedEnvironment:
    """Return a copy of an environment in which templates are limited; the given one is unchanged.

    Rendering in it, other than through `bounded_render`, is refused once the budget of the thread is used up.
    """
    result = environment.overlay()
    result.__class__ = _class_of(type(environment))  # type: ignore[arg-type] # a class is hashable
    result.filters = {name: bounded_filter(name, each, _budget) for name, each in environment.filters.items()}
    result.finalize = _written
    return result


class _Measuring(NodeTransformer):
    """Replaces slices by calls, and measures compared values: comparing equal lists of equal lists may never end."""

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 - the visitor finds it by this name
        """Measure both sides, unless one is a constant: such a comparison ends at once."""
        self.generic_visit(node)
        if not any(isinstance(each, nodes.Const) for each in (node.expr, *(operation.expr for operation in node.ops))):
            holders: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
            for holder in holders:
                call = nodes.Call(nodes.Name(WEIGHED, "load"), [holder.expr], [], None, None)
                call.set_lineno(node.lineno)
                holder.expr = call
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - the visitor finds it by this name
        """Replace a slice."""
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = [each or nodes.Const(None) for each in (node.arg.start, node.arg.stop, node.arg.step)]
        call = nodes.Call(nodes.Name(CUT, "load"), [node.node, *bounds], [], None, None)
        return call.set_lineno(node.lineno)


def bounded_render(environment: SandboxedEnvironment, source: str) -> Callable[[object], str]:
    """Return the function that renders `source` from a row within the limits; `environment` comes from `bounded`.

    Raises: TemplateSyntaxError; TemplateTooLarge for a source that is too long or nested too deep. The function raises
        TemplateTooLarge in addition to Jinja's errors.
    """
    if len(source) > MAX_SOURCE:
        raise TemplateTooLarge(f"it has {len(source):,} characters; the limit is {MAX_SOURCE:,}")
    try:
        tree = _Measuring().visit(environment.parse(source))
        loops = list(tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)))
        for loop in loops:
            call = nodes.Call(nodes.Name(STEP, "load"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(call, lineno=loop.lineno))
        code = environment.compile(tree)
    except (RecursionError, MemoryError, OverflowError, SyntaxError) as error:
        raise TemplateTooLarge(f"it is nested too deep ({type(error).__name__})") from None
    # Jinja's own chained mapping of globals is copied for every row, which costs 30 us; a plain one is not.
    template = Template.from_code(environment, code, {**environment.globals, STEP: _step, CUT: _cut, WEIGHED: _written})
    template.root_render_func.__globals__["str_join"] = _join

    def render(row: object) -> str:
        _budget.begin()
        try:
            return _output(template.generate(row)) if loops else template.render(row)
        except MemoryError:
            raise TemplateTooLarge("it used up the memory") from None
        except RecursionError:
            raise TemplateTooLarge("its macros call each other too deep (recursion)") from None

    return render


def _output(pieces: Iterable[str]) -> str:
    texts: list[str] = []
    n_characters = 0
    for piece in pieces:
        texts.append(piece)
        n_characters += len(piece)
        if n_characters > MAX_CHARACTERS:
            raise TemplateTooLarge(f"its output has more than {MAX_CHARACTERS:,} characters")
    return "".join(texts)


def line_of(error: BaseException) -> int | None:
    """Return the line of the template in which an error was raised, None if unknown."""
    if isinstance(line := getattr(error, "lineno", None), int):
        return line
    deepest, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            deepest = trace.tb_lineno
        trace = trace.tb_next
    return deepest
