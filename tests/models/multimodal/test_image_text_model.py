"""Local models of images and text give what transformers gives for the same prompt, and refuse what they cannot take.

The oracle is transformers itself: the processor's own `apply_chat_template` with the image, one forward pass, and
`generate`.
"""

import hashlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")
pytest.importorskip("transformers")

import torch

from assaymark.errors import MissingExtra, ModelUnavailable, UnknownName, UsageError
from assaymark.models.create import arguments_of, create_model
from assaymark.models.model import Model
from assaymark.records import (
    GenerateQuery,
    GenerationSettings,
    ImagePart,
    LoglikelihoodQuery,
    Message,
    Output,
    Query,
    Request,
    TextPart,
)
from tests.models.multimodal.tiny import picture, save_gemma3, save_llava

DEMO = Path(__file__).parents[3] / "src" / "assaymark" / "library" / "demo_models" / "small"
CHOICES = (" a cat", " dog", "7", "8")
GREEDY = GenerationSettings(max_tokens=9, stop=("\n\n",))


def part_of(seed: int) -> ImagePart:
    """Return an image of random pixels as a part of a message."""
    stream = io.BytesIO()
    picture(seed).save(stream, "PNG")
    data = stream.getvalue()
    return ImagePart(f"sha256:{hashlib.sha256(data).hexdigest()}", "image/png", data)


def asked(*seeds: int) -> Message:
    """Return a question with these images before and between its words."""
    parts: list[TextPart | ImagePart] = []
    for seed in seeds:
        parts += [part_of(seed), TextPart("What is it?")]
    return Message("user", tuple(parts) or (TextPart("What is it?"),))


def request_of(model: Model, *seeds: int, queries: tuple[Query, ...]) -> Request:
    """Return the request about these images, rendered by the model."""
    message = asked(*seeds)
    text = model.render([message], continue_final=False)
    return Request("t", seeds[0] if seeds else 99, "sha256:0", (text,), queries, (message,))


def all_queries() -> tuple[Query, ...]:
    """Return the queries of four choices and of a generated text."""
    return (*(LoglikelihoodQuery(i, choice) for i, choice in enumerate(CHOICES)), GenerateQuery(4, GREEDY))


