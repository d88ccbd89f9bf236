"""What a model is shown of files: looked up once, checked always, within what a request holds."""

import json
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.shown_files import ShownFiles
from perdure.activities.transcripts import Transcript
from perdure.agents.profile import ModelProfile
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ConfigurationError
from perdure.runs.files import MAX_FILE_BYTES, FileRef, StoredText
from perdure.runs.given_file import File
from perdure.runs.messages import AssistantMessage, UserMessage, wire
from tests.harness.pictures import image_part, png, text_part

TURN = ModelRequest(agent="a", step=1, turn=1)
LATER = ModelRequest(agent="a", step=3, turn=2)
USUAL = ModelProfile()


class Storage:
    """Keeps contents by number, and counts how often they are read."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.reads = 0

    def keep(self, file: File) -> FileRef:
        key = str(len(self.kept))
        self.kept[key] = file.data
        stored = StoredText(bytes=len(file.data), driver="d", claim={"key": key})
        return file.reference().model_copy(update={"data": None, "stored": stored})

    async def read(self, stored: StoredText) -> bytes:
        self.reads += 1
        if stored.driver != "d":
            raise ConfigurationError("No such storage.", hint="Configure it.")
        return self.kept[stored.claim["key"]]


def said(*messages: UserMessage) -> Transcript:
    made = Transcript()
    for message in messages:
        made.learn(message)
        made.append(wire(message))
    return made


def with_files(*files: FileRef, text: str = "") -> UserMessage:
    return UserMessage(content=text, files=files)


async def shown(
    files: ShownFiles, transcript: Transcript, request: ModelRequest = TURN, **profile: Any
) -> list[Any]:
    profiled = ModelProfile(**profile)
    found = await ActivityEnvironment().run(files.shown, transcript, profiled, request)
    assert len(found.messages) == len(transcript.wired)
    return [json.loads(each)["content"] for each in found.messages]


async def refused(storage: Storage, message: UserMessage, **profile: Any) -> str:
    with pytest.raises(ApplicationError) as exc:
        await shown(ShownFiles(storage.read), said(message), **profile)
    assert exc.value.non_retryable
    return str(exc.value.type)


async def test_content_is_read_once_for_many_calls_and_again_when_it_was_let_go_of() -> None:
    storage = Storage()
    picture = png(30_000)
    transcript = said(with_files(storage.keep(File.from_bytes(picture)), text="Look."))
    remembering, forgetting = ShownFiles(storage.read), ShownFiles(storage.read, max_bytes=1)
    for files, reads in ((remembering, 1), (forgetting, 3)):
        storage.reads = 0
        for _ in range(3):
            assert await shown(files, transcript) == [[text_part("Look."), image_part(picture)]]
        assert storage.reads == reads
    assert await shown(remembering, transcript, LATER, images=False) == [
        "Look.\n\n[The file file (image/png, 30,081 bytes): this model can't read it.]"
    ]


async def test_what_has_no_files_goes_out_as_it_is() -> None:
    transcript = said(UserMessage(content="Hello."))
    files = ShownFiles(Storage().read)
    found = await ActivityEnvironment().run(files.shown, transcript, USUAL, TURN)
    assert found.messages is transcript.wired
    assert found.surplus == 0


async def test_nothing_else_than_what_was_given_is_shown() -> None:
    storage = Storage()
    known = storage.keep(File.from_bytes(png(30_000)))
    storage.kept["0"] = png(30_000, 2)
    assert await refused(storage, with_files(known)) == "storage_unavailable"
    small = File.from_bytes(png()).reference()
    for data in ("AAAA", "no base64", None):
        damaged = small.model_copy(update={"data": data})
        assert await refused(storage, with_files(damaged)) == "storage_unavailable"
    elsewhere = StoredText(bytes=1, driver="other", claim={})
    moved = small.model_copy(update={"data": None, "stored": elsewhere})
    assert await refused(storage, with_files(moved)) == "storage_unavailable"


async def test_more_than_a_request_holds_is_too_long_a_conversation() -> None:
    storage = Storage()
    large = FileRef(name="a", media_type="image/png", bytes=MAX_FILE_BYTES, sha256="0")
    assert await refused(storage, with_files(*[large] * 4)) == "context_overflow"
    assert storage.reads == 0


@pytest.mark.parametrize(
    ("file", "switch"),
    [
        (File.from_bytes(png()), "images"),
        (File.from_url("https://a.example/b.png"), "images"),
        (File.from_bytes(b"%PDF-1.4"), "documents"),
        (File.from_bytes(b"ID3."), "audio"),
    ],
)
async def test_only_the_input_is_refused_of_what_a_model_can_not_read(
    file: File, switch: str
) -> None:
    storage = Storage()
    message = with_files(file.reference(), text="Look.")
    assert await refused(storage, message, **{switch: False}) == "unsupported_file"
    files = ShownFiles(storage.read)
    [told] = await shown(files, said(message), LATER, **{switch: False})
    [earlier, _] = await shown(files, said(message, UserMessage(content="So?")), **{switch: False})
    assert told == earlier
    assert told.startswith("Look.\n\n[The file ")


async def test_text_goes_out_as_text_without_a_byte_order_mark() -> None:
    csv = File.from_bytes(b"\xef\xbb\xbfa,b", name='say "hi".csv').reference()
    [told] = await shown(ShownFiles(Storage().read), said(with_files(csv, csv, text="Read.")))
    part = 'File "say \\"hi\\".csv":\na,b'
    assert told == f"Read.\n\n{part}\n\n{part}"


async def test_bytes_that_are_no_text_do_not_count_as_such() -> None:
    storage = Storage()
    picture = storage.keep(File.from_bytes(png(1_000_000)))
    long = storage.keep(File.from_bytes(b"word " * 20_000))
    files = ShownFiles(storage.read)
    found = await ActivityEnvironment().run(
        files.shown, said(with_files(picture), with_files(long)), USUAL, TURN
    )
    size = sum(map(len, found.messages))
    # An image takes 1,500 tokens, whatever its size; four bytes of text count as one.
    assert 100_000 < size - found.surplus < 100_000 + 4 * 1_500 + 1_000


async def test_what_is_summed_up_names_files_and_reads_only_short_text() -> None:
    storage = Storage()
    files = [png(30_000), b"short", b"long " * 20_000, b"%PDF-1.4"]
    kept = [storage.keep(File.from_bytes(data)) for data in files]
    transcript = said(with_files(*kept, text="See."))
    transcript.append(wire(AssistantMessage(content="Seen.")))
    request = LATER.model_copy(update={"purpose": "compact", "summarise": 1})
    told, answer = await shown(ShownFiles(storage.read), transcript, request, images=False)
    assert told == (
        "See.\n\n[The file file (image/png, 30,081 bytes).]\n\n"
        'File "file":\nshort\n\n[The file file (text/plain, 100,000 bytes).]\n\n'
        "[The file file (application/pdf, 8 bytes).]"
    )
    assert answer == "Seen."
    assert storage.reads == 1
