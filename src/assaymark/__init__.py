"""Assaymark: standardised evaluation of language models.

import assaymark

run = assaymark.evaluate("path/to/model", "arc_challenge", num_fewshot=25)
print(run)

model = assaymark.load_model("path/to/model")
print(model.rank("The capital of France is", [" Paris", " Rome"]).best)
"""

from typing import TYPE_CHECKING

from assaymark.settings import VERSION as __version__  # noqa: N811 - the name every package has

if TYPE_CHECKING:
    from assaymark.api.evaluate import evaluate
    from assaymark.api.run import Run
    from assaymark.api.trainer_callback import EvaluationCallback
    from assaymark.models.language_model import LanguageModel, Ranking, load_model

__all__ = ["EvaluationCallback", "LanguageModel", "Ranking", "Run", "__version__", "evaluate", "load_model"]

_PLACES = {
    "evaluate": "assaymark.api.evaluate",
    "EvaluationCallback": "assaymark.api.trainer_callback",
    "Run": "assaymark.api.run",
    "LanguageModel": "assaymark.models.language_model",
    "Ranking": "assaymark.models.language_model",
    "load_model": "assaymark.models.language_model",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import assaymark` stays quick."""
    if name not in _PLACES:
        raise AttributeError(f"module 'assaymark' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
