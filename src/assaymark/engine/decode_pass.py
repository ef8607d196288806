"""One decoding pass: the newest token of each slot goes through the model, packed along the sequence axis."""

from collections.abc import Sequence

import numpy as np
import torch

from assaymark.engine.head import Head
from assaymark.engine.slots import DecodeStep, SlotTable

__all__ = ["next_logits"]


@torch.inference_mode()
def next_logits(head: Head, table: SlotTable, tokens: Sequence[int]) -> torch.Tensor:
    """Return the logits after each slot's newest token, and add that token's rows to its slot.

    Shapes: tokens [n slots in use]; result [n slots in use, vocab].
    """
    device = head.projection.weight.device
    step = DecodeStep(table, device)
    with head.attending_through(step):
        output = head.run_body(
            input_ids=torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)[None],
            position_ids=torch.as_tensor(table.depths, device=device)[None],
            attention_mask=torch.ones(1, table.n, dtype=torch.long, device=device),
            use_cache=False,
        )
        logits = head.logits(output, output.last_hidden_state[0])
    step.commit()
    return logits
