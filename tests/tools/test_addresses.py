"""Which addresses are public: no range of IANA's registries that isn't, in any disguise."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.tools.addresses import is_public, may_connect, networks

PUBLIC = ["1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]
NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1
192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1
100::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::
2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%lo fec0::1 ff02::1 ff0e::1
2606:4700::1%lo 2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:10.0.0.1
""".split()


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_connected_to(address: str) -> None:
    assert may_connect(address, ())


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_any_other_address_may_not(address: str) -> None:
    assert not may_connect(address, ())


@given(st.ip_addresses())
def test_no_address_that_python_knows_as_special_is_public(
    address: IPv4Address | IPv6Address,
) -> None:
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.1", "2130706433", "1.1.1.1:80"])
def test_what_is_no_address_may_not_be_connected_to(text: str) -> None:
    assert not may_connect(text, networks(["0.0.0.0/0", "::/0"]))


def test_a_network_that_is_named_may_be_connected_to() -> None:
    also = networks(["10.1.0.0/16", "fd00::/8"])
    assert may_connect("10.1.2.3", also)
    assert may_connect("fd00::1", also)
    assert not may_connect("10.2.0.1", also)
    assert not may_connect(str(ip_address("::ffff:10.1.2.3")), also)
    with pytest.raises(ValueError, match="does not appear"):
        networks(["intranet"])
