"""Writes the README of a demo model: what it is, what it has read, how to make it again."""

from pathlib import Path

__all__ = ["write_model_card"]

_CARD = """---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
tags: [demo, assaymark]
---

# Assaymark demo model: {name}

A causal language model of {n_parameters:,} parameters (Llama architecture, float16), trained from nothing by
`demo/train.py` on text that the project itself generates: facts about the invented valley of Lomara, short stories,
sums, exams, conversations. It exists so that `make demo` has something real to measure. It knows nothing else: do not
use it for anything but tests and demonstrations.

| | |
|---|---|
| training tokens | {n_tokens:,}, one pass |
| held-out loss | {loss:.2f} nats per token (all tokens of 400 new documents) |
| positions | 1,024 (no training document is longer than about 500 tokens) |
| tokenizer | byte-level BPE of the project's own; a beginning-of-text token is put first |
| chat template | yes: `<|system|>`, `<|user|>`, `<|assistant|>`, `<|end|>` |
| licence | Apache-2.0, weights and text |

The facts that the demo tasks ask about are stated in the training text but never asked there; no test row is in it.
Made again with `python demo/train.py --out DIR`, to the same held-out loss in two digits.
"""


def write_model_card(folder: Path, *, n_parameters: int, n_tokens: int, loss: float) -> None:
    """Write `README.md` into a model's folder."""
    text = _CARD.format(name=folder.name, n_parameters=n_parameters, n_tokens=n_tokens, loss=loss)
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")
