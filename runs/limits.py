"""How much a Run may use and how long things may take.

`None` means: not set at this level. A Run's own values win over its agent's, those over
`DEFAULT_LIMITS` and `DEFAULT_TIMEOUTS`. The sizes below are fixed: they keep every payload
under Temporal's limit of 2 MB, beyond which a workflow task would fail for ever.
"""

from perdure.runs.frozen import Frozen
from pydantic import PositiveFloat, PositiveInt

MAX_INPUT_BYTES = 512 * 1024
"""Input message plus context of one Run, as UTF-8 JSON; more is `payload_too_large`."""
MAX_RESULT_BYTES = 64 * 1024
"""Text of one tool result that the model sees; more is cut in the middle, with a notice."""
MAX_REPLY_BYTES = 512 * 1024
"""Text and arguments of one model reply; more is `llm_bad_response`."""
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


class Limits(Frozen):
    """How much a Run may use. Reaching one ends the Run `failed`, with a code of its own."""

    max_turns: PositiveInt | None = None
    """Model calls."""
    max_tool_calls: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    """Input plus output tokens, checked before each model call."""
    max_cost: PositiveFloat | None = None
    """USD, checked before each model call."""

    def over(self, lower: "Limits") -> "Limits":
        """Return these limits, with those of `lower` where nothing is set here."""
        return Limits(**(lower.model_dump(exclude_none=True) | self.model_dump(exclude_none=True)))


class Timeouts(Frozen):
    """How long things may take, in seconds."""

    run_s: PositiveFloat | None = None
    """The whole Run, from its start; ends it `timeout`. No limit by default."""
    model_s: PositiveFloat | None = None
    """One attempt of one model call."""
    model_first_byte_s: PositiveFloat | None = None
    """Until the provider sends anything at all."""
    model_idle_s: PositiveFloat | None = None
    """Between two events of the provider's stream."""

    def over(self, lower: "Timeouts") -> "Timeouts":
        """Return these timeouts, with those of `lower` where nothing is set here."""
        return Timeouts(
            **(lower.model_dump(exclude_none=True) | self.model_dump(exclude_none=True))
        )


DEFAULT_LIMITS = Limits(max_turns=100)
"""A Run that never ends is the fault people fear most; 100 turns is far beyond usual tasks."""
DEFAULT_TIMEOUTS = Timeouts(model_s=600.0, model_first_byte_s=120.0, model_idle_s=60.0)
"""600 s is the default of OpenAI's own client; reasoning models are silent for up to minutes."""
