"""Secrets that must be nowhere to be found, in whatever form."""

import base64
import json
from urllib.parse import quote

CANARY = "c4n4ry/ä+of=all&secrets"


def forms(secret: str) -> set[str]:
    """Return what a secret may look like where somebody has passed it on."""
    encoded = base64.b64encode(secret.encode()).decode()
    found = {secret, quote(secret, safe=""), quote(secret), encoded, encoded.rstrip("=")}
    found |= {base64.b64encode(f":{secret}".encode()).decode().rstrip("=")}
    return found | {json.dumps(each)[1:-1] for each in found}


def assert_absent(text: str, *secrets: str) -> None:
    """Fail where a secret is in a text."""
    for secret in secrets:
        for form in forms(secret):
            assert form not in text, f"{form!r} was shown"
