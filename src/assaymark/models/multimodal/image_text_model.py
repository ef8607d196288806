"""A local model of images and text: transformers' `AutoModelForImageTextToText` with the model's own processor.

Prompts are computed one at a time, without the trie: that is recorded with each attempt. Outputs are cached by the
text, the hashes of the images, and what else decides them.

A rendered chat already has the model's marks where its template puts images. In a plain prompt `<image>` becomes the
processor's mark. A prompt with images is never truncated: one that is too long fails.

Source: lm-evaluation-harness 0.4.13, models/hf_vlms.py (tok_batch_multimodal_encode, _encode_multimodal_pair).
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assaymark.engine.image_text import ImageTextEngine, ImageTextPrompt
from assaymark.engine.options import EngineSettings
from assaymark.engine.spans import IntArray, SpanFailure
from assaymark.errors import MissingExtra, ModelError, ModelUnavailable, Permanent, PromptTooLong, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import LocalArguments, local_arguments, whole_number
from assaymark.models.checkpoint.identity import ModelFolders, find_folders, identify, refuse_replaced_files
from assaymark.models.local.generation import (
    Generation,
    GenerationRules,
    Work,
    failure_of,
    for_one_text,
    sort_out,
    text_of,
)
from assaymark.models.local.local_model import without_bars
from assaymark.models.model import OutputCache
from assaymark.models.progress import AnswerTally, ProgressObserver
from assaymark.models.text.generation_prompts import (
    DEFAULT_MAX_TOKENS,
    GenerationInput,
    name_by_content,
    refuse_contradiction,
)
from assaymark.models.text.render import ChatRenderer
from assaymark.models.text.spans import PreparedQuery, fingerprint_of
from assaymark.models.text.stops import stop_texts
from assaymark.models.text.tokenizer import tokenizer_facts
from assaymark.records import (
    GenerateQuery,
    ImagePart,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    WorkEstimate,
    canonical_json,
    content_hash,
)
from assaymark.stopping import under_way

if TYPE_CHECKING:
    from PIL import Image
    from transformers import ProcessorMixin

PLACEHOLDER = "<image>"
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")  # no decoder of another one is run on stored bytes
KIND = "hf-multimodal"
PROCESSOR = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
PIXELS = ("min_pixels", "max_pixels")  # of image processors that keep an image's own size


@dataclass(frozen=True, slots=True)
class ImageTextReader:
    """Makes prompts of texts and images."""

    processor: "ProcessorMixin"
    add_bos_token: bool | None = None

    def prompt(self, text: str, images: Sequence[ImagePart]) -> ImageTextPrompt:
        """Return the inputs of a prompt.

        Raises: Permanent if the processor refuses text and images together.
        """
        options: dict[str, object] = {} if self._adds_specials(text) is None else {"add_special_tokens": False}
        pictures = [_picture(image) for image in images]
        try:
            made = self.processor(
                text=[self.marked(text, images)], images=pictures or None, return_tensors="pt", **options
            )
        except (ValueError, TypeError, IndexError, KeyError, RuntimeError, AttributeError) as error:
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise Permanent(
                f"the model's processor refuses the prompt and its {len(images)} images: {first}"
            ) from error
        inputs = {name: value for name, value in made.items() if name not in ("input_ids", "attention_mask")}
        return ImageTextPrompt(made["input_ids"][0].numpy().astype(np.int32), inputs)

    def pair(self, context: str, continuation: str) -> tuple[str, IntArray]:
        """Return the text of a context and the tokens scored after it: those that the continuation adds.

        Spaces at the end of the context begin the continuation. Shapes: int32 [n].
        """
        bare = context.rstrip()
        own = [self._tokens(text, context) for text in (bare, context + continuation)]
        return bare, np.asarray(own[1][len(own[0]) :], dtype=np.int32)

    def _tokens(self, text: str, whole: str) -> list[int]:
        specials = self._adds_specials(whole) is None
        return list(self.processor.tokenizer(text, add_special_tokens=specials)["input_ids"])

    def _adds_specials(self, text: str) -> bool | None:
        """Return False for a text that begins with BOS, or where no BOS is wanted; None for the processor's default."""
        bos = self.processor.tokenizer.bos_token
        return False if self.add_bos_token is False or (bos and text.startswith(bos)) else None

    def marked(self, text: str, images: Sequence[ImagePart]) -> str:
        """Return a text with the processor's mark for each image."""
        mark = getattr(self.processor, "image_token", None)
        if not images or not isinstance(mark, str) or mark in text:
            return text
        return text.replace(PLACEHOLDER, mark)


