"""Event streams, cut into chunks in every way, and bent in the ways that gateways bend them."""

from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities import sse
from perdure.activities.sse import EventTooLarge, events


async def sent(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks as a connection does."""
    for chunk in chunks:
        yield chunk


async def events_of(*chunks: bytes) -> list[str]:
    """Return the data of all events."""
    return [data async for data in events(sent(chunks)) if data is not None]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """Return the stream cut at these places."""
    ends = [*sorted({place % (len(stream) + 1) for place in places}), len(stream)]
    return [stream[a:b] for a, b in zip([0, *ends], ends, strict=False)]


STREAMS: dict[str, tuple[bytes, list[str]]] = {
    "plain": (b"data: a\n\ndata: b\n\n", ["a", "b"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    "CR": (b"data: a\r\rdata: b\rdata: c\r\r", ["a", "b\nc"]),
    "all line ends mixed": (b"data: a\r\n\rdata: b\n\rdata: c\r\r\n\n", ["a", "b", "c"]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    "a byte order mark and nothing else": (b"\xef\xbb\xbfdata: a", ["a"]),
    "a byte order mark that is no mark": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
    "no space": (b"data:a\n\n", ["a"]),
    "only the first space is dropped": (b"data:  a \n\n", [" a "]),
    "several lines": (b"data: a\ndata: b\n\n", ["a\nb"]),
    "an empty line of data": (b"data: a\ndata:\n\n", ["a\n"]),
    "STRM-05 a retry hint": (b"retry: 3000\n\ndata: a\n\n", ["a"]),
    "a retry hint inside an event": (b"retry: 3000\ndata: a\n\n", ["a"]),
    "comments": (b": ping\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n:\n\n", ["a"]),
    "other fields": (b"event: x\nid: 7\ndata: a\n\nevent: y\n\n", ["a"]),
    "fields that only look alike": (b"data\ndatabase: x\ndata: a\n\n", ["a"]),
    "many blank lines": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", ["a", "b"]),
    "the last blank line is missing": (b"data: a\n\ndata: b\n", ["a", "b"]),
    "the last line end is missing": (b"data: a\n\ndata: b", ["a", "b"]),
    "the last of several lines is cut": (b"data: a\ndata: b", ["a\nb"]),
    "characters of several bytes": ("data: grüße 漢字 😀\n\n".encode(), ["grüße 漢字 😀"]),
    "bytes that are no text": (b"data: a\xff\n\n", ["a\ufffd"]),
    "nothing": (b"", []),
    "a page": (b"<html>\n<body>login</body>\n</html>\n", []),
}


@pytest.mark.parametrize("case", list(STREAMS))
async def test_a_stream_is_read_as_the_standard_says(case: str) -> None:
    stream, expected = STREAMS[case]
    assert await events_of(stream) == expected


@pytest.mark.parametrize("case", list(STREAMS))
async def test_a_stream_that_comes_byte_by_byte_is_the_same_stream(case: str) -> None:
    stream, expected = STREAMS[case]
    assert await events_of(*(bytes([byte]) for byte in stream)) == expected


@given(st.sampled_from(list(STREAMS)), st.lists(st.integers(0, 99), max_size=6))
async def test_a_stream_cut_anywhere_is_the_same_stream(case: str, places: list[int]) -> None:
    stream, expected = STREAMS[case]
    chunks = cut(stream, places)
    assert b"".join(chunks) == stream
    assert await events_of(*chunks) == expected


LINE = st.sampled_from([b"data: a", b"data:", b":", b"", b"retry: 1", b"data: \xc3\xa4", b"\r"])


@given(
    st.lists(st.tuples(LINE, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=8),
    st.lists(st.integers(0, 99), max_size=6),
)
async def test_no_way_of_cutting_changes_any_stream(
    lines: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    stream = b"".join(line + end for line, end in lines)
    assert await events_of(*cut(stream, places)) == await events_of(stream)


@pytest.mark.parametrize("endless", [b"x" * 64, b"data: " + b"x" * 58, b"data: x\n" * 8])
async def test_an_event_without_an_end_does_not_eat_the_memory(
    endless: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    taken = 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield endless

    with pytest.raises(EventTooLarge):
        [data async for data in events(stream())]
    assert taken < 40


@pytest.mark.parametrize(
    ("chunk", "signs"),
    [
        (b": ping\n", 1),
        (b"\n", 1),
        (b"\r", 1),
        (b"retry: 3\n\n", 1),
        (b"data: a\n", 1),
        (b"data: a\n\n", 0),
        (b"x", 0),
        (b"data: a", 0),
    ],
)
async def test_whole_lines_are_signs_of_life_and_other_bytes_are_none(
    chunk: bytes, signs: int
) -> None:
    silent = [data async for data in events(sent([chunk])) if data is None]
    assert len(silent) == signs


async def test_many_events_in_one_large_chunk_are_no_large_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    assert await events_of(b"data: a\n\n" * 50) == ["a"] * 50
