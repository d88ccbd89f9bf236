"""What is kept of a provider's HTTP response, for the error that its answer may end in."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from perdure.activities.redaction import Redactor

KEPT_BYTES = 8 * 1024
"""More than is shown, so that a key at the end of what is shown is kept whole and recognised."""
LONGEST_KEY = 1024
"""A key may have been cut at `KEPT_BYTES`: so much before that is never shown."""

REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-ms-request-id", "apim-request-id")


class Received:
    """One response: status, headers and the beginning of its body, as far as they came."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.beginning = b""

    def head(self, response: Any) -> None:
        """Note status and headers."""
        self.status = response.status_code
        self.headers = response.headers

    def note(self, chunk: bytes) -> None:
        """Keep a chunk of the body, if it belongs to the beginning."""
        self.beginning += chunk[: KEPT_BYTES - len(self.beginning)]

    async def body(self, response: Any) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        async for chunk in response.aiter_bytes():
            self.note(chunk)
            yield chunk

    @property
    def content_type(self) -> str:
        """What the provider says that the body is."""
        return self.headers.get("content-type", "")

    def details(self, redact: Redactor) -> dict[str, Any]:
        """Return the facts that an error keeps; none when nothing came."""
        if self.status is None:
            return {}
        text = redact(self.beginning.decode("utf-8", "replace"))
        if len(self.beginning) == KEPT_BYTES:
            text = text[:-LONGEST_KEY]
        ids = (self.headers.get(name) for name in REQUEST_ID_HEADERS)
        return {
            "status": self.status,
            "request_id": next(filter(None, ids), None),
            "body": redact.excerpt(text),
        }
