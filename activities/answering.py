"""From what a provider answered to the reply that the workflow records."""

from dataclasses import dataclass

from temporalio import activity

from perdure.activities.calls import requested_calls
from perdure.activities.endpoints import Endpoint
from perdure.activities.heartbeat import Progress
from perdure.activities.openai_chat import Answer, clean
from perdure.activities.outgoing import ORIGIN
from perdure.activities.pricing import Prices
from perdure.activities.received import Received
from perdure.activities.reported_usage import is_suspect, model_usage
from perdure.activities.structured import wanted_output
from perdure.activities.terms import timed
from perdure.activities.toolbox import Tools
from perdure.agents.agent import Agent
from perdure.agents.profile import ModelProfile
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_CALLS_PER_TURN, Terms
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.providers import DEFAULT_PROVIDER
from perdure.runs.steps import ModelReply, RequestedCall
from perdure.runs.usage import ModelUsage

NO_REASON = "unknown"
"""Finish reason of an answer that the provider ended without giving one."""
EXTRA_CHARS_SHOWN = 4096
"""How much is kept of a field that nobody wants back: for people, not for the model."""


@dataclass(frozen=True)
class Call:
    """One model call: whose, what for, which model, under which terms."""

    agent: Agent
    request: ModelRequest
    endpoint: Endpoint
    terms: Terms
    before: Progress
    """What earlier attempts left behind."""
    offered: Tools
    """What the model may call."""


@dataclass(frozen=True)
class Outcome:
    """How it ended: received to its end, or stopped before that, and why."""

    received: Received | None = None
    why: RunError | None = None


class Answering:
    """Makes replies.

    Args:
        prices: What models cost.
    """

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def reply(self, call: Call, answer: Answer, outcome: Outcome) -> ModelReply:
        """Return what an answer came to.

        Raises:
            ApplicationError: `llm_bad_response`, when there is nothing in it.
        """
        received, request = outcome.received, call.request
        output = wanted_output(call.agent, request, [tool.name for tool in call.offered.tools])
        given = output.given(answer) if output is not None else []
        calls: tuple[RequestedCall, ...] = ()
        if received is not None and request.purpose == "turn" and not given:
            calls = requested_calls(answer, call.offered, call.agent, request)
            calls = output.without_early(calls) if output is not None else calls
        why = outcome.why or self._problem(answer, received, calls, call)
        if given and answer.finish == "length":
            why = why or error(ErrorCode.OUTPUT_TRUNCATED)
        text = clean(given[0] if given else answer.text)
        echo, extra = kept_fields(answer, call.agent.profile, call.endpoint.provider)
        reply = ModelReply(
            model=answer.model or call.endpoint.model,
            alias=call.endpoint.alias,
            text=text,
            refusal=clean(answer.refusal),
            calls=() if why is not None else tuple(timed(c, call.agent, call.terms) for c in calls),
            finish_reason=answer.finish_reason or (NO_REASON if answer.done else ""),
            usage=self._usage(call, answer),
            usage_suspect=is_suspect(answer.usage),
            duplicate_dropped=len(answer.calls) - len(calls) if calls else 0,
            incomplete=text is not None and why is not None and why.code is not ErrorCode.REFUSED,
            extra=extra,
            echo=echo,
            attempt=activity.info().attempt,
            error=why,
            terms=None if request.terms is None else call.terms,
        )
        if output is None or reply.error is not None or reply.calls:
            return reply
        return output.checked(reply, given, concludes=request.purpose == "conclude")

    def _usage(self, call: Call, answer: Answer) -> ModelUsage:
        asked = call.endpoint
        if answer.waiting:
            return ModelUsage(model=asked.model)  # the request never went out
        reported = model_usage(answer.usage, answer.model or asked.model)
        usage = self._prices.priced(reported, asked.model, asked.price, asked.listed_at)
        if call.before.was_answering:
            return usage.model_copy(update={"complete": False})
        return usage

    def _problem(
        self,
        answer: Answer,
        received: Received | None,
        calls: tuple[RequestedCall, ...],
        call: Call,
    ) -> RunError | None:
        """Return why an answer is none though there is something to keep; or none.

        Raises:
            ApplicationError: When there is nothing to keep.
        """
        received, chat = received or Received(), call.endpoint.chat
        why = answer.problem()
        if why is not None:
            return why.model_copy(update={"details": received.details(chat.redact)})
        empty = answer.is_empty or (call.request.purpose != "turn" and not clean(answer.text))
        if not empty and len(calls) <= MAX_CALLS_PER_TURN:
            return None
        what = "an empty answer"
        if answer.calls:
            what = f"{len(answer.calls)} tool calls"
            what += " at once" if calls else " where none are offered"
        said = f"The provider sent {what} (finish reason {answer.finish_reason!r})."
        bad = error(ErrorCode.LLM_BAD_RESPONSE, said, retryable=True)
        raise chat.failed(bad, received, answer)


def kept_fields(
    answer: Answer, profile: ModelProfile, provider: str = DEFAULT_PROVIDER
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the extra fields of an answer: those that the model wants back, and the others."""
    echo: dict[str, str] = {}
    extra: dict[str, str] = {}
    for name, value in answer.extra.items():
        text = without_lone_surrogates(value)
        if name in profile.echo_fields:
            echo[name] = text
        else:
            extra[name] = text[:EXTRA_CHARS_SHOWN]
    if echo and provider != DEFAULT_PROVIDER:
        echo[ORIGIN] = provider
    return echo, extra