@dataclass(frozen=True, slots=True)
class ImageTextArguments:
    """The arguments of a local model, and the processor's limits of an image's size."""

    local: LocalArguments
    pixels: Mapping[str, int] = field(default_factory=dict)


def image_text_arguments(model_args: Mapping[str, object]) -> ImageTextArguments:
    """Parse the arguments of a model of images and text.

    Raises: UsageError for an invalid value; UnknownName for a misspelling.
    """
    values = dict(model_args)
    pixels = {name: whole_number(name, values.pop(name)) for name in PIXELS if values.get(name) is not None}
    if (values.pop("workers", None) or 1) != 1 or values.pop("cluster", None):
        raise UsageError(f"{KIND} runs in one process; omit --workers and --cluster")
    return ImageTextArguments(local_arguments(values), pixels)


class ImageTextModel:
    """A model of images and text in this process."""

    answers = frozenset({QueryKind.LOGLIKELIHOOD, QueryKind.GENERATE})
    takes_messages = False
    takes_images = True

    def __init__(self, arguments: ImageTextArguments) -> None:
        self.image_arguments = arguments
        self.arguments = arguments.local
        self._engine: ImageTextEngine | None = None
        self._last_info: Mapping[str, JsonValue] = {}

    # ----------------------------------------------------------------------------------- what the model is

    @cached_property
    def _folders(self) -> ModelFolders:
        return find_folders(self.arguments)

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model this is, by content, its processor's settings too; only reads files.

        Raises: ModelUnavailable.
        """
        own = identify(self.arguments, self._folders, KIND)
        digests = files.FileDigests()
        parts = {path.name: digests.of(path) for path in files.matching(self._folders.tokenizer, PROCESSOR)}
        digests.save()
        options = tuple(sorted({**dict(own.options), **self.image_arguments.pixels}.items()))
        return replace(own, content_hash=content_hash([own.content_hash, parts]), options=options)

    @cached_property
    def processor(self) -> "ProcessorMixin":
        """The transformers processor.

        Raises: ModelUnavailable if there is none; MissingExtra without transformers or Pillow.
        """
        place, trusted = self._folders.tokenizer, self.arguments.trust_remote_code
        processor = load_processor(place, trust_remote_code=trusted, pixels=self.image_arguments.pixels)
        if getattr(processor, "chat_template", None):
            processor.tokenizer.chat_template = processor.chat_template
        return processor

    @cached_property
    def _reader(self) -> ImageTextReader:
        return ImageTextReader(self.processor, self.arguments.add_bos_token)

    @cached_property
    def _renderer(self) -> ChatRenderer:
        arguments = self.arguments
        tokenizer = self.processor.tokenizer
        return ChatRenderer(tokenizer, arguments.template_variables, arguments.chat_template, as_parts=True)

    def check(self) -> None:
        """Check, before a run is stored, that there is a processor for images.

        Raises: ModelUnavailable; MissingExtra.
        """
        _ = self.processor

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return `messages` as one text under the chat template, with the model's mark for each image.

        Raises: UsageError if there is no chat template.
        """
        return self._renderer.render(messages, continue_final=continue_final, tools=tools)

    # --------------------------------------------------------------------------------------------- answering

    def answer(
        self, requests: Sequence[Request], *, cache: OutputCache | None = None, observe: ProgressObserver | None = None
    ) -> Iterator[Output]:
        """Yield one output per query and repeat, request by request; see `Model.answer`."""
        tally = AnswerTally(sum(request.n_outputs for request in requests), observe, lambda: "one prompt at a time")
        for request in requests:
            for output in (*self._scores(request, cache), *self._texts(request, cache)):
                tally.done(output)
                yield output

    def _scores(self, request: Request, cache: OutputCache | None) -> Iterator[Output]:
        """Yield the outputs of a request's log-likelihood queries; those after one context are computed together."""
        wanted: dict[str, list[tuple[PreparedQuery, IntArray]]] = {}
        queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery)]
        keys = {query.index: self._score_key(request, query) for query in queries}
        known = cache.find([key for key in keys.values() if key]) if cache is not None and queries else {}
        for query in queries:
            prepared = PreparedQuery(request.id, query.index, QueryKind.LOGLIKELIHOOD)
            prepared.cache_key = keys[query.index]
            earlier = known.get(prepared.cache_key or "")
            if earlier is not None and earlier.total_nats is not None:
                yield replace(earlier, request_id=request.id, ask_index=query.index, from_cache=True)
                continue
            context, scored = self._reader.pair(_context_of(request, query), query.continuation)
            prepared.n_tokens = int(scored.size)
            if not scored.size:
                yield prepared.failure("no token is left to score: the continuation is empty")
                continue
            wanted.setdefault(context, []).append((prepared, scored))
        for context, some in wanted.items():
            yield from self._scored_after(request, context, some)

    def _scored_after(
        self, request: Request, context: str, some: Sequence[tuple[PreparedQuery, IntArray]]
    ) -> Iterator[Output]:
        longest = max(int(scored.size) for _, scored in some)
        try:
            prompt = self._prompt(request, context, longest)
        except ModelError as error:
            yield from (prepared.failure(str(error), type(error).__name__) for prepared, _ in some)
            return
        with under_way():
            results = self.engine.score(prompt, [scored for _, scored in some])
        for (prepared, _), result in zip(some, results, strict=True):
            prepared.n_context_tokens = int(prompt.tokens.size)
            if isinstance(result, SpanFailure):
                yield prepared.failure(result.reason, result.kind.__name__)
            else:
                yield prepared.output(result.total_nats, is_greedy=result.is_greedy)

    def _prompt(self, request: Request, text: str, n_more: int) -> ImageTextPrompt:
        """Return the inputs of a prompt that `n_more` tokens follow. Raises: Permanent; PromptTooLong."""
        prompt = self._reader.prompt(text, request.images)
        n_tokens, most = int(prompt.tokens.size), self.identity.max_length or 0
        if n_tokens + n_more > most:
            raise PromptTooLong(
                f"the prompt has {n_tokens} tokens with its {len(request.images)} images, and {n_more} follow; the "
                f"model has {most} positions, and prompts with images are not truncated: use smaller images or a "
                "longer model"
            )
        return prompt

    def _score_key(self, request: Request, query: LoglikelihoodQuery) -> str | None:
        fingerprint = self._fingerprint
        if fingerprint is None:
            return None
        content = [_context_of(request, query), [image.sha256 for image in request.images], query.continuation]
        whole = hashlib.blake2b(fingerprint, digest_size=20)
        whole.update(canonical_json(["loglikelihood", *content]).encode("utf-8", "surrogatepass"))
        return f"blake2b:{whole.hexdigest()}"

    @cached_property
    def _fingerprint(self) -> bytes | None:
        """A fingerprint of the inputs, besides prompt and settings, that decide an output."""
        own, arguments = fingerprint_of(self.identity), self.arguments
        if own is None:
            return None
        more = [KIND, self.identity.tokenizer_hash, arguments.think_end_token, arguments.generation_config]
        return own + canonical_json([*more, dict(self.image_arguments.pixels), arguments.add_bos_token]).encode()

    # -------------------------------------------------------------------------------------------- generating

    def _texts(self, request: Request, cache: OutputCache | None) -> Iterator[Output]:
        for query in request.queries:
            if not isinstance(query, GenerateQuery):
                continue
            prepared, prompt = self._prepared(request, query)
            work = sort_out([prepared], cache)
            yield from work.known
            if work.wanted and prompt is not None:
                yield from self._generated(work, prompt)

    def _prepared(self, request: Request, query: GenerateQuery) -> tuple[GenerationInput, ImageTextPrompt | None]:
        """Return a generate query and its prompt; one that cannot be sent carries its error and has no prompt."""
        refuse_contradiction(request.id, query.settings)
        limit = query.settings.max_tokens or self.arguments.max_gen_toks or DEFAULT_MAX_TOKENS
        prepared = GenerationInput(request.id, query.index, query.settings, limit)
        tokenizer = self.processor.tokenizer
        eos = tokenizer.eos_token_id
        eos_text = None if eos is None else str(tokenizer.decode([eos], skip_special_tokens=False))
        prepared.stops = stop_texts(query.settings, eos_text)
        text = "".join(request.segments)
        content = canonical_json([text, [image.sha256 for image in request.images]])
        name_by_content(prepared, content.encode("utf-8", "surrogatepass"), self._fingerprint)
        try:
            prompt = self._prompt(request, text, limit)
        except ModelError as error:
            prepared.error, prepared.error_kind = str(error), type(error).__name__
            return prepared, None
        prepared.tokens = prompt.tokens
        return prepared, prompt

    def _generated(self, work: Work, prompt: ImageTextPrompt) -> Iterator[Output]:
        """Yield the outputs of one prompt's repeats."""
        engine, arguments = self.engine, self.arguments
        rules = GenerationRules(self.processor.tokenizer, arguments.think_end_token, arguments.generation_config)
        generation = Generation(work, rules, engine.generation_defaults)
        self._last_info = {**self._last_info, "generation": generation.described()}
        check = generation.stops.check(self.processor.tokenizer)
        (settings,) = generation.prompts
        first = next(iter(work.wanted.values()))[0][0]
        with under_way():
            results = engine.generate(
                prompt,
                replace(settings, key=first.digest),  # tokens alone do not tell images apart
                lambda tokens: check(0, 0, tokens),
            )
        for result in results:
            yield from generation.outputs(result)

    def stream(self, request: Request) -> Iterator[str]:
        """Yield the text generated for the first generate query, in one piece.

        Raises: UsageError if there is no such query; a ModelError if it fails.
        """
        for output in self._texts(for_one_text(request), None):
            if output.error is not None:
                raise failure_of(output)
            yield text_of(output)

    @property
    def engine(self) -> ImageTextEngine:
        """The engine with the weights, loaded at first use.

        Raises: ModelUnavailable; MissingExtra without torch.
        """
        if self._engine is None:
            if find_spec("torch") is None:
                raise MissingExtra("a local model", "hf")
            with without_bars():
                engine = ImageTextEngine.load(str(self._folders.model), self._settings())
            before = self.identity
            del self.identity  # only cached: files that did not change are not hashed again
            now, self.identity = self.identity, before
            refuse_replaced_files(before, now)
            self._engine = engine
            self._last_info = {**asdict(self._engine.info), "n_workers": 1}
        return self._engine

    def _settings(self) -> EngineSettings:
        arguments = self.arguments
        return EngineSettings(
            dtype=arguments.dtype,
            device=arguments.device,
            numerics=arguments.numerics,
            trust_remote_code=arguments.trust_remote_code,
            peft=None if self._folders.adapter is None else str(self._folders.adapter),
            n_token_ids=None if self._folders.adapter is None else len(self.processor.tokenizer),
            n_threads=arguments.n_threads,
            max_length=arguments.max_length,
            model_kwargs=arguments.model_kwargs,
            backend="image-text",
        )

    # ------------------------------------------------------------------------------------ inspecting the work

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the number of queries; tokens are not counted, since only decoding each image would tell them."""
        return WorkEstimate(len(requests), sum(request.n_outputs for request in requests), None, None)

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return None: tokens of images have no texts."""
        del context, continuation
        return None

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the facts recorded with an attempt, once loaded: device, dtype, the plain path, tokenizer."""
        if not self._last_info:
            return {}
        facts = tokenizer_facts(self.processor.tokenizer, self.arguments.chat_template)
        return {**self._last_info, **facts, "processor": type(self.processor).__name__}

    def close(self) -> None:
        """Free weights and device memory; the next answer loads them again."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None


