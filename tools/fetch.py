"""Read a page of the web, from public addresses only.

A name is resolved once, each of its addresses is checked, and the connection goes to one that
was checked, by number; the name is only told to the server. So neither a spelling, a redirect
nor a name server that answers differently the second time leads into the worker's own network.
No proxy is used: it would resolve the name again.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx2

from perdure.agents.tool import Tool, tool
from perdure.runs.errors import ErrorCode, ToolRefused
from perdure.tools.addresses import Network, may_connect, networks
from perdure.tools.page import MAX_BYTES, page_text, refuse_unreadable

MAX_SECONDS = 20.0
"""For everything, redirects included."""
MAX_REDIRECTS = 5
MAX_URL_CHARACTERS = 4096
_PORTS = {"http": 80, "https": 443}
_HEADERS = {
    "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
    "User-Agent": "perdure",
}

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def _resolved(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Fetcher:
    """Where pages may come from, and how names are resolved."""

    ports: frozenset[int] = frozenset(_PORTS.values())
    also: tuple[Network, ...] = ()
    """Networks that may be connected to though they are not public."""
    resolve: Resolve = _resolved

    async def text(self, url: str) -> str:
        """Return what a URL shows, as text.

        Raises:
            ToolRefused: `url_denied`.
            ValueError: What is there is no text, or an error.
            httpx2.HTTPError: The server can't be reached, or what it says is not HTTP.
            TimeoutError: It took longer than `MAX_SECONDS`.
        """
        try:
            async with asyncio.timeout(MAX_SECONDS), _client() as client:
                return await self._followed(client, url)
        except TimeoutError:
            raise TimeoutError(f"It took longer than {MAX_SECONDS:g} seconds.") from None

    async def _followed(self, client: httpx2.AsyncClient, text: str) -> str:
        url = _parsed(text)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._opened(client, url)
            try:
                if not response.has_redirect_location:
                    return await _read(response, url)
                # Against the URL with the name: the request's has the address in its place.
                url = _parsed(response.headers["location"], url)
            finally:
                await response.aclose()
        raise ValueError(f"There were more than {MAX_REDIRECTS} redirects.")

    async def _opened(self, client: httpx2.AsyncClient, url: httpx2.URL) -> httpx2.Response:
        """Ask for a URL at the first of its addresses that can be connected to."""
        problem: httpx2.HTTPError | None = None
        for address in await self._addresses(url):
            request = client.build_request(
                "GET",
                url.copy_with(host=address),
                headers={"Host": url.netloc.decode()},
                extensions={"sni_hostname": _host(url).rstrip(".")},
            )
            try:
                return await client.send(request, stream=True)
            except httpx2.ConnectError as exc:
                problem = exc
        raise problem or ValueError(f"{_host(url)!r} has no address.")

    async def _addresses(self, url: httpx2.URL) -> list[str]:
        """Return the addresses of a URL's host: all of them fit to connect to, or none."""
        host, port = _host(url), _PORTS[url.scheme] if url.port is None else url.port
        if port not in self.ports:
            raise _denied(url, f"port {port} is not allowed")
        try:
            found = await self.resolve(host, port)
        except (OSError, UnicodeError) as exc:
            raise ValueError(f"There is no host {host!r}.") from exc
        if not all(may_connect(address, self.also) for address in found):
            raise _denied(url, "it is not on the public internet")
        return found


def fetch_tool(
    *, ports: Iterable[int] = (80, 443), also_allow: Iterable[str] = (), name: str = "fetch_url"
) -> Tool[[str], Coroutine[Any, Any, str]]:
    """Return a tool that reads pages of the web.

    Args:
        ports: The ports it may connect to.
        also_allow: Networks that it may connect to though they are not public, such as
            "10.1.0.0/16". Whoever can speak to the model can then read what is there.
        name: The tool's name.

    Raises:
        ValueError: `also_allow` has something that is no network.
    """
    fetcher = Fetcher(frozenset(ports), networks(also_allow))

    @tool(name=name, effect="read", timeout_s=2 * MAX_SECONDS)
    async def fetch_url(url: str) -> str:
        """Read a page or a text file of the public web.

        Args:
            url: Beginning with https:// or http://.

        Returns:
            The text; of a page in HTML, as Markdown.
        """
        return await fetcher.text(url)

    return fetch_url


fetch_url = fetch_tool()
"""Reads pages of the public web."""


def _client() -> httpx2.AsyncClient:
    # One for each page and nothing kept alive: a connection made for one name must not be used
    # for another at the same address. Nothing of the environment: no proxy, no .netrc.
    return httpx2.AsyncClient(
        headers=_HEADERS,
        trust_env=False,
        verify=_certificates(),
        timeout=MAX_SECONDS,
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Return whom to trust; made once, for it takes as long as a whole answer."""
    return httpx2.create_ssl_context(trust_env=False)


def _host(url: httpx2.URL) -> str:
    """Return the host as it is resolved and told to the server: in ASCII."""
    return url.raw_host.decode()


def _parsed(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    if len(text) > MAX_URL_CHARACTERS:
        raise _denied(text, f"it is longer than {MAX_URL_CHARACTERS} characters")
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except httpx2.InvalidURL as exc:
        raise _denied(text, str(exc)) from None
    if url.scheme not in _PORTS:
        raise _denied(text, "only http and https are allowed")
    if not url.host or "%" in url.host:
        raise _denied(text, "it has no proper host")
    if url.userinfo:
        raise _denied(text, "it has a user name or a password")
    return url


async def _read(response: httpx2.Response, url: httpx2.URL) -> str:
    if response.is_error:
        raise ValueError(f"The answer was {response.status_code} {response.reason_phrase}.")
    refuse_unreadable(response)
    data = bytearray()
    async for part in response.aiter_bytes():
        data += part
        if len(data) > MAX_BYTES:
            break
    cut = len(data) > MAX_BYTES
    # A thread of its own: it may take a second. It can't be stopped, but its input is bounded.
    text = await asyncio.to_thread(page_text, bytes(data[:MAX_BYTES]), response)
    return f"{text}\n(cut after {MAX_BYTES} bytes of {str(url)!r})" if cut else text


def _denied(url: httpx2.URL | str, why: str) -> ToolRefused:
    return ToolRefused(f"{str(url)[:200]!r} is refused: {why}.", code=ErrorCode.URL_DENIED)
