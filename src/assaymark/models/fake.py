"""A model that costs nothing: deterministic pseudo-random answers for tests, dry runs and demonstrations.

Every number is drawn from a generator named by the content of the query, so the same query gets the same answer in any
order and any process. The modes produce cases that are rare with real models: ties, failures, slow answers, and a model
that knows the answer with a chosen probability.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Literal

from assaymark.errors import Permanent, UsageError
from assaymark.models.checkpoint.arguments import arguments_record, known_arguments
from assaymark.models.model import OutputCache
from assaymark.python_source import python_value
from assaymark.randomness import generator_for
from assaymark.records import (
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    ModelIdentity,
    Output,
    Progress,
    Query,
    QueryKind,
    Request,
    RollingQuery,
    WorkEstimate,
    content_hash,
    n_outputs_of,
    rotations_of,
)
from assaymark.stopping import raise_if_requested, under_way

Mode = Literal["random", "constant", "uniform", "gold"]
WORDS = ("the", "answer", "is", "a", "b", "c", "d", "yes", "no", "one", "two", "because", "so", "it", "follows")
LOOKED_UP = 64  # requests whose cached outputs are read together
NATS_PER_CHARACTER = 1.0  # mode "uniform": all characters are equally likely, so longer texts are less likely


@dataclass(frozen=True, slots=True)
class FakeArguments:
    """How the fake model answers.

    mode: "random" draws a number per query; "constant" scores every query equally (all choices tie); "uniform" scores
        by length; "gold" prefers the choice that the request's target names. accuracy: with "gold", how often it does.
    fail: share of queries that fail. delay_ms: time that each request takes.
    """

    seed: int = 0
    mode: Mode = "random"
    accuracy: float = 1.0
    fail: float = 0.0
    delay_ms: float = 0.0


def fake_arguments(model_args: Mapping[str, object]) -> FakeArguments:
    """Return the fake model's arguments; those that only other models have are ignored.

    Raises: UnknownName, UsageError.
    """
    known = [each.name for each in fields(FakeArguments)]
    values = known_arguments(model_args, known, "argument of the fake model")
    for name in ("accuracy", "fail", "delay_ms", "seed"):
        if name in values and (isinstance(values[name], bool) or not isinstance(values[name], int | float)):
            raise UsageError(f"{name}={values[name]!r}; expected a number")
    if "accuracy" in values:
        values.setdefault("mode", "gold")  # only a model that knows the answers can have an accuracy
    if values.get("mode", "random") not in ("random", "constant", "uniform", "gold"):
        raise UsageError(f"mode={values['mode']!r}; expected random, constant, uniform or gold")
    arguments = arguments_record(FakeArguments, values)
    if not (0 <= arguments.accuracy <= 1 and 0 <= arguments.fail <= 1):
        raise UsageError("accuracy and fail must be numbers from 0 to 1")
    return arguments


class FakeModel:
    """Answers any request at once and deterministically."""

    answers = frozenset(QueryKind)
    takes_images = True  # it does not look at them
    takes_messages = False  # chats are rendered as text here

    def __init__(self, arguments: FakeArguments | None = None, **options: JsonValue) -> None:
        self.arguments = arguments or arguments_record(FakeArguments, options)
        self.n_requested = 0  # queries computed, for tests of caching and resuming

    @cached_property
    def identity(self) -> ModelIdentity:
        """The identity, which consists of the arguments."""
        content = asdict(self.arguments)
        content.pop("delay_ms")
        name = f"fake-{self.arguments.mode}-{self.arguments.seed}"
        template = content_hash("role: text")
        defaults = asdict(FakeArguments())
        changed = tuple((key, value) for key, value in content.items() if value != defaults[key])
        return ModelIdentity(name, "fake", content_hash(content), None, template, "float64", "float32", options=changed)

    def check(self) -> None:
        """Check nothing: this model always answers."""

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return the chat as `role: text` lines, after a line with the tools."""
        lines = [] if tools is None else [f"tools: {tools}"]
        text = "\n".join([*lines, *(f"{message.role}: {message.shown}" for message in messages)])
        return text if continue_final else f"{text}\nassistant:"

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield one output per query and repeat, request by request."""
        started = time.perf_counter()
        total = sum(request.n_outputs for request in requests)
        n_done = n_cached = n_tokens = 0
        n_all = sum(len(_text_of(request, query)) for request in requests for query in request.queries)
        known: Mapping[str, Output] = {}
        for at, request in enumerate(requests):
            if at % LOOKED_UP == 0:
                known = self._cached(requests[at : at + LOOKED_UP], cache)
            with under_way():
                if self.arguments.delay_ms:
                    time.sleep(self.arguments.delay_ms / 1000)
                for query in request.queries:
                    for output in self._outputs(request, query, known):
                        n_done, n_cached = n_done + 1, n_cached + output.from_cache
                        yield output
                    n_tokens += len(_text_of(request, query))
            raise_if_requested()
            if observe is not None:
                seconds = time.perf_counter() - started
                observe(Progress(n_done, total, n_all, n_all, n_tokens, n_cached, seconds))

    def _cached(self, requests: Sequence[Request], cache: OutputCache | None) -> Mapping[str, Output]:
        """Return the cached outputs of these requests, by key."""
        if cache is None:
            return {}
        asked = ((request, query) for request in requests for query in request.queries)
        return cache.find([self._key(*each, repeat) for each in asked for repeat in range(n_outputs_of(each[1]))])

    def _outputs(self, request: Request, query: Query, known: Mapping[str, Output]) -> Iterator[Output]:
        for repeat in range(n_outputs_of(query)):
            key = self._key(request, query, repeat)
            output = known.get(key)
            if output is not None:
                values = asdict(output)
                values.update(request_id=request.id, ask_index=query.index, repeat=repeat, from_cache=True)
                yield Output(**values)
            else:
                self.n_requested += 1
                yield self._compute(request, query, repeat, key)

    def _compute(self, request: Request, query: Query, repeat: int, key: str) -> Output:
        draw = generator_for("fake", self.arguments.seed, key)
        if draw.random() < self.arguments.fail:
            message = f"{request.id} query {query.index}: the fake model was set to fail (fail={self.arguments.fail})"
            return Output(request.id, query.index, repeat, error=message, error_kind=Permanent.__name__)
        context = len("".join(request.segments))
        if isinstance(query, GenerateQuery):
            text = _right_answer(request.target) if self._knows(request) else " ".join(draw.choice(WORDS, 6))
            return Output(
                request.id,
                query.index,
                repeat,
                text=text,
                finish_reason="stop",
                n_context_tokens=context,
                n_tokens=len(text),
                cache_key=key,
            )
        text = query.text if isinstance(query, RollingQuery) else query.continuation
        nats = self._nats(request, query, text, float(draw.random()))
        return Output(
            request_id=request.id,
            ask_index=query.index,
            repeat=repeat,
            total_nats=nats,
            is_greedy=nats > -1.0 if isinstance(query, LoglikelihoodQuery) else None,
            n_context_tokens=context,
            n_tokens=len(text),
            cache_key=key,
        )

    def _nats(self, request: Request, query: Query, text: str, number: float) -> float:
        mode = self.arguments.mode
        if mode == "constant":
            return -1.0
        if mode == "uniform" or isinstance(query, RollingQuery):
            return -NATS_PER_CHARACTER * len(text)
        if mode == "gold" and self._knows(request) and _is_gold(request, query, text):
            return -0.01 * number
        return -1.0 - 9.0 * number

    def _knows(self, request: Request) -> bool:
        if self.arguments.mode != "gold":
            return False
        draw = generator_for("fake knows", self.arguments.seed, request.task, request.sample_sha256)
        return bool(draw.random() < self.arguments.accuracy)

    def _key(self, request: Request, query: Query, repeat: int) -> str:
        content: dict[str, JsonValue] = {"text": _text_of(request, query), "kind": query.kind, "repeat": repeat}
        if self.arguments.mode == "gold":
            content["target"] = [request.target, request.sample_sha256, query.index]
        if isinstance(query, GenerateQuery):
            content["settings"] = asdict(query.settings)
        return "fake:" + content_hash([self.identity.content_hash, content])

    def stream(self, request: Request) -> Iterator[str]:
        """Yield the words of the answer to the first generate query.

        Raises: UsageError if the request has none.
        """
        for query in request.queries:
            if isinstance(query, GenerateQuery):
                output = self._compute(request, query, 0, self._key(request, query, 0))
                yield from (f"{word} " for word in (output.text or "").split())
                return
        raise UsageError(f"{request.id} has no generate query")

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the work; a character counts as a token."""
        n_queries = sum(request.n_outputs for request in requests)
        n_tokens = sum(len(_text_of(request, query)) for request in requests for query in request.queries)
        return WorkEstimate(
            len(requests), n_queries, n_tokens, n_tokens, 0, len(requests) * self.arguments.delay_ms / 1e3
        )

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the characters, which are the fake model's tokens."""
        return [*context, *continuation], len(context)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the arguments."""
        return {"device": "none", **asdict(self.arguments)}

    def close(self) -> None:
        """Free nothing: the fake model holds no resources."""


def _text_of(request: Request, query: Query) -> str:
    """Return the whole text that the answer depends on."""
    if isinstance(query, RollingQuery):
        return query.text
    if isinstance(query, GenerateQuery):
        return "".join(request.segments)
    return "".join(query.segments if query.segments is not None else request.segments) + query.continuation


def _is_gold(request: Request, query: Query, text: str) -> bool:
    """Return whether a query is that of a right choice, or its text the target."""
    if not isinstance(query, LoglikelihoodQuery) or query.role not in ("choice", "rotated"):
        return request.target.strip() == text.strip()
    right, shown = _right_choices(request), query.index
    for shift, rotation in enumerate(rotations_of(request), start=1):
        for position, each in enumerate(rotation):
            if each.index == query.index:
                shown = (position - shift) % len(rotation)
    return shown in right


def _right_choices(request: Request) -> set[int]:
    """Return the positions of the choices that the target names by their number, or else by their text."""
    target = request.target.strip()
    own = [each for each in request.queries if isinstance(each, LoglikelihoodQuery) and each.role == "choice"]
    numbers = target.strip("[]").split(", ")
    by_number = {each.index for each in own if str(each.index) in numbers}
    return by_number or {each.index for each in own if each.continuation.strip() == target}


def _right_answer(target: str) -> str:
    """Return a target, of a list of references the first."""
    if not target.startswith("["):
        return target
    try:
        references = python_value(target)
    except (SyntaxError, ValueError):
        return target
    return str(references[0]) if references and isinstance(references[0], str) else target
