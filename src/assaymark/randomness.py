"""Named random generators. There is no global generator: the same name and seed give the same draws everywhere.

`random.Random` is used only where another program's draws must be reproduced exactly (lm-eval's few-shot draw).
"""

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def seed_of(*name: object) -> int:
    """Return a 128-bit seed derived from the parts of a name, e.g. ("bootstrap", task, 0)."""
    text = "\x1f".join(str(part) for part in name)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def generator_for(*name: object) -> "np.random.Generator":
    """Return numpy's generator for a name; equal names give equal streams, different names independent ones."""
    import numpy as np  # lists of tasks import this module, and need no numpy

    return np.random.Generator(np.random.PCG64(seed_of(*name)))


def mersenne(seed: int) -> random.Random:
    """Return CPython's generator with a plain seed, as lm-eval seeds its few-shot draw."""
    return random.Random(seed)  # noqa: S311 - reproduces a published draw, protects no secret
