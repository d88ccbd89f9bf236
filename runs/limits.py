"""How much a Run may use and how long things may take.

`None` means: not set at this level. A Run's own values win over its agent's, those over
`DEFAULT_TERMS`; the worker that makes the first model call puts them together, and what it
recorded then holds for the whole Run. The sizes below are fixed: they keep payloads small, and
what is large even so (docs/data.md) out of Temporal, whose limit is 2 MB.
"""

from typing import Annotated, Literal, Self

from perdure.runs.frozen import Frozen
from pydantic import Field, PositiveFloat, PositiveInt

MAX_INPUT_BYTES = 4 * 1024 * 1024
"""What one Run starts with, as UTF-8 JSON; more is `payload_too_large`. It is as much as the
messages of a Run may hold."""
MAX_CONTEXT_MESSAGES = 5_000
"""Messages that a Run starts with, besides its input."""
MAX_METADATA_BYTES = 64 * 1024
"""Metadata of a Run, as UTF-8 JSON: every answer about the Run repeats it."""
MAX_VARIABLES_BYTES = 256 * 1024
"""Variables of a Session, as UTF-8 JSON: each of its Runs has them."""
MAX_SCHEMA_BYTES = 16 * 1024
"""A JSON schema of an output, as UTF-8 JSON: every model request of a Run repeats its caller's."""
MAX_KEY_CHARS = 255
"""An idempotency key; as long as Stripe's."""
MAX_REASON_BYTES = 4 * 1024
"""The reason of a cancel or a pause, as UTF-8."""
MAX_MESSAGE_BYTES = 256 * 1024
"""One message to a Run that is going on, as UTF-8; more is `payload_too_large`."""
MAX_MESSAGES = 1_000
"""Messages to one Run while it goes on. Temporal takes 2,000 updates in one execution."""
MAX_DEPTH = 100
"""Levels of lists and objects in a Run's variables. pydantic reads JSON of 200 levels, and other
messages have the variables a few levels deeper."""
MAX_RESULT_BYTES = 64 * 1024
"""Text of one tool result that the model sees; more is cut in the middle, with a notice."""
MAX_FULL_RESULT_BYTES = 64 * 1024 * 1024
"""Text of one tool result that is kept whole beside what the model sees; more is
`result_too_large`."""
MAX_REPLY_BYTES = 512 * 1024
"""Text and arguments of one model reply; more is `max_output`."""
MAX_CALLS_PER_TURN = 128
"""Tool calls in one model reply; more is `llm_bad_response`."""
MAX_DELTA_BYTES = 256 * 1024
"""New messages sent along with a model activity; more is paged out of the workflow instead."""
MAX_PAGE_BYTES = 1024 * 1024
"""Messages or Steps in one answer to a query; a single larger one comes alone."""
MAX_TRANSCRIPT_BYTES = 4 * 1024 * 1024
"""Text of a whole Run's messages; about a million tokens, more than any model reads.
It bounds what continue-as-new carries along, which is compressed to below Temporal's 2 MB."""
MAX_REJECTED_TURNS = 3
"""Turns in a row whose tool calls were all unusable, before `model_misbehaving`."""


COMPACT_AT = 0.8
"""Part of the model's window that is filled when older messages are compacted."""
KEEP_AT = 0.25
"""Part of the model's window that the messages kept as they are may fill after that."""
CHARS_PER_TOKEN = 3
"""On the safe side: English prose has about 4, code and other languages less."""

SESSION_WINDOW = 128_000
"""Tokens that the conversation of a Session is compacted for while the model's window is not
known: it grows from Run to Run, and something has to end that."""
DEFAULT_QUEUE_S = 3600.0
"""How long a Run waits for its turn in a Session."""

OnLimit = Literal["stop", "finalize", "pause"]
"""What happens when a Run reaches a limit: it fails; the model is called once more, without
tools, to conclude with what it has; or the Run waits for a person to raise the limit."""


OnUnknown = Literal["tell", "ask"]
"""What happens when nobody knows whether a tool had its effect: the model is told; or a person is
asked first, who may find out."""


class Level(Frozen):
    """Values of which each may be unset at one level, and come from the next then."""

    def over(self, lower: Self) -> Self:
        """Return these values, with those of `lower` where nothing is set here."""
        set_here = {name: value for name, value in self if value is not None}
        return lower.model_copy(update=set_here)


