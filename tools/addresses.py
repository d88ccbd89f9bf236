"""Which addresses are public: those that whoever writes a URL may let a worker connect to.

The ranges are those of IANA's special-purpose registries
(https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-), which `ipaddress` knows
too, but differently in every version of Python. What is unknown is not public.
"""

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Network = IPv4Network | IPv6Network

_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's NAT; Alibaba's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's own services for a machine
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocols; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")
"""All that is given out so far; neither loopback, link-local, private, nor IPv4 in disguise
(mapped, compatible, NAT64)."""
_NOT_PUBLIC_6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocols: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",  # documentation
    )
]
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""In bits 32 to 63 of an address whose last 32 are an IPv4 address."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address belongs to a host of the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or address not in _PUBLIC_6:
        return False
    tunnel = int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
    return not tunnel and not any(address in network for network in _NOT_PUBLIC_6)


def may_connect(address: str, also: Iterable[Network]) -> bool:
    """Tell whether an address, as a resolver gives it, is public or one of those allowed."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return is_public(parsed) or any(parsed in network for network in also)


def networks(given: Iterable[str]) -> tuple[Network, ...]:
    """Read networks such as "10.1.0.0/16".

    Raises:
        ValueError: One is none.
    """
    return tuple(ip_network(each) for each in given)
