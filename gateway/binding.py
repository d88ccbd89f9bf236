"""Where the gateway listens, and by which names it may be called, when it asks for no keys."""

import ipaddress
import socket

from perdure.runs.errors import ConfigurationError


def checked_binding(host: str, *, has_keys: bool) -> None:
    """Check that the gateway may listen on an address.

    Args:
        host: An address or a name.
        has_keys: Whether callers have to show an API key.

    Raises:
        ConfigurationError: When others could reach it, and need no key; or there is no such name.
    """
    if has_keys:
        return
    try:
        # Of nothing at all, a server makes every address there is.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except (OSError, UnicodeError) as exc:
        raise ConfigurationError(
            f"The gateway can't listen on {host!r}: there is no such name here."
        ) from exc
    if not found or not all(_is_loopback(str(each[4][0])) for each in found):
        raise ConfigurationError(
            f"The gateway would listen on {host or 'every address'!r}, where other machines reach "
            "it, and asks nobody for a key.",
            hint="Set PERDURE_API_KEYS to a file and make a key (`perdure keys create`), or "
            "listen on 127.0.0.1.",
        )


def is_loopback_host(given: str) -> bool:
    """Tell whether a `Host` header names this machine by a name that is always this machine.

    Any other name may have been made to lead here by whoever owns it: a page of theirs would then
    be of the same origin as the gateway.
    """
    name = host_name(given)
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


def host_name(given: str) -> str:
    """Return the name in a `Host` header, without the port."""
    text = given.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


def _is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
