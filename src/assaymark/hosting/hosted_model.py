"""The model of a host: its tokenizer, template and limits, and requests as prompts for its engine.

The one thread on which a model is loaded and run.

OpenMP keeps a pool of workers for every thread that ever ran a parallel region. Once all pools together have more
threads than there are processors, libgomp puts workers to sleep between regions, and products of a single token take
four times as long. So the thread that decodes also loads, and no other thread computes.
"""

import hashlib
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from assaymark.engine.adjustments import Adjustment
from assaymark.engine.generation import GenerationPrompt, RepeatStop
from assaymark.engine.spans import IntArray
from assaymark.errors import UsageError
from assaymark.hosting.answer_bodies import TokenTexts
from assaymark.hosting.bad_request import BadRequest
from assaymark.hosting.grammars import Grammar, GrammarTokens, Matchers
from assaymark.hosting.request_bodies import Ask, Settings
from assaymark.models.local.local_model import LocalModel
from assaymark.models.local.own_engine import OwnEngine
from assaymark.models.text.generation_prompts import GenerationInput, prompt_of
from assaymark.models.text.stops import StopFinder, stop_texts
from assaymark.records import GenerationSettings

T = TypeVar("T")
Task = Callable[[], None]


class EngineThread:
    """Runs functions one after the other, until it is closed; a daemon, so that it never keeps the process alive."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._last: Future[object] | None = None
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and return its result. Raises: the function's errors."""
        return self.start(function).result()

    def start(self, function: Callable[[], T]) -> "Future[T]":
        """Run a function on the thread after those before it; the future has its result."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                future.set_exception(error)

        self._last = future  # type: ignore[assignment]  # only waited for
        self._tasks.put(run)
        return future

    def close(self, seconds: float) -> None:
        """Accept no more requests, and wait for those in progress, up to a limit."""
        self._tasks.put(None)
        if self._last is not None:
            wait([self._last], seconds)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


COMPLETION_TOKENS = 16  # OpenAI's default for completions; a chat may use all positions
TOO_LONG = "context_length_exceeded"


class HostedModel:
    """A local model with the name under which it is offered. Loads the weights, on a thread of its own.

    chat_bos: begin chats with the tokenizer's BOS token also where the template does not write it, as
        `--apply_chat_template` of `run` and lm-eval do; otherwise a chat has the tokens of its template only, as in
        transformers' pipelines.
    """

    def __init__(self, model: LocalModel, name: str, max_tokens: int | None = None, *, chat_bos: bool = False) -> None:
        self.chat_bos = chat_bos
        self.thread = EngineThread()
        engine = self.thread.call(lambda: model.engine)
        if not isinstance(engine, OwnEngine):
            raise UsageError("a host runs one engine in its own process; omit workers and cluster")
        self.model = model
        self.name = name
        self.engine = engine
        self.tokenizer = model.tokenizer
        self.token_texts = TokenTexts(self.tokenizer)
        self.think_end = model.arguments.think_end_token
        self.max_length = min(filter(None, (engine.info.max_length, model.max_length)), default=1 << 30)
        self.most_tokens = min(max_tokens or self.max_length, self.max_length)

    @cached_property
    def eos_text(self) -> str | None:
        """The text of the tokenizer's end token, which ends an answer also where it is spelled out."""
        eos = self.tokenizer.eos_token_id
        return None if eos is None else str(self.tokenizer.decode([eos], skip_special_tokens=False))

    def tokens_of(self, ask: Ask) -> list[IntArray]:
        """Return the tokens of each prompt of a request.

        Raises: BadRequest for an empty prompt, token ids outside the vocabulary, or messages that cannot be rendered.
        """
        if ask.kind == "completion":
            return [self._checked(self._encoded(prompt), "prompt") for prompt in ask.prompts]
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise BadRequest("this model has no chat template; send its prompt to /v1/completions", "messages")
        try:
            tools = None if ask.tools is None else ask.tools.shown
            text = self.model.render(ask.messages, continue_final=ask.continues_last, tools=tools)
        except UsageError as error:
            raise BadRequest(str(error), "messages" if ask.tools is None else "tools") from error
        specials = self.chat_bos and self._adds_specials(text)
        return [self._checked(self.model.encoder.encode_all([text], specials=specials)[0], "messages")]

    def _encoded(self, prompt: str | tuple[int, ...]) -> IntArray:
        if not isinstance(prompt, str):
            return np.asarray(prompt, dtype=np.int32)
        tokens = self.model.encoder.encode_all([prompt], specials=self._adds_specials(prompt))[0]
        prefix = self.model.encoder.prefix_token_id
        return tokens if tokens.size or prefix is None else np.asarray([prefix], dtype=np.int32)

    def _adds_specials(self, text: str) -> bool:
        """Return whether the tokenizer adds its special tokens to a text, as in a run: a second BOS is never added."""
        bos = getattr(self.tokenizer, "bos_token", None)
        wanted = self.model.arguments.add_bos_token
        return not (bos and text.startswith(bos)) and (True if wanted is None else wanted)

    def _checked(self, tokens: IntArray, param: str) -> IntArray:
        vocab = self.engine.info.vocab_size
        if not tokens.size:
            raise BadRequest("the prompt is empty, and the tokenizer has no BOS token to begin with", param)
        if int(tokens.max()) >= vocab:
            raise BadRequest(f"token id {int(tokens.max())}; the model has 0 to {vocab - 1}", param)
        if int(tokens.size) > self.max_length:
            raise BadRequest(f"This model's maximum context length is {self.max_length} tokens, and the prompt has "
                             f"{tokens.size}; shorten it", param, TOO_LONG)  # fmt: skip
        return tokens

    def max_tokens_for(self, ask: Ask, tokens: IntArray) -> int:
        """Return how many tokens may be generated after a prompt; 0 only for an echoed one.

        Raises: BadRequest.
        """
        left = self.max_length - int(tokens.size)
        wanted = ask.settings.max_tokens
        if wanted is None:
            wanted = max(1, min(COMPLETION_TOKENS if ask.kind == "completion" else left, self.most_tokens))
        if wanted == 0 and not ask.echo:
            raise BadRequest("max_tokens is 0; expected at least 1, or 0 with echo=true", "max_tokens")
        if wanted > left:
            raise BadRequest(
                f"This model's maximum context length is {self.max_length} tokens; there are {tokens.size} in the "
                f"prompt and {wanted} to generate; shorten the prompt or reduce max_tokens", "max_tokens", TOO_LONG
            )  # fmt: skip
        if wanted > self.most_tokens:
            raise BadRequest(f"max_tokens is {wanted}; this host allows {self.most_tokens}", "max_tokens")
        return wanted

    def prompt(self, settings: Settings, tokens: IntArray, max_tokens: int) -> GenerationPrompt:
        """Return a prompt for the engine; settings that the request leaves open are the model's own defaults."""
        own = self.engine.generation_defaults
        choice = self.model.arguments.generation_config
        temperature = settings.temperature
        if temperature is None:
            temperature = float(own.sampling.get("temperature", 1.0)) if choice == "model" else 1.0
        seed = secrets.randbits(48) if settings.seed is None else settings.seed
        penalty = settings.repetition_penalty
        whole = GenerationSettings(
            max_tokens=max_tokens, do_sample=temperature > 0, temperature=temperature, top_p=settings.top_p,
            top_k=settings.top_k, min_p=settings.min_p, seed=seed,
            extra=() if penalty is None else (("repetition_penalty", penalty),),
        )  # fmt: skip
        eos = self.tokenizer.eos_token_id
        prepared = GenerationInput("", 0, whole, max_tokens, tokens=tokens)
        ids: frozenset[int] = frozenset() if eos is None else frozenset({int(eos)})
        prompt = prompt_of(prepared, range(settings.n), own, choice, ids)
        return replace(prompt, eos_ids=frozenset()) if settings.ignore_eos else prompt

    @cached_property
    def _grammar_tokens(self) -> GrammarTokens:
        eos = self.tokenizer.eos_token_id
        ids = self.engine.generation_defaults.eos_ids | ({int(eos)} if eos is not None else set())
        return GrammarTokens(self.tokenizer, self.engine.info.vocab_size, frozenset(ids))

    def form_of(self, grammar: Grammar) -> Matchers:
        """Return the constraint of an answer by a grammar. Raises: BadRequest for one that cannot be followed."""
        return self._grammar_tokens.matcher(grammar)

    def adjustment(self, settings: Settings, form: Matchers | None) -> Adjustment | None:
        """Return a request's changes of the logits, None for none. Raises: BadRequest for an unknown token."""
        vocab = self.engine.info.vocab_size
        for token, _ in settings.logit_bias:
            if token >= vocab:
                raise BadRequest(f"logit_bias names token {token}; the model has 0 to {vocab - 1}", "logit_bias")
        if not (settings.logit_bias or settings.frequency_penalty or settings.presence_penalty or form):
            return None
        mask = None if form is None else form.mask
        penalties = settings.frequency_penalty, settings.presence_penalty
        return Adjustment(dict(settings.logit_bias), *penalties, mask)

    def stops_of(self, settings: Settings) -> tuple[str, ...]:
        """Return the texts that end an answer."""
        return (
            settings.stop if settings.ignore_eos else stop_texts(GenerationSettings(stop=settings.stop), self.eos_text)
        )

    def stop_check(self, stops: Sequence[str]) -> RepeatStop:
        """Return a function that tells after each token whether one of these texts has been generated."""
        finder = StopFinder(self.tokenizer, stops, self.think_end)
        return lambda _repeat, tokens: finder.has_stopped(tokens)

    @property
    def fingerprint(self) -> str:
        """Which weights and numerics answer, as OpenAI's `system_fingerprint`."""
        identity = self.model.identity
        text = f"{identity.content_hash} {identity.tokenizer_hash} {self.engine.info.dtype} {self.engine.info.numerics}"
        return "fp_" + hashlib.sha256(text.encode()).hexdigest()[:12]
