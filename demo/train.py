"""Trains the two demo models from nothing, on the valley's text, and writes them as the package carries them.

    python demo/train.py --out src/assaymark/library/demo_models

Both read the same documents in the same order; the smaller reads fewer of them with fewer parameters. Everything is
seeded. Another processor or thread count changes the last digits only: the held-out loss stays the same to two.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from demo.model_card import write_model_card
from demo.tokenizer import BOS, END, EOS, MAX_POSITIONS, train_tokenizer
from demo.write_text import SEED, Document, write_documents

__all__ = ["HELD_OUT_SEED", "SHAPES", "Batch", "Encoded", "Shape", "batches", "encode", "held_out_loss", "train"]

_DOCUMENTS_PER_BATCH = 8
_STEPS_PER_REPORT = 100
_ROTARY_BASE = 500.0  # texts are short: the usual 10,000 leaves most rotations too slow to tell neighbours apart
_TWO_BOS_SHARE = 0.05
HELD_OUT_SEED = SEED + 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of one model and of its training."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    n_steps: int
    documents_per_step: int
    peak_rate: float


SHAPES = {
    "small": Shape(96, 2, 3, 256, n_steps=1000, documents_per_step=32, peak_rate=6e-3),
    "large": Shape(192, 4, 6, 512, n_steps=1800, documents_per_step=32, peak_rate=4e-3),
}


@dataclass(frozen=True, slots=True)
class Encoded:
    """One document, from BOS to EOS."""

    token_ids: list[int]
    """Its tokens."""
    weights: list[float]
    """How much each token counts in the training loss."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents side by side, filled up on the right."""

    token_ids: torch.Tensor
    """int64 [batch, seq]."""
    weights: torch.Tensor
    """float32 [batch, seq]; 0 where a row is filled up."""


def encode(documents: Iterable[Document], tokenizer: Any) -> list[Encoded]:
    """Tokenise documents.

    One in twenty opens with two BOS, because rolling log-likelihoods as lm-eval computes them ask for that.
    """
    bos, eos = tokenizer.convert_tokens_to_ids([BOS, EOS])
    rng = random.Random(f"lomara: BOS {SEED}")
    encoded = []
    for document in documents:
        text = "".join(piece.text for piece in document)
        tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        opening = [bos] * (2 if rng.random() < _TWO_BOS_SHARE else 1)
        weights = [1.0] * len(opening) + _token_weights(document, tokens["offset_mapping"]) + [1.0]
        encoded.append(Encoded([*opening, *tokens["input_ids"], eos], weights))
    return encoded


def batches(encoded: list[Encoded]) -> Iterator[Batch]:
    """Yield documents of like length together; apart from that their order does not matter."""
    ordered = sorted(encoded, key=lambda each: len(each.token_ids))
    for start in range(0, len(ordered), _DOCUMENTS_PER_BATCH):
        rows = ordered[start : start + _DOCUMENTS_PER_BATCH]
        longest = len(rows[-1].token_ids)
        ids = [row.token_ids + [0] * (longest - len(row.token_ids)) for row in rows]
        weights = [row.weights + [0.0] * (longest - len(row.weights)) for row in rows]
        yield Batch(torch.tensor(ids), torch.tensor(weights))


def _token_weights(document: Document, offsets: list[tuple[int, int]]) -> list[float]:
    """Return the weight of each token: that of the piece in which it ends."""
    by_character = [piece.weight for piece in document for _ in piece.text]
    return [by_character[end - 1] for _, end in offsets]


def _token_losses(model: Any, token_ids: torch.Tensor) -> torch.Tensor:
    """Return the loss of each token but the first. Shapes: [batch, seq] -> [batch, seq - 1]. Units: nats."""
    logits = model(input_ids=token_ids, use_cache=False).logits[:, :-1]
    following = token_ids[:, 1:]
    # flat: with the vocabulary in the middle cross_entropy takes half as long as the rest of the step together
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")
    return losses.view_as(following)


