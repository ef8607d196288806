"""Small tokenizers of each common kind, trained here on a few sentences, and the shared models'."""

from pathlib import Path
from typing import Any

import pytest

TEXT = [
    "Question: Which of these is a planet?\nA. Mars\nB. The Moon\nAnswer: A",
    "The following are multiple choice questions (with answers) about anatomy.\n\nOnce upon a time, there was a dog.",
    "She said: \"it's 42, isn't it?\" -- and they've gone; 3.14159 is pi. naïve café, größer, 東京, привет мир 😀",
    "def f(x):\n    return x + 1\n\n\nprint(f(41))",
] * 4


def byte_level(pattern: str | None = None, *, bos: bool = False, nfc: bool = False) -> Any:
    """Return a byte-level BPE: GPT-2's pattern, or another in front; with or without a BOS."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    bpe = Tokenizer(models.BPE())
    if nfc:
        bpe.normalizer = normalizers.NFC()
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    bpe.pre_tokenizer = pre_tokenizers.Sequence([*split, last])
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=420, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
        ),
    )
    if bos:
        bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return _wrapped(bpe)


def sentencepiece_like(*, metaspace: bool = False, closing: bool = False) -> Any:
    """Return a BPE over the whole text with byte fallback, like Llama-2's; `closing` adds an EOS after every text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    source = Tokenizer(models.BPE(unk_token="<unk>"))
    source.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    fallback = [f"<0x{i:02X}>" for i in range(256)]
    source.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>", "</s>", *fallback], show_progress=False),
    )
    import json

    described = json.loads(source.to_str())["model"]
    merges = [tuple(each) if isinstance(each, list) else tuple(each.split(" ")) for each in described["merges"]]
    vocab = described["vocab"]
    vocab.setdefault("▁", len(vocab))
    spm = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if metaspace:
        spm.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        spm.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    spm.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    single = "<s> $A </s>" if closing else "<s> $A"
    spm.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", vocab["<s>"]), ("</s>", vocab["</s>"])]
    )
    return _wrapped(spm, unk_token="<unk>")


def wordpiece() -> Any:
    """Return a lower-casing WordPiece, like BERT's, for which no safe split is proved."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]", "<s>", "</s>"], show_progress=False)
    )
    return _wrapped(pieces, unk_token="[UNK]")


def _wrapped(backend: Any, **names: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", **names)


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MADE = {
    "gpt2": byte_level,
    "gpt2-bos": lambda: byte_level(bos=True),
    "llama3": lambda: byte_level(LLAMA3, bos=True),
    "qwen2": lambda: byte_level(QWEN2, nfc=True),
    "llama2": sentencepiece_like,
    "llama2-metaspace": lambda: sentencepiece_like(metaspace=True),
    "llama2-eos": lambda: sentencepiece_like(closing=True),
    "wordpiece": wordpiece,
}
REAL = ("stories260K", "bitllama-1.2m", "bitllama-3.3m", "babyllama-tok361", "craftgpt-5m", "rwkv4-660k")


def load(name: str) -> Any:
    """Return a trained tokenizer, or one of the shared models'; skips if that is absent."""
    transformers = pytest.importorskip("transformers")
    if name in MADE:
        return MADE[name]()
    folder = Path(__file__).resolve().parents[4] / "shared" / "models" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}: real models are not part of the repository")
    return transformers.AutoTokenizer.from_pretrained(str(folder))
