"""Evalstone: standardised evaluation of language models.

import evalstone

run = evalstone.evaluate("path/to/model", "arc_challenge", num_fewshot=25)
print(run)

model = evalstone.load_model("path/to/model")
print(model.rank("The capital of France is", [" Paris", " Rome"]).best)
"""

from typing import TYPE_CHECKING

from evalstone.settings import VERSION as __version__  # noqa: N811 - the name every package has

if TYPE_CHECKING:
    from evalstone.api.evaluate import evaluate
    from evalstone.api.run import Run
    from evalstone.api.trainer_callback import EvaluationCallback
    from evalstone.models.language_model import LanguageModel, Ranking, load_model

__all__ = ["EvaluationCallback", "LanguageModel", "Ranking", "Run", "__version__", "evaluate", "load_model"]

_PLACES = {
    "evaluate": "evalstone.api.evaluate",
    "EvaluationCallback": "evalstone.api.trainer_callback",
    "Run": "evalstone.api.run",
    "LanguageModel": "evalstone.models.language_model",
    "Ranking": "evalstone.models.language_model",
    "load_model": "evalstone.models.language_model",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import evalstone` stays quick."""
    if name not in _PLACES:
        raise AttributeError(f"module 'evalstone' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
