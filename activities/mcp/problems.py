"""Why a server could not be started, or a call was not answered: our codes and words for it."""

import mcp_types as types
from mcp.shared.exceptions import MCPError

from perdure.activities.failure import ToolProblem
from perdure.activities.mcp import wire
from perdure.activities.redaction import Redactor
from perdure.agents.mcp import McpServer
from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import without_lone_surrogates

SAID_CHARS = 4000
"""Of what a server says of an error."""


def told(code: ErrorCode, server: str, why: str, *, retryable: bool = False) -> ToolProblem:
    """Return the exception that says what is wrong with a server, or with its answer."""
    text = f"The MCP server {server!r}: {without_lone_surrogates(why).rstrip('.')}."
    return ToolProblem(error(code, text, retryable=retryable))


def call_problem(server: str, answer: types.ErrorData, redact: Redactor) -> ToolProblem:
    """Return why a call has no result.

    Args:
        server: Its name.
        answer: What came instead.
        redact: Applied to the server's words.
    """
    said = redact(answer.message)[:SAID_CHARS]
    match answer.code:
        case wire.TOO_LARGE:
            return told(ErrorCode.RESULT_TOO_LARGE, server, "its answer is too large")
        case wire.NOT_SENT:
            return told(ErrorCode.MCP_UNAVAILABLE, server, said, retryable=True)
        case wire.REFUSED:
            return told(ErrorCode.TOOL_FAILED, server, f"it refused the call: {said}")
        case wire.LOST:
            return told(ErrorCode.MCP_CONNECTION_LOST, server, said, retryable=True)
        case types.CONNECTION_CLOSED if _is_of_the_sdk(answer.message):
            if answer.message.endswith("byte limit."):
                return told(ErrorCode.RESULT_TOO_LARGE, server, "its answer is too large")
            return told(ErrorCode.MCP_CONNECTION_LOST, server, said, retryable=True)
        case _:
            return told(ErrorCode.TOOL_FAILED, server, f"error {answer.code}: {said}")


def _is_of_the_sdk(message: str) -> bool:
    # Servers use this code for all kinds of errors of their own.
    return message == "Connection closed" or message.startswith("SSE stream ")


def start_problem(
    server: McpServer, exc: BaseException | None, last_words: str, redact: Redactor
) -> ToolProblem:
    """Return why a server can't be used.

    Args:
        server: Which.
        exc: What was raised; none when its worker stops.
        last_words: What the server said last, besides the protocol.
        redact: Applied to the server's words.
    """
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ToolProblem):
        return exc
    why, retryable = _start_reason(server, exc)
    if last_words:
        why += f" ({last_words})"
    why = redact(why)[:SAID_CHARS]
    return told(ErrorCode.MCP_UNAVAILABLE, server.name, why, retryable=retryable)


def _start_reason(server: McpServer, exc: BaseException | None) -> tuple[str, bool]:
    match exc:
        case None:
            return "the worker is stopping", True
        case TimeoutError():
            return f"it was not ready within {server.start_timeout_s:g} s", True
        case MCPError() if exc.error.code in (wire.LOST, wire.NOT_SENT):
            return exc.error.message, True
        case MCPError() if exc.error.code == types.CONNECTION_CLOSED:
            return "it ended while it was being started", True
        case MCPError():
            return f"it refused to be used: {exc.error.message}", False
        case OSError() | ValueError() if not hasattr(exc, "errors"):
            return f"it can't be started: {exc}", False
        case _:
            return f"it does not speak MCP as we do ({type(exc).__name__})", False
