"""A model on this machine, run by the engine: weights from a folder or the Hub, or an object already loaded.

Work is ordered so that a stored run loads no weights and a new run yields outputs early: the identity reads files only;
then come the tokens, then the cache, and only if something remains to be computed are the weights loaded. While one
piece of the requests is scored, the next is tokenised in a thread (both the tokenizer and torch release the GIL).

Transformers' progress bar for loading weights is disabled, since it would break ours.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.engine.options import EngineSettings
from assaymark.errors import MissingExtra, ModelUnavailable, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import LocalArguments, whole_number
from assaymark.models.checkpoint.identity import (
    ModelFolders,
    find_folders,
    identify,
    mapped_files,
    refuse_replaced_files,
)
from assaymark.models.local.estimate import estimate_work
from assaymark.models.local.generation import (
    Generation,
    GenerationRules,
    as_window,
    failure_of,
    for_one_text,
    pieces_of,
    sort_out,
    stream_pieces,
)
from assaymark.models.local.span_scoring import SpanScoring
from assaymark.models.model import OutputCache
from assaymark.models.progress import ProgressObserver, ProgressTally
from assaymark.models.read_ahead import read_ahead
from assaymark.models.text.generation_prompts import DEFAULT_MAX_TOKENS, TextReader
from assaymark.models.text.reasoning import refuse_opened_reasoning
from assaymark.models.text.render import ChatRenderer
from assaymark.models.text.spans import CHUNK, QueryReader, chunks_of, fingerprint_of
from assaymark.models.text.tokenizer import TokenizerSource, load_tokenizer, tokenizer_facts
from assaymark.models.text.tokens import Encoder, Seq2SeqEncoder
from assaymark.models.token_engine import TokenEngine
from assaymark.models.workers.links import WorkerLinks
from assaymark.models.workers.pool import EnginePool
from assaymark.models.workers.ranges import TokenCosts
from assaymark.records import (
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    WorkEstimate,
    canonical_json,
)
from assaymark.settings import process_of
from assaymark.stopping import under_way

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


@contextmanager
def without_bars() -> Iterator[None]:
    """Disable the bar, which is a setting of the whole process, and restore it afterwards."""
    from transformers.utils import logging

    is_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            logging.enable_progress_bar()


MOST_CHUNKS = 4  # per piece for several workers, which need longer ranges; bounds memory


@dataclass(frozen=True, slots=True)
class LoadedObjects:
    """A model and tokenizer that the caller has loaded."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    identity: ModelIdentity


