"""A least-recently-used memory that is bounded by bytes, not by entries."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class ByteLru(Generic[V]):
    """Values by name; the least recently kept or asked for make room.

    Args:
        max_bytes: What all values together may take.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[V, int]] = OrderedDict()

    @property
    def size(self) -> int:
        """What all values take together."""
        return self._bytes

    def get(self, name: str) -> V | None:
        """Return what is kept under a name, if it is still there."""
        if name not in self._entries:
            return None
        self._entries.move_to_end(name)
        return self._entries[name][0]

    def keep(self, name: str, value: V, size: int) -> None:
        """Keep a value; one larger than the whole memory is not kept, and evicts nothing."""
        self.forget(name)
        if size > self._max_bytes:
            return
        self._entries[name] = (value, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, name: str) -> None:
        """Drop what is kept under a name."""
        if name in self._entries:
            self._bytes -= self._entries.pop(name)[1]
