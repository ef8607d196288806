"""Load a model's tokenizer from its source.

A source is small and complete, so that another process can load the same tokenizer from it. It is a folder, or one
file: a tokenizer.json, or a `tokenizer.model` of SentencePiece, which trainers put beside their checkpoints.

Describe a tokenizer with the field names of lm-eval's results files.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from assaymark import stopping
from assaymark.errors import MissingExtra, ModelUnavailable, is_panic
from assaymark.records import JsonValue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenizer_facts(tokenizer: "PreTrainedTokenizerBase", template_name: str | None = None) -> dict[str, JsonValue]:
    """Return a tokenizer's special tokens and chat template.

    Padding is never used here; if the tokenizer has no padding token, this is the one that lm-eval would use.
    Source: lm-evaluation-harness 0.4.13, `add_tokenizer_info` and `configure_pad_token`.
    """
    facts: dict[str, JsonValue] = {"tokenizer_pad_token": _padding(tokenizer)}
    for name in ("eos", "bos"):
        token, number = (getattr(tokenizer, f"{name}_token{end}", None) for end in ("", "_id"))
        facts[f"tokenizer_{name}_token"] = [token, str(number)]
    facts["eot_token_id"] = getattr(tokenizer, "eos_token_id", None)
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get(template_name or "default")
    return facts if template is None else {**facts, "chat_template": str(template)}


def control_texts(tokenizer: object) -> tuple[str, ...]:
    """Return the texts that a tokenizer reads as control tokens, such as the end of a turn; the longest first."""
    own = set(getattr(tokenizer, "all_special_tokens", ()))
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    own |= {str(token) for token in added if token.special}
    return tuple(sorted(filter(None, own), key=lambda text: (-len(text), text)))


def _padding(tokenizer: "PreTrainedTokenizerBase") -> list[JsonValue]:
    for name in ("pad", "unk", "eos"):
        token = getattr(tokenizer, f"{name}_token", None)
        if token:
            return [token, str(getattr(tokenizer, f"{name}_token_id", None))]
    return ["<|pad|>", str(len(tokenizer))]


MOST_GROWTH = 64  # times that normalising may lengthen a text, in characters; NFKD does by up to 18, others by 3
MOST_ADDED = 1000  # special tokens around a text

# Texts that a tokenizer built from a SentencePiece model must encode as SentencePiece itself does.
PROBES = ("Question: what is it? Answer:", "  two  spaces,\n\ta tab - naïve café 東京 😀", "x = 3.14; print(x**2)")


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A tokenizer's folder or file, and the options that decide how it encodes text."""

    folder: Path
    use_fast: bool = True
    add_bos_token: bool | None = None
    trust_remote_code: bool = False
    gguf_file: str | None = None


def load_tokenizer(source: TokenizerSource) -> "PreTrainedTokenizerBase":
    """Return the transformers tokenizer.

    Raises: ModelUnavailable if it cannot be loaded; MissingExtra without transformers.
    """
    try:
        from transformers import AutoTokenizer, PreTrainedTokenizerFast
    except ImportError:
        raise MissingExtra("a local model", "hf") from None
    options: dict[str, object] = {"use_fast": source.use_fast}
    if source.add_bos_token is not None:
        options["add_bos_token"] = source.add_bos_token
    if source.gguf_file is not None:
        options = {"gguf_file": source.gguf_file}
    folder = source.folder
    alone = _model_alone(folder)
    if alone is not None:
        return _of_sentencepiece(alone, source)
    try:
        with stopping.ending_at_once():  # a large tokenizer.json, or a hostile one, is parsed for long
            if folder.is_file():
                tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder))
            else:
                tokenizer = AutoTokenizer.from_pretrained(
                    str(folder), trust_remote_code=source.trust_remote_code, local_files_only=True, **options
                )
    except BaseException as error:  # many kinds of errors, a panic of native code too, mean that it is unusable
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if folder.is_dir() and not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
            first = "there is neither tokenizer.json nor tokenizer.model"
        raise ModelUnavailable(
            f"the tokenizer in {folder} cannot be loaded: {first}; set another one with tokenizer=FOLDER"
        ) from error
    _check_growth(tokenizer, folder)
    return tokenizer


