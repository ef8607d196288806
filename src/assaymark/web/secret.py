"""The secret that signs tokens, cookies and forms: ASSAYMARK_SECRET, or a file that the first process writes.

Several processes behind one reverse proxy share it, so that each accepts the signatures of the others. Each purpose has
a key of its own, derived from the secret, so that a signature for one purpose is invalid for another.
"""

import hmac
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from assaymark.errors import UsageError
from assaymark.settings import home_folder, read

SHORTEST = 32  # characters
FILE = "server.secret"


class Signer:
    """Signs texts for one purpose (HMAC-SHA256)."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._key = hmac.new(secret, purpose.encode(), sha256).digest()

    def sign(self, text: str) -> str:
        """Return the signature of a text, 64 hexadecimal digits."""
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), sha256).hexdigest()

    def is_signed(self, text: str, signature: str) -> bool:
        """Return whether this is the text's signature; the time it takes does not depend on where they differ."""
        return hmac.compare_digest(self.sign(text).encode(), signature.encode("utf-8", "surrogatepass"))


def _write_new(path: Path) -> None:
    """Write a new secret, unless another process was first; the file is complete then."""
    draft = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def server_secret() -> bytes:
    """Return the secret of this server, written on first use to a file that only its owner may read.

    Raises: UsageError for a short secret, or a file that cannot be read or written.
    """
    if value := read("ASSAYMARK_SECRET"):
        if len(value) < SHORTEST:
            raise UsageError(f"ASSAYMARK_SECRET has {len(value)} characters; expected {SHORTEST} or more, at random")
        return value.encode()
    path = home_folder() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_new(path)
        secret = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(f"cannot read or write {path}: {error}; or set ASSAYMARK_SECRET") from error
    if len(secret) < SHORTEST:
        raise UsageError(f"{path} has {len(secret)} characters; expected {SHORTEST} or more; remove it for a new one")
    return secret.encode()
