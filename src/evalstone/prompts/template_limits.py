"""Bounds on what one rendering of a template may take, so that a loop without end is an error and not a hang.

Every round of a loop and every call of a macro counts against a budget, and so does every character written; the
products `*` and `**`, which are one step however large, are measured before they are computed. The clock is that of
the rendering thread's own processor time: a busy machine fails no honest template, and no signal is needed, so the
bounds hold on any thread.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import Environment, Template, nodes
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

__all__ = ["MAX_CHARACTERS", "MAX_ROUNDS", "MAX_SECONDS", "BoundedEnvironment", "TemplateTooLarge", "bounded_render"]

MAX_ROUNDS = 1_000_000  # of all loops and macros in one rendering
MAX_CHARACTERS = 20_000_000  # about fifty times the longest prompt of any task we know
MAX_SECONDS = 10.0  # of this thread's processor time
MAX_BITS = 10_000  # of a number that a template computes
STEP = "evalstone_step"  # what loops call; no template has this name


class TemplateTooLarge(Exception):
    """A rendering went past a limit; the message names it."""


class _Budget(threading.local):
    """What is left to the rendering under way on this thread."""

    rounds = MAX_ROUNDS
    deadline = 0.0

    def begin(self) -> None:
        self.rounds = MAX_ROUNDS
        self.deadline = time.thread_time() + MAX_SECONDS

    def step(self) -> None:
        self.rounds -= 1
        if self.rounds < 0:
            raise TemplateTooLarge(f"its loops went past {MAX_ROUNDS:,} rounds")
        if not self.rounds % 64 and time.thread_time() > self.deadline:
            raise TemplateTooLarge(f"it took more than {MAX_SECONDS:.0f} s")


_budget = _Budget()


def _step() -> str:
    _budget.step()
    return ""


class BoundedEnvironment(SandboxedEnvironment):
    """Jinja's sandbox, whose loops and products end."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a product or a power unless the result would be huge."""
        if operator == "*":
            for one, times in ((left, right), (right, left)):
                if isinstance(one, str | bytes | list | tuple) and isinstance(times, int):
                    _refuse(len(one) * times, MAX_CHARACTERS, "a product would have", "parts")
        elif isinstance(left, int) and isinstance(right, int) and right > 0:
            _refuse(left.bit_length() * right, MAX_BITS, "a power would have", "bits")
        return super().call_binop(context, operator, left, right)


def _refuse(size: int, limit: int, what: str, unit: str) -> None:
    if size > limit:
        raise TemplateTooLarge(f"{what} {size:,} {unit}; the limit is {limit:,}")


def bounded_render(environment: Environment, source: str) -> Callable[[Any], str]:
    """Return the function that renders `source` from a row within the limits.

    Raises: TemplateSyntaxError; the function raises TemplateTooLarge beside what Jinja raises.
    """
    tree = environment.parse(source)
    loops = list(tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)))
    for loop in loops:
        call = nodes.Call(nodes.Name(STEP, "load"), [], [], None, None)
        loop.body.insert(0, nodes.ExprStmt(call, lineno=loop.lineno))  # type: ignore[attr-defined]
    # Jinja's own chained mapping of globals is copied for every row, which costs 30 us; a plain one is not.
    names = {**environment.globals, STEP: _step}
    template = Template.from_code(environment, environment.compile(tree), names)
    if not loops:
        return template.render

    def render(row: Any) -> str:
        _budget.begin()
        return _joined(template.generate(row))

    return render


def _joined(pieces: Iterable[str]) -> str:
    found: list[str] = []
    n_characters = 0
    for piece in pieces:
        found.append(piece)
        n_characters += len(piece)
        if n_characters > MAX_CHARACTERS:
            raise TemplateTooLarge(f"it wrote more than {MAX_CHARACTERS:,} characters")
    return "".join(found)
