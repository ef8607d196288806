"""The small model of images and text that the package carries, and what this project's own path makes of it."""

import random
from pathlib import Path

import pytest

pytest.importorskip("PIL")
pytest.importorskip("transformers")

import json

from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from demo import train_image_reader as training

FILES = {
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


def test_it_is_whole_and_small() -> None:
    """The folder has exactly a model's files and takes less than half a megabyte."""
    folder = demo_model("digits")
    assert {path.name for path in folder.iterdir()} == FILES
    assert sum(path.stat().st_size for path in folder.iterdir()) < 500_000
    template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    assert template == training.TEMPLATE


def test_it_reads_new_digits(tmp_path: Path) -> None:
    """Of 60 digits drawn by another seed it writes at least 54, through files, rows, processor and engine."""
    draw = random.Random(7)
    lines = []
    for number in range(60):
        digit = draw.randint(0, 9)
        training.picture(digit, draw).save(tmp_path / f"{number}.png")
        lines.append({"image": f"{number}.png", "question": "Which digit is shown?", "answer": str(digit)})
    path = tmp_path / "digits.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    arguments = {"pretrained": str(demo_model("digits"))}
    run = evaluate("hf-multimodal", [str(path)], model_args=arguments, apply_chat_template=True)
    (estimate,) = run.estimates
    assert estimate.n == 60
    assert estimate.value is not None
    assert estimate.value >= 0.9
    path.write_text("\n".join(json.dumps({**line, "image": "0.png"}) for line in lines))
    (blind,) = evaluate("hf-multimodal", [str(path)], model_args=arguments, apply_chat_template=True).estimates
    assert blind.value is not None
    assert blind.value < 0.4, "with one image for all questions it cannot know"
