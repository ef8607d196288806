"""A model run by vLLM: everything of a local model except the engine.

Files, identity, tokens, chat templates, the cache and the extraction of answers are those of `local`, so a run with
vLLM sends exactly the queries of a run with our own engine. Its numbers are vLLM's own, so outputs are never shared
with runs of another engine. See `vllm.engine` for what has been tested.
"""

from dataclasses import replace
from functools import cached_property

from assaymark.models.checkpoint.identity import identify
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.spans import QueryReader, fingerprint_of
from assaymark.models.vllm.arguments import VllmArguments
from assaymark.models.vllm.engine import RESERVED_POSITIONS, VllmEngine
from assaymark.records import ModelIdentity

__all__ = ["VllmModel"]

KIND = "vllm"


class VllmModel(LocalModel):
    """A causal language model run by vLLM."""

    def __init__(self, arguments: VllmArguments) -> None:
        super().__init__(arguments.local)
        self._vllm_arguments = arguments

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model this is, by content; reads files only.

        Raises: ModelUnavailable.
        """
        same = identify(self.arguments, self._folders, KIND)
        return replace(same, numerics=KIND, options=self._vllm_arguments.options)

    @property
    def is_in_process(self) -> bool:
        """Always False: vLLM returns only the requested log-probabilities, not whole distributions."""
        return False

    def _reader(self) -> QueryReader:
        longest = self.max_length - RESERVED_POSITIONS
        return QueryReader(self.encoder, longest, self.arguments.too_long, fingerprint_of(self.identity))

    def _started(self) -> VllmEngine:
        return VllmEngine(self._vllm_arguments, self.identity, self._folders)
