"""A model in a GGUF file, run by llama.cpp: everything of a local model except files, tokenizer and engine.

Texts are tokenised by llama.cpp, or by a transformers tokenizer that `tokenizer=` names; how a context and a
continuation are split, cut and keyed is the same for every local model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.engine.generation import GenerationDefaults
from assaymark.engine.options import EngineInfo
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.identity import ModelFolders
from assaymark.models.gguf.arguments import GgufArguments
from assaymark.models.gguf.llama_cpp import GgufEngine, LlamaFile, LlamaSession
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.tokenizer import TokenizerSource, load_tokenizer
from assaymark.models.token_engine import TokenEngine
from assaymark.records import ModelIdentity, content_hash
from assaymark.settings import thread_count

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class LlamaTokenizer:
    """The tokenizer in a GGUF file, with the methods of a transformers tokenizer that this package calls.

    Text of special tokens becomes those tokens, as with transformers.
    """

    def __init__(self, file: LlamaFile, add_bos_token: bool | None = None) -> None:
        self._file = file
        self._adds_bos = add_bos_token
        self._drops_space = file.metadata.get("tokenizer.ggml.model") == "llama"  # SentencePiece's first space
        self.name_or_path = str(file.path)
        self.bos_token_id, self.eos_token_id = file.token_id("bos"), file.token_id("eos")
        self.bos_token, self.eos_token = (
            None if number is None else self.decode([number]) for number in (self.bos_token_id, self.eos_token_id)
        )
        self.chat_template: str | None = file.metadata.get("tokenizer.chat_template")

    def __len__(self) -> int:
        return self._file.n_tokens

    @cached_property
    def all_special_tokens(self) -> list[str]:
        """The texts of all control tokens."""
        return [self._file.pieces([each], special=True).decode("utf-8", "replace") for each in self._file.control_ids]

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text, with BOS (and EOS) as the file says unless `add_special_tokens` is False."""
        if not text:
            own = self.bos_token_id if add_special_tokens and self._adds() else None
            return [] if own is None else [own]
        if self._adds_bos is not None and add_special_tokens:
            plain = self._file.tokenize(text, special=False)
            return [self.bos_token_id, *plain] if self._adds_bos and self.bos_token_id is not None else plain
        return self._file.tokenize(text, special=add_special_tokens)

    def _adds(self) -> bool:
        if self._adds_bos is not None:
            return self._adds_bos
        stated = self._file.metadata.get("tokenizer.ggml.add_bos_token")
        return stated == "true" if stated is not None else self._drops_space

    def decode(self, tokens: int | Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of tokens; without the space that SentencePiece puts in front of every text."""
        ids = [tokens] if isinstance(tokens, int) else [int(token) for token in tokens]
        text = self._file.pieces(ids, special=not skip_special_tokens).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._drops_space else text

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token, for display."""
        return [self._file.pieces([int(each)], special=True).decode("utf-8", errors="replace") for each in ids]

    def get_chat_template(self, chat_template: str | None = None) -> str:
        """Return the template in the file."""
        return chat_template or self.chat_template or ""

    def apply_chat_template(
        self,
        chat: Sequence[Mapping[str, object]],
        *,
        chat_template: str | None = None,
        tokenize: bool = False,
        **options: object,
    ) -> str:
        """Return a chat as one text, rendered by transformers with the template in the file."""
        del tokenize
        from transformers.utils import chat_template_utils

        template = self.get_chat_template(chat_template)
        special = {"bos_token": self.bos_token or "", "eos_token": self.eos_token or ""}
        rendered, _ = chat_template_utils.render_jinja_template(
            [list(chat)], chat_template=template, **special, **options
        )
        return str(rendered[0])


KIND = "gguf"


class GgufModel(LocalModel):
    """A causal language model in a GGUF file."""

    def __init__(self, arguments: GgufArguments) -> None:
        super().__init__(arguments.local)
        self._gguf_settings = arguments

    @cached_property
    def _file(self) -> LlamaFile:
        return LlamaFile(self._gguf_settings.file)

    @cached_property
    def _tokenizer_place(self) -> Path | None:
        """The folder or file of the transformers tokenizer; None: llama.cpp's own is used."""
        local = self._gguf_settings.local
        if local.tokenizer is None:
            return None
        hub = files.HubOptions(local.token, local.cache_dir, local.local_files_only)
        return files.tokenizer_place(local.tokenizer, local.revision, hub)

    @cached_property
    def _folders(self) -> ModelFolders:
        return ModelFolders(
            self._gguf_settings.file.parent, self._tokenizer_place or self._gguf_settings.file.parent, None
        )

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model this is, by content; reads the file's hash and vocabulary, no weights.

        Raises: ModelUnavailable; MissingExtra without llama-cpp-python.
        """
        digests, place = files.FileDigests(), self._tokenizer_place
        parts = {"model": digests.of(self._gguf_settings.file)}
        named = [] if place is None else files.matching(place, (*files.TOKENIZER, *files.TEMPLATE))
        tokenizer = {path.name: digests.of(path) for path in named}
        digests.save()
        template = self.tokenizer.chat_template
        own = self.arguments.max_length
        return ModelIdentity(
            name=str(self._gguf_settings.file),
            kind=KIND,
            content_hash=files.combined_digest({**parts, **{f"tokenizer/{n}": d for n, d in tokenizer.items()}}),
            tokenizer_hash=files.combined_digest(tokenizer or parts),
            template_hash=content_hash(template) if template else None,
            dtype=self._file.number_format,
            numerics=KIND,
            max_length=own or self._file.n_positions,
            n_parameters=None,
            options=self._gguf_settings.options,
        )

    @property
    def is_in_process(self) -> bool:
        """Always False: whole distributions and open batches are those of our own engine."""
        return False

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerBase | LlamaTokenizer":
        """The tokenizer that `tokenizer=` names, else llama.cpp's.

        Raises: ModelUnavailable if it cannot be loaded; MissingExtra without its library.
        """
        if self._tokenizer_place is None:
            return LlamaTokenizer(self._file, self.arguments.add_bos_token)
        return load_tokenizer(TokenizerSource(self._tokenizer_place, add_bos_token=self.arguments.add_bos_token))

    def _mapped_files(self, engine: TokenEngine) -> Sequence[Path]:
        """Return the file: llama.cpp maps it."""
        del engine
        return [self._gguf_settings.file]

    def _started(self) -> GgufEngine:
        import llama_cpp

        gguf_settings, threads = self._gguf_settings, self.arguments.n_threads or thread_count()
        layers = gguf_settings.n_gpu_layers
        if layers is None:
            layers = -1 if self.arguments.device != "cpu" and llama_cpp.llama_supports_gpu_offload() else 0
        session = LlamaSession(
            gguf_settings.file,
            self.max_length,
            gguf_settings.n_batch,
            gguf_settings.cache_type,
            n_gpu_layers=layers,
            n_threads=threads,
            n_threads_batch=threads,
        )
        info = EngineInfo(
            device="llama.cpp, all layers on the GPU" if layers == -1 else f"llama.cpp, {layers} layers on a GPU",
            dtype=self.identity.dtype,
            numerics=KIND,
            n_parameters=session.n_parameters,
            max_length=self.max_length,
            vocab_size=session.n_vocab,
            attention=f"llama.cpp, keys and values in {gguf_settings.cache_type}",
            why="requested",
            window_tokens=gguf_settings.n_batch,
            n_threads=threads,
            versions={"llama-cpp-python": llama_cpp.__version__},
        )
        ends = {self._file.token_id(name) for name in ("eos", "eot")} - {None}
        defaults = GenerationDefaults(eos_ids=frozenset(int(each) for each in ends if each is not None))
        self._last_info = asdict(info)
        return GgufEngine(session, info, defaults, self.tokenizer)