@torch.no_grad()
def held_out_loss(model: Any, encoded: list[Encoded]) -> float:
    """Return the mean loss over all tokens of documents that no model has read. Units: nats per token."""
    total_nats, n_tokens = 0.0, 0
    for batch in batches(encoded):
        is_there = batch.weights[:, 1:] > 0
        total_nats += _token_losses(model, batch.token_ids)[is_there].sum().item()
        n_tokens += int(is_there.sum())
    return total_nats / n_tokens


def _rate(step: int, shape: Shape) -> float:
    """Return the learning rate: a short warm-up, then half a cosine down to a fiftieth."""
    warm_up = 60
    if step < warm_up:
        return shape.peak_rate * (step + 1) / warm_up
    done = (step - warm_up) / (shape.n_steps - warm_up)
    return shape.peak_rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def _new_model(shape: Shape, tokenizer: Any) -> Any:
    torch.manual_seed(SEED)
    bos, eos = tokenizer.convert_tokens_to_ids([BOS, EOS])
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            max_position_embeddings=MAX_POSITIONS,
            initializer_range=0.05,
            rope_parameters={"rope_type": "default", "rope_theta": _ROTARY_BASE},
            tie_word_embeddings=True,
            bos_token_id=bos,
            eos_token_id=eos,
            pad_token_id=eos,
        )
    )


def train(shape: Shape, tokenizer: Any, encoded: list[Encoded]) -> Any:
    """Return a model trained on the first documents of `encoded`, one pass."""
    model = _new_model(shape, tokenizer)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    gains = [p for p in model.parameters() if p.ndim != 2]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    started, recent = time.monotonic(), 0.0
    for step in range(shape.n_steps):
        for group in optimiser.param_groups:
            group["lr"] = _rate(step, shape)
        read = encoded[step * shape.documents_per_step : (step + 1) * shape.documents_per_step]
        recent += _learn_from(model, read)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if (step + 1) % _STEPS_PER_REPORT == 0:
            minutes = (time.monotonic() - started) / 60
            loss, recent = recent / _STEPS_PER_REPORT, 0.0
            print(f"  step {step + 1}/{shape.n_steps}  weighted loss {loss:.3f}  {minutes:.1f} min", flush=True)
    return model


def _learn_from(model: Any, encoded: list[Encoded]) -> float:
    """Add the gradient of the documents' weighted mean loss, and return that loss."""
    total_weight = sum(sum(each.weights[1:]) for each in encoded)
    value = 0.0
    for batch in batches(encoded):
        loss = (_token_losses(model, batch.token_ids) * batch.weights[:, 1:]).sum() / total_weight
        torch.autograd.backward(loss)
        value += loss.item()
    return value


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write weights (float16), configuration and tokenizer."""
    eos, end = tokenizer.convert_tokens_to_ids([EOS, END])
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id, eos_token_id=[eos, end], pad_token_id=eos
    )
    model.to(torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Train the tokenizer and both models, and write them with their cards."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that gets `small` and `large`")
    parser.add_argument("--only", choices=sorted(SHAPES), help="train one of the two")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    texts = ("".join(piece.text for piece in d) for d in write_documents(4000))
    tokenizer = train_tokenizer(texts)
    n_documents = max(s.n_steps * s.documents_per_step for s in SHAPES.values())
    encoded = encode(write_documents(n_documents), tokenizer)
    held_out = encode(write_documents(400, seed=HELD_OUT_SEED), tokenizer)
    for name in [arguments.only] if arguments.only else list(SHAPES):
        shape = SHAPES[name]
        print(f"{name}: {shape}", flush=True)
        started = time.monotonic()
        model = train(shape, tokenizer, encoded)
        minutes = (time.monotonic() - started) / 60
        _save(model, tokenizer, arguments.out / name)
        loss = held_out_loss(model.float(), held_out)
        n_tokens = sum(len(each.token_ids) for each in encoded[: shape.n_steps * shape.documents_per_step])
        write_model_card(arguments.out / name, n_parameters=model.num_parameters(), n_tokens=n_tokens, loss=loss)
        print(f"{name}: held-out loss {loss:.4f} nats per token, {minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
