"""Keeping secrets out of everything that is written: errors, history, logs."""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "[redacted]"

_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|xai|gsk)[-_][A-Za-z0-9_*-]{8,}|(?<=Bearer )\S{8,}")
"""Texts that look like a provider's key: an error may quote one that we were never given."""

MAX_BODY_CHARS = 4096
"""How much of a provider's answer is kept with an error."""


class Redactor:
    """Replaces known secrets, in plain, URL, JSON and base64 form, and what looks like a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: list[str] = []
        for secret in secrets:
            # Short "secrets" are placeholders; masking every "x" would make errors unreadable.
            if len(secret) < 6:
                continue
            encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
            forms += [secret, quote(secret, safe=""), encoded]
            forms += [json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
        # Longest first: a secret may contain another one.
        self._forms = sorted(set(forms), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        return _KEY_LIKE.sub(MASK, self.known(text))

    def known(self, text: str) -> str:
        """Return `text` without the secrets themselves; what only looks like a key stays."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def known_in(self, data: bytes) -> bytes:
        """Return UTF-8 without the known secrets; what only looks like one may be good data."""
        for form in self._forms:
            data = data.replace(form.encode(), MASK.encode())
        return data

    def excerpt(self, text: str) -> str:
        """Return the beginning of a body, without secrets."""
        # Redact before cutting: half a key at the cut would not be recognised.
        return self(text)[:MAX_BODY_CHARS]
