"""The activity `call_model`: one turn of a model, from the transcript to a checked reply."""

import asyncio
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError

from perdure.activities import metered
from perdure.activities.answering import Answering, Call, Outcome
from perdure.activities.checking import Checks
from perdure.activities.endpoints import Endpoints
from perdure.activities.failure import ELSEWHERE, ToolProblem, failed, policed
from perdure.activities.heartbeat import Progress, heartbeats, stopped_by_cancel
from perdure.activities.judging import Judging
from perdure.activities.openai_chat import Answer
from perdure.activities.pace import Pace
from perdure.activities.pricing import Prices
from perdure.activities.publishing import Tell
from perdure.activities.request_body import request_body
from perdure.activities.schemas import Schemas
from perdure.activities.shown_files import Shown, ShownFiles
from perdure.activities.speech import Speech
from perdure.activities.structured import wanted_output
from perdure.activities.terms import terms_of
from perdure.activities.toolbox import ToolSource
from perdure.activities.tracing import Spans
from perdure.activities.transcripts import Transcripts
from perdure.activities.verdicts import JudgeUnavailable
from perdure.agents.agent import Agent
from perdure.agents.registry import Registry
from perdure.runs import contract, metrics
from perdure.runs.codes import UNKNOWN_USAGE
from perdure.runs.contract import (
    ModelRequest,
    RunPage,
    RunPageRequest,
    TranscriptPage,
    TranscriptPageRequest,
)
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES
from perdure.runs.messages import wire
from perdure.runs.steps import ModelReply
from perdure.runs.transcript import assistant_message


@dataclass(frozen=True)
class Models:
    """What a worker knows about models.

    Attributes:
        default: For agents that name none.
        prices: What they cost.
        pace: When calls to them go out.
        files: What they are shown of files.
        tell: Lets somebody hear what they say, besides heartbeats.
        spans: Records requests to them.
    """

    default: str
    prices: Prices
    pace: Pace
    files: ShownFiles
    tell: Tell = nullcontext
    spans: Spans = field(default_factory=Spans)


class ModelActivities:
    """Model calls of one worker.

    Args:
        registry: The agents that the worker knows.
        endpoints: Where the models are.
        models: What the worker knows about models.
        transcripts: What the worker remembers of recent Runs.
        tools: Where agents with MCP servers get their tools.
    """

    def __init__(
        self,
        registry: Registry,
        endpoints: Endpoints,
        models: Models,
        transcripts: Transcripts,
        tools: ToolSource | None = None,
    ) -> None:
        self._registry = registry
        self._endpoints = endpoints
        self._models = models
        self._answering = Answering(models.prices)
        self._judging = Judging(self._judged, endpoints, models.default)
        self.transcripts = transcripts
        self._tools = tools
        self._schemas = Schemas()

    @activity.defn(name=contract.CALL_MODEL)
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """Ask the model for its next turn, to conclude, or for a summary.

        *Cancellation*: the request's connection is closed, and what the model had said comes
        back as a reply whose error is `cancelled`.

        Raises:
            ApplicationError: With the code of what went wrong; retryable ones are retried.
        """
        agent = self._agent(request.agent)
        own = agent.model or self._models.default
        endpoint = self._endpoints.of(request.model or own, own)
        run_id = activity.info().workflow_id or ""
        request = await self._schemas.completed(request, _output_schema)
        reading = metered.Reading(_page)
        transcript = await self.transcripts.load(run_id, request, reading)
        self._count(request, is_hit=not reading.has_read)
        terms = terms_of(agent, request, endpoint)
        call = Call(agent, request, endpoint, terms, Progress.before(), agent)
        async with heartbeats(lambda: _waiting(call)):
            shown = await self._models.files.shown(transcript, agent.profile, request)
        try:
            reply = await self._asked(call, transcript.wired, shown)
        except JudgeUnavailable as exc:
            # No other model of this agent's would help.
            failures = call.before.failures + 1
            raise policed(exc.cause, agent.retries, failures, None) from None
        except ApplicationError as exc:
            failures = call.before.failures + 1
            raise policed(exc, agent.retries, failures, self._fallback(call, exc)) from None
        if reply.error is not None or request.purpose == "compact":
            return reply
        transcript.append(wire(assistant_message(reply.said, reply.calls, reply.echo)))
        self.transcripts.keep(run_id, transcript)
        return reply.model_copy(update={"mark": transcript.mark})

    def _fallback(self, call: Call, exc: ApplicationError) -> str | None:
        if exc.type == ErrorCode.MCP_UNAVAILABLE:
            return None  # another model would not have the tools either
        agent, request = call.agent, call.request
        own = [agent.model or self._models.default, *agent.fallback_models]
        model, elsewhere = request.model or own[0], exc.type in ELSEWHERE
        return self._endpoints.after(model, own, request.chosen_model, elsewhere=elsewhere)

    async def _asked(self, call: Call, messages: list[bytes], shown: Shown) -> ModelReply:
        answer = Answer(waiting=True)
        speech = _speech(call, answer)
        run_id = activity.info().workflow_id or ""
        checks = Checks(call, run_id, self._endpoints.redact, self._judging.ask)
        so_far = partial(_so_far, call, answer, speech)
        try:
            async with heartbeats(so_far), self._models.tell(so_far):
                reply = await checks.inputs(messages)
                if reply is None:
                    call = await self._equipped(call)
                    reply = await self._answered(call, shown, answer)
                    reply = await checks.answer(reply, call)
        except asyncio.CancelledError:
            if not stopped_by_cancel():
                raise
            why = error(ErrorCode.CANCELLED)
            reply = checks.withheld(self._answering.reply(call, answer, Outcome(why=why)))
        except ApplicationError as exc:
            if exc.type != ErrorCode.MAX_OUTPUT:
                is_lost = exc.type in UNKNOWN_USAGE or checks.has_spent
                _leave(call, answer, speech, is_lost=is_lost)
                raise
            why = RunError.model_validate(exc.details[0])
            reply = checks.withheld(self._answering.reply(call, answer, Outcome(why=why)))
        except JudgeUnavailable:
            _leave(call, answer, speech, is_lost=True)
            raise
        return checks.counted(reply)

    async def _judged(self, call: Call, message: bytes) -> ModelReply:
        """Return what the model of a judge answers."""
        return await self._answered(call, Shown([message], 0), Answer())

    async def _answered(self, call: Call, shown: Shown, answer: Answer) -> ModelReply:
        asked = call.endpoint
        body = request_body(call.agent, asked, shown.messages, call.request, call.offered)
        turn = self._models.pace.turn(
            asked.lane,
            len(body) - shown.surplus,
            call.agent.max_output_tokens,
            answer,
            who=activity.info().workflow_id or "",
        )
        longest = call.terms.limits.max_output_bytes or MAX_REPLY_BYTES
        came = time.monotonic()
        async with turn:
            metered.record(metrics.PACE, time.monotonic() - came, model=asked.model)
            with (
                metered.timed_request(call.agent.name, asked.model, answer),
                self._models.spans.chat(call, body, answer) as replied,
            ):
                received = await asked.chat.ask(body, answer, call.terms.timeouts, longest)
                reply = self._answering.reply(call, answer, Outcome(received))
                replied(reply)
        return reply

    async def _equipped(self, call: Call) -> Call:
        if self._tools is None or not call.agent.mcp_servers or call.request.purpose != "turn":
            return call
        try:
            offered = await self._tools.tools_of(call.agent)
        except ToolProblem as exc:
            raise failed(exc.why) from None
        return replace(call, offered=offered)

    def _count(self, request: ModelRequest, *, is_hit: bool) -> None:
        if request.after.count:
            result = "hit" if is_hit else "miss"
            metered.record(metrics.TRANSCRIPT_LOADS, 1, result=result)
        metered.record(metrics.TRANSCRIPT_BYTES, self.transcripts.size)

    def _agent(self, name: str) -> Agent:
        agent = self._registry.agent(name)
        if agent is None:
            known = ", ".join(self._registry.names()) or "none"
            missing = f"The worker has no agent {name!r}; it has: {known}."
            raise failed(error(ErrorCode.AGENT_NOT_FOUND, missing))
        return agent


