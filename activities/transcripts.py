"""Recent transcripts of a worker: bounded by bytes, and never trusted without their digest.

Nothing here is needed for correctness: on a miss (another worker, a restart, an evicted
entry) the transcript is read page by page from the Run's own workflow.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from perdure.activities.failure import failed
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import wire
from perdure.runs.steps import Mark
from perdure.runs.transcript import advance

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
"""Memory for transcripts in one worker: a thousand Runs of 64 KB, or a few very long ones."""

PageReader = Callable[[TranscriptPageRequest], Awaitable[TranscriptPage]]
"""Reads messages out of the Run's workflow."""


class Transcript:
    """The messages of one Run in wire form, with the digest after each."""

    def __init__(self, wired: list[bytes] | None = None, marks: list[Mark] | None = None) -> None:
        self.wired = wired or []
        self.marks = marks or [Mark()]

    @property
    def mark(self) -> Mark:
        """Where the transcript stands."""
        return self.marks[-1]

    @property
    def size(self) -> int:
        """Bytes that keeping it takes, roughly."""
        return sum(map(len, self.wired)) + 300 * len(self.marks)

    def append(self, wired: bytes) -> None:
        """Add one message."""
        self.wired.append(wired)
        self.marks.append(advance(self.mark, wired))

    def holds(self, mark: Mark) -> bool:
        """Tell whether its first `mark.count` messages are the ones that `mark` stands for."""
        return mark.count < len(self.marks) and self.marks[mark.count] == mark

    def up_to(self, mark: Mark) -> "Transcript":
        """Return a copy that ends at `mark`; this one stays as it is."""
        return Transcript(self.wired[: mark.count], self.marks[: mark.count + 1])


class Transcripts:
    """Least recently used transcripts, by run id.

    Args:
        max_bytes: Memory that all of them together may take.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Transcript, int]] = OrderedDict()
        self._bytes = 0
        self.misses = 0

    async def load(self, run_id: str, request: ModelRequest, read: PageReader) -> Transcript:
        """Return the transcript that `request` asks to be continued, its new messages included.

        Raises:
            ApplicationError: `internal`, when the workflow's messages do not have the digest
                that it told us; nothing is sent to a model then.
        """
        cached = self._entries.get(run_id)
        if cached is not None and cached[0].holds(request.after):
            transcript = cached[0].up_to(request.after)
        else:
            transcript = Transcript()
            self.misses += request.after.count > 0
        if request.messages is not None and transcript.mark == request.after:
            for message in request.messages:
                transcript.append(wire(message))
            return transcript
        await _read_rest(transcript, read)
        if not transcript.holds(request.after):
            raise failed(error(ErrorCode.INTERNAL, "The transcript does not match its digest."))
        return transcript

    def keep(self, run_id: str, transcript: Transcript) -> None:
        """Remember the transcript of a Run; the least recently used ones make room."""
        self.forget(run_id)
        size = transcript.size
        if size > self._max_bytes:
            return
        self._entries[run_id] = (transcript, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, run_id: str) -> None:
        """Drop what is remembered of a Run."""
        _, size = self._entries.pop(run_id, (None, 0))
        self._bytes -= size


async def _read_rest(transcript: Transcript, read: PageReader) -> None:
    start: int | None = transcript.mark.count
    while start is not None:
        page = await read(TranscriptPageRequest(start=start))
        for message in page.messages:
            transcript.append(wire(message))
        start = page.next_start