class Limits(Level):
    """How much a Run may use. Reaching one ends the Run, with an error code of its own."""

    max_turns: PositiveInt | None = None
    """Model calls, retries and compactions not counted."""
    max_tool_calls: PositiveInt | None = None
    """Executed tool calls."""
    max_identical_calls: PositiveInt | None = None
    """Calls in a row of one tool with the same arguments that brought the same result. Waiting
    for something looks like this, too: the default only stops what would never end."""
    max_tokens: PositiveInt | None = None
    """Input plus output tokens, checked between Steps."""
    max_cost: PositiveFloat | None = None
    """USD, checked between Steps."""
    max_output_bytes: Annotated[int, Field(gt=0, le=MAX_REPLY_BYTES)] | None = None
    """One answer of the model, text and arguments; the stream is closed when it is passed. The
    default is the most that can be set."""


class Timeouts(Level):
    """How long things may take, in seconds."""

    run_s: PositiveFloat | None = None
    """The whole Run, from its start or its latest resumption; ends it `timeout`. Unlimited by
    default."""
    queue_s: PositiveFloat | None = None
    """Waiting for its turn in a Session; ends the Run `timeout`. An hour by default."""
    model_s: PositiveFloat | None = None
    """One attempt of one model call."""
    model_first_byte_s: PositiveFloat | None = None
    """Until the first sign of life: a line of the provider's stream, be it only a comment."""
    model_idle_s: PositiveFloat | None = None
    """Between two lines of the provider's stream; comments count, bytes without an end don't."""
    tool_s: PositiveFloat | None = None
    """One execution of one tool. A Run's value wins over what the tool declares, an agent's is
    for tools that declare none."""
    action_s: PositiveFloat | None = Field(None, exclude_if=lambda value: value is None)
    """Until a person has decided; then it is a no. Seven days by default."""
    heartbeat_s: Annotated[float, Field(ge=3)] | None = None
    """How long a dead worker goes unnoticed; workers send a sign of life every second."""


class Terms(Level):
    """Everything that is settled by the first model call of a Run."""

    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    on_limit: OnLimit | None = None
    on_unknown: OnUnknown | None = Field(None, exclude_if=lambda value: value is None)
    context_window: PositiveInt | None = None
    """Tokens that the model can read; unknown when none."""

    def over(self, lower: "Terms") -> "Terms":
        """Return these terms, with those of `lower` where nothing is set here."""
        return Terms(
            limits=self.limits.over(lower.limits),
            timeouts=self.timeouts.over(lower.timeouts),
            on_limit=self.on_limit or lower.on_limit,
            on_unknown=self.on_unknown or lower.on_unknown,
            context_window=self.context_window or lower.context_window,
        )


class RateLimit(Frozen, extra="forbid"):
    """How much one worker sends to a model, in any 60 seconds."""

    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None
    """Input plus output: estimated before the call, put right after it."""


DEFAULT_TOOL_S = 60.0
TAKEN_WITHIN_S = 600.0
"""Until a worker takes a call of a tool that has a task queue of its own: longer than a machine
takes to start, and than a deployment. Of the Run's own task queue there is no such limit: without
workers there, nothing could go on with the Run anyway."""
DEFAULT_ACTION_S = 7 * 24 * 3600.0
MAX_AGENT_DEPTH = 5
"""Runs below one another: agents that call agents."""
MAX_UNFIT_ANSWERS = 3
"""Answers in a row that can't be the output, before the Run fails."""
DEFAULT_HEARTBEAT_S = 10.0
DEFAULT_TERMS = Terms(
    limits=Limits(max_turns=100, max_identical_calls=50, max_output_bytes=MAX_REPLY_BYTES),
    timeouts=Timeouts(
        model_s=600.0,
        model_first_byte_s=120.0,
        model_idle_s=60.0,
        heartbeat_s=DEFAULT_HEARTBEAT_S,
    ),
    on_limit="stop",
)
"""A Run that never ends is the fault people fear most; 100 turns is far beyond usual tasks.
600 s is the default of OpenAI's own client; reasoning models are silent for up to minutes."""
