"""Token and cost arithmetic, with OpenAI's names.

Totals are never null: what a provider did not report counts as 0 and `complete` turns false.
"""

from perdure.runs.frozen import Frozen
from pydantic import Field, NonNegativeFloat, NonNegativeInt, computed_field


class InputTokensDetails(Frozen):
    """Parts of the input tokens."""

    cached_tokens: NonNegativeInt = 0
    cache_write_tokens: NonNegativeInt = 0


class OutputTokensDetails(Frozen):
    """Parts of the output tokens."""

    reasoning_tokens: NonNegativeInt = 0


class Counts(Frozen):
    """What one or several model calls used."""

    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
    model_calls: NonNegativeInt = 0
    cost: NonNegativeFloat = 0.0
    """USD, summed over the calls whose price is known."""
    unpriced_calls: NonNegativeInt = 0
    """Calls whose model has no known price; their cost is not in `cost`."""
    complete: bool = True
    """False when a call was cut off before the provider reported its usage."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Counts") -> dict[str, object]:
        """Return the fields of the sum of both."""
        mine, theirs = self.input_tokens_details, other.input_tokens_details
        return {
            "input_tokens": self.input_tokens + other.input_tokens,
            "output_tokens": self.output_tokens + other.output_tokens,
            "input_tokens_details": InputTokensDetails(
                cached_tokens=mine.cached_tokens + theirs.cached_tokens,
                cache_write_tokens=mine.cache_write_tokens + theirs.cache_write_tokens,
            ),
            "output_tokens_details": OutputTokensDetails(
                reasoning_tokens=self.output_tokens_details.reasoning_tokens
                + other.output_tokens_details.reasoning_tokens
            ),
            "model_calls": self.model_calls + other.model_calls,
            "cost": self.cost + other.cost,
            "unpriced_calls": self.unpriced_calls + other.unpriced_calls,
            "complete": self.complete and other.complete,
        }


class ModelUsage(Counts):
    """What the calls of one model used."""

    model: str = ""


class Price(Frozen):
    """What a model costs, in USD per million tokens."""

    input: NonNegativeFloat
    output: NonNegativeFloat
    cached_input: NonNegativeFloat | None = None
    """For tokens read from the provider's cache; `input` when none is given."""

    def cost_of(self, usage: Counts) -> float:
        """Return USD."""
        cached = min(usage.input_tokens_details.cached_tokens, usage.input_tokens)
        per_cached = self.input if self.cached_input is None else self.cached_input
        spent = (usage.input_tokens - cached) * self.input + cached * per_cached
        return (spent + usage.output_tokens * self.output) / 1_000_000


class Usage(Counts):
    """What a whole Run used."""

    tool_calls: NonNegativeInt = 0
    by_model: tuple[ModelUsage, ...] = Field(default=())
    """One entry for each model, in the order of their first call."""

    def plus_call(self, call: ModelUsage) -> "Usage":
        """Add one model call to the totals."""
        merged = tuple(
            entry.model_copy(update=entry.plus(call)) if entry.model == call.model else entry
            for entry in self.by_model
        )
        if all(entry.model != call.model for entry in self.by_model):
            merged = (*self.by_model, call)
        return self.model_copy(update=self.plus(call) | {"by_model": merged})

    def plus_run(self, run: "Usage") -> "Usage":
        """Add everything that a Run used, as a Session does."""
        total = self
        for entry in run.by_model:
            total = total.plus_call(entry)
        return total.model_copy(
            update=self.plus(run) | {"tool_calls": self.tool_calls + run.tool_calls}
        )

    def plus_tool_call(self) -> "Usage":
        """Add one executed tool call to the totals."""
        return self.model_copy(update={"tool_calls": self.tool_calls + 1})
