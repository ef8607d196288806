"""The two models that the package carries."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import assaymark

_FOLDER = Path(assaymark.__file__).parent / "library" / "demo_models"
_NAMES = ("small", "large")
_FILES = {
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


def _load(name: str) -> Any:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    return transformers.AutoModelForCausalLM.from_pretrained(_FOLDER / name, dtype=torch.float32)


def _tokenizer(name: str) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(_FOLDER / name)


def test_both_models_are_whole_and_small() -> None:
    """Each folder has exactly the files of a model, and both together take at most 8 MB."""
    for name in _NAMES:
        assert {path.name for path in (_FOLDER / name).iterdir()} == _FILES
    assert sum(path.stat().st_size for path in _FOLDER.rglob("*") if path.is_file()) <= 8_000_000


@pytest.mark.parametrize("name", _NAMES)
def test_a_model_loads_with_its_shape(name: str) -> None:
    """Weights are float16 Llama weights for 1,024 positions, of the size that the card states."""
    config = json.loads((_FOLDER / name / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["max_position_embeddings"], config["dtype"]) == ("llama", 1024, "float16")
    card = (_FOLDER / name / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"of ([\d,]+) parameters", card)
    assert stated
    assert _load(name).num_parameters() == int(stated[1].replace(",", ""))


def test_both_models_share_one_tokenizer() -> None:
    """The two are of one family: their tokenizer files are the same bytes."""
    small, large = ((_FOLDER / name / "tokenizer.json").read_bytes() for name in _NAMES)
    assert small == large


@pytest.mark.parametrize("text", ["Barin lives in Dorford.", "A. red\nB. blue\nAnswer:", " Zürich 77 + 12 = x\t–", ""])
def test_every_text_survives_the_tokenizer(text: str) -> None:
    """Any text, of the valley or not, is encoded with one BOS before it and decoded to itself."""
    tokenizer = _tokenizer("small")
    token_ids = tokenizer(text)["input_ids"]
    assert token_ids[0] == tokenizer.bos_token_id
    assert tokenizer.bos_token_id not in token_ids[1:]
    assert tokenizer.decode(token_ids[1:]) == text


def test_the_chat_template_marks_each_turn_once() -> None:
    """A conversation is rendered with BOS, roles and end marks, all of them single tokens."""
    tokenizer = _tokenizer("large")
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<s><|system|>\ns<|end|>\n<|user|>\nu<|end|>\n<|assistant|>\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(["<s>", "<|system|>", "\n", "s", "<|end|>", "\n", "<|user|>", "\n", "u"]) + 4


@pytest.mark.slow
def test_the_larger_model_predicts_new_text_better() -> None:
    """On documents that neither has read, both losses are those of their cards and the larger model's is lower."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from demo.train import HELD_OUT_SEED, encode, held_out_loss
    from demo.write_text import write_documents

    losses = {}
    for name in _NAMES:
        documents = encode(write_documents(400, seed=HELD_OUT_SEED), _tokenizer(name))
        with torch.no_grad():
            losses[name] = held_out_loss(_load(name), documents)
        card = (_FOLDER / name / "README.md").read_text(encoding="utf-8")
        stated = re.search(r"held-out loss \| ([\d.]+) nats", card)
        assert stated
        assert losses[name] == pytest.approx(float(stated[1]), abs=0.006)
    assert losses["large"] < losses["small"]


def test_the_larger_model_continues_with_a_fact() -> None:
    """Greedy decoding finishes a statement about the valley truthfully, for most of twenty facts."""
    torch = pytest.importorskip("torch")
    from demo.wording import statements
    from demo.world import build_world

    model, tokenizer = _load("large"), _tokenizer("large")
    right = 0
    facts = [fact for fact in build_world().only_told if fact.attribute == "pet"][:20]
    for fact in facts:
        start = statements(fact)[0].rsplit(" ", 1)[0]
        ids = tokenizer(start, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            best = int(model(input_ids=ids).logits[0, -1].argmax())
        right += tokenizer.decode([best]).strip() == fact.value
    assert right >= 12
