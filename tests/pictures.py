"""Images and rows with images for tests; import it after `pytest.importorskip("PIL")`."""

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw


def digit(number: int, kind: str = "PNG", size: int = 28) -> bytes:
    """Return an image file with a digit in black on white."""
    image = Image.new("RGB", (size, size), "white")
    ImageDraw.Draw(image).text((size // 3, size // 4), str(number), fill="black")
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """Return an image as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def write_digits(folder: Path, n: int = 3, **more: Any) -> Path:
    """Write `n` images of digits and rows.jsonl, which asks for each of them in MMMU's layout."""
    lines = []
    for number in range(n):
        (folder / f"digit_{number}.png").write_bytes(digit(number))
        lines.append(
            {
                "id": str(number),
                "question": "Which digit is <image 1>?",
                "image_1": f"digit_{number}.png",
                "options": str([str(each) for each in range(n)]),
                "answer": "ABCDEFGHIJ"[number],
                **more,
            }
        )
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path
