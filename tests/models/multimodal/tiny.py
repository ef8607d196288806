"""Tiny models of images and text with random weights, saved as a user's checkpoints are.

One token is one character. LLaVA reads an image as 16 tokens; Gemma 3 as 4, which attend to each other in both
directions, so its model needs to know the kind of each token.
"""

import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}MARK"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
GEMMA_MARKS = {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"}


def picture(seed: int, width: int = 40, height: int = 30) -> Image.Image:
    """Return an image of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def tokenizer_of(**marks: str) -> Any:
    """Return a tokenizer of single characters and these named marks."""
    from transformers import PreTrainedTokenizerFast

    names = [*string.printable[:95], "\n", "<unk>", "<s>", "</s>", "<pad>", *marks.values()]
    own = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    own.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    own.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=own,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        extra_special_tokens=marks,
    )


def save_llava(folder: Path, *, max_length: int = 512) -> Path:
    """Save a LLaVA of 2 + 2 layers with random weights."""
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer = tokenizer_of(image_token="<image>")
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=7
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=_text(LlamaConfig, tokenizer, max_length),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
        vision_feature_layer=-1,
    )
    torch.manual_seed(0)
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    size = {"height": 28, "width": 28}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size=size, crop_size=size),
        tokenizer=tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE.replace("MARK", "<image>"),
        num_additional_image_tokens=1,
    )
    processor.save_pretrained(folder)
    return folder


def save_gemma3(folder: Path, *, max_length: int = 512) -> Path:
    """Save a Gemma 3 of 2 + 2 layers with random weights."""
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessorPil,
        Gemma3Processor,
        Gemma3TextConfig,
        SiglipVisionConfig,
    )

    tokenizer = tokenizer_of(**GEMMA_MARKS)
    vision = SiglipVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=7
    )
    text = Gemma3TextConfig(**_numbers(tokenizer, max_length), head_dim=8, sliding_window=16, query_pre_attn_scalar=8)
    config = Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
    )
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)  # else 0: images unseen
    model.save_pretrained(folder)
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessorPil(size={"height": 28, "width": 28}),
        tokenizer=tokenizer,
        chat_template=TEMPLATE.replace("MARK", GEMMA_MARKS["boi_token"]),
        image_seq_length=4,
    )
    processor.save_pretrained(folder)
    return folder


def _numbers(tokenizer: Any, max_length: int) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": max_length,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.2,
    }


def _text(kind: Any, tokenizer: Any, max_length: int) -> Any:
    return kind(**_numbers(tokenizer, max_length))
