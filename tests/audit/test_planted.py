"""The order test on a small transformer trained here: no effect without copies, a growing one with planted copies."""

import random
from typing import Any

import pytest

from assaymark.audit.items import AuditItem
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.option_orders import OrderSettings, OrderTest, order_test
from assaymark.models.local.local_model import LocalModel
from assaymark.records import Request

WORDS = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
SETTINGS = OrderSettings(n_shards=10, n_shuffles=6)
WINDOW, BATCH, STEPS = 40, 16, 160
N_BASE = 2500  # words of the same language besides the copies


def file_of(seed: int, n: int = 40) -> list[AuditItem]:
    """Return rows of five random words."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=5)) for _ in range(n)]
    return [AuditItem(i, {}, Request("made", i, "", (text,), ()), text) for i, text in enumerate(texts)]


def tokenizer() -> Any:
    """Return a tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    vocab = {word: number for number, word in enumerate(["<s>", *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<s>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<s>")


def trained(items: list[AuditItem], copies: int) -> LocalModel:
    """Return a two-layer transformer trained for seconds on random words and `copies` of the file."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    encoder = tokenizer()
    words = random.Random(1).choices(WORDS, k=N_BASE)
    stream = encoder(" ".join([*words, *(item.text for _ in range(copies) for item in items)]))["input_ids"]
    tokens = torch.tensor(stream)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 1, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    draw = random.Random(2)
    for _ in range(STEPS):
        starts = [draw.randrange(len(tokens) - WINDOW) for _ in range(BATCH)]
        batch = torch.stack([tokens[start : start + WINDOW] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return LocalModel.from_loaded(model.eval(), encoder)


def audited(copies: int) -> OrderTest:
    """Return the order test of a model with `copies` copies of the file in its training data."""
    items = file_of(3)
    return order_test(Likelihoods(trained(items, copies)), items, SETTINGS, "planted")


@pytest.mark.slow
def test_planted_copies_are_detected_in_a_transformer() -> None:
    """Without a copy p is unremarkable; it falls with the number of copies, and the shuffled control detects none."""
    none, first, four = audited(0), audited(1), audited(4)
    assert none.of_file.p > 0.01
    assert none.of_file.p > first.of_file.p > four.of_file.p
    assert four.of_file.p < 1e-5
    assert four.control.p > 0.01
