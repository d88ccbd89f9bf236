"""The audit log: who changed what, or tried to. One line of JSON for each such call.

No bodies, no keys; nothing that a caller gives can begin another line.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request

from perdure.engine.api_keys import KEY_PATTERN
from perdure.runs.errors import ConfigurationError

MOST_CHARS = 200
"""Of one value."""
NOTES = "perdure.audit"
"""Where a request's scope has what its route notes."""
_KEY = re.compile(KEY_PATTERN)


def note(request: Request, **facts: str | None) -> None:
    """Let the audit log say more of a call: which Run it started, what was decided.

    Args:
        request: The call; to be told before its answer begins.
        **facts: `run_id`, `session_id`, `action_id`, `decision`, …; never texts of people.
    """
    request.scope.setdefault(NOTES, {}).update(facts)


class Audit:
    """Writes the lines: to a file, or to the standard error.

    The file is opened for each line, so that it may be moved away at any time.

    Args:
        path: Of the file; 0600 when it is new.

    Raises:
        ConfigurationError: When it can't be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path.expanduser() if path is not None else None
        if self._path is not None:
            try:
                _append(self._path, b"")
            except OSError as exc:
                raise ConfigurationError(
                    f"The audit log {str(path)!r} can't be written: {exc.strerror or exc}.",
                    hint="Set PERDURE_AUDIT_LOG to another file, or to none.",
                ) from exc

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write a line; what is none is left out."""
        known = {name: _safe(value) for name, value in facts.items() if value is not None}
        told = {"audit": 1, "at": datetime.now(UTC).isoformat(), **known}
        # ASCII: no character of anybody's ends a line or moves a cursor.
        line = json.dumps(told, ensure_ascii=True) + "\n"
        if self._path is not None:
            try:
                _append(self._path, line.encode())
            except OSError as exc:
                sys.stderr.write(f"The audit log can't be written: {exc.strerror}.\n")
            else:
                return
        sys.stderr.write(line)
        sys.stderr.flush()


def _append(path: Path, line: bytes) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(opened, line)
    finally:
        os.close(opened)


def _safe(value: Any) -> Any:
    if isinstance(value, MutableMapping):
        return {name: _safe(each) for name, each in value.items() if each is not None}
    if isinstance(value, int):
        return value
    return _KEY.sub("pdk_***", str(value))[:MOST_CHARS]
