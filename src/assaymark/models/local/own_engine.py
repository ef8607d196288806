"""This package's engine in this process, with the tokenizer that it needs to find stop texts."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from assaymark.engine.engine import Engine
from assaymark.engine.generation import GenerationDefaults, GenerationPrompt, StepObserver
from assaymark.engine.open_batch import OpenBatch
from assaymark.engine.options import EngineInfo
from assaymark.engine.seq2seq import Seq2SeqEngine
from assaymark.engine.spans import IntArray
from assaymark.engine.token_moments import TokenMoments
from assaymark.errors import UsageError
from assaymark.models.text.stops import StopTexts
from assaymark.models.token_engine import FollowText, ScoreQueue, SequentialQueue, TextResult

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class OwnEngine:
    """A `TokenEngine` around `engine.Engine`, or the engine of encoder-decoder models."""

    n_workers = 1

    def __init__(self, engine: Engine | Seq2SeqEngine, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._engine = engine
        self._tokenizer = tokenizer

    @property
    def info(self) -> EngineInfo:
        """The engine's configuration."""
        return self._engine.info

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""
        return self._engine.generation_defaults

    def queue(self) -> ScoreQueue:
        """Return a queue that scores one batch after another."""
        return SequentialQueue(self._engine.score)

    def generate(
        self, prompts: Sequence[GenerationPrompt], stops: StopTexts, on_step: StepObserver | None = None
    ) -> Iterator[TextResult]:
        """Yield the continuations; see `TokenEngine.generate`."""
        return self._engine.generate(prompts, stop=stops.check(self._tokenizer), on_step=on_step)

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult | None]:
        """Yield None after each step and finally the result; a model on the plain path takes a single step."""
        has_stopped = stops.check(self._tokenizer)

        def followed(index: int, repeat: int, tokens: Sequence[int]) -> bool:
            follow(tokens)
            return has_stopped(index, repeat, tokens)

        for finished in self._engine.generate_stepwise([prompt], stop=followed):
            yield finished[0] if finished else None

    def open_batch(self) -> AbstractContextManager[OpenBatch]:
        """Return a batch that prompts may join between decoding steps; see `Engine.open_batch`."""
        return self._causal().open_batch()

    def token_moments(self, tokens: IntArray) -> TokenMoments:
        """Return statistics of the next-token distribution at each token; see `Engine.token_moments`."""
        return self._causal().token_moments(tokens)

    def _causal(self) -> Engine:
        """Return the engine of a decoder-only model.

        Raises: UsageError for another one.
        """
        if isinstance(self._engine, Seq2SeqEngine):
            raise UsageError("this needs a decoder-only model; the model has an encoder and a decoder")
        return self._engine

    def close(self) -> None:
        """Free the weights."""
        self._engine.close()
