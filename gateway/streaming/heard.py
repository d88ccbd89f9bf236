"""`Heard`: a text that a follower was sent in pieces.

Only its length and a digest are kept, whatever its size: enough to send the rest of it, or to see
that it was something else.
"""

import hashlib


class Heard:
    """A text that was passed on, in pieces."""

    def __init__(self) -> None:
        self.chars = 0
        self._digest = hashlib.sha256()

    def add(self, piece: str) -> None:
        """Take the next piece."""
        self.chars += len(piece)
        self._digest.update(piece.encode("utf-8", "surrogatepass"))

    def rest_of(self, whole: str) -> str | None:
        """Return what is missing of the whole text; none when it does not begin with this."""
        begins = hashlib.sha256(whole[: self.chars].encode("utf-8", "surrogatepass"))
        if self.chars > len(whole) or begins.digest() != self._digest.digest():
            return None
        return whole[self.chars :]
