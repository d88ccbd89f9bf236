"""Recent transcripts of a worker: bounded by bytes, and never trusted without their digest.

Nothing here is needed for correctness: on a miss (another worker, a restart, an evicted
entry) the transcript is read page by page from the Run's own workflow.
"""

from collections.abc import Awaitable, Callable

from perdure.activities.failure import failed
from perdure.activities.lru import ByteLru
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, error
from perdure.runs.files import FileRef, chars
from perdure.runs.messages import (
    MessageReference,
    SentMessage,
    ToolMessage,
    UserMessage,
    digest,
    wire,
)
from perdure.runs.steps import Mark
from perdure.runs.transcript import advance

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
"""Memory for transcripts in one worker: a thousand Runs of 64 KB, or a few very long ones."""

RESULT_CACHE_BYTES = 16 * 1024 * 1024
"""Memory for results between a tool's activity and the model call that follows it."""

PageReader = Callable[[TranscriptPageRequest], Awaitable[TranscriptPage]]
"""Reads messages out of the Run's workflow."""


class Transcript:
    """The messages of one Run in wire form, with the digest after each."""

    def __init__(self, wired: list[bytes] | None = None, marks: list[Mark] | None = None) -> None:
        self.wired = wired or []
        self.marks = marks or [Mark()]
        self.places: dict[str, FileRef] = {}
        """Where the files are that its messages name, by their SHA-256."""

    @property
    def mark(self) -> Mark:
        """Where the transcript stands."""
        return self.marks[-1]

    @property
    def size(self) -> int:
        """Bytes that keeping it takes, roughly."""
        return sum(map(len, self.wired)) + 300 * len(self.marks) + chars(self.places.values())

    def append(self, wired: bytes) -> None:
        """Add one message."""
        self.wired.append(wired)
        self.marks.append(advance(self.mark, wired))

    def learn(self, message: SentMessage) -> None:
        """Remember where the files of a message are, which its wire form does not say."""
        if isinstance(message, UserMessage):
            self.places.update({file.sha256: file for file in message.files if file.sha256})

    def holds(self, mark: Mark) -> bool:
        """Tell whether its first `mark.count` messages are the ones that `mark` stands for."""
        return mark.count < len(self.marks) and self.marks[mark.count] == mark

    def up_to(self, mark: Mark) -> "Transcript":
        """Return a copy that ends at `mark`; this one stays as it is."""
        copy = Transcript(self.wired[: mark.count], self.marks[: mark.count + 1])
        copy.places |= self.places
        return copy


class Transcripts:
    """Recent transcripts by run id, and recent results by digest.

    Args:
        max_bytes: Memory that all transcripts together may take.
        result_bytes: Memory that all results together may take.
    """

    def __init__(
        self, max_bytes: int = DEFAULT_CACHE_BYTES, result_bytes: int = RESULT_CACHE_BYTES
    ) -> None:
        self._transcripts: ByteLru[Transcript] = ByteLru(max_bytes)
        self._results: ByteLru[bytes] = ByteLru(result_bytes)
        self.misses = 0
        """Transcripts, or results, that had to be read from the workflow."""

    @property
    def size(self) -> int:
        """Memory that transcripts and results take, roughly."""
        return self._transcripts.size + self._results.size

    async def load(self, run_id: str, request: ModelRequest, read: PageReader) -> Transcript:
        """Return the transcript that `request` asks to be continued, its new messages included.

        Raises:
            ApplicationError: `internal`, when the workflow's messages do not have the digest
                that it told us; nothing is sent to a model then.
        """
        cached = self._transcripts.get(run_id)
        known = cached is not None and cached.holds(request.after)
        transcript = cached.up_to(request.after) if cached and known else Transcript()
        if request.messages is not None and transcript.mark == request.after:
            new = [self._wired(message) for message in request.messages]
            for message in request.messages:
                transcript.learn(message)
            if None not in new:
                for wired in filter(None, new):
                    transcript.append(wired)
                return transcript
        self.misses += request.messages is not None
        await _read_rest(transcript, read)
        if not transcript.holds(request.after):
            raise failed(error(ErrorCode.INTERNAL, "The transcript does not match its digest."))
        return transcript

    def keep(self, run_id: str, transcript: Transcript) -> None:
        """Remember the transcript of a Run."""
        self._transcripts.keep(run_id, transcript, transcript.size)

    def keep_result(self, message: ToolMessage) -> None:
        """Remember a tool's result, which the next model call of its Run refers to."""
        wired = wire(message)
        self._results.keep(digest(wired), wired, len(wired))

    def forget(self, run_id: str) -> None:
        """Drop what is remembered of a Run."""
        self._transcripts.forget(run_id)

    def _wired(self, message: SentMessage) -> bytes | None:
        if isinstance(message, MessageReference):
            return self._results.get(message.digest)
        return wire(message)


async def _read_rest(transcript: Transcript, read: PageReader) -> None:
    start: int | None = transcript.mark.count
    while start is not None:
        page = await read(TranscriptPageRequest(start=start))
        for message in page.messages:
            transcript.learn(message)
            transcript.append(wire(message))
        start = page.next_start