def _context_of(request: Request, query: LoglikelihoodQuery) -> str:
    return "".join(request.segments if query.segments is None else query.segments)


def load_processor(folder: Path, *, trust_remote_code: bool, pixels: Mapping[str, int]) -> "ProcessorMixin":
    """Return the processor of a model: tokenizer and image processor.

    Raises: ModelUnavailable where the folder has none; MissingExtra without transformers or Pillow.
    """
    try:
        import PIL  # noqa: F401 - transformers' own message is less clear
    except ImportError:
        raise MissingExtra("a local model of images and text", "images") from None
    try:
        from transformers import AutoProcessor, ProcessorMixin
    except ImportError:
        raise MissingExtra("a local model", "hf") from None
    try:
        processor = AutoProcessor.from_pretrained(
            str(folder), trust_remote_code=trust_remote_code, local_files_only=True, **pixels
        )
    except Exception as error:  # transformers raises many kinds of errors; each means that it is unusable
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(f"the processor in {folder} cannot be loaded: {first}") from error
    if not isinstance(processor, ProcessorMixin) or getattr(processor, "image_processor", None) is None:
        raise ModelUnavailable(
            f"{folder} has no image processor, so this model takes text only; run it with --model hf"
        )
    return processor


def _picture(image: ImagePart) -> "Image.Image":
    """Return the decoded image, in RGB."""
    from PIL import Image

    with Image.open(io.BytesIO(image.data), formats=FORMATS) as opened:
        return opened.convert("RGB")
