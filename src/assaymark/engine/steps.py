"""Run forward passes of several threads side by side: one at a time per model, and none while a model is loaded.

A pass changes its model while it runs (the attention implementation, a replaced body), so passes on the same model
exclude each other; passes on different models do not. transformers loads models under settings of the whole process
(the default dtype, the functions that initialise weights, its log level), so loading excludes all passes.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


class _Gate:
    """A lock shared by many passes and held exclusively by one load; reentrant per thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passing: dict[int, int] = {}  # thread -> how many times it has entered
        self._loader: int | None = None
        self._load_depth = 0
        self._n_waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Wait for loads that are running or waiting, then block new ones."""
        me = threading.get_ident()
        with self._changed:
            while self._loader != me and me not in self._passing and (self._loader is not None or self._n_waiting):
                self._changed.wait()
            self._passing[me] = self._passing.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._passing[me] -= 1
                if not self._passing[me]:
                    del self._passing[me]
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until no other thread is inside, then block all others."""
        me = threading.get_ident()
        with self._changed:
            self._n_waiting += 1
            try:
                while self._loader not in (None, me) or any(thread != me for thread in self._passing):
                    self._changed.wait()
            finally:
                self._n_waiting -= 1
            self._loader = me
            self._load_depth += 1
        try:
            yield
        finally:
            with self._changed:
                self._load_depth -= 1
                if not self._load_depth:
                    self._loader = None
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Yield whether no other thread is inside; if so, none enters before the end."""
        me = threading.get_ident()
        with self._changed:
            is_alone = all(thread == me for thread in self._passing)
            if is_alone:
                yield True
                return
        yield False


_GATE = _Gate()
_LOCKS: WeakKeyDictionary[torch.nn.Module, threading.RLock] = WeakKeyDictionary()
_ROTARY: WeakKeyDictionary[torch.nn.Module, list[torch.nn.Module]] = WeakKeyDictionary()
_LOCKS_GUARD = threading.Lock()


def loading() -> AbstractContextManager[None]:
    """Block all passes and loads of other threads while a model is loaded and checked."""
    return _GATE.exclusive()


def only_pass() -> AbstractContextManager[bool]:
    """Yield whether no other thread runs a pass; if so, none begins one before the end."""
    return _GATE.alone()


@contextmanager
def forward_pass(model: "PreTrainedModel") -> Iterator[None]:
    """Run one forward pass (or several that belong together) while no other thread uses the same model.

    An ambient autocast, as a training loop may have, is switched off: scores are computed in the weights' own dtype.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    with _LOCKS_GUARD:
        lock = _LOCKS.setdefault(inner, threading.RLock())
    kind = next(inner.parameters()).device.type
    casts = torch.is_autocast_enabled(kind)
    with _GATE.shared(), lock, torch.autocast(kind, enabled=False) if casts else nullcontext():
        _forget_lengths(inner)
        yield


def _forget_lengths(model: torch.nn.Module) -> None:
    """Reset the frequencies that dynamic rotary embeddings keep from longer inputs, so that order does not matter."""
    rotary = _ROTARY.get(model)
    if rotary is None:
        rotary = [module for module in model.modules() if _is_dynamic(module)]
        _ROTARY[model] = rotary
    for module in rotary:
        for name in [name for name in (*vars(module), *module._buffers) if name.endswith("original_inv_freq")]:  # noqa: SLF001
            before = name.removesuffix("original_inv_freq")
            module._buffers[f"{before}inv_freq"] = getattr(module, name)  # noqa: SLF001 - the buffer without its checks
            setattr(module, f"{before}max_seq_len_cached", module.original_max_seq_len)


def _is_dynamic(module: object) -> bool:
    kinds = getattr(module, "rope_type", None)
    return "dynamic" in (kinds.values() if isinstance(kinds, dict) else [kinds])


def configs_of(model: "PreTrainedModel") -> "list[PreTrainedConfig]":
    """Return every configuration object of a model and its parts, each once."""
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    configs: dict[int, PreTrainedConfig] = {}
    while waiting:
        config = waiting.pop()
        if id(config) in configs or not hasattr(config, "_attn_implementation_internal"):
            continue
        configs[id(config)] = config
        waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(configs.values())


@contextmanager
def attention_set_to(model: "PreTrainedModel", name: str) -> Iterator[None]:
    """Set another attention implementation for a model and its parts inside the block, with transformers' checks.

    Raises: ValueError, ImportError and other errors of transformers if the model does not support it.
    """
    before = [(config, _implementation(config)) for config in configs_of(model)]
    try:
        model.set_attn_implementation(name)
        yield
    finally:
        for config, own in before:
            config._attn_implementation_internal = own  # noqa: SLF001 - parts may differ; the public setter has one name


class AttentionSwitch:
    """An attention implementation that a model uses for single passes.

    transformers' own setter visits and checks all modules; it is called once, and its changes are recorded.
    """

    def __init__(self, model: object, name: str) -> None:
        before = [(config, _implementation(config)) for config in configs_of(model)]
        with attention_set_to(model, name):
            after = [_implementation(config) for config, _ in before]
        self._changes = [(config, new) for (config, old), new in zip(before, after, strict=True) if new != old]

    @contextmanager
    def on(self) -> Iterator[None]:
        """Switch to the implementation, and back to the former one at the end."""
        before = [(config, _implementation(config)) for config, _ in self._changes]
        try:
            for config, name in self._changes:
                config._attn_implementation_internal = name  # noqa: SLF001
            yield
        finally:
            for config, name in before:
                config._attn_implementation_internal = name  # noqa: SLF001


def _implementation(config: "PreTrainedConfig") -> object:
    return config._attn_implementation  # noqa: SLF001 - transformers has no public reader