class Oracle:
    """The model and processor as a user of transformers loads them."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.processor = AutoProcessor.from_pretrained(str(folder))
        self.model = AutoModelForImageTextToText.from_pretrained(str(folder), dtype=torch.float32).eval()

    def inputs(self, *seeds: int) -> dict[str, torch.Tensor]:
        """Return the inputs of the question, made by the processor's own chat template."""
        content: list[dict[str, Any]] = []
        for seed in seeds:
            content += [{"type": "image", "image": picture(seed)}, {"type": "text", "text": "What is it?"}]
        chat = [{"role": "user", "content": content or [{"type": "text", "text": "What is it?"}]}]
        made = self.processor.apply_chat_template(
            chat, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True
        )
        return dict(made)

    @torch.no_grad()
    def nats(self, seeds: tuple[int, ...], choice: str) -> tuple[float, bool]:
        """Return a choice's log-probability, and whether it is the greedy one."""
        inputs = self.inputs(*seeds)
        bare = self.processor.tokenizer.convert_tokens_to_ids(list(choice))
        # the template ends with a space, which belongs to the continuation as lm-eval splits texts
        ids = torch.cat([inputs["input_ids"], torch.tensor([bare])], dim=1)
        n_new, inputs["input_ids"] = len(bare), ids
        inputs["attention_mask"] = torch.ones_like(ids)
        if "token_type_ids" in inputs:
            inputs["token_type_ids"] = torch.nn.functional.pad(inputs["token_type_ids"], (0, n_new))
        space_and_choice = [ids[0, -n_new - 1], *ids[0, -n_new:]]
        logits = torch.log_softmax(self.model(**inputs).logits[0, -n_new - 2 : -1].double(), -1)
        total = sum(float(logits[i, int(token)]) for i, token in enumerate(space_and_choice))
        return total, [int(i) for i in logits.argmax(-1)] == [int(token) for token in space_and_choice]

    @torch.no_grad()
    def text(self, *seeds: int) -> str:
        """Return the greedy text."""
        inputs = self.inputs(*seeds)
        made = self.model.generate(**inputs, max_new_tokens=GREEDY.max_tokens, do_sample=False)
        return str(self.processor.tokenizer.decode(made[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


@pytest.fixture(scope="module", params=[save_llava, save_gemma3], ids=["llava", "gemma3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny checkpoint."""
    save: Callable[[Path], Path] = request.param
    return save(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny LLaVA."""
    return save_llava(tmp_path_factory.mktemp("llava"), max_length=96)


def answers(model: Model, request: Request) -> list[Output]:
    """Return a request's outputs in the order of its queries."""
    return sorted(model.answer([request]), key=lambda output: output.ask_index)


@pytest.mark.parametrize("seeds", [(1,), (2, 3), ()], ids=["one image", "two images", "text alone"])
def test_equal_to_transformers(folder: Path, seeds: tuple[int, ...]) -> None:
    """Log-likelihoods are transformers' within 1e-4, and greedy texts are the same."""
    model, oracle = create_model("hf-multimodal", {"pretrained": str(folder)}), Oracle(folder)
    outputs = answers(model, request_of(model, *seeds, queries=all_queries()))
    for output, choice in zip(outputs, CHOICES, strict=False):
        expected, is_greedy = oracle.nats(seeds, choice)
        assert output.total_nats == pytest.approx(expected, abs=1e-4)
        assert output.is_greedy == is_greedy
        assert output.n_tokens == len(choice) + 1
    assert outputs[-1].text == oracle.text(*seeds).split("\n\n")[0]
    assert outputs[-1].n_context_tokens == oracle.inputs(*seeds)["input_ids"].shape[1]


def test_images_decide(folder: Path) -> None:
    """Another image gives other log-likelihoods and another cache key; the same one the same."""
    model = create_model("hf-multimodal", {"pretrained": str(folder)})
    first, again, other = (answers(model, request_of(model, seed, queries=all_queries())) for seed in (1, 1, 2))
    assert [o.total_nats for o in first] == [o.total_nats for o in again]
    assert [o.cache_key for o in first] == [o.cache_key for o in again]
    assert all(a.cache_key != b.cache_key for a, b in zip(first, other, strict=True))
    assert any(a.total_nats != b.total_nats for a, b in zip(first[:4], other[:4], strict=True))


class Known:
    """A cache of outputs."""

    def __init__(self, outputs: list[Output]) -> None:
        self.by_key = {output.cache_key or "": output for output in outputs}

    def find(self, keys: Any) -> dict[str, Output]:
        """Return those that are known."""
        return {key: self.by_key[key] for key in keys if key in self.by_key}


def test_cached(llava: Path) -> None:
    """Outputs of an earlier run are used again, and no weights are loaded for them."""
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    request = request_of(model, 1, queries=all_queries())
    first = answers(model, request)
    fresh = create_model("hf-multimodal", {"pretrained": str(llava)})
    second = sorted(fresh.answer([request], cache=Known(first)), key=lambda output: output.ask_index)
    assert all(output.from_cache for output in second)
    assert [replace(output, from_cache=False) for output in second] == first
    assert "device" not in fresh.describe()


def test_plain_prompt(llava: Path) -> None:
    """Without a chat template `<image>` becomes the model's mark, and the attempt records the plain path."""
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    message = Message("user", (part_of(1), TextPart(" What?")))
    request = Request("t", 0, "sha256:0", ("<image> What?",), (LoglikelihoodQuery(0, " x"),), (message,))
    (output,) = model.answer([request])
    assert output.error is None
    assert output.n_context_tokens == 16 + len(" What?")
    assert model.describe()["attention"] == "plain"


def test_marks_in_text(llava: Path) -> None:
    """A row whose words contain the model's own mark fails alone, with the reason."""
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    message = Message("user", (part_of(1), TextPart("<image> What?")))
    text = model.render([message])
    bad = Request("t", 0, "sha256:0", (text,), (LoglikelihoodQuery(0, " x"),), (message,))
    good = request_of(model, 1, queries=(LoglikelihoodQuery(0, " x"),))
    failed, fine = model.answer([bad, good])
    assert failed.error is not None
    assert "processor refuses the prompt and its 1 images" in failed.error
    assert fine.error is None


def test_too_long(llava: Path) -> None:
    """A prompt with images that does not fit fails, and is not truncated."""
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    for output in model.answer([request_of(model, 1, 2, 3, 4, queries=all_queries())]):
        assert output.error_kind == "PromptTooLong"
        assert "prompts with images are not truncated" in (output.error or "")


def test_sampling_depends_on_the_image(llava: Path) -> None:
    """Sampled texts can be repeated, and differ between repeats and images."""
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    settings = replace(GREEDY, do_sample=True, temperature=1.0, repeats=2, seed=3)
    made = [
        [o.text for o in model.answer([request_of(model, s, queries=(GenerateQuery(0, settings),))])] for s in (1, 1, 2)
    ]
    assert made[0] == made[1]
    assert made[0][0] != made[0][1]
    assert made[0] != made[2]


def test_identity_has_the_processor(llava: Path, tmp_path: Path) -> None:
    """Another setting of the image processor makes another model; its arguments create the same one again."""
    import shutil

    model = create_model("hf-multimodal", {"pretrained": str(llava), "max_pixels": 900})
    assert model.identity.kind == "hf-multimodal"
    again = create_model(model.identity.kind, arguments_of(model.identity))
    assert again.identity == model.identity
    copy = tmp_path / "copy"
    shutil.copytree(llava, copy)
    plain = create_model("hf-multimodal", {"pretrained": str(copy)})
    before = plain.identity.content_hash
    (path,) = (copy / name for name in ("processor_config.json",))
    settings = json.loads(path.read_text())
    settings["image_processor"]["image_mean"] = [0.5, 0.5, 0.5]
    path.write_text(json.dumps(settings))
    changed = create_model("hf-multimodal", {"pretrained": str(copy)})
    assert changed.identity.content_hash != before


def test_text_model_is_refused() -> None:
    """A folder without an image processor gets one line that names the kind to use."""
    model = create_model("hf-multimodal", {"pretrained": str(DEMO)})
    with pytest.raises(ModelUnavailable, match=r"no image processor.*--model hf|processor in .* cannot be loaded"):
        model.check()


def test_bad_arguments(llava: Path) -> None:
    """Workers, a number of pixels that is none and a misspelling are refused."""
    with pytest.raises(UsageError, match="runs in one process"):
        create_model("hf-multimodal", {"pretrained": str(llava), "workers": 2})
    with pytest.raises(UsageError, match="max_pixels=0"):
        create_model("hf-multimodal", {"pretrained": str(llava), "max_pixels": 0})
    with pytest.raises(UnknownName, match="max_images"):
        _ = create_model("hf-multimodal", {"pretrained": str(llava), "max_images": 2}).identity


def test_without_pillow(llava: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Pillow one line names the extra."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    model = create_model("hf-multimodal", {"pretrained": str(llava)})
    with pytest.raises(MissingExtra, match=r"\.\[images\]"):
        model.check()
