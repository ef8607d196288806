"""The engine: token ids in, log-probabilities out.

It handles no benchmark and no text. Spans are sorted into a trie, every distinct token path is computed once, and each
span's score is yielded as soon as its last token is known. Models that the trie path does not support use the plain
path; `info` states which path ran and why.

Sum scores per span as tokens' scores arrive in any grouping; a span is finished when its last one has arrived.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch

from assaymark import settings as environment
from assaymark.engine import attention, self_check
from assaymark.engine.forward import score_trie
from assaymark.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    StepObserver,
    StopCheck,
)
from assaymark.engine.generator import SequenceGenerator, defaults_of
from assaymark.engine.head import Head, take_apart
from assaymark.engine.loans import on_loan, without_wrappers
from assaymark.engine.memory import bytes_per_token, cache_bytes, choose_window, keep_freed_memory
from assaymark.engine.open_batch import OpenBatch
from assaymark.engine.options import EngineInfo, EngineSettings
from assaymark.engine.plain import PlainScores, score_plain
from assaymark.engine.projections import FasterProjections
from assaymark.engine.self_check import CheckMemory, facts_of_check, token_logprobs
from assaymark.engine.spans import IntArray, SpanBatch, SpanFailure, SpanScore, WindowObserver, WindowReport
from assaymark.engine.steps import loading
from assaymark.engine.token_moments import TokenMoments, token_moments
from assaymark.engine.trie import TriePlan, build_trie, describe_trie
from assaymark.engine.weights import LoadedModel, library_versions, load_model, probe_tokens
from assaymark.errors import ModelUnavailable, NonFiniteLogits, PlanError, PromptTooLong


class Tally:
    """Running sums of log-probabilities by span, in float64 and always in the order of the tokens."""

    def __init__(self, spans: SpanBatch, rounding: torch.dtype | None) -> None:
        self._missing = spans.n_scored.astype(np.int64)
        self._totals = np.zeros(len(spans))
        self._is_greedy = np.ones(len(spans), dtype=bool)
        self._rounding = rounding
        self.doubtful: list[int] = []
        """Finished spans whose sum is not finite; they are never scored."""

    def add(self, spans: IntArray, logprobs: npt.NDArray[np.float64], is_best: npt.NDArray[np.bool_]) -> IntArray:
        """Add tokens' scores to their spans and return the spans that are now finished.

        Shapes: all [n_tokens]; the result is sorted.
        """
        np.add.at(self._totals, spans, logprobs)
        np.logical_and.at(self._is_greedy, spans, is_best)
        np.subtract.at(self._missing, spans, 1)
        touched = np.unique(spans)
        finished: IntArray = touched[self._missing[touched] == 0]
        return finished

    def scores_of(self, finished: IntArray) -> Iterator[SpanScore]:
        """Yield the scores of finished spans; those that are not finite are added to `doubtful` instead."""
        totals = self._totals[finished]
        if self._rounding is not None:
            totals = torch.as_tensor(totals).to(self._rounding).double().numpy()
        for index, total, is_greedy in zip(
            finished.tolist(), totals.tolist(), self._is_greedy[finished].tolist(), strict=True
        ):
            if np.isfinite(total):
                yield SpanScore(index, total, is_greedy)
            else:
                self.doubtful.append(index)


Result = SpanScore | SpanFailure


class Engine:
    """One model, loaded, checked, and ready to score spans of tokens and to generate."""

    def __init__(
        self, loaded: LoadedModel, settings: EngineSettings, source: object = None, checks: CheckMemory | None = None
    ) -> None:
        """Take over a model.

        source: where it was loaded from, for the text of the check. checks: remembers passed checks; see `load`.
        """
        attention.register()
        self._loaded: LoadedModel | None = loaded
        self._settings = settings
        parameter = next(loaded.inner.parameters())
        self._head = _take_apart(loaded, settings)
        self._window = settings.window_tokens or choose_window(
            loaded.inner.config, parameter.element_size(), parameter.device
        )
        if loaded.limits.packed is not None:
            self._window = min(self._window, 1 << (loaded.limits.packed.bit_length() - 1))
        self._faster: FasterProjections | None = None
        check_result = self._check(loaded, settings, source, checks)
        self._may_batch = check_result.may_batch
        self.info = EngineInfo(
            device=str(parameter.device),
            dtype=str(parameter.dtype).removeprefix("torch."),
            numerics=settings.numerics,
            n_parameters=loaded.n_parameters,
            max_length=loaded.limits.max_length,
            vocab_size=loaded.vocab_size,
            attention=check_result.path,
            why=check_result.why,
            window_tokens=self._window,
            n_threads=torch.get_num_threads(),
            versions=library_versions(),
            note=loaded.limits.note,
        )

    @classmethod
    def load(
        cls, path_or_model: object, *, settings: EngineSettings | None = None, checks: CheckMemory | None = None
    ) -> "Engine":
        """Return an engine for a local folder, a Hub id, or a loaded transformers model.

        checks: remembers that a model whose content is known has passed the check; None: each load checks.
        Raises: ModelUnavailable if it cannot be loaded; UsageError for an impossible device.
        """
        settings = settings or EngineSettings()
        borrowed = path_or_model if isinstance(path_or_model, torch.nn.Module) else None
        with loading(), nullcontext() if borrowed is None else on_loan(borrowed):
            use_threads(settings)
            loaded = load_model(path_or_model, settings)
            if borrowed is not None:
                without_wrappers(loaded.outer)
            if next(loaded.inner.parameters()).device.type == "cpu":
                keep_freed_memory()
            return cls(loaded, settings, path_or_model, checks)

    def score(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[Result]:
        """Yield the score or the failure of each span, in any order, each as soon as it is known.

        Raises: PlanError if a token is not in the model's vocabulary; ModelUnavailable after `close`.
        """
        with self._using() as loaded:
            yield from self._score(loaded, spans, on_window)

    def _score(self, loaded: LoadedModel, spans: SpanBatch, on_window: WindowObserver | None) -> Iterator[Result]:
        """Yield the results; see `score`."""
        self._refuse_foreign_tokens(spans)
        lengths = np.diff(spans.offsets) - 1
        limit = loaded.limits.max_length
        is_too_long = lengths > limit if limit is not None else np.zeros(len(spans), dtype=bool)
        for index in np.flatnonzero(is_too_long).tolist():
            yield SpanFailure(
                index,
                PromptTooLong,
                f"{lengths[index]} input tokens; the model has {limit} positions: "
                "truncate the context from the left or shorten the continuation",
            )
        changes = lengths > (loaded.limits.trie or np.inf)
        is_plain = ~is_too_long & (changes if self.info.attention == "trie" else True)
        by_trie = np.flatnonzero(~is_too_long & ~is_plain)
        if by_trie.size:
            part = spans if by_trie.size == len(spans) else spans.subset(by_trie)
            for result in self._score_by_trie(loaded, part, on_window):
                yield replace(result, index=int(by_trie[result.index]))
        plain = np.flatnonzero(is_plain)
        if plain.size:
            yield from self._score_plainly(loaded, spans, plain, on_window)

    def plan(self, spans: SpanBatch) -> TriePlan:
        """Return the work of scoring: tokens requested and distinct, windows, and memory besides the weights."""
        loaded = self._open()
        trie = build_trie(spans)
        config = loaded.inner.config
        size = next(loaded.inner.parameters()).element_size()
        depth = int(trie.depths.max(initial=-1)) + 1
        memory = cache_bytes(config, depth, size) + self._window * bytes_per_token(config, size)
        memory += trie.n_nodes * 16 + trie.target_nodes.size * 16
        return describe_trie(trie, spans, self._window, memory)

    def generate(
        self, prompts: Sequence[GenerationPrompt], *, stop: StopCheck | None = None, on_step: StepObserver | None = None
    ) -> Iterator[GeneratedSequence | GenerationFailure]:
        """Yield each prompt's continuations or failures, in any order, each as soon as it is finished.

        `stop` is called after each token that is not an end token.
        Raises: PlanError for token ids outside the vocabulary or unsupported settings; ModelUnavailable after `close`.
        """
        for finished in self.generate_stepwise(prompts, stop=stop, on_step=on_step):
            yield from finished

    def generate_stepwise(
        self, prompts: Sequence[GenerationPrompt], *, stop: StopCheck | None = None, on_step: StepObserver | None = None
    ) -> Iterator[list[GeneratedSequence | GenerationFailure]]:
        """Yield after each step what it finished, so that a caller can follow a sequence through `stop`."""
        with self._using() as loaded:
            head = self._head if self.info.attention == "trie" else None
            generator = SequenceGenerator(loaded, head, window_tokens=self._window, n_slots=self._settings.n_slots)
            yield from generator.generate(prompts, stop, on_step)

    @contextmanager
    def open_batch(self) -> Iterator[OpenBatch]:
        """Yield a batch that prompts may join between decoding steps; one thread owns the engine meanwhile."""
        with self._using() as loaded:
            head = self._head if self.info.attention == "trie" else None
            yield OpenBatch(loaded, head, window_tokens=self._window, n_slots=self._settings.n_slots)

    def token_moments(self, tokens: IntArray) -> TokenMoments:
        """Return statistics of the next-token distribution at each token of a sequence.

        Raises: ModelUnavailable after `close`.
        """
        with self._using() as loaded:
            return token_moments(loaded.inner, tokens)

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""
        return defaults_of(self._open().outer)

    def close(self) -> None:
        """Release the model; later calls raise ModelUnavailable."""
        if self._faster is not None:
            self._faster.restore()
        self._loaded = None
        self._head = None
        if self.info.device.startswith("cuda"):
            torch.cuda.empty_cache()

    def _open(self) -> LoadedModel:
        """Return the model.

        Raises: ModelUnavailable after `close`.
        """
        if self._loaded is None:
            raise ModelUnavailable("the engine is closed; load it again with Engine.load")
        return self._loaded

    def _check(
        self, loaded: LoadedModel, settings: EngineSettings, source: object, checks: CheckMemory | None
    ) -> self_check.CheckResult:
        """Return the path to use, as the caller requires, or as the probes show now or have shown before."""
        if settings.attention == "trie" and self._head is not None:
            self._exchange_products(loaded)
            return self_check.CheckResult("trie", "requested, without a check", may_batch=False)
        facts = None
        if checks is not None and settings.attention == "auto":
            facts = facts_of_check(loaded, settings, self._window)
        if checks is not None and facts is not None and (passed := checks.find(facts)) is not None:
            self._exchange_products(loaded)
            return replace(passed, why=f"{passed.why} (an earlier check of this model by this engine)")
        text_tokens = probe_tokens(loaded.inner, source, trust_remote_code=settings.trust_remote_code)
        check_result = self._checked(loaded, settings, text_tokens)
        if checks is not None and facts is not None and check_result.path == "trie":
            checks.add(facts, check_result)
        return check_result

    def _checked(
        self, loaded: LoadedModel, settings: EngineSettings, text_tokens: Sequence[int]
    ) -> self_check.CheckResult:
        """Return the results of the probes.

        The reference is measured on the unchanged model; only then are its matrix products replaced by faster ones.
        """
        limits, head = loaded.limits, None if settings.attention == "plain" else self._head
        references = [
            self_check.measure(loaded.inner, probe, limits.batch) for probe in self._probes(loaded, text_tokens)
        ]
        self._exchange_products(loaded)
        window = min(self_check.PROBE_WINDOW, self._window)  # so that the first probe needs several windows
        check_result = self_check.check(loaded.inner, head, references[0], window)
        for reference in references[1:]:
            if check_result.path == "trie" and self_check.longest_input(reference.probe) <= (limits.trie or np.inf):
                check_result = self_check.check(loaded.inner, head, reference, self._window)
        may_batch = all(reference.may_batch for reference in references)
        if settings.attention == "plain":
            return self_check.CheckResult("plain", "requested", may_batch)
        reached = max(self_check.longest_input(reference.probe) for reference in references)
        unseen = [size for size in limits.windows if reached < size < (limits.max_length or np.inf)]
        more = (
            f"; not checked beyond its window of {max(unseen)} tokens" if unseen and check_result.path == "trie" else ""
        )
        return self_check.CheckResult(check_result.path, check_result.why + more, may_batch)

    def _probes(self, loaded: LoadedModel, text_tokens: Sequence[int]) -> list[SpanBatch]:
        """Return a short branching probe and, if affordable, one that is longer than the model's windows."""
        limits, parameter = loaded.limits, next(loaded.inner.parameters())
        shortest = min(limits.max_length or 1 << 30, limits.trie or 1 << 30)
        probes = [self_check.make_probe(loaded.vocab_size, shortest, text_tokens)]
        whole = loaded.inner.config
        config = whole.get_text_config() if hasattr(whole, "get_text_config") else whole
        length = self_check.long_probe_length(limits, config, loaded.n_parameters, parameter.device)
        if length is not None:
            probes.append(self_check.make_long_probe(loaded.vocab_size, length))
        return probes

    def _exchange_products(self, loaded: LoadedModel) -> None:
        """Let matrix products use the faster library, unless rounding must equal the model's own."""
        if self._settings.numerics == "float32":
            with torch.autocast("cpu", enabled=False):  # a training loop's would make the two differ
                self._faster = FasterProjections(loaded.inner)

    def _refuse_foreign_tokens(self, spans: SpanBatch) -> None:
        """Raise PlanError for a token id that the model's embedding does not have."""
        bad = np.flatnonzero((spans.tokens < 0) | (spans.tokens >= self.info.vocab_size))
        if bad.size:
            at = int(bad[0])
            span = int(np.searchsorted(spans.offsets, at, side="right")) - 1
            raise PlanError(
                f"span {span} contains token id {spans.tokens[at]}; the model has 0 to {self.info.vocab_size - 1}: "
                "is this the model's own tokenizer?"
            )

    @contextmanager
    def _using(self) -> Iterator[LoadedModel]:
        """Yield the model, ready to use; a borrowed model is restored to its former state at the end.

        Raises: ModelUnavailable after `close`.
        """
        loaded = self._open()
        if not loaded.is_borrowed:
            yield loaded
            return
        with on_loan(loaded.outer):
            use_threads(self._settings)
            loaded.outer.eval()
            without_wrappers(loaded.outer)
            if self._faster is not None:
                self._faster.install()
            yield loaded

    def _score_by_trie(
        self, loaded: LoadedModel, spans: SpanBatch, on_window: WindowObserver | None
    ) -> Iterator[Result]:
        """Yield the results of spans on the trie path; doubtful ones are recomputed one by one at the end."""
        if self._head is None:
            raise ModelUnavailable("the engine is closed; load it again with Engine.load")
        trie = build_trie(spans)
        tally = Tally(spans, self._rounding())
        costs = np.diff(spans.offsets) - 1
        started = time.perf_counter()
        n_nodes = 0
        n_tokens_done = 0
        for window in score_trie(self._head, trie, self._window):
            scored_spans = trie.target_spans[window.first_target : window.last_target]
            finished = tally.add(scored_spans, window.logprobs, window.is_best)
            n_nodes += window.n_nodes
            n_tokens_done += int(costs[finished].sum())
            yield from tally.scores_of(finished)
            if on_window is not None:
                seconds = time.perf_counter() - started
                total = int(costs.sum())
                on_window(WindowReport(n_tokens_done, total, n_nodes, trie.n_nodes, seconds, window.note))
        for index in tally.doubtful:
            # A span with non-finite logits may be affected by a neighbour's overflow, so each is recomputed alone.
            yield self._settle(loaded, spans, index)

    def _settle(self, loaded: LoadedModel, spans: SpanBatch, index: int) -> Result:
        """Return the result of one span computed alone by the reference."""
        logprobs, is_best = token_logprobs(loaded.inner, spans.sequence(index), int(spans.n_scored[index]))
        total = float(logprobs.sum())
        return SpanScore(index, total, bool(is_best.all())) if np.isfinite(total) else self._failure(index)

    def _score_plainly(
        self, loaded: LoadedModel, spans: SpanBatch, indices: IntArray, on_window: WindowObserver | None
    ) -> Iterator[Result]:
        """Yield the results of these spans on the plain path; the longest ones are not batched."""
        batch = self._window if self._may_batch else 0
        costs = np.diff(spans.offsets) - 1
        total = int(costs[indices].sum())
        is_alone = costs[indices] > (loaded.limits.batch or np.inf)
        parts = [(indices[is_alone], 0), (indices[~is_alone], batch)]
        tally = Tally(spans, self._rounding())
        started = time.perf_counter()
        done = 0
        model = loaded.outer
        numerics = self.info.numerics
        scores: PlainScores
        for scores in chain.from_iterable(
            score_plain(model, spans, part.tolist(), batch_tokens=most, numerics=numerics) for part, most in parts
        ):
            finished = tally.add(np.full(scores.logprobs.size, scores.span), scores.logprobs, scores.is_best)
            yield from tally.scores_of(finished)
            done += int(costs[scores.span])
            if on_window is not None:
                on_window(WindowReport(done, total, done, total, time.perf_counter() - started))
        for index in tally.doubtful:
            yield self._failure(index)

    def _failure(self, index: int) -> SpanFailure:
        """Return the failure of a span whose logits are not finite."""
        remedy = "check the weights" if self.info.dtype == "float32" else "run with dtype=bfloat16 or dtype=float32"
        return SpanFailure(index, NonFiniteLogits, f"logits are not finite in {self.info.dtype}; {remedy}")

    def _rounding(self) -> torch.dtype | None:
        """Return the dtype that sums are rounded to, or None."""
        return getattr(torch, self.info.dtype) if self.info.numerics == "model-dtype" else None


def use_threads(settings: EngineSettings) -> None:
    """Set the number of CPU threads if the caller or the environment gives one."""
    threads = settings.n_threads or environment.read("ASSAYMARK_THREADS")
    if threads is not None and int(threads) != torch.get_num_threads():
        torch.set_num_threads(int(threads))


def _take_apart(loaded: LoadedModel, settings: EngineSettings) -> Head | None:
    """Return the model's head, or None if body and head cannot be separated."""
    is_prompt_learning = getattr(getattr(loaded.outer, "active_peft_config", None), "is_prompt_learning", False)
    return None if is_prompt_learning else take_apart(loaded.inner, settings.numerics)
