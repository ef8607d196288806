"""Limit the resources of rendering a template, so that an endless loop is an error and not a hang.

Every round of a loop and every call counts against a budget, and so does every text created. Single operations with
large results (products, sums, formats, `center`, `replace`) are measured before they are computed. No signal and no
thread is needed, so the limits hold on any thread; the clock is the thread's processor time. They work for any
environment of Jinja's sandbox: that of task files, and that of transformers, in which chat templates run.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from jinja2 import Template, nodes
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from assaymark.limits import budget as limits
from assaymark.limits.budget import Budget, TemplateTooLarge, weigh
from assaymark.limits.template_calls import bounded_filter, counted, size_of_call, size_of_percent

__all__ = ["TemplateTooLarge", "bounded", "bounded_render", "line_of"]

MAX_BITS = 10_000  # of a number that a template computes
MAX_SOURCE = 2_000_000  # characters of a template
STEP = "assaymark_step"  # called by loops; no template has this name
CUT = "assaymark_cut"  # computes slices
WEIGHED = "assaymark_weighed"  # measures values before they are compared
CONTAINERS = (list, tuple, dict, set, frozenset)
_budget = Budget()


def _step() -> str:
    _budget.step()
    return ""


def _cut(value: Any, *bounds: Any) -> Any:
    return counted(_budget, value[slice(*bounds)])


class _Bounds(SandboxedEnvironment):
    """Added to a sandboxed environment: operators, calls and texts are measured."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute an operation unless the result would be huge."""
        _measure(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
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
        found = list(pieces)
        _budget.make(sum(map(len, found)))
        return "".join(found)


def _measure(operator: str, left: Any, right: Any) -> None:
    """Count the result of an operator. Raises: TemplateTooLarge."""
    if isinstance(left, int) and isinstance(right, int):
        bits = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * max(right, 0)}.get(operator, 0)
        if bits > MAX_BITS:
            raise TemplateTooLarge(f"a number would have {bits:,} bits; the limit is {MAX_BITS:,}")
    elif operator == "*":
        for one, times in ((left, right), (right, left)):
            if isinstance(one, str | bytes | list | tuple) and isinstance(times, int):
                _budget.make(len(one) * max(times, 0))
    elif operator == "+" and isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
        _budget.make(len(left) + len(right))
    elif operator == "%" and isinstance(left, str | bytes):
        _budget.make(size_of_percent(left, right))


def _written(value: Any) -> Any:
    """Return a value to be output, after checking that it is not endless as text."""
    if isinstance(value, CONTAINERS):
        _budget.make(weigh(value))
    return value


def _join(pieces: Iterable[Any]) -> str:
    """Join as the operator `~` does."""
    found = [str(_written(piece)) for piece in pieces]
    _budget.make(sum(map(len, found)))
    return "".join(found)


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
        if not any(isinstance(each, nodes.Const) for each in (node.expr, *(one.expr for one in node.ops))):
            holders: list[Any] = [node, *node.ops]
            for holder in holders:
                call = nodes.Call(nodes.Name(WEIGHED, "load"), [holder.expr], [], None, None)
                holder.expr = call.set_lineno(node.lineno)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - the visitor finds it by this name
        """Replace a slice."""
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = [each or nodes.Const(None) for each in (node.arg.start, node.arg.stop, node.arg.step)]
        call = nodes.Call(nodes.Name(CUT, "load"), [node.node, *bounds], [], None, None)
        return call.set_lineno(node.lineno)


def bounded_render(environment: SandboxedEnvironment, source: str) -> Callable[[Any], str]:
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

    def render(row: Any) -> str:
        _budget.begin()
        try:
            return _output(template.generate(row)) if loops else template.render(row)
        except MemoryError:
            raise TemplateTooLarge("it used up the memory") from None
        except RecursionError:
            raise TemplateTooLarge("its macros call each other too deep (recursion)") from None

    return render


def _output(pieces: Iterable[str]) -> str:
    found: list[str] = []
    n_characters = 0
    for piece in pieces:
        found.append(piece)
        n_characters += len(piece)
        if n_characters > limits.MAX_CHARACTERS:
            raise TemplateTooLarge(f"its output has more than {limits.MAX_CHARACTERS:,} characters")
    return "".join(found)


def line_of(error: BaseException) -> int | None:
    """Return the line of the template in which an error was raised, None if unknown."""
    if isinstance(line := getattr(error, "lineno", None), int):
        return line
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
