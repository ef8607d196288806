"""A model run by vLLM: everything of a local model except the engine.

Files, identity, tokens, chat templates, the cache and the extraction of answers are those of `local`, so a run with
vLLM sends exactly the queries of a run with our own engine. Its numbers are vLLM's own, so outputs are never shared
with runs of another engine.

vLLM has the interface of our own engine here: spans scored, prompts continued, token ids in and out. It handles no
text: tokens come from the same encoder as for every local model, so a choice has the same tokens on every engine.
Log-probabilities are vLLM's own; `shared_prefixes` decides what is sent for them. vLLM must generate one token per
prompt, so the longest sequence is one shorter than its positions. Results come in batches, so that a kill loses one.

Written against vLLM's documented interface (LLM.generate, SamplingParams, RequestOutput of 0.8 and later).
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.engine.generation import (
    FinishReason,
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
)
from assaymark.engine.options import EngineInfo
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport
from assaymark.errors import MalformedAnswer, MissingExtra, ModelUnavailable, NonFiniteLogits, UsageError
from assaymark.models.checkpoint.files import read_json
from assaymark.models.checkpoint.identity import ModelFolders, identify
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.spans import QueryReader, fingerprint_of
from assaymark.models.text.stops import StopTexts, sendable_stops
from assaymark.models.token_engine import FollowText, ScoreQueue, SequentialQueue, TextResult
from assaymark.models.vllm.arguments import VllmArguments
from assaymark.models.vllm.processes import Aside, interruptible, own_processes
from assaymark.models.vllm.shared_prefixes import (
    NAMES_IDS,
    READS_CACHE,
    Sent,
    Sharing,
    computed_tokens,
    rows_of,
    sequences,
    whole,
)
from assaymark.records import ModelIdentity
from assaymark.records.json_values import int_of
from assaymark.stopping import raise_if_requested

if TYPE_CHECKING:
    from vllm import LLM, CompletionOutput, RequestOutput, SamplingParams
    from vllm.logprobs import Logprob
    from vllm.lora.request import LoRARequest

BATCH = 512  # texts passed to vLLM at once
FIRST_BATCH, SMALLEST_BATCH, LARGEST_BATCH = 128, 64, 8192  # sequences to score passed at once
BATCH_SECONDS = 10.0  # of scoring; results since the last batch are lost if the process is killed
CPU_BLOCK = 32  # the fewest tokens of a cache's block that vLLM's attention on CPUs takes; its default is 128 there
RESERVED_POSITIONS = 2  # positions that a scored sequence leaves free, besides its own last token: vLLM generates one
# Settings that only some libraries have, with vLLM's names.
OTHER_SETTINGS: Mapping[str, str] = {
    "min_new_tokens": "min_tokens",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


class VllmEngine:
    """One model, loaded by vLLM."""

    n_workers = 1

    def __init__(self, arguments: VllmArguments, identity: ModelIdentity, folders: ModelFolders) -> None:
        """Load the model.

        Raises: MissingExtra without vLLM; ModelUnavailable if it cannot load the model.
        """
        try:
            import vllm
        except ImportError:
            raise MissingExtra("--model vllm", "vllm") from None
        self._library = vllm
        self._folder = folders.model
        engine_arguments = _engine_arguments(arguments, identity, folders)
        self._aside = Aside()
        try:
            with own_processes(), interruptible(), self._aside.starting():
                self._llm: LLM | None = vllm.LLM(**engine_arguments)
        except Exception as error:  # vLLM raises many kinds; each means that the model is unusable
            raise ModelUnavailable(
                f"vLLM cannot load {identity.name}: {self._aside.cause_of(error)}; a smaller max_model_len or a larger "
                "gpu_memory_utilization often helps"
            ) from error
        self._lora = _adapter(folders.adapter)
        self._sharing = Sharing.of(vllm, self._llm, arguments.engine)
        version = str(getattr(vllm, "__version__", "unknown"))
        self.info = EngineInfo(
            device=f"vllm, tensor_parallel_size={engine_arguments.get('tensor_parallel_size', 1)}",
            dtype=identity.dtype,
            numerics=identity.numerics,
            n_parameters=identity.n_parameters or 0,
            max_length=identity.max_length,
            vocab_size=int_of(read_json(folders.model / "config.json").get("vocab_size") or 0, "vocab_size"),
            attention="vllm",
            why=self._sharing.described(),
            window_tokens=0,
            n_threads=0,
            versions={"vllm": version},
            note=_note(version, self._sharing),
        )

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""
        from transformers import GenerationConfig

        from assaymark.engine.generator import defaults_of_config

        if not (self._folder / "generation_config.json").is_file():
            return GenerationDefaults()
        return defaults_of_config(GenerationConfig.from_pretrained(str(self._folder)))

    def score(
        self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None
    ) -> Iterator[SpanScore | SpanFailure]:
        """Yield the score or the failure of each span, batch by batch.

        Raises: ModelUnavailable if vLLM fails as a whole.
        """
        sent = sequences(spans, self._sharing)
        expected = computed_tokens(sent, self._sharing.block)
        n_asked = int(spans.tokens.size) - len(spans)
        n_left, n_done, n_computed = sum(expected), 0, 0
        started, first, n_batch = time.perf_counter(), 0, FIRST_BATCH
        while first < len(sent):
            some = sent[first : first + n_batch]
            since = time.perf_counter()
            outputs = self._run([each.tokens.tolist() for each in some], [self._scoring(each) for each in some])
            for each, output in zip(some, outputs, strict=True):
                n_computed += each.tokens.size - (output.num_cached_tokens or 0)
                for index, rows in zip(each.spans, rows_of(each, spans, output), strict=True):
                    if rows is None:
                        sent.append(whole(spans, index))
                        expected.append(spans.sequence(index).size)
                        n_left += expected[-1]
                        continue
                    tokens = spans.sequence(index)
                    n_done += tokens.size - 1
                    yield _score(index, tokens[tokens.size - int(spans.n_scored[index]) :].tolist(), rows)
            n_left -= sum(expected[first : first + len(some)])
            first += len(some)
            n_batch = _next_batch(n_batch, time.perf_counter() - since)
            if on_window is not None:
                seconds = time.perf_counter() - started
                on_window(WindowReport(n_done, n_asked, n_computed, n_computed + n_left, seconds))

    def _scoring(self, sent: Sent) -> "SamplingParams":
        """Return vLLM's settings for scoring; it must generate one token."""
        values: dict[str, object] = {"temperature": 0.0, "max_tokens": 1, "detokenize": False}
        if sent.kind == "next":
            values[NAMES_IDS] = sorted(set(sent.ids))
        elif sent.kind != "prefix":
            values["prompt_logprobs"] = 1
            if sent.kind == "branch":
                values[READS_CACHE] = False
        return self._library.SamplingParams(**values)

    def generate(
        self,
        prompts: Sequence[GenerationPrompt],
        stops: StopTexts,
        on_step: Callable[[GenerationReport], None] | None = None,
    ) -> Iterator[GeneratedSequence | GenerationFailure]:
        """Yield each prompt's continuations, batch by batch.

        Raises: ModelUnavailable if vLLM fails as a whole; UsageError for settings it does not support.
        """
        units = [(index, repeat) for index, prompt in enumerate(prompts) for repeat in prompt.repeats]
        n_prompt = sum(int(prompts[index].tokens.size) for index, _ in units)
        started, read, n_generated = time.perf_counter(), 0, 0
        for first in range(0, len(units), BATCH):
            some = units[first : first + BATCH]
            sequences = [prompts[index].tokens.tolist() for index, _ in some]
            settings = [self._settings(prompts[index], repeat, stops, index) for index, repeat in some]
            for (index, repeat), output in zip(some, self._run(sequences, settings), strict=True):
                completion = output.outputs[0]
                yield GeneratedSequence(index, repeat, tuple(completion.token_ids), _reason(completion))
                read, n_generated = read + int(prompts[index].tokens.size), n_generated + len(completion.token_ids)
            if on_step is not None:
                n_done = first + len(some)
                seconds = time.perf_counter() - started
                on_step(
                    GenerationReport(
                        read, n_prompt, n_generated, max(0, n_generated - n_done), n_done, len(units), seconds
                    )
                )

    def queue(self) -> ScoreQueue:
        """Return a queue that scores one batch after another."""
        return SequentialQueue(self.score)

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult]:
        """Yield only the result: vLLM's offline interface returns a text in one piece."""
        del follow
        yield from self.generate([prompt], stops)

    def _run(self, sequences: Sequence[list[int]], settings: object) -> "list[RequestOutput]":
        """Return vLLM's outputs in the order of the sequences.

        Raises: ModelUnavailable.
        """
        if self._llm is None:
            raise ModelUnavailable("the engine is closed; load it again")
        prompts = [{"prompt_token_ids": tokens} for tokens in sequences]  # vLLM's TokensPrompt
        adapted = {} if self._lora is None else {"lora_request": self._lora}
        try:
            outputs = self._llm.generate(prompts, settings, use_tqdm=False, **adapted)
            return list(outputs)[-len(prompts) :]  # after those of a call that was interrupted
        except Exception as error:  # any error means that the whole batch failed
            raise_if_requested()  # Ctrl-C reaches the processes of vLLM, too
            raise ModelUnavailable(f"vLLM failed: {type(error).__name__}: {self._aside.cause_of(error)}") from error

    def _settings(self, prompt: GenerationPrompt, repeat: int, stops: StopTexts, index: int) -> "SamplingParams":
        """Return vLLM's settings for continuing a prompt.

        vLLM is given no stop text that counts only after another text: then only end tokens stop it, and the text is
        truncated afterwards.
        """
        unknown = sorted(set(prompt.other) - set(OTHER_SETTINGS))
        if unknown:
            raise UsageError(
                f"generation setting {unknown[0]}={prompt.other[unknown[0]]} is not supported with --model vllm; omit "
                "it, or set generation_config=none if the model's own file sets it"
            )
        values: dict[str, object] = {
            "max_tokens": prompt.max_new_tokens,
            "temperature": 0.0,
            "repetition_penalty": prompt.repetition_penalty,
            "stop_token_ids": sorted(prompt.eos_ids),
            "stop": sendable_stops(stops.of_prompts[index], stops.think_end),
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            **{OTHER_SETTINGS[name]: value for name, value in prompt.other.items()},
        }
        drawn = prompt.sampling
        if drawn is not None:
            filters = {"top_k": drawn.top_k, "top_p": drawn.top_p, "min_p": drawn.min_p}
            values |= {name: value for name, value in filters.items() if value is not None}
            values |= {"temperature": drawn.temperature, "seed": seed_of(prompt, repeat)}
        return self._library.SamplingParams(**values)

    def close(self) -> None:
        """Release the model and its memory."""
        self._llm = None


