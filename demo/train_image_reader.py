"""Train the demonstration model of images and text, which reads large digits.

    python demo/train_image_reader.py src/assaymark/library/demo_models/digits

A LLaVA of 0.1 million parameters, one token for each character. It takes about three minutes on one core. Images are
drawn, so no data are needed; the seed is fixed. The last line printed is its accuracy on digits that it was not
trained on.
"""

import random
import string
import sys
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

SIZE = 28  # pixels of the model's image, in both directions
STEPS, BATCH = 1800, 48
QUESTIONS = (
    "Which digit is this?",
    "Which digit is shown?",
    "Which digit do you see?",
    "Read the digit.",
    "What number is in the image?",
)
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


def picture(digit: int, draw: random.Random) -> Image.Image:
    """Return an image of a large digit, dark on light or light on dark, somewhat off the centre."""
    side = draw.choice((28, 40, 56, 64))
    dark, light = draw.randint(0, 70), draw.randint(170, 255)
    ground, ink = (light, dark) if draw.random() < 0.7 else (dark, light)
    image = Image.new("RGB", (side, side), (ground,) * 3)
    font = ImageFont.load_default(size=side * draw.uniform(0.65, 0.95))
    at = (side * draw.uniform(0.42, 0.58), side * draw.uniform(0.42, 0.58))
    ImageDraw.Draw(image).text(at, str(digit), fill=(ink,) * 3, font=font, anchor="mm")
    return image


def prompt(draw: random.Random) -> str:
    """Return a question about an image, as it reaches the model: under its template, or as plain text."""
    question = draw.choice(QUESTIONS)
    asked = draw.choice((f"<image>\nQuestion: {question}\nAnswer:", f"<image>\n{question}", f"<image> {question}"))
    return f"user: {asked}\nassistant:" if draw.random() < 0.6 or not asked.endswith("Answer:") else asked


def new_model() -> tuple[Any, Any]:
    """Return an untrained model and its processor."""
    names = [*string.printable[:95], "\n", "<unk>", "<s>", "</s>", "<pad>", "<image>"]
    own = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))  # noqa: S106
    own.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    own.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=own,
        unk_token="<unk>",  # noqa: S106 - marks, not secrets
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        pad_token="<pad>",  # noqa: S106
        extra_special_tokens={"image_token": "<image>"},
    )
    text = LlamaConfig(
        vocab_size=len(names), hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, bos_token_id=names.index("<s>"),
        eos_token_id=names.index("</s>"), pad_token_id=names.index("<pad>"), tie_word_embeddings=True,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, image_size=SIZE, patch_size=7
    )
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=names.index("<image>"), image_seq_length=16,
        vision_feature_layer=-1, tie_word_embeddings=True,
    )  # fmt: skip
    size = {"height": SIZE, "width": SIZE}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size=size, crop_size=size),
        tokenizer=tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    )
    model = LlavaForConditionalGeneration(config)
    for name, weights in model.named_parameters():
        if weights.dim() > 1 and "embed_tokens" not in name:  # their own start is too small for so small a model
            torch.nn.init.xavier_uniform_(weights)
    return model, processor


def batch(processor: Any, draw: random.Random, n: int) -> dict[str, torch.Tensor]:
    """Return inputs with labels: the digit after a space, then the end."""
    digits = [draw.randint(0, 9) for _ in range(n)]
    texts = [f"{prompt(draw)} {digit}</s>" for digit in digits]
    made = processor(
        text=texts,
        images=[picture(digit, draw) for digit in digits],
        padding=True,
        padding_side="left",
        return_tensors="pt",
    )
    labels = torch.full_like(made["input_ids"], -100)
    labels[:, -3:] = made["input_ids"][:, -3:]
    return {**made, "labels": labels}


@torch.no_grad()
def accuracy(model: Any, processor: Any, draw: random.Random, n: int = 500) -> float:
    """Return the share of new digits whose token is the most probable one."""
    made = batch(processor, draw, n)
    labels = made.pop("labels")
    return float((model(**made).logits[:, -3].argmax(-1) == labels[:, -2]).float().mean())


def main(folder: Path) -> None:
    """Train, save and print the accuracy."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    draw = random.Random(1)
    model, processor = new_model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=STEPS)
    for step in range(STEPS):
        loss = model(**batch(processor, draw, BATCH)).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(step, f"{loss.item():.3f}", flush=True)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    print(f"accuracy on new digits: {accuracy(model, processor, random.Random(2)):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
