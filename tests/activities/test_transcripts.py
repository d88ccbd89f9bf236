"""The worker's memory of transcripts: bounded, and never trusted without a digest."""

import pytest
from temporalio.exceptions import ApplicationError

from perdure.activities.transcripts import Transcript, Transcripts
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
from perdure.runs.messages import (
    AssistantMessage,
    Message,
    MessageReference,
    SentMessage,
    ToolMessage,
    UserMessage,
    sent,
    wire,
)
from perdure.runs.steps import Mark

HELLO: tuple[Message, ...] = (
    UserMessage(content="Hello."),
    AssistantMessage(content="Hi."),
    UserMessage(content="How are you?"),
)


class Pages:
    """A Run's workflow that answers for its transcript, a message a page."""

    def __init__(self, *said: Message) -> None:
        self.said = said
        self.starts: list[int] = []

    async def read(self, request: TranscriptPageRequest) -> TranscriptPage:
        self.starts.append(request.start)
        following = request.start + 1
        return TranscriptPage(
            messages=self.said[request.start : following],
            next_start=following if following < len(self.said) else None,
        )


def transcript(*said: Message) -> Transcript:
    """Return a transcript of these messages."""
    made = Transcript()
    for message in said:
        made.append(wire(message))
    return made


def asking(after: Mark, new: tuple[SentMessage, ...] | None) -> ModelRequest:
    """Return a request that goes on after a mark."""
    return ModelRequest(agent="helper", step=3, turn=2, after=after, messages=new)


async def test_a_remembered_transcript_is_continued_without_asking_the_workflow() -> None:
    known, pages = Transcripts(), Pages()
    known.keep("r1", transcript(*HELLO[:2]))
    request = asking(transcript(*HELLO[:2]).mark, HELLO[2:])
    loaded = await known.load("r1", request, pages.read)
    assert loaded.wired == [wire(message) for message in HELLO]
    assert loaded.mark == transcript(*HELLO).mark
    assert (pages.starts, known.misses) == ([], 0)


async def test_the_first_turn_is_no_miss_and_asks_for_nothing() -> None:
    known, pages = Transcripts(), Pages()
    loaded = await known.load("r1", asking(Mark(), HELLO), pages.read)
    assert loaded.mark == transcript(*HELLO).mark
    assert (pages.starts, known.misses) == ([], 0)


async def test_what_is_not_remembered_is_read_page_by_page() -> None:
    known, pages = Transcripts(), Pages(*HELLO)
    request = asking(transcript(*HELLO[:2]).mark, HELLO[2:])
    loaded = await known.load("r1", request, pages.read)
    assert loaded.mark == transcript(*HELLO).mark
    assert (pages.starts, known.misses) == ([0, 1, 2], 1)


async def test_news_too_large_to_be_sent_are_read_and_only_they() -> None:
    known, pages = Transcripts(), Pages(*HELLO)
    known.keep("r1", transcript(*HELLO[:2]))
    request = asking(transcript(*HELLO[:2]).mark, None)
    loaded = await known.load("r1", request, pages.read)
    assert loaded.mark == transcript(*HELLO).mark
    assert (pages.starts, known.misses) == ([2], 0)


async def test_a_remembered_transcript_that_differs_in_one_byte_is_not_used() -> None:
    known, pages = Transcripts(), Pages(*HELLO)
    known.keep("r1", transcript(UserMessage(content="Hello!"), HELLO[1]))
    request = asking(transcript(*HELLO[:2]).mark, HELLO[2:])
    loaded = await known.load("r1", request, pages.read)
    assert loaded.mark == transcript(*HELLO).mark
    assert (pages.starts, known.misses) == ([0, 1, 2], 1)


async def test_a_remembered_transcript_that_went_further_is_used_up_to_the_mark() -> None:
    """An attempt may have been answered though its answer never reached the workflow."""
    known, pages = Transcripts(), Pages()
    further = transcript(*HELLO[:2], AssistantMessage(content="Lost."))
    known.keep("r1", further)
    loaded = await known.load("r1", asking(transcript(*HELLO[:2]).mark, HELLO[2:]), pages.read)
    assert loaded.mark == transcript(*HELLO).mark
    assert len(further.wired) == 3
    assert further.wired[2] == wire(AssistantMessage(content="Lost."))


@pytest.mark.parametrize("said", [(), HELLO[:1], (HELLO[0], AssistantMessage(content="Ho."))])
async def test_messages_of_another_digest_are_refused(said: tuple[Message, ...]) -> None:
    request = asking(transcript(*HELLO[:2]).mark, None)
    with pytest.raises(ApplicationError, match="does not match its digest") as refused:
        await Transcripts().load("r1", request, Pages(*said).read)
    assert (refused.value.type, refused.value.non_retryable) == ("internal", True)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_result_is_taken_from_memory_or_else_read(kept: bool) -> None:
    result = ToolMessage(tool_call_id="a", content="long " * 100)
    said = (*HELLO[:2], result)
    known, pages = Transcripts(), Pages(*said)
    known.keep("r1", transcript(*said[:2]))
    if kept:
        known.keep_result(result)
    referred = sent(result)
    assert isinstance(referred, MessageReference)
    loaded = await known.load("r1", asking(transcript(*said[:2]).mark, (referred,)), pages.read)
    assert loaded.mark == transcript(*said).mark
    assert (pages.starts, known.misses) == (([], 0) if kept else ([2], 1))


async def remembers(known: Transcripts, run_id: str, held: Transcript) -> bool:
    """Tell whether a transcript is found without asking the workflow."""
    pages = Pages(*HELLO)
    await known.load(run_id, asking(held.mark, ()), pages.read)
    return not pages.starts


async def test_the_least_recently_kept_make_room() -> None:
    one = transcript(*HELLO)
    known = Transcripts(max_bytes=2 * one.size)
    for run_id in ("r1", "r2", "r1", "r3"):
        known.keep(run_id, one)
    assert [await remembers(known, run_id, one) for run_id in ("r1", "r2", "r3")] == [
        True,
        False,
        True,
    ]


async def test_one_that_is_larger_than_all_memory_is_not_kept_and_nobody_has_to_go() -> None:
    small, large = transcript(*HELLO), transcript(*HELLO, UserMessage(content="x" * 9999))
    known = Transcripts(max_bytes=small.size)
    known.keep("r1", small)
    known.keep("r2", large)
    assert await remembers(known, "r1", small)
    assert not await remembers(known, "r2", small)


async def test_keeping_a_run_again_counts_it_once() -> None:
    one = transcript(*HELLO)
    known = Transcripts(max_bytes=2 * one.size)
    known.keep("r1", one)
    for _ in range(9):
        known.keep("r2", one)
    assert await remembers(known, "r1", one)
    known.forget("r2")
    known.forget("never kept")
    assert not await remembers(known, "r2", one)