def _next_batch(n: int, seconds: float) -> int:
    """Return how many sequences to pass next, after a batch of `n` took so long."""
    if seconds > 2 * BATCH_SECONDS:
        return max(SMALLEST_BATCH, n // 2)
    return min(LARGEST_BATCH, n * 2) if seconds < BATCH_SECONDS / 2 else n


def _note(version: str, sharing: Sharing) -> str | None:
    """Return a note for a user of an older vLLM; None if there is nothing to note."""
    if sharing.missing is None:
        return None
    return (
        f"vLLM {version} has no {sharing.missing}: what prompts share is computed again for each choice; a newer vLLM "
        "computes it once"
    )


def seed_of(prompt: GenerationPrompt, repeat: int) -> int:
    """Return the seed of one text, a function of the run's seed, the sample and the repeat."""
    name = f"{prompt.seed}\x1f{prompt.key}\x1f{repeat}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little") >> 1


def _engine_arguments(arguments: VllmArguments, identity: ModelIdentity, folders: ModelFolders) -> dict[str, object]:
    from vllm.platforms import current_platform

    small_blocks = {"block_size": CPU_BLOCK} if current_platform.is_cpu() else {}
    engine_arguments: dict[str, object] = {
        "model": str(folders.model),
        "tokenizer": str(folders.tokenizer),
        "dtype": identity.dtype,
        "max_model_len": identity.max_length,
        "trust_remote_code": arguments.local.trust_remote_code,
        "use_tqdm_on_load": False,
        **small_blocks,
        **arguments.engine,
    }
    return {**engine_arguments, "enable_lora": True} if folders.adapter is not None else engine_arguments


