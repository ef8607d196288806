"""Encoder-decoder models: the context goes to the encoder, the continuation to the decoder, as in lm-eval."""

from pathlib import Path
from typing import Any

import pytest
import torch

from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.models.language_model import load_model
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Request, RollingQuery, content_hash
from tests.models.checkpoint import trainers_files as write
from tests.models.checkpoint.test_trainers import DEMO

PAIRS = [
    ("Question: which of these is a colour?\nAnswer:", " red"),
    ("Question: which of these is a colour?\nAnswer:", " seven of them"),
    ("A short one ", "with a space before"),
    ("", "nothing before it"),
    ("word " * 60, " cut from the left"),
]
TEXT = "The lamp had gone dark, and the keeper's daughter lit it again. " * 6


def _with_end_token(folder: Path) -> None:
    """Let the tokenizer add its end token after each text, as T5's does."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    eos, number = tokenizer.eos_token, tokenizer.eos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"$A {eos}", special_tokens=[(eos, number)])
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module", params=["t5", "bart"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny random encoder-decoder model with the demo's vocabulary."""
    from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

    target: Path = tmp_path_factory.mktemp(request.param)
    write.copy_beside(DEMO, target, "tokenizer.json", "tokenizer_config.json")
    torch.manual_seed(3)
    ids: dict[str, Any] = {"pad_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 0}
    if request.param == "t5":
        config: Any = T5Config(
            vocab_size=1536, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, n_positions=64, **ids
        )
        model: Any = T5ForConditionalGeneration(config)
    else:
        config = BartConfig(
            vocab_size=1536, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
            forced_eos_token_id=None, bos_token_id=0, **ids,
        )  # fmt: skip
        model = BartForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    model.tie_weights()
    model.save_pretrained(target)
    _with_end_token(target)
    return target


def requests() -> list[Request]:
    """Return the pairs to score, a text to score whole, and two texts to continue."""
    scored = [
        Request(f"pair-{at}", 0, content_hash([context, text]), (context,), (LoglikelihoodQuery(0, text),))
        for at, (context, text) in enumerate(PAIRS)
    ]
    rolling = Request("text", 0, content_hash([TEXT]), (), (RollingQuery(0, TEXT),))
    settings = GenerationSettings(max_tokens=12, stop=())
    texts = [
        Request(f"continue-{at}", 0, content_hash([PAIRS[at][0]]), (PAIRS[at][0],), (GenerateQuery(0, settings),))
        for at in (0, 2)
    ]
    return [*scored, rolling, *texts]


def answers(folder: Path, **arguments: Any) -> dict[str, Any]:
    """Return our outputs by request."""
    model = create_model("hf", {"pretrained": str(folder), "max_length": 48, **arguments})
    asked = requests()
    named = {request.id: str(request.task) for request in asked}
    return {named[output.request_id]: output for output in model.answer(asked)}


@pytest.mark.oracle
@pytest.mark.parametrize("numerics", ["float32", "model-dtype"])
def test_the_numbers_are_lm_evals(folder: Path, numerics: str) -> None:
    """Log-likelihoods, greedy flags, a rolling log-likelihood and greedy texts equal those of lm-eval's HFLM."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    theirs = HFLM(pretrained=str(folder), backend="seq2seq", max_length=48, device="cpu", batch_size=1)
    ours = answers(folder, numerics=numerics)
    asked = [Instance("loglikelihood", {}, pair, at) for at, pair in enumerate(PAIRS)]
    for at, (nats, is_greedy) in enumerate(theirs.loglikelihood(asked, disable_tqdm=True)):
        result = ours[f"pair-{at}"]
        assert result.error is None
        assert result.total_nats == pytest.approx(nats, abs=1e-4)
        assert result.is_greedy == is_greedy
    (nats,) = theirs.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (TEXT,), 0)], disable_tqdm=True)
    assert ours["text"].total_nats == pytest.approx(nats, abs=1e-3)
    kwargs = {"max_gen_toks": 12, "until": []}
    asked = [Instance("generate_until", {}, (PAIRS[at][0], dict(kwargs)), at) for at in (0, 2)]
    for at, text in zip((0, 2), theirs.generate_until(asked, disable_tqdm=True), strict=True):
        # lm-eval lets the decoder write as many more tokens as the context has; the first twelve must agree
        assert ours[f"continue-{at}"].text
        assert text.startswith(ours[f"continue-{at}"].text)


def test_the_configuration_decides_and_padding_does_not_matter(folder: Path) -> None:
    """Without backend= the same model is recognised; one context at a time gives the same numbers as batches."""
    batched, alone = answers(folder), answers(folder, backend="seq2seq", window_tokens=1)
    for name, output in batched.items():
        assert output.total_nats == pytest.approx(alone[name].total_nats, abs=1e-5)
        assert output.text == alone[name].text
    assert batched["pair-4"].n_cut_tokens > 0


@pytest.mark.slow
def test_two_workers_give_the_same(folder: Path) -> None:
    """Workers load the same kind of engine."""
    first, two = answers(folder), answers(folder, workers=2)
    assert {name: output.text for name, output in first.items()} == {name: output.text for name, output in two.items()}
    assert two["pair-0"].total_nats == pytest.approx(first["pair-0"].total_nats, abs=1e-5)


def test_bad_input_is_one_line(folder: Path) -> None:
    """An unknown backend, a decoder-only model as seq2seq, and what needs whole distributions."""
    from assaymark.audit.contamination import token_moments_of

    with pytest.raises(UsageError, match=r"backend=seq is unknown; expected default, causal or seq2seq"):
        load_model(str(folder), backend="seq")
    with pytest.raises(Exception, match=r"cannot be loaded: Unrecognized configuration class.*LlamaConfig"):
        load_model(str(DEMO), backend="seq2seq").rank("a", [" b"])
    with pytest.raises(UsageError, match=r"Min-K needs them token by token"):
        list(token_moments_of(load_model(str(folder)).model, ["a text"]))
