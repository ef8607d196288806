"""Functions of the API restore the state of a model that the caller has loaded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from transformers import PreTrainedModel

P = ParamSpec("P")
T = TypeVar("T")


def _loaded_object(model: object) -> object:
    """Return the transformers model in a caller's model argument; None for names, servers and the like."""
    if isinstance(model, tuple) and model:
        return model[0]
    return getattr(model, "loaded_model", model)


def is_loaded(model: object) -> bool:
    """Return whether this is, or holds, a model that the caller has loaded."""
    return hasattr(_loaded_object(model), "state_dict")


@contextmanager
def lent(model: object) -> Iterator[None]:
    """Restore the state of a loaded model at the end of the block, also after an error; ignore other models."""
    if not is_loaded(model):
        yield
        return
    from assaymark.engine.loans import on_loan

    with on_loan(cast("PreTrainedModel", _loaded_object(model)), is_whole=True):
        yield


def gives_back(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function whose first argument is a model, or a list of models, to restore loaded ones."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        first = args[0] if args else kwargs.get("model", kwargs.get("models"))
        with _all_lent(list(first) if isinstance(first, list) else [first]):
            return function(*args, **kwargs)

    return call


@contextmanager
def _all_lent(models: list[object]) -> Iterator[None]:
    if not models:
        yield
        return
    with lent(models[0]), _all_lent(models[1:]):
        yield
