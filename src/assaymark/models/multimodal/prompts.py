"""Make the inputs of a model of images and text with its own processor.

A rendered chat already has the model's marks where its template puts images. In a plain prompt `<image>` becomes the
processor's mark. A prompt with images is never truncated: one that is too long fails.

Source: lm-evaluation-harness 0.4.13, models/hf_vlms.py (tok_batch_multimodal_encode, _encode_multimodal_pair).
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assaymark.engine.image_text import ImageTextPrompt
from assaymark.engine.spans import IntArray
from assaymark.errors import MissingExtra, ModelUnavailable, Permanent
from assaymark.records import ImagePart

if TYPE_CHECKING:
    from PIL import Image
    from transformers import ProcessorMixin

PLACEHOLDER = "<image>"
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")  # no decoder of another one is run on stored bytes


def load_processor(folder: Path, *, trust_remote_code: bool, pixels: Mapping[str, int]) -> "ProcessorMixin":
    """Return the processor of a model: tokenizer and image processor.

    Raises: ModelUnavailable where the folder has none; MissingExtra without transformers or Pillow.
    """
    try:
        import PIL  # noqa: F401 - transformers' own message is less clear
    except ImportError:
        raise MissingExtra("a local model of images and text", "images") from None
    try:
        from transformers import AutoProcessor, ProcessorMixin
    except ImportError:
        raise MissingExtra("a local model", "hf") from None
    try:
        processor = AutoProcessor.from_pretrained(
            str(folder), trust_remote_code=trust_remote_code, local_files_only=True, **pixels
        )
    except Exception as error:  # transformers raises many kinds of errors; each means that it is unusable
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(f"the processor in {folder} cannot be loaded: {first}") from error
    if not isinstance(processor, ProcessorMixin) or getattr(processor, "image_processor", None) is None:
        raise ModelUnavailable(
            f"{folder} has no image processor, so this model takes text only; run it with --model hf"
        )
    return processor


@dataclass(frozen=True, slots=True)
class ImageTextReader:
    """Makes prompts of texts and images."""

    processor: "ProcessorMixin"
    add_bos_token: bool | None = None

    def prompt(self, text: str, images: Sequence[ImagePart]) -> ImageTextPrompt:
        """Return the inputs of a prompt.

        Raises: Permanent if the processor refuses text and images together.
        """
        options: dict[str, object] = {} if self._adds_specials(text) is None else {"add_special_tokens": False}
        pictures = [_picture(image) for image in images]
        try:
            made = self.processor(
                text=[self.marked(text, images)], images=pictures or None, return_tensors="pt", **options
            )
        except (ValueError, TypeError, IndexError, KeyError, RuntimeError, AttributeError) as error:
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise Permanent(
                f"the model's processor refuses the prompt and its {len(images)} images: {first}"
            ) from error
        inputs = {name: value for name, value in made.items() if name not in ("input_ids", "attention_mask")}
        return ImageTextPrompt(made["input_ids"][0].numpy().astype(np.int32), inputs)

    def pair(self, context: str, continuation: str) -> tuple[str, IntArray]:
        """Return the text of a context and the tokens scored after it: those that the continuation adds.

        Spaces at the end of the context begin the continuation. Shapes: int32 [n].
        """
        bare = context.rstrip()
        own = [self._tokens(text, context) for text in (bare, context + continuation)]
        return bare, np.asarray(own[1][len(own[0]) :], dtype=np.int32)

    def _tokens(self, text: str, whole: str) -> list[int]:
        specials = self._adds_specials(whole) is None
        return list(self.processor.tokenizer(text, add_special_tokens=specials)["input_ids"])

    def _adds_specials(self, text: str) -> bool | None:
        """Return False for a text that begins with BOS, or where no BOS is wanted; None for the processor's default."""
        bos = self.processor.tokenizer.bos_token
        return False if self.add_bos_token is False or (bos and text.startswith(bos)) else None

    def marked(self, text: str, images: Sequence[ImagePart]) -> str:
        """Return a text with the processor's mark for each image."""
        mark = getattr(self.processor, "image_token", None)
        if not images or not isinstance(mark, str) or mark in text:
            return text
        return text.replace(PLACEHOLDER, mark)


def _picture(image: ImagePart) -> "Image.Image":
    """Return the decoded image, in RGB."""
    from PIL import Image

    with Image.open(io.BytesIO(image.data), formats=FORMATS) as opened:
        return opened.convert("RGB")
