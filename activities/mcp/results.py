"""What the model reads of a tool's result."""

from typing import Any

import mcp_types as types

from perdure.runs.strict_json import strict_json


def result_text(result: types.CallToolResult) -> str:
    """Return the text of a result: its texts, or its structured content where it has none.

    Of what is no text there is a note of its type and size.

    Raises:
        NotJson: When the structured content can't be written.
    """
    if not result.content and result.structured_content is not None:
        return strict_json(result.structured_content).decode()
    if len(result.content) == 1:
        return _block(result.content[0])  # itself: it may be very large
    return "\n".join(map(_block, result.content))


def _block(block: Any) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type} {block.mime_type}, {_decoded(block.data):,} bytes, not shown]"
        case types.ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as held):
            return held.text
        case types.EmbeddedResource(resource=types.BlobResourceContents() as held):
            kind = held.mime_type or "of unknown type"
            return f"[resource {held.uri} {kind}, {_decoded(held.blob):,} bytes, not shown]"
        case _:
            return f"[{type(block).__name__}, not shown]"


def _decoded(base64: str) -> int:
    """Return the size of what stands there in base64."""
    return len(base64) * 3 // 4 - base64[-2:].count("=")
