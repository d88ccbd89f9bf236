"""What is read of a page: text, in a bounded size and time."""

import asyncio
import gzip

import httpx2
import pytest

from perdure.tools.page import MAX_BYTES
from tests.tools.web import Web, fetcher, page

LIMIT_S = 5.0
BOMB = gzip.compress(b"0" * 100_000_000, mtime=0)
DRIP = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


async def test_what_is_long_is_cut_also_when_it_was_packed_small(web: Web) -> None:
    web.pages = {
        "/long": page(b"x" * (MAX_BYTES + 1)),
        "/bomb": page(BOMB, Content_Encoding="gzip"),
        "/fits": page(b"x" * MAX_BYTES),
    }
    web.endless = {"/endless": (DRIP + b"\r\n", b"y" * 10_000)}
    for path in ("long", "bomb", "endless"):
        text = await fetcher(web).text(f"http://name.test:{web.port}/{path}")
        assert text[MAX_BYTES:].startswith(f"\n(cut after {MAX_BYTES} bytes of")
    assert await fetcher(web).text(f"http://name.test:{web.port}/fits") == "x" * MAX_BYTES


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"", b""),
        (DRIP, b"X-More: 1\r\n"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (DRIP + b"Content-Length: 9\r\n\r\n12345678", b""),
        (DRIP + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"", mtime=0)),
    ],
)
async def test_a_server_that_never_comes_to_an_end_is_left(
    web: Web, monkeypatch: pytest.MonkeyPatch, begin: bytes, part: bytes
) -> None:
    monkeypatch.setattr("perdure.tools.fetch.MAX_SECONDS", 0.3)
    web.endless = {"/": (begin, part)}
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises((TimeoutError, httpx2.HTTPError)):
            await fetcher(web).text(f"http://name.test:{web.port}/")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (page(b"x", "image/png"), "type 'image/png', not text"),
        (page(b"x", "application/octet-stream"), "not text"),
        (page(b"x", "application/pdf"), "not text"),
        (page(b"a\0b"), "is not text, though it says so"),
        (page(b"x", Content_Encoding="br"), "encoded as 'br'"),
        (
            page(gzip.compress(BOMB, mtime=0), Content_Encoding="gzip, gzip"),
            "encoded as 'gzip, gzip'",
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "The answer was 404 Not Found"),
        (b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", "The answer was 500"),
    ],
)
async def test_what_is_no_text_is_not_read(web: Web, answer: bytes, why: str) -> None:
    web.pages = {"/": answer}
    with pytest.raises(ValueError, match=why):
        await fetcher(web).text(f"http://name.test:{web.port}/")


HTML = b"""<!doctype html><title>T</title><style>p{}</style><script>evil()</script>
<h1>Head</h1><p>One <b>bold</b> <a href="/x">link</a>.<ul><li>a<li>b</ul>"""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (page("ä".encode(), "text/plain; charset=utf-8"), "ä"),
        (page("ä".encode("latin-1"), "text/plain; charset=iso-8859-1"), "ä"),
        (page("ä".encode(), "text/plain; charset=punycode"), "ä"),
        (page("ä".encode(), "text/plain; charset=zlib_codec"), "ä"),
        (page("ä".encode(), "text/plain; charset=nonsense"), "ä"),
        (page(b'{"a": 1}', "application/problem+json"), '{"a": 1}'),
        (page(gzip.compress(b"packed", mtime=0), Content_Encoding="gzip"), "packed"),
        (page(b"\xff"), "\N{REPLACEMENT CHARACTER}"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"),
    ],
)
async def test_text_is_read_as_it_says_it_is_written(web: Web, answer: bytes, text: str) -> None:
    web.pages = {"/": answer}
    assert await fetcher(web).text(f"http://name.test:{web.port}/") == text


async def test_a_page_in_html_becomes_markdown(web: Web) -> None:
    meta = '<meta charset="windows-1252"><p>ä'.encode("cp1252")
    web.pages = {"/": page(HTML, "text/html"), "/meta": page(meta, "text/html")}
    text = await fetcher(web).text(f"http://name.test:{web.port}/")
    assert "# Head\n\nOne **bold** [link](/x).\n\n- a\n- b" in text
    assert "evil" not in text
    assert "ä" in await fetcher(web).text(f"http://name.test:{web.port}/meta")


@pytest.mark.parametrize("part", ["<div>", "<!--", "<"])
async def test_a_page_of_nothing_but_tags_does_no_harm(web: Web, part: str) -> None:
    body = (part * (MAX_BYTES // len(part))).encode()
    web.pages = {"/": page(body, "text/html")}
    await fetcher(web).text(f"http://name.test:{web.port}/")