class LocalModel:
    """A causal language model run by the engine."""

    answers = frozenset(QueryKind)
    takes_messages = False  # chats are rendered as text here
    loading_step = "loading the model"

    def __init__(
        self,
        arguments: LocalArguments,
        *,
        loaded: LoadedObjects | None = None,
        n_workers: int = 1,
        cluster: str | None = None,
    ) -> None:
        self.arguments = arguments
        self.n_workers = 1 if loaded else max(n_workers, process_of()[1])
        self._cluster = cluster  # the address of a Ray cluster whose machines run the workers
        self._loaded = loaded
        self._engine: TokenEngine | None = None
        self._last_info: Mapping[str, JsonValue] = {}
        self._mapped: Mapping[Path, tuple[int, int, int] | None] = {}  # files that are still read, with their states

    @classmethod
    def from_loaded(
        cls, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", **options: JsonValue
    ) -> "LocalModel":
        """Return a model around a transformers model and its tokenizer, which the caller still owns.

        Options are those of a local model that apply to an object already loaded (max_length, add_bos_token,
        numerics, too_long, ...). The identity is a digest of the parameters, so further training makes it another
        model.

        Raises: UsageError for an option that is unknown or only has an effect while loading.
        """
        from assaymark.models.local.loaded import identify_loaded, loaded_arguments

        n_workers = whole_number("workers", options.pop("workers", None) or 1)
        if n_workers > 1 or options.pop("cluster", None):
            raise UsageError("a model that is already loaded cannot be shared by workers; name its folder instead")
        arguments = loaded_arguments(model, options)
        return cls(arguments, loaded=LoadedObjects(model, tokenizer, identify_loaded(model, tokenizer, arguments)))

    @property
    def loaded_model(self) -> "PreTrainedModel | None":
        """The transformers model that the caller has loaded; None for a model given by name."""
        return self._loaded.model if self._loaded else None

    def lent(self) -> AbstractContextManager[None]:
        """Hold the caller's model for several calls of `answer`; its state is restored on exit, also on an error."""
        if self._loaded is None:
            return nullcontext()
        from assaymark.engine.loans import on_loan

        return on_loan(self._loaded.model, is_whole=True)

    def identify_again(self) -> None:
        """Compute the digest of the caller's model again, since it may have been trained further."""
        if self._loaded is not None:
            from assaymark.models.local.loaded import identify_loaded

            model, tokenizer = self._loaded.model, self._loaded.tokenizer
            self._loaded = LoadedObjects(model, tokenizer, identify_loaded(model, tokenizer, self.arguments))
            self.__dict__.pop("identity", None)

    # ----------------------------------------------------------------------------------- what the model is

    @cached_property
    def _folders(self) -> ModelFolders:
        return find_folders(self.arguments)

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model this is, by content; only reads files.

        Raises: ModelUnavailable.
        """
        return self._loaded.identity if self._loaded else identify(self.arguments, self._folders)

    @property
    def is_in_process(self) -> bool:
        """Whether our own engine runs in this process, so that whole next-token distributions are available."""
        return self.n_workers == 1 and self._cluster is None and not self._is_seq2seq

    @property
    def answers_take_positions(self) -> bool:
        """Whether prompt and answer share the model's positions; an encoder-decoder model has separate ones."""
        return not self._is_seq2seq

    @property
    def _is_seq2seq(self) -> bool:
        """Whether the model has an encoder and a decoder: as `backend` says, else its configuration."""
        if self._loaded is not None or self.arguments.backend == "causal":
            return False
        return self.arguments.backend == "seq2seq" or bool(self._folders.config.get("is_encoder_decoder"))

    @property
    def max_length(self) -> int:
        """The maximum number of positions of a prompt, by lm-eval's rule."""
        return self.identity.max_length or 0

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The transformers tokenizer.

        Raises: ModelUnavailable if it cannot be loaded; MissingExtra without transformers.
        """
        if self._loaded:
            return self._loaded.tokenizer
        return load_tokenizer(self._tokenizer_source)

    @property
    def _tokenizer_source(self) -> TokenizerSource:
        arguments = self.arguments
        return TokenizerSource(
            self._folders.tokenizer, arguments.use_fast_tokenizer, arguments.add_bos_token, arguments.trust_remote_code,
            arguments.gguf_file
        )  # fmt: skip

    @cached_property
    def encoder(self) -> Encoder:
        """The tokenizer under lm-eval's rules."""
        arguments = self.arguments
        kind = Seq2SeqEncoder if self._is_seq2seq else Encoder
        return kind(self.tokenizer, add_bos_token=arguments.add_bos_token, prefix_token_id=arguments.prefix_token_id)

    @cached_property
    def _renderer(self) -> ChatRenderer:
        return ChatRenderer(self.tokenizer, self.arguments.template_variables, self.arguments.chat_template)

    def check(self) -> None:
        """Check nothing: problems with the weights are reported when they are loaded."""

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return `messages` as one text under the chat template; see `Model.render`.

        Raises: UsageError if there is no chat template.
        """
        return self._renderer.render(messages, continue_final=continue_final, tools=tools)

    # --------------------------------------------------------------------------------------------- answering

    def answer(
        self, requests: Sequence[Request], *, cache: OutputCache | None = None, observe: ProgressObserver | None = None
    ) -> Iterator[Output]:
        """Yield one output per query and repeat, each as soon as it is known; see `Model.answer`."""
        refuse_opened_reasoning(requests)
        if self.arguments.enable_thinking and any(
            isinstance(a, LoglikelihoodQuery) for r in requests for a in r.queries
        ):
            raise UsageError(
                "enable_thinking=True is only for tasks with generated answers, since the reasoning precedes the "
                "answer; omit it for log-likelihood tasks"
            )
        tally = ProgressTally(sum(request.n_outputs for request in requests), observe)
        scoring = SpanScoring(lambda: self._engine_for(tally), cache, tally)
        scored = [r for r in requests if any(not isinstance(query, GenerateQuery) for query in r.queries)]
        chunks = list(chunks_of(scored, size=CHUNK * min(self.n_workers, MOST_CHUNKS)))
        pieces = (scoring.take(queries) for queries in read_ahead(self._reader().read, chunks, "tokenise"))
        for output in chain(chain.from_iterable(pieces), scoring.finish()):
            self._refuse_changed_weights()
            tally.done(output)
            yield output
        for piece in pieces_of(requests):
            for output in self._generate(piece, cache, tally):
                self._refuse_changed_weights()
                tally.done(output)
                yield output

    def _generate(
        self, requests: Sequence[Request], cache: OutputCache | None, tally: ProgressTally
    ) -> Iterator[Output]:
        """Yield the outputs of the generate queries of these requests, each as soon as it is finished."""
        queries = self._text_reader().read(requests)
        tally.read(sum(prepared.settings.repeats for prepared in queries))
        work = sort_out(queries, cache)
        yield from work.known
        if not work.wanted:
            return
        engine = self._engine_for(tally)
        generation = Generation(work, self._rules, engine.generation_defaults)
        self._last_info = {**self._last_info, "generation": generation.described()}
        observe = tally.on_window()
        on_step = None if observe is None else as_window(observe, generation.prompts)
        with under_way():  # texts get the whole grace period: only the engine knows which have begun
            for result in engine.generate(generation.prompts, generation.stops, on_step=on_step):
                yield from generation.outputs(result)

    @property
    def _rules(self) -> GenerationRules:
        return GenerationRules(self.tokenizer, self.arguments.think_end_token, self.arguments.generation_config)

    def _text_reader(self) -> TextReader:
        fingerprint = fingerprint_of(self.identity)
        if fingerprint is not None:
            own = [self.identity.tokenizer_hash, self.arguments.think_end_token, self.arguments.generation_config]
            fingerprint += canonical_json(own).encode()
        limit = self.arguments.max_gen_toks or DEFAULT_MAX_TOKENS
        too_long = self.arguments.too_long
        return TextReader(self.encoder, self.max_length, too_long, fingerprint, limit, is_seq2seq=self._is_seq2seq)

    def _reader(self) -> QueryReader:
        fingerprint = fingerprint_of(self.identity)
        return QueryReader(self.encoder, self.max_length, self.arguments.too_long, fingerprint, self._is_seq2seq)

    @property
    def engine(self) -> TokenEngine:
        """The engine with the weights, loaded at first use.

        Raises: ModelUnavailable; MissingExtra without torch.
        """
        if self._engine is None:
            before, engine = self.identity, self._started()
            self._mapped = {path: files.state_of(path) for path in self._mapped_files(engine)}
            del self.identity  # only cached: files that did not change are not hashed again
            now, self.identity = self.identity, before
            refuse_replaced_files(before, now)
            self._engine = engine
            self._last_info = {**asdict(self._engine.info), "n_workers": self.n_workers}
        return self._engine

    def _mapped_files(self, engine: TokenEngine) -> Sequence[Path]:
        """Return the files that the loaded weights are still read from."""
        is_mapped = self._loaded is None and engine.info.device.startswith("cpu")
        return mapped_files(self.arguments, self._folders) if is_mapped else ()

    def _refuse_changed_weights(self) -> None:
        """Refuse outputs of weights whose files, which are still read, were written to since they were loaded.

        A file that was removed or replaced is read on as it was.

        Raises: ModelUnavailable.
        """
        for path, before in self._mapped.items():
            now = files.state_of(path)
            if before and now and now[0] == before[0] and now != before:
                raise ModelUnavailable(
                    f"{path} changed while it was evaluated, and with it the weights in use; earlier answers stay: "
                    "put the file back and run the same command again, or evaluate a copy"
                )

    def _engine_for(self, tally: ProgressTally) -> TokenEngine:
        """Return the engine; while it is being loaded, that is reported."""
        if self._engine is None:
            with tally.step(self.loading_step):
                return self.engine
        return self.engine

    def _started(self) -> TokenEngine:
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise MissingExtra("a local model", "hf")
        if self._loaded is None and self._folders.trained is not None:
            self._folders.trained.check_tokenizer(self.tokenizer)
        for note in self._notes_of_adapter():
            logger.warning(note)
        if self._cluster is not None:
            from assaymark.models.workers.cluster import ClusterLinks, PlacedModel

            content = self.identity.content_hash
            model = PlacedModel.of(self.arguments, content, self._settings(), self._tokenizer_source)
            return EnginePool(ClusterLinks(self._cluster, model, self.n_workers), self._token_costs())
        if self.n_workers > 1:
            source = str(self._folders.model)
            links = WorkerLinks(source, self._settings(), self.n_workers, self._tokenizer_source)
            return EnginePool(links, self._token_costs())
        from assaymark.engine.seq2seq import load_engine
        from assaymark.engine.steps import loading
        from assaymark.models.local.own_engine import OwnEngine
        from assaymark.models.passed_checks import PassedChecks

        source = self._loaded.model if self._loaded else str(self._folders.model)
        with loading(), without_bars():  # progress bars are a setting of the whole process
            return OwnEngine(load_engine(source, self._settings(), PassedChecks()), self.tokenizer)

    def _token_costs(self) -> TokenCosts:
        return TokenCosts.of(self._folders.config, self.identity.n_parameters)

    def _settings(self) -> EngineSettings:
        arguments = self.arguments
        adapter = None if self._loaded or not self._folders.adapter else str(self._folders.adapter)
        trained = None if self._loaded else self._folders.trained
        return EngineSettings(
            dtype="auto" if self._loaded else arguments.dtype,
            device=arguments.device,
            numerics=arguments.numerics,
            trust_remote_code=arguments.trust_remote_code,
            window_tokens=arguments.window_tokens,
            attention=arguments.attention,
            peft=adapter,
            n_token_ids=len(self.tokenizer) if adapter else None,
            n_slots=arguments.n_slots,
            n_threads=arguments.n_threads,
            max_length=arguments.max_length,
            model_kwargs=arguments.model_kwargs,
            backend="seq2seq" if self._is_seq2seq else "causal",
            checkpoint=trained.checkpoint if trained else None,
            content=None if self._loaded else self.identity.content_hash,
        )

    def stream(self, request: Request) -> Iterator[str]:
        """Yield pieces of the text generated for the first generate query, without stop texts and reasoning.

        Workers and vLLM yield the text in one piece.
        Raises: UsageError if there is no such query; PromptTooLong or another ModelError if it fails.
        """
        work = sort_out(self._text_reader().read([for_one_text(request)]), None)
        if work.known:
            raise failure_of(work.known[0])
        engine = self.engine
        yield from stream_pieces(engine, Generation(work, self._rules, engine.generation_defaults))

    # ------------------------------------------------------------------------------------ inspecting the work

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the work that answering would take; tokenises, loads no weights."""
        config = {} if self._loaded else self._folders.config
        queries, texts = self._reader().read(requests), self._text_reader().read(requests)
        return estimate_work(len(requests), queries, texts, self.identity, config, self.arguments.device)

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the texts of the tokens of context + continuation, and the index of the first scored one."""
        return self.encoder.token_texts(context, continuation)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return facts recorded with an attempt, once loaded: device, threads, window, attention path, tokenizer."""
        alive = {"n_workers": self._engine.n_workers} if isinstance(self._engine, EnginePool) else {}
        notes = [*(self._renderer.notes if "_renderer" in self.__dict__ else []), *self._notes_of_adapter()]
        shares = self.encoder.rule is not None if "encoder" in self.__dict__ else None
        facts = tokenizer_facts(self.tokenizer, self.arguments.chat_template) if shares is not None else {}
        known = {**self._last_info, **alive, **facts, "tokens_shared": shares}
        return {**known, "notes": notes} if notes else known

    def _notes_of_adapter(self) -> Iterator[str]:
        """Yield notes on an adapter of weights with another name, and of one with tokens that the tokenizer lacks."""
        folder = None if self._loaded else self._folders.adapter
        if folder is None:
            return
        trained_from = str(files.read_json(folder / "adapter_config.json").get("base_model_name_or_path") or "")
        places = (self.arguments.pretrained, self._folders.model, self._folders.config.get("_name_or_path"))
        if trained_from and Path(trained_from).name not in {Path(str(place)).name for place in places}:
            yield (
                f"the adapter was trained from {trained_from[:200]!r}, and the model here is "
                f"{self.arguments.pretrained!r}: on other weights its numbers mean nothing"
            )
        if self.arguments.tokenizer is not None or not (folder / "tokenizer.json").is_file():
            return
        parts = parse_json((folder / "tokenizer.json").read_text(encoding="utf-8"))
        added = parts.get("added_tokens") if isinstance(parts, dict) else None
        known = self.tokenizer.get_vocab()
        missing = [str(each.get("content")) for each in added or [] if str(each.get("content")) not in known]
        if missing:
            yield (
                f"the adapter's own tokenizer has {len(missing)} tokens the model lacks ({', '.join(missing[:3])}); "
                f"texts are tokenised without them, as in lm-eval; add tokenizer={self.arguments.peft} to use it"
            )

    def close(self) -> None:
        """Free weights and device memory; the next answer loads them again."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
