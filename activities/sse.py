"""Reading a provider's event stream: bytes in, `data:` fields out.

The model client's own reader fails on events without data (a gateway's `retry:` hint), so the
few lines of the standard that matter here are read directly:
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

import re
from collections.abc import AsyncIterator

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Longest single event that is buffered; a stream without line ends must not eat the memory."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_LINE_END = re.compile(rb"\r\n|\r|\n")


class EventTooLarge(Exception):
    """One event of the stream is larger than `MAX_EVENT_BYTES`."""


class _Lines:
    """Cuts chunks into lines, whatever their ends; what has no end yet is kept in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._after_return = False
        self._first = True
        self.open_bytes = 0
        """Size of the line that has no end yet."""

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end within `chunk`."""
        if not chunk:
            return []
        if self._after_return:
            # That end of line is gone already: a `\n` after its `\r` is no second one.
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        if ended:
            ended[0] = self.rest() + ended[0]
            if self._first:
                ended[0] = ended[0].removeprefix(BYTE_ORDER_MARK)
                self._first = False
        self._pieces.append(rest)
        self.open_bytes += len(rest)
        return ended

    def rest(self) -> bytes:
        """Return the line that has no end yet, and forget it."""
        rest = b"".join(self._pieces)
        self._pieces, self.open_bytes = [], 0
        return rest.removeprefix(BYTE_ORDER_MARK) if self._first else rest


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str | None]:
    """Yield the data of each event that has any, and none for any other sign of life.

    Whole lines without data (comments, hints, blank lines) are signs of life: providers send
    them while a model thinks. Bytes that never make up a line are not.

    Raises:
        EventTooLarge: When a single event never ends.
    """
    lines = _Lines()
    data: list[str] = []
    size = 0
    async for chunk in chunks:
        told, ended = False, lines.cut(chunk)
        for line in ended:
            if line.startswith(b"data:"):
                data.append(_value(line))
                size += len(line)
            elif not line and data:
                told = True
                yield "\n".join(data)
                data, size = [], 0
        if size + lines.open_bytes > MAX_EVENT_BYTES:
            raise EventTooLarge
        if ended and not told:
            yield None
    # A last event whose blank line is missing: tolerated, providers' proxies cut it off.
    line = lines.rest()
    if line.startswith(b"data:"):
        data.append(_value(line).strip())
    if data:
        yield "\n".join(data)


def _value(line: bytes) -> str:
    return line[5:].removeprefix(b" ").decode("utf-8", "replace")