def _check_growth(tokenizer: object, place: Path) -> None:
    """Check that a tokenizer from a file cannot make a prompt so long that encoding it takes for ever.

    Its native code cannot be interrupted. Python tokenizers are code, which is trusted or not at all.

    Raises: ModelUnavailable with the part that grows texts.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "num_special_tokens_to_add"):
        return
    for name in ("normalizer", "decoder"):
        part = getattr(backend, name, None)
        if part is None:
            continue
        try:
            growth = _growth(json.loads(part.__getstate__()))
        except (AttributeError, TypeError, ValueError):  # a part made of Python code has no description
            continue
        if growth > MOST_GROWTH:
            raise ModelUnavailable(
                f"the tokenizer in {place} cannot be used: its {name} may make a text {growth:,.0f} times as long; "
                f"expected at most {MOST_GROWTH} times. Set another one with tokenizer=FOLDER"
            )
    n_added = backend.num_special_tokens_to_add(False)
    if n_added > MOST_ADDED:
        raise ModelUnavailable(
            f"the tokenizer in {place} cannot be used: it adds {n_added:,} special tokens to each text; expected at "
            f"most {MOST_ADDED:,}. Set another one with tokenizer=FOLDER"
        )


class _TextPart(TypedDict, total=False):
    """The description of a normalizer or a decoder, as tokenizer.json has it."""

    type: str
    normalizers: "list[_TextPart]"  # of a Sequence
    decoders: "list[_TextPart]"
    pattern: dict[str, str]  # of Replace: String or Regex
    content: str
    prepend: str
    precompiled_charsmap: str | None


def _growth(part: _TextPart) -> float:
    """Return by how much a normalizer or decoder may multiply the length of a text, by its own description."""
    kind = part.get("type")
    if kind == "Sequence":
        product = 1.0
        for each in part.get("normalizers") or part.get("decoders") or ():
            product *= _growth(each)
        return product
    if kind == "Replace":
        pattern = part["pattern"]
        # an expression may match nothing, between any two characters
        return max(1.0, len(part["content"]) / max(1, len(pattern["String"]))
                   if "String" in pattern else 1.0 + len(part["content"]))  # fmt: skip
    if kind == "Prepend":
        return 1.0 + len(part["prepend"])
    if kind == "Precompiled":  # SentencePiece's: the size of a trie, the trie, and what texts become, each ended by NUL
        packed = base64.b64decode(part.get("precompiled_charsmap") or "")
        texts = packed[4 + int.from_bytes(packed[:4], "little") :]
        return max(1.0, float(max(map(len, texts.split(b"\0")))))
    return 1.0


def _model_alone(place: Path) -> Path | None:
    """Return a SentencePiece model that comes without transformers' description of the tokenizer, else None."""
    if place.is_file():
        return None if place.suffix == ".json" else place
    path = place / "tokenizer.model"
    described = any((place / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return path if path.is_file() and not described else None


def _of_sentencepiece(path: Path, source: TokenizerSource) -> "PreTrainedTokenizerBase":
    """Return Llama's tokenizer around a SentencePiece model; with BOS before each text unless add_bos_token says not.

    Raises: ModelUnavailable if the file is of another kind, or is not encoded as SentencePiece encodes it.
    """
    try:
        from sentencepiece import SentencePieceProcessor
        from transformers.convert_slow_tokenizer import import_protobuf

        import_protobuf()
    except ImportError:
        raise MissingExtra(f"{path} is a SentencePiece model; reading it", "hf") from None
    from tokenizers import normalizers
    from transformers import LlamaTokenizer

    try:
        pieces = SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise ModelUnavailable(
            f"{path} is not a SentencePiece model{_what_else(path)}; set tokenizer=FOLDER of a Hugging Face copy"
        ) from error
    special = {
        f"{name}_token": pieces.id_to_piece(number)
        for name, number in (("unk", pieces.unk_id()), ("bos", pieces.bos_id()), ("eos", pieces.eos_id()))
        if number >= 0
    }
    adds_bos = source.add_bos_token is not False and pieces.bos_id() >= 0
    try:
        tokenizer = LlamaTokenizer.from_pretrained(str(path), add_bos_token=adds_bos, **special)
    except Exception as error:  # transformers raises many kinds of errors; each means that the tokenizer is unusable
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnavailable(f"{path} cannot be read by transformers: {first}") from error
    # transformers adds no space in front of a text that begins with one; SentencePiece always does.
    backend = tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = None
    for text in PROBES:
        if tokenizer.encode(text, add_special_tokens=False) != pieces.encode(text):
            raise ModelUnavailable(
                f"{path} is not a BPE model of the kind that Llama has: transformers would encode {text[:30]!r} "
                "otherwise than SentencePiece; set tokenizer=FOLDER with a tokenizer.json"
            )
    return tokenizer


def _what_else(path: Path) -> str:
    """Return a remark on a file that is a list of tiktoken's ranks, as Llama 3 has it, else nothing."""
    with path.open("rb") as file:
        first = file.readline(200).split()
    return " but a list of tiktoken's (Llama 3)" if len(first) == 2 and first[1].isdigit() else ""
