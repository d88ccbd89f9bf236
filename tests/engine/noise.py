"""Text that no compression makes small."""

import base64
import random


def noise(size: int, seed: int = 1) -> str:
    """Return so many characters of text; it compresses by a quarter at most."""
    made = random.Random(seed).randbytes(size * 3 // 4 + 3)  # noqa: S311 - it is no secret
    return base64.b64encode(made).decode()[:size]
