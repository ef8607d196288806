"""llama.cpp's tokenizer with the methods of a transformers tokenizer that this package calls."""

from collections.abc import Sequence
from typing import Any

from assaymark.models.gguf.llama_cpp import LlamaFile

__all__ = ["LlamaTokenizer"]


class LlamaTokenizer:
    """The tokenizer in a GGUF file. Text of special tokens becomes those tokens, as with transformers."""

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

    def apply_chat_template(self, chat: Sequence[Any], *, tokenize: bool = False, **given: Any) -> str:
        """Return a chat as one text, rendered by transformers with the template in the file."""
        del tokenize
        from transformers.utils import chat_template_utils

        template = self.get_chat_template(given.pop("chat_template", None))
        special = {"bos_token": self.bos_token or "", "eos_token": self.eos_token or ""}
        rendered, _ = chat_template_utils.render_jinja_template(
            [list(chat)], chat_template=template, **special, **given
        )
        return str(rendered[0])
