"""Borrow a model that the caller has loaded: its state is recorded first, and restored however the use ends.

The caller may be training it. Everything that the engine, transformers or a task's own code changes while the model is
on loan (mode, forwards, buffers, configuration, random state, threads) is restored when it is returned.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from assaymark.engine.steps import configs_of

if TYPE_CHECKING:
    from transformers import GenerationConfig

K = TypeVar("K")
V = TypeVar("V")

LARGEST_COPIED = 1 << 20  # elements of a buffer; larger ones are quantised weights, which no forward pass writes to


class _ModuleState:
    """The attributes of one module, and the members of those that are dictionaries (parameters, hooks, children)."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._attributes = dict(module.__dict__)
        self._members = [(held, dict(held)) for held in self._attributes.values() if isinstance(held, dict)]

    def restore(self) -> None:
        _refill(self._module.__dict__, self._attributes)
        for held, members in self._members:
            _refill(held, members)


def _refill(held: dict[K, V], members: dict[K, V]) -> None:
    """Make a dictionary contain exactly these objects again, in their order; unchanged if it already does."""
    is_same = len(held) == len(members) and all(
        a == b and held[a] is members[b] for a, b in zip(held, members, strict=True)
    )
    if not is_same:
        held.clear()
        held.update(members)


@dataclass(slots=True)
class _TensorState:
    """A small buffer's content, or whether a parameter is trained."""

    tensor: torch.Tensor
    requires_grad: bool
    version: int
    content: torch.Tensor | None

    def restore(self) -> None:
        if self.content is not None and self.tensor._version != self.version:  # noqa: SLF001 - the only change counter
            with torch.no_grad():
                self.tensor.copy_(self.content)
        if self.tensor.requires_grad != self.requires_grad:
            self.tensor.requires_grad_(self.requires_grad)


def _tensor_states(model: torch.nn.Module) -> list[_TensorState]:
    states = [_TensorState(parameter, parameter.requires_grad, 0, None) for parameter in model.parameters()]
    for buffer in model.buffers():
        if buffer.is_inference() or buffer.numel() > LARGEST_COPIED:
            continue
        version = buffer._version  # noqa: SLF001
        states.append(_TensorState(buffer, buffer.requires_grad, version, buffer.detach().clone()))
    return states


class _ProcessState:
    """The random generators and the number of threads."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002 - others draw from the legacy global generator
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
        self._n_threads = torch.get_num_threads()

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if torch.get_num_threads() != self._n_threads:
            torch.set_num_threads(self._n_threads)


class _ModelState:
    """Everything that is restored when a model is returned."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._process = _ProcessState()
        self._modules = [_ModuleState(module) for module in model.modules()]
        settings = [*configs_of(model), *_generation_configs(model)]
        self._settings = [(each.__dict__, dict(each.__dict__)) for each in settings]
        self._tensors = _tensor_states(model)

    def restore(self) -> None:
        for module in self._modules:
            module.restore()
        for held, members in self._settings:
            _refill(held, members)
        for tensor in self._tensors:
            tensor.restore()
        self._process.restore()


def without_wrappers(model: object) -> None:
    """Remove accelerate's wrappers of a model's forward in training: autocast, and results as float32.

    The wrapped forward is restored with the rest of the model's state.
    """
    original = model.__dict__.get("_original_forward")
    if original is not None and "forward" in model.__dict__:
        model.__dict__["forward"] = original


def _generation_configs(model: torch.nn.Module) -> "list[GenerationConfig]":
    configs = [module.__dict__.get("generation_config") for module in model.modules()]
    return list({id(each): each for each in configs if each is not None}.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Holder:
    """One use of a borrowed model; `is_whole` if it surrounds all later uses of its thread."""

    thread: int
    is_whole: bool


@dataclass(slots=True)
class _Loan:
    state: _ModelState
    holders: list[_Holder] = field(default_factory=list)


_LOANS: WeakKeyDictionary[torch.nn.Module, _Loan] = WeakKeyDictionary()
_GUARD = threading.RLock()


@contextmanager
def on_loan(model: torch.nn.Module, *, is_whole: bool = False) -> Iterator[None]:
    """Borrow a caller's model; when its last use ends, also by an exception, its state at the first is restored.

    An unfinished generator holds the model until it is closed. A use that `is_whole` ends those that its thread began
    after it, so that an exception whose traceback keeps a generator alive does not keep the model.
    """
    holder = _Holder(threading.get_ident(), is_whole)
    with _GUARD:
        loan = _LOANS.get(model)
        if loan is None:
            loan = _LOANS[model] = _Loan(_ModelState(model))
        loan.holders.append(holder)
    try:
        yield
    finally:
        with _GUARD:
            _return(model, loan, holder)


def _return(model: torch.nn.Module, loan: _Loan, holder: _Holder) -> None:
    """End a use; restore the model's state after the last one."""
    if holder not in loan.holders:
        return  # already ended by a surrounding use
    at = loan.holders.index(holder)
    later = [other for other in loan.holders[at + 1 :] if not (holder.is_whole and other.thread == holder.thread)]
    loan.holders = [*loan.holders[:at], *later]
    if not loan.holders:
        del _LOANS[model]
        try:
            loan.state.restore()
        except KeyboardInterrupt:  # an impatient second Ctrl-C must not leave it half restored
            loan.state.restore()
            raise
