"""API keys that somebody shows: checked against the file that holds them.

A key is found by its id, and then compared in constant time, so how long that takes tells nothing
about any other key.
"""

import hmac
from collections.abc import Callable
from datetime import UTC, datetime

from perdure.engine.api_keys import MAX_KEY_CHARS, PREFIX, ApiKey, KeyFile, hashed, unusable

_NO_HASH = "0" * 64


class KeyRing:
    """The keys as they are now: the file is read again when it has changed.

    Args:
        file: Where the keys are.
        now: Tells the time.
    """

    def __init__(
        self, file: KeyFile, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._file = file
        self._now = now
        self._state: tuple[int, ...] | None = None
        self._keys: dict[str, ApiKey] = {}

    def find(self, given: str) -> ApiKey | None:
        """Return the key that somebody shows, or nothing if it is none, or not any more.

        Raises:
            ConfigurationError: When the keys can't be read; nobody is let in then.
        """
        known = self._current()
        prefix, _, rest = given.partition("_")
        found = known.get(rest.partition("_")[0])
        shown = hashed(given[:MAX_KEY_CHARS])
        is_right = hmac.compare_digest(shown, found.sha256 if found is not None else _NO_HASH)
        if found is None or not is_right or prefix != PREFIX or len(given) > MAX_KEY_CHARS:
            return None
        return None if found.is_expired(self._now()) else found

    def _current(self) -> dict[str, ApiKey]:
        try:
            state = self._file.state()
        except OSError as exc:
            raise unusable(
                exc.strerror or "it can't be read", "Make a key: `perdure keys create`."
            ) from exc
        if state != self._state:
            # Forgotten first: a file that can't be read has no keys, rather than those of before.
            self._state = None
            self._keys = {}
            self._keys = {key.id: key for key in self._file.keys()}
            self._state = state
        return self._keys