def _adapter(folder: Path | None) -> "LoRARequest | None":
    """Return vLLM's request for an adapter, or None if there is none."""
    if folder is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, str(folder))


def _score(
    index: int, scored: Sequence[int], logprobs: "Sequence[Mapping[int, Logprob] | None]"
) -> SpanScore | SpanFailure:
    """Return the sum over the scored tokens; each position lists its token and the best one."""
    total, is_greedy = 0.0, True
    for token, alternatives in zip(scored, logprobs, strict=True):
        if alternatives is None or token not in alternatives:
            return SpanFailure(index, MalformedAnswer, f"vLLM returned no log-probability of token {token}")
        own = float(alternatives[token].logprob)
        total += own
        is_greedy = is_greedy and own >= max(float(each.logprob) for each in alternatives.values())
    if not math.isfinite(total):
        reason = "log-probabilities are not finite; run with dtype=bfloat16 or float32"
        return SpanFailure(index, NonFiniteLogits, reason)
    return SpanScore(index, total, is_greedy)


def _reason(output: "CompletionOutput") -> FinishReason:
    """Return why a text ended: vLLM reports "stop" for end tokens too, and names the text only for stop texts."""
    if output.finish_reason == "length":
        return "length"
    return "stop" if isinstance(output.stop_reason, str) else "eos"


KIND = "vllm"


class VllmModel(LocalModel):
    """A causal language model run by vLLM."""

    loading_step = "starting vLLM"

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
