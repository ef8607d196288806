"""What the engines without a trie have in common: one loaded model, what it is, and its end."""

import torch

from assaymark.engine.generation import GenerationDefaults
from assaymark.engine.generator import defaults_of
from assaymark.engine.options import EngineInfo, EngineSettings
from assaymark.engine.weights import LoadedModel, library_versions
from assaymark.errors import ModelUnavailable

__all__ = ["PlainEngine"]


class PlainEngine:
    """One loaded model that shares nothing between prompts.

    Args:
        loaded: the model.
        settings: what was asked for.
        attention: the path, as runs record it.
        why: the reason for it.
        window_tokens: of one pass; 0: passes are not bounded.
    """

    def __init__(
        self, loaded: LoadedModel, settings: EngineSettings, *, attention: str, why: str, window_tokens: int = 0
    ) -> None:
        self._loaded: LoadedModel | None = loaded
        self._settings = settings
        parameter = next(loaded.inner.parameters())
        self.info = EngineInfo(
            device=str(parameter.device),
            dtype=str(parameter.dtype).removeprefix("torch."),
            numerics=settings.numerics,
            n_parameters=loaded.n_parameters,
            max_length=settings.max_length or loaded.limits.max_length,
            vocab_size=loaded.vocab_size,
            attention=attention,
            why=why,
            window_tokens=window_tokens,
            n_threads=torch.get_num_threads(),
            versions=library_versions(),
            note=loaded.limits.note,
        )

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""
        return defaults_of(self._open().outer)

    def _open(self) -> LoadedModel:
        if self._loaded is None:
            raise ModelUnavailable("the engine is closed; load it again")
        return self._loaded

    def close(self) -> None:
        """Free the weights."""
        self._loaded = None
