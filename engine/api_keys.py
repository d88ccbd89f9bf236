"""API keys of the gateway: made and revoked; a file holds them, hashed.

A key is `pdk_<id>_<secret>`. The secret has 256 random bits, so the plain SHA-256 of a key is kept:
slow hashes (bcrypt, scrypt) protect what can be guessed, and would only make every request slow.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import string
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AwareDatetime, StringConstraints, ValidationError, model_validator

from perdure.runs.errors import ConfigurationError, InvalidRequest
from perdure.runs.frozen import Frozen
from perdure.runs.ids import Name

PREFIX = "pdk"
"""So that people, and scanners of repositories, recognise a key."""
KEY_PATTERN = rf"{PREFIX}_[0-9a-z]+_[0-9A-Za-z]+"
"""What a key looks like, for those who have to hide it."""
SECRET_ALPHABET = string.ascii_letters + string.digits
SECRET_CHARS = 43
"""Of 62 letters and digits: 256 bits."""
MAX_KEY_CHARS = 128
"""More is no key of ours, and is not even hashed."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Some ten thousand keys."""

Scope = Literal["read", "write", "approve", "admin"]
INCLUDED: dict[Scope, frozenset[Scope]] = {
    "read": frozenset(("read",)),
    "write": frozenset(("read", "write")),
    "approve": frozenset(("read", "approve")),
    "admin": frozenset(("read", "write", "approve", "admin")),
}
"""What each scope allows. Who may write may not approve: an agent's caller is not its overseer."""

Tenant = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
"""Has no colon, which ends it in an id."""


class ApiKey(Frozen):
    """What is known of a key; not the key."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-z]{1,32}$")]
    name: Name
    """Of who uses it, for people and the audit log."""
    tenant: Tenant | None = None
    """Whose ids it sees; all, where there is none."""
    scopes: tuple[Scope, ...]
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

    @property
    def allows(self) -> frozenset[Scope]:
        """Everything that its scopes allow."""
        return frozenset[Scope]().union(*(INCLUDED[each] for each in self.scopes))

    def is_expired(self, now: datetime) -> bool:
        """Tell whether its time is over."""
        return self.expires_at is not None and now >= self.expires_at


class _Kept(Frozen):
    """The content of the file."""

    version: Literal[1] = 1
    keys: tuple[ApiKey, ...] = ()

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        if len({key.id for key in self.keys}) < len(self.keys):
            raise ValueError("two keys have one id")
        return self


T = TypeVar("T")


class KeyFile:
    """The file that holds the keys: mode 0600, replaced as a whole, never half-written.

    Args:
        path: Where it is; made with the first key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def keys(self) -> tuple[ApiKey, ...]:
        """Return all keys, the oldest first.

        Raises:
            ConfigurationError: When the file is missing, unreadable or broken, or others may
                write it.
        """
        try:
            return self._read().keys
        except FileNotFoundError as exc:
            raise unusable("it is not there", "Make a key: `perdure keys create`.") from exc

    def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        tenant: str | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[str, ApiKey]:
        """Make a key; return it, for the only time, and what is kept of it.

        Raises:
            InvalidRequest: When a name or a scope is unusable.
            ConfigurationError: When the file can't be read or written.
        """
        if not scopes:
            raise InvalidRequest("A key needs a scope.", hint=f"One of: {', '.join(INCLUDED)}.")
        key_id = secrets.token_hex(6)
        secret = "".join(secrets.choice(SECRET_ALPHABET) for _ in range(SECRET_CHARS))
        key = f"{PREFIX}_{key_id}_{secret}"
        try:
            made = ApiKey(
                id=key_id,
                name=name,
                tenant=tenant,
                scopes=tuple(dict.fromkeys(scopes)),
                created_at=datetime.now(UTC),
                expires_at=expires_at,
                sha256=hashed(key),
            )
        except ValidationError as exc:
            raise _refused(exc) from None
        self._change(lambda keys: ((*keys, made), made))
        return key, made

    def revoke(self, key_id: str) -> ApiKey:
        """Forget a key, which can't be used any more from now on; return what was known of it.

        Raises:
            InvalidRequest: When there is no key of that id.
            ConfigurationError: When the file can't be read or written.
        """

        def without(keys: tuple[ApiKey, ...]) -> tuple[tuple[ApiKey, ...], ApiKey]:
            for key in keys:
                if key.id == key_id:
                    return tuple(each for each in keys if each is not key), key
            raise InvalidRequest(
                f"There is no API key {key_id[:32]!r}.", hint="`perdure keys list` shows them."
            )

        return self._change(without)

    def state(self) -> tuple[int, ...]:
        """Return something that is another whenever the file may have been changed.

        Raises:
            OSError: When it can't be looked at.
        """
        found = self.path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode

    def _read(self) -> _Kept:
        try:
            with self.path.open("rb") as opened:
                if os.fstat(opened.fileno()).st_mode & 0o022:
                    raise unusable("others may write it", f"`chmod 600 {self.path}`.")
                raw = opened.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise
        except OSError as exc:
            raise unusable(exc.strerror or "it can't be read", "Make it readable.") from exc
        if len(raw) > MAX_FILE_BYTES:
            raise unusable(f"it has more than {MAX_FILE_BYTES:,} bytes", "Revoke old keys.")
        try:
            return _Kept.model_validate_json(raw, strict=True)
        except ValidationError as exc:
            # Not what it says: parts of the file may be in there.
            why = "it is not a file of API keys, or is broken"
            raise unusable(why, "Make a new one: `perdure keys create`.") from exc

    def _change(self, change: Callable[[tuple[ApiKey, ...]], tuple[tuple[ApiKey, ...], T]]) -> T:
        try:
            target = self.path.resolve()
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone_in(target.parent):
                try:
                    known = self._read().keys
                except FileNotFoundError:
                    known = ()
                keys, result = change(known)
                _replace(target, _Kept(keys=keys).model_dump_json(indent=1).encode())
        except OSError as exc:
            raise unusable(
                exc.strerror or "it can't be written", "Choose another place for it."
            ) from exc
        return result


def hashed(key: str) -> str:
    """Return what is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let nobody else change keys in a folder meanwhile: a key would be lost."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def unusable(why: str, hint: str) -> ConfigurationError:
    """Return the error of a file that holds no keys that can be read."""
    return ConfigurationError(f"The file of API keys can't be used: {why}.", hint=hint)


def _refused(exc: ValidationError) -> InvalidRequest:
    field = str(exc.errors()[0]["loc"][0])
    allowed = {
        "name": "1 to 128 letters, digits and . _ : @ -",
        "tenant": "1 to 32 small letters, digits and -, beginning with a letter or digit",
        "scopes": ", ".join(INCLUDED),
    }
    return InvalidRequest(
        f"No key can have such {field.rstrip('s')}s.",
        hint=f"Use {allowed.get(field, 'another one')}.",
    )
