"""The activity `call_model`: one turn of a model, from the transcript to a checked reply."""

import asyncio
from dataclasses import dataclass, replace

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.answering import Answering, Call, Outcome
from perdure.activities.chat_client import ChatClient
from perdure.activities.failure import ToolProblem, failed, policed
from perdure.activities.heartbeat import Progress, heartbeats, stopped_by_cancel
from perdure.activities.openai_chat import Answer
from perdure.activities.pace import Pace
from perdure.activities.pricing import Prices
from perdure.activities.received import Received
from perdure.activities.request_body import request_body
from perdure.activities.shown_files import Shown, ShownFiles
from perdure.activities.terms import terms_of
from perdure.activities.toolbox import ToolSource
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.registry import Registry
from perdure.runs import contract
from perdure.runs.codes import UNKNOWN_USAGE
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
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
    """

    default: str
    prices: Prices
    pace: Pace
    files: ShownFiles


class ModelActivities:
    """Model calls of one worker.

    Args:
        registry: The agents that the worker knows.
        chat: The provider.
        models: What the worker knows about models.
        transcripts: What the worker remembers of recent Runs.
        tools: Where agents with MCP servers get their tools.
    """

    def __init__(
        self,
        registry: Registry,
        chat: ChatClient,
        models: Models,
        transcripts: Transcripts,
        tools: ToolSource | None = None,
    ) -> None:
        self._registry = registry
        self._chat = chat
        self._models = models
        self._answering = Answering(chat, models.prices)
        self.transcripts = transcripts
        self._tools = tools

    @activity.defn(name=contract.CALL_MODEL)
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """Ask the model for its next turn, to conclude, or for a summary.

        *Cancellation*: the request's connection is closed, and what the model had said comes
        back as a reply whose error is `cancelled`.

        Raises:
            ApplicationError: With the code of what went wrong; retryable ones are retried.
        """
        agent = self._agent(request.agent)
        models = [agent.model or self._models.default, *agent.fallback_models]
        model = request.model or models[0]
        run_id = activity.info().workflow_id or ""
        transcript = await self.transcripts.load(run_id, request, _page)
        terms = terms_of(agent, request, model)
        call = Call(agent, request, model, terms, Progress.before(), agent)
        async with heartbeats(lambda: _waiting(call)):
            shown = await self._models.files.shown(transcript, agent.profile, request)
        try:
            reply = await self._asked(call, shown)
        except ApplicationError as exc:
            failures = call.before.failures + 1
            # Another model would not have the tools either.
            fallback = None if exc.type == ErrorCode.MCP_UNAVAILABLE else _after(models, model)
            raise policed(exc, agent.retries, failures, fallback) from None
        if reply.error is not None or request.purpose == "compact":
            return reply
        transcript.append(wire(assistant_message(reply.said, reply.calls, reply.echo)))
        self.transcripts.keep(run_id, transcript)
        return reply.model_copy(update={"mark": transcript.mark})

    async def _asked(self, call: Call, shown: Shown) -> ModelReply:
        answer = Answer()
        try:
            async with heartbeats(lambda: _so_far(call, answer)):
                call = await self._equipped(call, answer)
                received = await self._received(call, shown, answer)
            return self._answering.reply(call, answer, Outcome(received))
        except asyncio.CancelledError:
            if not stopped_by_cancel():
                raise
            return self._answering.reply(call, answer, Outcome(why=error(ErrorCode.CANCELLED)))
        except ApplicationError as exc:
            if exc.type == ErrorCode.MAX_OUTPUT:
                why = RunError.model_validate(exc.details[0])
                return self._answering.reply(call, answer, Outcome(why=why))
            # For the next attempt, which can't know what this one cost.
            lost = call.before.was_answering or answer.size > 0 or exc.type in UNKNOWN_USAGE
            failures = call.before.failures + 1
            told = {"was_answering": lost, "failures": failures}
            activity.heartbeat(_so_far(call, answer).model_copy(update=told))
            raise

    async def _received(self, call: Call, shown: Shown, answer: Answer) -> Received:
        body = request_body(call.agent, call.model, shown.messages, call.request, call.offered)
        turn = self._models.pace.turn(
            call.model,
            len(body) - shown.surplus,
            call.agent.max_output_tokens,
            answer,
            who=activity.info().workflow_id or "",
        )
        longest = call.terms.limits.max_output_bytes or MAX_REPLY_BYTES
        async with turn:
            return await self._chat.ask(body, answer, call.terms.timeouts, longest)

    async def _equipped(self, call: Call, answer: Answer) -> Call:
        if self._tools is None or not call.agent.mcp_servers or call.request.purpose != "turn":
            return call
        answer.waiting = True  # nothing has been sent to the model, and nothing used
        try:
            offered = await self._tools.tools_of(call.agent)
        except ToolProblem as exc:
            raise failed(exc.why) from None
        answer.waiting = False
        return replace(call, offered=offered)

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


def _so_far(call: Call, answer: Answer) -> Progress:
    asked = call.before.was_answering or not answer.waiting
    return call.before.model_copy(
        update={
            "text": answer.text,
            "was_answering": asked,
            "attempt": activity.info().attempt,
        }
    )


def _after(models: list[str], model: str) -> str | None:
    """Return the model to fall back to."""
    if model not in models[:-1]:
        return None
    return models[models.index(model) + 1]


async def _page(request: TranscriptPageRequest) -> TranscriptPage:
    info = activity.info()
    handle = activity.client().get_workflow_handle(
        info.workflow_id or "", run_id=info.workflow_run_id
    )
    page: TranscriptPage = await handle.query(
        contract.TRANSCRIPT_QUERY, request, result_type=TranscriptPage
    )
    return page
