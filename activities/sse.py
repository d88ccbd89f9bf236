"""Reading a provider's event stream: bytes in, `data:` fields out.

The model client's own reader fails on events without data (a gateway's `retry:` hint), so the
few lines of the standard that matter here are read directly:
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from collections.abc import AsyncIterator

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Longest single event that is buffered; a stream without line ends must not eat the memory."""


class EventTooLarge(Exception):
    """One event of the stream is larger than `MAX_EVENT_BYTES`."""


async def data_fields(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each event that has any.

    Raises:
        EventTooLarge: When a single event never ends.
    """
    buffer = b""
    data: list[str] = []
    size = 0
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            field = line.rstrip(b"\r")
            if field.startswith(b"data:"):
                data.append(field[5:].removeprefix(b" ").decode("utf-8", "replace"))
                size += len(field)
            elif not field and data:
                yield "\n".join(data)
                data, size = [], 0
        if size + len(buffer) > MAX_EVENT_BYTES:
            raise EventTooLarge
    # A last event whose blank line is missing: tolerated, providers' proxies cut it off.
    if buffer.startswith(b"data:"):
        data.append(buffer[5:].strip().decode("utf-8", "replace"))
    if data:
        yield "\n".join(data)
