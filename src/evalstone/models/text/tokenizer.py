"""Load a model's tokenizer from its source.

A source is small and complete, so that another process can load the same tokenizer from it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalstone.errors import MissingExtra, ModelUnavailable

__all__ = ["TokenizerSource", "load_tokenizer"]


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A tokenizer's folder and the options that decide how it encodes text."""

    folder: Path
    use_fast: bool = True
    add_bos_token: bool | None = None
    trust_remote_code: bool = False
    gguf_file: str | None = None


def load_tokenizer(source: TokenizerSource) -> Any:
    """Return the transformers tokenizer.

    Raises: ModelUnavailable if it cannot be loaded; MissingExtra without transformers.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise MissingExtra("a local model", "hf") from None
    options: dict[str, Any] = {"use_fast": source.use_fast}
    if source.add_bos_token is not None:
        options["add_bos_token"] = source.add_bos_token
    if source.gguf_file is not None:
        options = {"gguf_file": source.gguf_file}
    folder = source.folder
    try:
        return AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=source.trust_remote_code, local_files_only=True, **options
        )
    except Exception as error:  # transformers raises many kinds of errors; each means that the tokenizer is unusable
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
            first = "there is neither tokenizer.json nor tokenizer.model"
        raise ModelUnavailable(
            f"the tokenizer in {folder} cannot be loaded: {first}; set another one with tokenizer=FOLDER"
        ) from error
