"""SECU-05: only the public web is ever connected to, and nothing is read without end."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.runs.errors import ErrorCode, ToolRefused
from perdure.tools import fetch_tool, fetch_url
from perdure.tools.addresses import networks
from perdure.tools.fetch import MAX_REDIRECTS, Fetcher
from tests.tools.web import LOOPBACK, Web, fetcher, page, redirect, serving

LIMIT_S = 5.0
SPELLINGS = """
127.0.0.1 127.1 127.0.1 127.0.0.2 2130706433 0x7f000001 0x7f.1 0X7F.0x0.0x0.0x1 017700000001
0177.0.0.1 0177.1 00000177.0.0.1 127.0.0.1. 127.1. localhost localhost. LOCALHOST lOcAlHoSt 0
0.0.0.0 0x0 [::1] [::0:1] [0:0:0:0:0:0:0:1] [0000:0000::0001] [::ffff:127.0.0.1] [::ffff:7f00:1]
[0:0:0:0:0:ffff:127.0.0.1] [::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [2002:7f00:1::]
[2001:0:7f00:1::] [::1%25lo] [::1%lo] [::] [fe80::1%25lo] user@127.0.0.1 user:pw@127.0.0.1
example.org@127.0.0.1 example.org:80@127.0.0.1 example.org%40127.0.0.1 127.0.0.1\\@example.org
127.0.0.1%00.example.org 127.0.0.1%2f.example.org 127%2e0%2e0%2e1 %31%32%37.0.0.1
\u2460\u2461\u2466.0.0.1 \uff11\uff12\uff17.0.0.1 127\u30020\u30020\u30021 127\uff0e0.0.1
loc\u00adalhost \u217cocalhost [127.0.0.1] [v1.127] 169.254.169.254 10.0.0.1 [fd00:ec2::254]
metadata.localhost
""".split()


async def refused(fetcher: Fetcher, url: str) -> bool:
    """Tell that a URL is refused, or that its host is unknown to the system."""
    with pytest.raises((ToolRefused, ValueError)) as caught:
        await fetcher.text(url)
    if isinstance(caught.value, ToolRefused):
        return caught.value.code is ErrorCode.URL_DENIED
    return "There is no host" in str(caught.value)


async def test_no_spelling_of_an_address_of_this_machine_is_connected_to() -> None:
    async with AsyncExitStack() as stack:
        # Also what is not 127.0.0.1, and what is every address of the machine.
        listeners = [await stack.enter_async_context(serving("0.0.0.0"))]  # noqa: S104
        port = listeners[0].port
        if socket.has_ipv6:
            listeners.append(await stack.enter_async_context(serving("::1", port)))
        own = {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), port)}
        urls = [
            f"http://{host}:{port}/" for host in [*SPELLINGS, *(o for o in own if ":" not in o)]
        ]
        urls += [f"http:{port}", f"http:/127.0.0.1:{port}/", f"http:\\\\127.0.0.1:{port}/"]
        urls += [
            f"//127.0.0.1:{port}/",
            f" http://127.0.0.1:{port}/",
            f"http://\t127.0.0.1:{port}/",
        ]
        for url in urls:
            assert await refused(Fetcher(frozenset([port])), url), url
        assert [each.connections for each in listeners] == [0] * len(listeners)
        # The listeners would have seen it.
        listeners[0].pages = {"/": page(b"seen")}
        known = Fetcher(frozenset([port]), LOOPBACK)
        assert await known.text(f"http://127.1:{port}/") == "seen"
        assert listeners[0].connections == 1


PARTS = st.sampled_from(["{}", "0x{:x}", "0{:o}", "0X{:X}", "00{:o}"])
PRIVATE = st.sampled_from(["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"])


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """An address that is not public, with some of its last parts run together."""
    from ipaddress import ip_network

    network = ip_network(draw(PRIVATE))
    number = int(network[draw(st.integers(0, network.num_addresses - 1))])
    whole = draw(st.integers(0, 3))
    parts = [number >> 24 - 8 * place & 0xFF for place in range(whole)]
    parts.append(number & (1 << 32 - 8 * whole) - 1)
    return ".".join(draw(PARTS).format(part) for part in parts) + draw(st.sampled_from(["", "."]))


@given(spellings())
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
async def test_no_number_of_a_private_address_is_connected_to(host: str) -> None:
    assert await refused(Fetcher(), f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://name.test/",
        "gopher://name.test/",
        "data:text/plain,x",
        "javascript:x",
        "name.test/",
        "",
        "http://",
        "http://?",
        "http://name.test:22/",
        "http://name.test:0/",
        "http://name.test:65536/",
        "http://name.test:http/",
        "http://[::1/",
        "http://name.test/" + "x" * 5000,
    ],
)
async def test_other_schemes_ports_and_urls_that_are_none_are_refused(web: Web, url: str) -> None:
    assert await refused(fetcher(web), url)
    assert web.connections == 0


async def test_only_the_usual_ports_are_allowed_unless_others_are_named(web: Web) -> None:
    url = f"http://127.0.0.1:{web.port}/"
    with pytest.raises(ToolRefused, match=f"port {web.port} is not allowed"):
        await fetch_url(url)
    web.pages = {"/": page(b"inside")}
    allowed = fetch_tool(ports=[web.port], also_allow=["127.0.0.0/8"], name="fetch_intranet")
    assert await allowed(url) == "inside"
    assert (fetch_url.name, allowed.name) == ("fetch_url", "fetch_intranet")
    assert fetch_url.policy.effect == "read"


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "http://[::1]:{port}/",
        "http://2130706434:{port}/",
        "//127.0.0.2:{port}/",
        "http://169.254.169.254:{port}/latest/meta-data",
        "http://x@name.test:{port}/",
        "http://name.test:22/",
        "file:///etc/passwd",
        "http://[",
    ],
)
async def test_a_redirect_is_checked_like_any_url(web: Web, location: str) -> None:
    async with serving("127.0.0.2", web.port) as inside:
        web.pages = {
            "/": redirect("/second"),
            "/second": redirect(location.format(port=web.port)),
        }
        assert await refused(fetcher(web), f"http://name.test:{web.port}/")
        assert (web.connections, inside.connections) == (2, 0)


async def test_redirects_are_followed_by_name_and_not_for_ever(web: Web) -> None:
    web.pages = {
        "/": redirect("a/b?c=d#e"),
        "/a/b?c=d": redirect("../end"),
        "/end": page(b"end"),
        "/loop": redirect("/loop"),
    }
    assert await fetcher(web).text(f"http://name.test:{web.port}/") == "end"
    assert all(f"Host: name.test:{web.port}\r\n" in request for request in web.requests)
    with pytest.raises(ValueError, match="more than 5 redirects"):
        await fetcher(web).text(f"http://name.test:{web.port}/loop")
    assert web.connections == 3 + MAX_REDIRECTS + 1


async def test_a_name_that_resolves_differently_the_second_time_gains_nothing(web: Web) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1" if len(asked) == 1 else "127.0.0.2"]

    async with serving("127.0.0.2", web.port) as inside:
        web.pages = {"/": page(b"first"), "/again": redirect("/")}
        known = Fetcher(frozenset([web.port]), LOOPBACK, rebinding)
        assert await known.text(f"http://name.test:{web.port}/") == "first"
        assert asked == ["name.test"]
        asked.clear()
        assert await refused(known, f"http://name.test:{web.port}/again")
        assert (web.connections, inside.connections) == (2, 0)


async def test_one_address_that_is_not_public_spoils_all(web: Web) -> None:
    for others in (["8.8.8.8", "127.0.0.2"], ["127.0.0.1", "::1"], ["127.0.0.1", "nonsense"]):
        assert await refused(fetcher(web, *others), f"http://name.test:{web.port}/")
    assert web.connections == 0


async def test_the_next_address_is_tried_when_one_does_not_answer(web: Web) -> None:
    web.pages = {"/": page(b"second")}
    url = f"http://name.test:{web.port}/"
    also = networks(["127.0.0.0/8"])
    assert await replace(fetcher(web, "127.0.0.9", web.host), also=also).text(url) == "second"
    with pytest.raises(httpx2.ConnectError):
        await replace(fetcher(web, "127.0.0.9"), also=also).text(url)


async def test_tls_is_asked_for_by_name_and_a_server_without_a_certificate_is_refused() -> None:
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda socket, name, context: names.append(name)
    web = Web("127.0.0.1")
    server = await asyncio.start_server(web.serve, web.host, 0, ssl=context)
    async with server:
        web.port = server.sockets[0].getsockname()[1]
        with pytest.raises(httpx2.ConnectError):
            await fetcher(web).text(f"https://name.test.:{web.port}/")
    assert names == ["name.test"]
    assert web.requests == []


async def test_nothing_of_the_worker_is_sent_along(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        web.pages = {"/": page(b"x", Set_Cookie="a=b")}
        await fetcher(web).text(f"http://name.test:{web.port}/")
        await fetcher(web).text(f"http://name.test:{web.port}/")
        assert proxy.connections == 0
    assert web.requests[0] == web.requests[1]
    assert sorted(line.partition(":")[0] for line in web.requests[0].splitlines()[1:-1]) == [
        "Accept",
        "Accept-Encoding",
        "Connection",
        "Host",
        "User-Agent",
    ]
