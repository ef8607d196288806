"""llama.cpp through llama-cpp-python's binding of its C interface: load a file, compute logits of chosen positions.

The binding's own class keeps the logits of all positions of a context, gigabytes for a large vocabulary, so passes are
made with the C functions that it wraps. The keys and values of the last sequence stay, and the next one only computes
what follows their common beginning.
"""

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assaymark.errors import MissingExtra, ModelUnavailable

__all__ = ["LlamaFile", "LlamaSession"]

_KEPT: list[Any] = []
FORMATS = {"f32": 0, "f16": 1}  # ggml's numbers


@cache
def _library() -> Any:
    """Return llama-cpp-python's binding, without its notes on standard error: problems are exceptions here.

    Raises: MissingExtra if it is not installed.
    """
    try:
        import llama_cpp
    except ImportError:
        raise MissingExtra("--model gguf", "gguf") from None

    drop = llama_cpp.llama_log_callback(lambda _level, _text, _data: None)
    llama_cpp.llama_log_set(drop, None)
    _KEPT.append(drop)  # C holds no reference to it
    return llama_cpp


def _loaded(path: Path, **given: Any) -> Any:
    library = _library()
    try:
        return library.Llama(str(path), verbose=False, **given)
    except (ValueError, RuntimeError, AssertionError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"llama.cpp cannot load {path}: {first}; is the file complete, and its architecture one that "
            f"llama-cpp-python {library.__version__} knows?"
        ) from error


class LlamaFile:
    """What a GGUF file says about itself; loads the vocabulary and no weights."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._llama = _loaded(path, vocab_only=True)
        weakref.finalize(self, self._llama.close)  # at exit too, while the library can still be called
        self._model = self._llama._model  # noqa: SLF001 - the vocabulary has no public accessor
        self.metadata: dict[str, str] = dict(self._llama.metadata)

    @property
    def n_positions(self) -> int:
        """The positions that the model was trained on."""
        stated = self.metadata.get(f"{self.metadata.get('general.architecture')}.context_length")
        if stated is None:
            raise ModelUnavailable(f"{self.path} does not state its context length; set max_length=")
        return int(stated)

    @property
    def number_format(self) -> str:
        """The format of most weights, such as F16 or Q4_K_M."""
        library = _library()
        names = {
            getattr(library, name): name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
            for name in dir(library)
            if name.startswith("LLAMA_FTYPE_")
        }
        return str(names.get(int(self.metadata.get("general.file_type", -1)), "unknown"))

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with the model's own special tokens around it if `special`."""
        tokens: list[int] = self._model.tokenize(text.encode(), add_bos=special, special=True)
        return tokens

    def pieces(self, tokens: Sequence[int], *, special: bool) -> bytes:
        """Return the bytes of these tokens; special tokens are left out unless `special`."""
        library, result = _library(), b""
        for token in tokens:
            size = 64
            while True:
                buffer = ctypes.create_string_buffer(size)
                n = library.llama_token_to_piece(self._model.vocab, int(token), buffer, size, 0, special)
                if n >= 0:
                    break
                size = -n
            result += buffer.raw[:n]
        return result

    def token_id(self, name: str) -> int | None:
        """Return the id of a special token (`bos`, `eos`, `eot` ...), None if the model has none."""
        value = getattr(self._model, f"token_{name}")()
        return int(value) if value >= 0 else None

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return int(self._model.n_vocab())


class LlamaSession:
    """A loaded model with one sequence in memory."""

    def __init__(self, path: Path, n_positions: int, n_batch: int, cache_type: str, **given: Any) -> None:
        library = _library()
        kind = FORMATS[cache_type]
        self._library = library
        self._llama = _loaded(
            path, n_ctx=n_positions, n_batch=n_batch, n_ubatch=n_batch, type_k=kind, type_v=kind, **given
        )
        self._close = weakref.finalize(self, self._llama.close)
        self._context = self._llama._ctx.ctx  # noqa: SLF001 - what the C functions take
        self._memory = library.llama_get_memory(self._context)
        self._n_batch = n_batch
        self.n_vocab = int(self._llama.n_vocab())
        self.n_parameters = int(self._llama._model.n_params())  # noqa: SLF001
        self._batch = library.llama_batch_init(n_batch, 0, 1)
        self._past: list[int] = []

    def logits(self, tokens: Sequence[int], n_last: int) -> npt.NDArray[np.float32]:
        """Return the logits after each of the last `n_last` of these tokens.

        Shapes: float32 [n_last, vocabulary].
        Raises: ModelUnavailable if llama.cpp fails.
        """
        first = self._keep(tokens, len(tokens) - n_last)
        rows = np.empty((n_last, self.n_vocab), dtype=np.float32)
        wanted = len(tokens) - n_last  # the first position whose logits are needed
        for begin in range(first, len(tokens), self._n_batch):
            part = tokens[begin : begin + self._n_batch]
            self._decode(part, begin, wanted)
            for at in range(max(begin, wanted), begin + len(part)):
                pointer = self._library.llama_get_logits_ith(self._context, at - begin)
                rows[at - wanted] = np.ctypeslib.as_array(pointer, shape=(self.n_vocab,))
        self._past = list(tokens)
        return rows

    def _keep(self, tokens: Sequence[int], most: int) -> int:
        """Keep what the sequence in memory has in common with this one, at most `most` tokens; return how many."""
        common = 0
        for old, new in zip(self._past[:most], tokens, strict=False):
            if old != new:
                break
            common += 1
        if not self._library.llama_memory_seq_rm(self._memory, 0, common, -1):
            self._library.llama_memory_clear(self._memory, True)
            common = 0
        self._past = list(tokens[:common])
        return common

    def _decode(self, part: Sequence[int], begin: int, wanted: int) -> None:
        batch = self._batch
        batch.n_tokens = len(part)
        for at, token in enumerate(part):
            batch.token[at] = int(token)
            batch.pos[at] = begin + at
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = 0
            batch.logits[at] = int(begin + at >= wanted)
        code = self._library.llama_decode(self._context, batch)
        if code != 0:
            self._past = []
            self._library.llama_memory_clear(self._memory, True)
            raise ModelUnavailable(f"llama.cpp failed with code {code}; reduce n_batch= or max_length=")

    def close(self) -> None:
        """Free the model."""
        if self._close.alive:
            self._library.llama_batch_free(self._batch)
            self._close()
