"""Membership scores against an independent computation."""

import math
import zlib

import numpy as np
import pytest

from assaymark.audit.contamination import membership_scores
from assaymark.errors import UsageError
from assaymark.models.fake import FakeModel

TEXT = "Lily had a red lamp. She took it to the river, and the lamp was wet."


def test_scores_equal_those_of_the_full_distributions() -> None:
    """Min-K%, Min-K%++, the mean and the zlib ratio equal a plain computation from transformers' own logits."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from assaymark.models.create import create_model
    from assaymark.runs.demo import demo_model

    folder = str(demo_model("small"))
    ours = create_model("hf", {"pretrained": folder, "dtype": "float32"})
    (result,) = membership_scores(ours, [TEXT])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    tokens = ours.encoder.encode_all([TEXT])[0].tolist()  # type: ignore[attr-defined]
    prefix = ours.encoder.prefix_token_id  # type: ignore[attr-defined]
    tokens = tokens[1:] if tokens[0] == prefix else tokens  # one beginning token, whether or not it is added
    ids = torch.tensor([[prefix, *tokens]])
    with torch.inference_mode():
        logp = torch.log_softmax(model(ids).logits[0, :-1].double(), dim=-1).numpy()
    chosen = logp[np.arange(len(tokens)), tokens]
    p = np.exp(logp)
    mean = (p * logp).sum(axis=1)
    spread = np.sqrt((p * logp**2).sum(axis=1) - mean**2)
    count = math.ceil(0.2 * len(tokens))
    assert result.min_k == pytest.approx(np.sort(chosen)[:count].mean(), abs=1e-3)
    assert result.min_k_plus == pytest.approx(np.sort((chosen - mean) / spread)[:count].mean(), abs=1e-2)
    assert result.mean_nats == pytest.approx(chosen.mean(), abs=1e-3)
    assert result.nats_per_zip_byte == pytest.approx(chosen.sum() / len(zlib.compress(TEXT.encode())), abs=1e-3)
    assert result.bits_per_byte == pytest.approx(-chosen.sum() / math.log(2) / len(TEXT), abs=1e-3)


def test_a_model_that_returns_sums_only_is_refused() -> None:
    """Per-token scores cannot be computed from sums; the error states which model provides them."""
    with pytest.raises(UsageError, match="local model"):
        membership_scores(FakeModel(), [TEXT])
