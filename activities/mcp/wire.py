"""What our transports tell the session in place of an answer: JSON-RPC errors with codes of ours.

They are no secret. A server that sends one itself only harms the call that it answers.
"""

from mcp_types import ErrorData, JSONRPCError

from perdure.runs.limits import MAX_FULL_RESULT_BYTES

MAX_MESSAGE_BYTES = MAX_FULL_RESULT_BYTES + 1024 * 1024
"""One message of a server: the largest result that is kept, and what JSON puts around it."""

MAX_HTTP_BYTES = MAX_MESSAGE_BYTES // 2
"""The same over HTTP: there the SDK takes five and a half times a message's size to read it."""

TOO_LARGE = -31001
"""The answer is too long to be read."""
LOST = -31002
"""The request was sent, and no answer will come."""
NOT_SENT = -31003
"""The server could not be reached; nothing was sent."""
GONE = -31004
"""The server has forgotten the session, and so has not executed the request."""
REFUSED = -31005
"""The server, or what stands before it, refused the request."""


def no_answer(request_id: str | int, code: int, message: str) -> JSONRPCError:
    """Return what stands for the answer to a request.

    Args:
        request_id: Which request.
        code: One of those above.
        message: What happened, for people.
    """
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
