"""A GGUF file run by llama.cpp: the same scores and greedy texts as the model it was made of."""

from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import AssaymarkError, ModelUnavailable, PlanError, UnknownName, UsageError
from assaymark.models.create import arguments_of, create_model
from assaymark.models.language_model import load_model
from assaymark.models.model import Model
from assaymark.records import (
    GenerateQuery,
    GenerationSettings,
    LoglikelihoodQuery,
    Message,
    Request,
    RollingQuery,
    TextPart,
)
from tests.models.checkpoint.test_trainers import DEMO
from tests.models.gguf.gguf_files import write_gguf

pytestmark = pytest.mark.slow
pytest.importorskip("llama_cpp", reason="llama-cpp-python is compiled at its installation: pip install '.[gguf]'")
pytest.importorskip("gguf", reason="the package that writes GGUF files: pip install gguf")

CONTEXTS = [
    "Question: which of these is a colour?\nAnswer:",
    "Question: which of these is a colour?\nAnswer: red\n\nQuestion: what do bees make? ",
    "The capital of France is",
    "",
]
CHOICES = (" red", "a table of wood", " honey")
TEXT = "Once upon a time there was a small harbour town whose lamp had gone dark. " * 30


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo's model as a GGUF file."""
    target: Path = tmp_path_factory.mktemp("gguf") / "demo.gguf"
    return write_gguf(DEMO, target)


def requests(settings: GenerationSettings) -> list[Request]:
    """Return queries of each kind."""
    scored = tuple(LoglikelihoodQuery(at, choice) for at, choice in enumerate(CHOICES))
    results = [Request(f"score{at}", 0, f"{at}", (text,), scored) for at, text in enumerate(CONTEXTS)]
    results.append(Request("rolling", 0, "text", (), (RollingQuery(0, TEXT),)))
    results += [Request(f"text{at}", 0, f"t{at}", (CONTEXTS[at],), (GenerateQuery(0, settings),)) for at in range(3)]
    return results


def outputs(model: Model, settings: GenerationSettings) -> dict[tuple[str, int, int], Any]:
    """Return the outputs of all queries."""
    results = {(o.request_id, o.ask_index, o.repeat): o for o in model.answer(requests(settings))}
    assert all(output.error is None for output in results.values())
    return results


def assert_equal(ours: dict[Any, Any], theirs: dict[Any, Any]) -> None:
    """Check that scores agree to a thousandth, greedy flags and texts exactly."""
    assert ours.keys() == theirs.keys()
    for key, output in ours.items():
        other = theirs[key]
        if output.text is None:
            assert other.total_nats == pytest.approx(output.total_nats, abs=1e-3, rel=1e-6)
        assert (other.text, other.is_greedy, other.n_tokens) == (output.text, output.is_greedy, output.n_tokens)


@pytest.mark.parametrize("own_tokenizer", [True, False])
def test_scores_and_texts_are_those_of_our_engine(file: Path, own_tokenizer: bool) -> None:
    """Also with llama.cpp's tokens, and for a text longer than the model's positions."""
    settings = GenerationSettings(max_tokens=24, stop=("\n\n",))
    expected = outputs(create_model("hf", {"pretrained": str(DEMO), "dtype": "float32"}), settings)
    named = {} if own_tokenizer else {"tokenizer": str(DEMO)}
    with load_model("gguf", pretrained=str(file), **named) as loaded:
        assert_equal(expected, outputs(loaded.model, settings))


def test_sampled_texts_are_those_of_our_engine(file: Path) -> None:
    """Random numbers depend on names alone, so equal logits draw equal texts; repeats differ."""
    settings = GenerationSettings(max_tokens=12, stop=(), do_sample=True, temperature=0.8, repeats=2, seed=5)
    expected = outputs(create_model("hf", {"pretrained": str(DEMO), "dtype": "float32"}), settings)
    result = outputs(create_model("gguf", {"pretrained": str(file)}), settings)
    same = [result[key].text == output.text for key, output in expected.items() if output.text is not None]
    assert sum(same) >= len(same) - 1  # a draw on the boundary of two tokens may fall to either
    assert result["text0/0/0", 0, 0].text != result["text0/0/0", 0, 1].text


