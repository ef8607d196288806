"""The files that come with the pages, by name; their URLs change with their bytes, so browsers keep them for ever."""

from functools import cache
from pathlib import Path

from fastapi import Response
from starlette.exceptions import HTTPException

from assaymark.records import ImagePart
from assaymark.web.render import STATIC

__all__ = ["image_response", "logo_response", "static_response"]

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".txt": "text/plain; charset=utf-8",
}
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
# a drawing that is opened by itself may hold a script: nothing in it runs
RASTER = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
LOCKED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in STATIC.iterdir() if path.suffix in TYPES)


def static_response(name: str) -> Response:
    """Return one of our files. Raises: HTTPException for a name that is none of them."""
    if name not in _names():
        raise HTTPException(404, "there is no such file")
    path = STATIC / name
    return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers=FOR_EVER)


def image_response(image: ImagePart | None) -> Response:
    """Return an image of a sample; a stored run may come from elsewhere, so only raster types have their own name.

    Raises: HTTPException for None, and for a type that browsers might run.
    """
    if image is None or image.media_type not in RASTER:
        raise HTTPException(404, "there is no such image")
    return Response(image.data, media_type=image.media_type, headers=LOCKED)


def logo_response(path: Path | None) -> Response:
    """Return a board's logo. Raises: HTTPException where it has none."""
    if path is None or not path.is_file():
        raise HTTPException(404, "this board has no logo")
    return Response(path.read_bytes(), media_type=TYPES[path.suffix.lower()], headers=LOCKED)
