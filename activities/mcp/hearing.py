"""What a server says besides the protocol, on stderr and as noise on stdout: a few lines of log."""

import logging
import time

from perdure.activities.redaction import Redactor

logger = logging.getLogger(__name__)

LINES = 20
"""Lines that are logged of one server in a minute; the rest is counted."""
LAST_LINES = 2
"""Kept for the error, should the server not start."""
LINE_CHARS = 300


class Hearing:
    """Hears one server.

    Args:
        name: Of the server.
        redact: Applied to what it says.
    """

    def __init__(self, name: str, redact: Redactor) -> None:
        self._name = name
        self._redact = redact
        self._last: list[str] = []
        self._since = 0.0
        self._heard = 0

    @property
    def last_words(self) -> str:
        """What it said last."""
        return " / ".join(self._last)

    def hear(self, line: bytes) -> None:
        """Hear one line."""
        said = self._redact(line.decode(errors="replace").strip())[:LINE_CHARS]
        if not said:
            return
        self._last = [*self._last, said][-LAST_LINES:]
        now = time.monotonic()
        if now - self._since > 60:
            if self._heard > LINES:
                logger.debug("MCP server %r said %d more lines", self._name, self._heard - LINES)
            self._since, self._heard = now, 0
        self._heard += 1
        if self._heard <= LINES:
            logger.debug("MCP server %r said something", self._name, extra={"content": said})
