"""The preview of a sealed task: a share of its rows that anybody may see, drawn by a keyed hash of each row.

The draw depends on the key and on the row alone: not on its position, the other rows, `--limit` or the machine. A
larger share has all rows of a smaller one, and equal rows are on the same side.
"""

import hashlib
import hmac


def is_in_preview(key: str, sample_sha256: str, fraction: float) -> bool:
    """Return whether a row belongs to the preview.

    Args:
        key: hexadecimal; without it nobody can say which rows will be shown.
        sample_sha256: of the row, as `Sample.sha256`.
        fraction: of the rows, in [0, 1].
    """
    digest = hmac.new(bytes.fromhex(key), b"preview\0" + sample_sha256.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