def _waiting(call: Call) -> Progress:
    """Return the progress of an attempt whose request has not gone out."""
    return call.before.model_copy(update={"attempt": activity.info().attempt})


def _leave(call: Call, answer: Answer, speech: Speech | None, *, is_lost: bool) -> None:
    """Tell the next attempt what it can't know: what this one cost."""
    lost = is_lost or call.before.was_answering or answer.size > 0
    told = {"was_answering": lost, "failures": call.before.failures + 1}
    activity.heartbeat(_so_far(call, answer, speech).model_copy(update=told))


def _speech(call: Call, answer: Answer) -> Speech | None:
    """Return what is heard of an answer while it comes; none where nobody is to hear it."""
    if call.agent.output_checks or call.request.purpose == "compact":
        return None  # what no check has seen is shown to nobody
    output = wanted_output(call.agent, call.request, [tool.name for tool in call.offered.tools])
    return Speech(answer, output.tool if output is not None and output.way == "tool" else None)


def _so_far(call: Call, answer: Answer, speech: Speech | None) -> Progress:
    if speech is not None:
        speech.listen()
    asked = call.before.was_answering or not answer.waiting
    return call.before.model_copy(
        update={
            "said": tuple(speech.draft.segments) if speech is not None else (),
            "was_answering": asked,
            "attempt": activity.info().attempt,
        }
    )


async def _page(request: TranscriptPageRequest) -> TranscriptPage:
    page: TranscriptPage = await _workflow().query(
        contract.TRANSCRIPT_QUERY, request, result_type=TranscriptPage
    )
    return page


async def _output_schema() -> dict[str, Any] | None:
    no_steps = RunPageRequest(after_step=sys.maxsize)
    page: RunPage = await _workflow().query(contract.RUN_QUERY, no_steps, result_type=RunPage)
    return page.run.output_schema


def _workflow() -> WorkflowHandle[Any, Any]:
    """Return the workflow of the Run that this activity is a Step of."""
    info = activity.info()
    return activity.client().get_workflow_handle(
        info.workflow_id or "", run_id=info.workflow_run_id
    )
