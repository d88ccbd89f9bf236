"""The activity `call_model`: one turn of a model, from the transcript to a checked reply."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.calls import requested_calls
from perdure.activities.chat_client import ChatClient
from perdure.activities.failure import failed, policed
from perdure.activities.heartbeat import Progress, heartbeats, stopped_by_cancel
from perdure.activities.openai_chat import Answer, clean, model_usage
from perdure.activities.pricing import Prices, context_window
from perdure.activities.request_body import request_body
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.registry import Registry
from perdure.runs import contract
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import (
    DEFAULT_TERMS,
    DEFAULT_TOOL_S,
    MAX_CALLS_PER_TURN,
    MAX_REPLY_BYTES,
    Limits,
    Terms,
)
from perdure.runs.messages import wire
from perdure.runs.steps import ModelReply, RequestedCall
from perdure.runs.transcript import assistant_message


@dataclass(frozen=True)
class ModelDefaults:
    """What a worker knows about models.

    Attributes:
        model: For agents that name none.
        prices: What models cost.
    """

    model: str
    prices: Prices = field(default_factory=Prices)


class ModelActivities:
    """Model calls of one worker.

    Args:
        registry: The agents that the worker knows.
        chat: The provider.
        defaults: What the worker knows about models.
        transcripts: What the worker remembers of recent Runs.
    """

    def __init__(
        self,
        registry: Registry,
        chat: ChatClient,
        defaults: ModelDefaults,
        transcripts: Transcripts,
    ) -> None:
        self._registry = registry
        self._chat = chat
        self._defaults = defaults
        self.transcripts = transcripts

    @activity.defn(name=contract.CALL_MODEL)
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """Ask the model for its next turn, to conclude, or for a summary.

        *Cancellation*: the request's connection is closed, and what the model had said comes
        back as a reply whose error is `cancelled`.

        Raises:
            ApplicationError: With the code of what went wrong; retryable ones are retried.
        """
        agent = self._agent(request.agent)
        models = [agent.model or self._defaults.model, *agent.fallback_models]
        model = request.model or models[0]
        run_id = activity.info().workflow_id or ""
        transcript = await self.transcripts.load(run_id, request, _page)
        body = request_body(agent, model, transcript.wired, request)
        terms = _terms(agent, request, model)
        try:
            reply = await self._asked(agent, request, Call(model, body, terms))
        except ApplicationError as exc:
            raise policed(exc, agent.retries, _after(models, model)) from None
        if reply.error is not None or request.purpose == "compact":
            return reply
        transcript.append(wire(assistant_message(reply.said, reply.calls)))
        self.transcripts.keep(run_id, transcript)
        return reply.model_copy(update={"mark": transcript.mark})

    async def _asked(self, agent: Agent, request: ModelRequest, call: "Call") -> ModelReply:
        answer = Answer()
        why: RunError | None = None
        longest = call.terms.limits.max_output_bytes or MAX_REPLY_BYTES
        try:
            async with heartbeats(lambda: answer.text):
                await self._chat.ask(call.body, answer, call.terms.timeouts, longest)
        except asyncio.CancelledError:
            if not stopped_by_cancel():
                raise
            why = error(ErrorCode.CANCELLED)
        except ApplicationError as exc:
            if exc.type != ErrorCode.MAX_OUTPUT:
                raise
            why = RunError.model_validate(exc.details[0])
        return self._reply(agent, request, call, answer, why)

    def _agent(self, name: str) -> Agent:
        agent = self._registry.agent(name)
        if agent is None:
            known = ", ".join(self._registry.names()) or "none"
            missing = f"The worker has no agent {name!r}; it has: {known}."
            raise failed(error(ErrorCode.AGENT_NOT_FOUND, missing))
        return agent

    def _reply(
        self,
        agent: Agent,
        request: ModelRequest,
        call: "Call",
        answer: Answer,
        why: RunError | None,
    ) -> ModelReply:
        model = answer.model or call.model
        usage = self._defaults.prices.priced(model_usage(answer, model), call.model)
        info = activity.info()
        if info.attempt > 1 and _was_answering(info.heartbeat_details):
            # An earlier attempt was cut off while the provider was already counting tokens.
            usage = usage.model_copy(update={"complete": False})
        calls: tuple[RequestedCall, ...] = ()
        if why is None and request.purpose == "turn":
            calls = requested_calls(answer, agent, request.step)
        if why is None:
            _check(answer, calls)
            why = answer.problem()
        own = request.terms.timeouts if request.terms is not None else request.timeouts
        return ModelReply(
            model=model,
            text=clean(answer.text),
            refusal=clean(answer.refusal),
            calls=() if why is not None else tuple(_timed(c, own.tool_s, agent) for c in calls),
            finish_reason=answer.finish_reason,
            usage=usage,
            attempt=info.attempt,
            error=why,
            terms=None if request.terms is None else call.terms,
        )


@dataclass(frozen=True)
class Call:
    """One request to a provider, ready to be sent."""

    model: str
    body: bytes
    terms: Terms


def _terms(agent: Agent, request: ModelRequest, model: str) -> Terms:
    """Return what holds for this call: what the Run has settled, else all levels together."""
    if request.terms is None:
        settled = Terms(
            limits=Limits(max_output_bytes=request.max_output_bytes), timeouts=request.timeouts
        )
        return settled.over(DEFAULT_TERMS)
    agents = Terms(
        limits=agent.limits,
        # A tool's own timeout wins over its agent's, so that is not settled for all tools.
        timeouts=agent.timeouts.model_copy(update={"tool_s": None}),
        on_limit=agent.on_limit,
        context_window=agent.context_window or context_window(model),
    )
    return request.terms.over(agents).over(DEFAULT_TERMS)


def _after(models: list[str], model: str) -> str | None:
    """Return the model to fall back to."""
    if model not in models[:-1]:
        return None
    return models[models.index(model) + 1]


def _timed(call: RequestedCall, tool_s: float | None, agent: Agent) -> RequestedCall:
    declared = call.policy.timeout_s or agent.timeouts.tool_s or DEFAULT_TOOL_S
    return call.model_copy(
        update={"policy": call.policy.model_copy(update={"timeout_s": tool_s or declared})}
    )


def _check(answer: Answer, calls: tuple[RequestedCall, ...]) -> None:
    """Refuse an answer that says nothing, or asks for too much.

    Raises:
        ApplicationError: `llm_bad_response`.
    """
    said = answer.text or answer.refusal or calls
    if answer.problem() is not None or (said and len(calls) <= MAX_CALLS_PER_TURN):
        return
    what = f"{len(answer.calls)} tool calls" if answer.calls else "an empty answer"
    why = f"The provider sent {what} (finish reason {answer.finish_reason!r})."
    raise failed(error(ErrorCode.LLM_BAD_RESPONSE, why, retryable=True))


async def _page(request: TranscriptPageRequest) -> TranscriptPage:
    info = activity.info()
    handle = activity.client().get_workflow_handle(
        info.workflow_id or "", run_id=info.workflow_run_id
    )
    page: TranscriptPage = await handle.query(
        contract.TRANSCRIPT_QUERY, request, result_type=TranscriptPage
    )
    return page


def _was_answering(details: Any) -> bool:
    return bool(details) and bool(Progress.model_validate(details[0]).text)
