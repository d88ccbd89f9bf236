"""Which pages may call: the gateway's own, and those of origins that are named."""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from perdure.gateway.problems import Refused
from perdure.runs.errors import ConfigurationError, ErrorCode

PORTS = {"http": 80, "https": 443}


def checked_origins(given: Collection[str], *, has_keys: bool) -> tuple[str, ...]:
    """Return origins as browsers write them.

    Raises:
        ConfigurationError: When one is none, or any page could call that has no key.
    """
    if "*" in given and not has_keys:
        raise ConfigurationError(
            "PERDURE_CORS_ORIGINS lets pages of any site call, and no key is asked for.",
            hint="Name the origins, or set PERDURE_API_KEYS.",
        )
    return tuple(each if each == "*" else _checked(each) for each in given)


def check_origin(headers: Headers, allowed: Collection[str]) -> None:
    """Check that a call does not come from a page of another site.

    Browsers send passwords of HTTP Basic along with whatever any page asks for, and reach what
    listens on their own machine only.

    Raises:
        Refused: When it does.
    """
    origin = headers.get("origin")
    if "*" in allowed or origin in allowed:
        return
    if origin is not None:
        foreign = not _is_own(origin, headers.get("host", ""))
    else:
        # Without an origin: what pages embed. A link that somebody follows is no harm.
        site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
        foreign = site in ("cross-site", "same-site") and mode != "navigate"
    if foreign:
        raise Refused(
            ErrorCode.FORBIDDEN,
            "A page of another origin has asked.",
            status=403,
            hint="PERDURE_CORS_ORIGINS names the origins that may.",
        )


def _is_own(origin: str, host: str) -> bool:
    """Tell whether a page's origin is where the request went; a proxy may have spoken TLS."""
    try:
        from_, to = urlsplit(origin), urlsplit(f"{urlsplit(origin).scheme}://{host}")
        default = PORTS.get(from_.scheme)
        there = from_.hostname, from_.port or default
        here = to.hostname, to.port or default
    except ValueError:
        return False
    return default is not None and from_.hostname is not None and there == here


def _checked(origin: str) -> str:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in PORTS
        or not parts.hostname
        or origin != f"{parts.scheme}://{parts.netloc}"
    ):
        raise ConfigurationError(
            f"PERDURE_CORS_ORIGINS: {origin!r} is no origin.",
            hint="Give scheme, host and port only, such as https://app.example.com.",
        )
    if "@" in parts.netloc:
        raise ConfigurationError("PERDURE_CORS_ORIGINS: an origin has no password.")
    return origin.lower()
