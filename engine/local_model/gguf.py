"""What a GGUF model file says of itself: its name. Reads the header, never the tensors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import re
import struct
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""Versions with 64-bit counts; version 1 is from before 2023-08 and no longer made."""
MAX_STRING_BYTES = 1 << 20
"""Longer strings are taken for damage; the longest real one, a chat template, has some kB."""

_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of each scalar type, by its number in the file."""


def model_name(path: Path) -> str:
    """Return a model's name for the API: `general.name` as lower-case words joined by hyphens.

    Args:
        path: A GGUF file.

    Returns:
        The name; that of the file, without its ending, if the header holds none.

    Raises:
        ValueError: The file is not a GGUF file.
        OSError: The file can't be read.
    """
    return _slug(_header_string(path, "general.name") or "") or _slug(path.stem) or "local-model"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _header_string(path: Path, wanted: str) -> str | None:
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ValueError(f"{str(path)!r} is not a GGUF file.")
        try:
            version, _tensors, entries = struct.unpack("<IQQ", file.read(20))
            if version not in VERSIONS:
                raise ValueError(f"{str(path)!r} is of GGUF version {version}, not 2 or 3.")
            for _ in range(entries):
                key, kind = _string(file), _number(file, "<I")
                if key == wanted and kind == _STRING:
                    return _string(file)
                _skip(file, kind)
        except struct.error as error:
            raise ValueError(f"The header of {str(path)!r} is cut off.") from error
    return None


def _number(file: BinaryIO, form: str) -> int:
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(value)


def _string(file: BinaryIO) -> str:
    length = _number(file, "<Q")
    if length > MAX_STRING_BYTES:
        raise ValueError("The header of the model file is damaged.")
    return file.read(length).decode("utf-8", errors="replace")


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _string(file)
    elif kind == _ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _skip(file, inner)
    elif kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    else:
        raise ValueError("The header of the model file is damaged.")
