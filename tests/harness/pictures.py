"""Small real files of each type, and large ones of noise."""

import base64
import struct
import zlib
from typing import Any

from tests.engine.noise import noise


def png(size: int = 0, seed: int = 1) -> bytes:
    """Return a PNG of one pixel, with so many bytes of noise in a chunk that readers skip."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0" + bytes([seed % 256, 0, 0]))
    chunks = [(b"IHDR", header), (b"IDAT", pixel)]
    if size:
        chunks.append((b"teXt", noise(size, seed).encode()[:size]))
    chunks.append((b"IEND", b""))
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """Return content as a request holds it."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image_part(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    """Return an image as a request holds it."""
    return {"type": "image_url", "image_url": {"url": data_url(data, media_type)}}


def text_part(text: str) -> dict[str, Any]:
    """Return a text beside it."""
    return {"type": "text", "text": text}
