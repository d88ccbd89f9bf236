"""Files in the pure core: what is taken, what it is called, and what a Run knows of it."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runs import transcript
from perdure.runs.contract import MessageRequest, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.files import (
    INLINE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_NAME_CHARS,
    MAX_RUN_FILES,
    MAX_TEXT_FILE_BYTES,
    FileRef,
    StoredText,
)
from perdure.runs.given_file import File, checked_files, safe_name
from perdure.runs.limit_rules import before_model
from perdure.runs.limits import Limits
from perdure.runs.messages import UserMessage, wire
from perdure.runs.pages import transcript_page
from perdure.runs.start import ContextBundle, FollowUp, RunStart
from perdure.runs.steering import check_message
from perdure.runs.steps import ToolReply
from tests.harness.pictures import png
from tests.runs.building import answered, executed, pending, reply, running, wanted

JPEG, GIF, WEBP = b"\xff\xd8\xff\xe0.", b"GIF89a..", b"RIFF....WEBPVP8 "
PDF, WAV, MP3 = b"%PDF-1.4", b"RIFF....WAVEfmt ", b"ID3\x04"
ZIP, HTML = b"PK\3\4\0", b"<html></html>"


@pytest.mark.parametrize(
    ("data", "name", "declared", "found"),
    [
        (png(), "a", "", "image/png"),
        (JPEG, "photo.png", "", "image/jpeg"),
        (JPEG, "a", "image/jpg", "image/jpeg"),
        (GIF, "a", "", "image/gif"),
        (WEBP, "a", "Image/WebP", "image/webp"),
        (PDF, "a", "application/octet-stream", "application/pdf"),
        (WAV, "a", "audio/x-wav", "audio/wav"),
        (MP3, "a", "", "audio/mpeg"),
        (b"a,b", "A.CSV", "", "text/csv"),
        (b"{}", "a.json", "", "application/json"),
        (b"{}", "a.json", "text/plain; charset=utf-8", "text/plain"),
        (b"<svg/>", "a.svg", "", "image/svg+xml"),
        ("ö".encode(), "README", "", "text/plain"),
        (b"x", "a.exe", "", "text/plain"),
        (ZIP, "a.zip", "", "application/zip"),
        (ZIP, "a.txt", "", "application/octet-stream"),
        (ZIP, "a", "application/x-thing", "application/x-thing"),
        (b"BM..\0", "a", "image/bmp", "image/bmp"),
    ],
)
def test_the_type_is_found_out(data: bytes, name: str, declared: str, found: str) -> None:
    assert File.from_bytes(data, declared, name).media_type == found


@pytest.mark.parametrize(
    ("data", "name", "declared", "why"),
    [
        (b"", "a.txt", "", "is empty"),
        (HTML, "a.png", "", "is no image/png: by its content it is text"),
        (ZIP, "a.pdf", "", "is no application/pdf: by its content it is something else"),
        (HTML, "a", "image/png", "is no image/png"),
        (JPEG, "a", "image/png", "by its content it is image/jpeg"),
        (png(), "a", "text/plain", "is no text/plain in UTF-8"),
        ("ö".encode("latin-1"), "a", "text/plain", "is no text/plain in UTF-8"),
        ("a".encode("utf-16"), "a", "application/json", "in UTF-8"),
        (b"<svg>\0</svg>", "a.svg", "image/svg+xml", "in UTF-8"),
        (b"a", "a", "text", "is no media type"),
        (b"a", "a", "text/pl\nain", "is no media type"),
        (b"a", "a", "text/" + "x" * 99, "is no media type"),
    ],
)
def test_what_can_not_be_is_refused(data: bytes, name: str, declared: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        File.from_bytes(data, declared, name)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/b.png",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "https://",
        "https://user:secret@a/b.png",
        "https://a/b c.png",
        "https://a/b\n.png",
        "https://[::1/b.png",
        "https://ä.example/b.png",
        "https://a/" + "b" * 2048,
        "/etc/passwd",
    ],
)
def test_only_plain_urls_are_handed_to_the_provider(url: str) -> None:
    with pytest.raises(InvalidRequest, match="no URL that a provider can fetch"):
        File.from_url(url)


@pytest.mark.parametrize("data", ["text", 10, None])
def test_content_is_bytes(data: Any) -> None:
    with pytest.raises(InvalidRequest, match="no bytes"):
        File.from_bytes(data)


def test_a_url_is_an_image_named_by_its_end() -> None:
    file = File.from_url("https://a.example/x/%2e%2e%2fcat%0a.png?s=1").reference()
    assert (file.name, file.kind, file.bytes, file.sha256) == ("cat_.png", "image", 0, "")
    assert File.from_url("http://a.example/").name == "image"


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        ("", "file"),
        ("a\x1b[31m\n\0.txt", "a_[31m__.txt"),
        ("\u202etxt.exe", "_txt.exe"),
        ("half \ud83d.png", "half \ufffd.png"),
        ("x" * 300 + ".png", "x" * 116 + ".png"),
        ("報告書.pdf", "報告書.pdf"),
    ],
)
def test_names_are_made_harmless(given_name: str, name: str) -> None:
    assert safe_name(given_name) == name


@given(st.text())
def test_any_name_becomes_one(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe) <= MAX_NAME_CHARS
    assert safe.isprintable()
    assert not set(safe) & set("/\\")
    assert safe not in (".", "..")
    assert safe.encode()
    assert safe_name(safe) == safe


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=20))
def test_any_content_is_a_file_or_refused_and_survives_json(
    data: bytes, declared: str, name: str
) -> None:
    try:
        file = File.from_bytes(data, declared, name)
    except InvalidRequest:
        return
    known = file.reference()
    assert known.sha256 == hashlib.sha256(data).hexdigest()
    assert FileRef.model_validate_json(known.model_dump_json(exclude_none=True)) == known
    assert known.kind != "text" or data.decode()


def test_a_path_is_read_at_once_and_only_as_far_as_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    file = File.from_path(path)
    path.write_text("two")
    assert (file.name, file.data) == ("a.txt", b"one")
    with path.open("wb") as sparse:
        sparse.truncate(10 * MAX_FILE_BYTES)
    for bad in (path, tmp_path, tmp_path / "none", "a\0b", "half \ud83d"):
        with pytest.raises(InvalidRequest):
            File.from_path(bad)


def test_too_much_is_refused_as_such() -> None:
    largest = File.from_bytes(b"\0" * MAX_FILE_BYTES)
    for refused in (
        lambda: File.from_bytes(b"\0" * (MAX_FILE_BYTES + 1)),
        lambda: File.from_bytes(b"a" * (MAX_TEXT_FILE_BYTES + 1)),
        lambda: checked_files([File.from_bytes(b"a")] * (MAX_FILES + 1)),
        lambda: checked_files([File.from_bytes(png(MAX_FILE_BYTES - 200))] * 3),
    ):
        with pytest.raises(InvalidRequest) as exc:
            refused()
        assert exc.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    with pytest.raises(InvalidRequest, match="No model reads"):
        checked_files([largest])


@pytest.mark.parametrize(("size", "is_inline"), [(INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_small_content_travels_in_its_reference(size: int, is_inline: bool) -> None:
    known = File.from_bytes(b"a" * size).reference()
    assert (known.data is not None) == is_inline
    assert known.unplaced.data is None
    assert known.unplaced.identity == known.identity


def test_what_has_no_files_is_written_as_before() -> None:
    assert UserMessage(content="a").model_dump_json() == '{"role":"user","content":"a"}'
    assert wire(UserMessage(content="a")) == b'{"role":"user","content":"a"}'
    for value in (
        RunStart(agent="a", input="b"),
        MessageRequest(text="a", message_id="m"),
        FollowUp(after_step=0, text="a"),
        ToolReply(text="a"),
        running(),
        answered(running(), reply(None, wanted("a"))).tool_calls[0],
    ):
        assert "files" not in value.model_dump_json()


def ref(number: int = 1, size: int = 100_000, media_type: str = "image/png") -> FileRef:
    stored = StoredText(bytes=size, driver="d", claim={"key": str(number)})
    name, sha256 = f"{number}.png", f"{number:064}"
    return FileRef(name=name, media_type=media_type, bytes=size, sha256=sha256, stored=stored)


def test_the_digest_is_over_what_a_file_is_and_not_where() -> None:
    here, there = ref(), ref().model_copy(update={"stored": None, "data": "AAAA"})
    assert wire(UserMessage(content="", files=(here,))) == wire(
        UserMessage(content="", files=(there,))
    )
    for changed in ({"name": "b"}, {"media_type": "image/gif"}, {"bytes": 1}, {"sha256": "0"}):
        other = here.model_copy(update=changed)
        assert wire(UserMessage(content="", files=(other,))) != wire(
            UserMessage(content="", files=(here,))
        )


def test_files_stand_behind_all_results_in_the_order_of_the_calls() -> None:
    run = answered(running(), reply(None, wanted("a"), wanted("b")))
    hidden = ref(3, media_type="application/zip")
    run = executed(run, "b", ToolReply(text="B", files=(ref(2), hidden)))
    run = executed(run, "a", ToolReply(text="A", files=(ref(1),)))
    told = list(transcript.messages(run))[2:]
    assert [message.role for message in told] == ["tool", "tool", "user"]
    assert told[2] == UserMessage(content=transcript.TOOL_FILES, files=(ref(1), ref(2)))
    assert transcript.since_last_answer(run)[1] == tuple(told)


def test_files_count_for_the_window_and_for_what_is_carried_along() -> None:
    images, plain = pending(files=(ref(1), ref(2))), pending()
    assert transcript.filled_tokens(images) - transcript.filled_tokens(plain) == 3_000
    assert images.transcript_chars - plain.transcript_chars == 600
    earlier = ContextBundle(messages=(UserMessage(content="", files=(ref(),)),))
    assert pending(context=earlier).transcript_chars - plain.transcript_chars == 300
    small = File.from_bytes(b"a" * 4_000).reference()
    assert pending(files=(small,)).transcript_chars > 5_300
    sizes = {"text/csv": 33_333, "application/pdf": 3_333, "audio/mpeg": 62, "application/zip": 0}
    for media_type, tokens in sizes.items():
        assert ref(media_type=media_type).tokens == tokens


def test_pages_count_what_files_bring_along() -> None:
    files = (File.from_bytes(b"a" * 4_000).reference(),)
    messages: Any = tuple(UserMessage(content="", files=files) for _ in range(20))
    run = pending(context=ContextBundle(messages=messages))
    page = transcript_page(run, TranscriptPageRequest(max_bytes=50_000))
    assert len(page.messages) < 10
    assert len(page.model_dump_json()) < 80_000


def test_a_run_takes_only_so_many_files_from_people() -> None:
    run = running(files=(ref(),) * (MAX_RUN_FILES - 1))
    check_message(run, MessageRequest(text="", message_id="m", files=(ref(2),)))
    with pytest.raises(InvalidRequest, match="has 201 files; 200 are allowed"):
        check_message(run, MessageRequest(text="", message_id="m", files=(ref(2), ref(3))))


def test_other_pictures_are_another_result() -> None:
    def drawn(*numbers: int) -> Any:
        run = running(limits=Limits(max_identical_calls=3))
        for number in numbers:
            run = answered(run, reply(None, wanted("a")))
            run = executed(run, "a", ToolReply(text="Drawn.", files=(ref(number),)))
        return before_model(run)

    assert drawn(1, 2, 3) is None
    assert drawn(1, 1, 1).code is ErrorCode.MAX_IDENTICAL_CALLS