def test_the_identity_and_the_chat_template_are_the_files(file: Path, tmp_path: Path) -> None:
    """A renamed file is the same model; the arguments that a run stores load it again."""
    identity = create_model("gguf", {"pretrained": str(file)}).identity
    assert (identity.kind, identity.dtype, identity.max_length) == ("gguf", "F32", 1024)
    moved = tmp_path / "other.gguf"
    moved.write_bytes(file.read_bytes())
    other = create_model("gguf", {"pretrained": str(tmp_path)}).identity  # the folder's only file
    assert other.content_hash == identity.content_hash
    assert create_model("gguf", arguments_of(other)).identity == other
    chat = [Message("user", (TextPart("Hello"),))]
    hf = create_model("hf", {"pretrained": str(DEMO)})
    assert create_model("gguf", {"pretrained": str(file)}).render(chat) == hf.render(chat)


def test_a_real_model_with_a_sentencepiece_vocabulary(shared_dir: Path, tmp_path: Path) -> None:
    """stories260K with llama.cpp's own tokens equals its Hugging Face folder."""
    stories = shared_dir / "models" / "stories260K"
    file = write_gguf(stories, tmp_path / "stories.gguf", is_spm=True)
    settings = GenerationSettings(max_tokens=40, stop=("\n\n",))
    expected = outputs(create_model("hf", {"pretrained": str(stories), "dtype": "float32"}), settings)
    assert_equal(expected, outputs(create_model("gguf", {"pretrained": str(file)}), settings))


def _bad(name: str, file: Path, folder: Path) -> dict[str, Any]:
    damaged = folder / "bad.gguf"
    if name == "truncated":
        damaged.write_bytes(file.read_bytes()[:40_000])
    elif name == "not one":
        damaged.write_bytes(b"PK" * 100)
    known = {"absent": "/no/such.gguf", "truncated": str(damaged), "not one": str(damaged), "folder": str(folder)}
    return {"pretrained": known.get(name, str(file))}


@pytest.mark.parametrize(
    ("name", "more", "kind", "message"),
    [
        ("absent", {}, ModelUnavailable, r"/no/such\.gguf does not exist; expected a GGUF file"),
        ("not one", {}, ModelUnavailable, r"is not a GGUF file: it does not begin with GGUF"),
        ("truncated", {}, ModelUnavailable, r"llama\.cpp cannot load .*is the file complete"),
        ("folder", {}, ModelUnavailable, r"contains 0 files \*\.gguf \(none\)"),
        ("good", {"n_bach": 3}, UnknownName, r"unknown argument of gguf 'n_bach'; nearest: n_batch"),
        ("good", {"cache_type": "q8"}, UsageError, r"cache_type='q8'; expected f32 or f16"),
        ("good", {"workers": 2}, UsageError, r"workers is not supported with --model gguf"),
        ("good", {"base_url": "http://x"}, UnknownName, r"local-completions --model_args model=gguf,base_url=http://x"),
    ],
)
def test_bad_input_is_one_line(
    name: str, more: dict[str, Any], kind: type[AssaymarkError], message: str, file: Path, tmp_path: Path
) -> None:
    """Each says what was found and what to give."""
    with pytest.raises(kind, match=message) as caught:
        assert create_model("gguf", {**_bad(name, file, tmp_path), **more}).identity
    assert "\n" not in str(caught.value)


def test_a_wrong_tokenizer_is_one_line(file: Path, shared_dir: Path, tmp_path: Path) -> None:
    """One with more tokens than the file has."""
    stories = write_gguf(shared_dir / "models" / "stories260K", tmp_path / "stories.gguf", is_spm=True)
    with pytest.raises(PlanError, match=r"the model in the GGUF file has 0 to 511: is this the model's own"):
        load_model("gguf", pretrained=str(stories), tokenizer=str(DEMO)).rank(CONTEXTS[0], list(CHOICES))
