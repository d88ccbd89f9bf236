"""The activity `call_model`: one turn of a model, from the transcript to a checked reply."""

import asyncio
from typing import Any

from temporalio import activity

from perdure.activities.calls import requested_calls
from perdure.activities.chat_client import ChatClient
from perdure.activities.failure import failed
from perdure.activities.heartbeat import Progress, heartbeats, stopped_by_cancel
from perdure.activities.openai_chat import Answer, clean, model_usage
from perdure.activities.pricing import priced
from perdure.activities.transcripts import Transcript, Transcripts
from perdure.agents.agent import Agent
from perdure.agents.registry import Registry
from perdure.runs import contract
from perdure.runs.contract import ModelRequest, TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import DEFAULT_LIMITS, DEFAULT_TIMEOUTS, MAX_CALLS_PER_TURN
from perdure.runs.messages import canonical_json, wire
from perdure.runs.steps import ModelReply
from perdure.runs.transcript import assistant_message


class ModelActivities:
    """Model calls of one worker.

    Args:
        registry: The agents that the worker knows.
        chat: The provider.
        default_model: For agents that name none.
        transcripts: What the worker remembers of recent Runs.
    """

    def __init__(
        self,
        registry: Registry,
        chat: ChatClient,
        default_model: str,
        transcripts: Transcripts,
    ) -> None:
        self._registry = registry
        self._chat = chat
        self._default_model = default_model
        self.transcripts = transcripts

    @activity.defn(name=contract.CALL_MODEL)
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """Ask the model for its next turn.

        *Cancellation*: the request's connection is closed, and what the model had said comes
        back as a reply whose error is `cancelled`.

        Raises:
            ApplicationError: With the code of what went wrong; retryable ones are retried.
        """
        agent = self._agent(request.agent)
        run_id = activity.info().workflow_id or ""
        transcript = await self.transcripts.load(run_id, request, _page)
        body = self._body(agent, transcript)
        answer = Answer()
        cancelled = False
        try:
            async with heartbeats(lambda: answer.text):
                await self._chat.ask(
                    body, answer, request.timeouts.over(agent.timeouts).over(DEFAULT_TIMEOUTS)
                )
        except asyncio.CancelledError:
            if not stopped_by_cancel():
                raise
            cancelled = True
        reply = self._reply(agent, request, answer, cancelled)
        if reply.error is None:
            transcript.append(wire(assistant_message(reply.said, reply.calls)))
            self.transcripts.keep(run_id, transcript)
            return reply.model_copy(update={"mark": transcript.mark})
        return reply

    def _agent(self, name: str) -> Agent:
        agent = self._registry.agent(name)
        if agent is None:
            known = ", ".join(self._registry.names()) or "none"
            missing = f"The worker has no agent {name!r}; it has: {known}."
            raise failed(error(ErrorCode.AGENT_NOT_FOUND, missing))
        return agent

    def _body(self, agent: Agent, transcript: Transcript) -> bytes:
        """Return the request; earlier messages go out as the bytes that they are kept in."""
        head: dict[str, Any] = {
            "model": agent.model or self._default_model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if agent.temperature is not None:
            head["temperature"] = agent.temperature
        if agent.max_output_tokens is not None:
            head["max_completion_tokens"] = agent.max_output_tokens
        if agent.tools:
            head["tools"] = [tool.schema for tool in agent.tools]
        messages = transcript.wired
        if agent.instructions:
            system = canonical_json({"role": "system", "content": agent.instructions})
            messages = [system, *messages]
        opened = canonical_json(head)[:-1]
        return opened + b',"messages":[' + b",".join(messages) + b"]}"

    def _reply(
        self, agent: Agent, request: ModelRequest, answer: Answer, cancelled: bool
    ) -> ModelReply:
        model = answer.model or agent.model or self._default_model
        usage = priced(model_usage(answer, model))
        info = activity.info()
        if info.attempt > 1 and _was_answering(info.heartbeat_details):
            # An earlier attempt was cut off while the provider was already counting tokens.
            usage = usage.model_copy(update={"complete": False})
        calls = () if cancelled else requested_calls(answer, agent, request.step)
        if not cancelled and (answer.is_empty or len(calls) > MAX_CALLS_PER_TURN):
            self._refuse(answer)
        why: RunError | None = error(ErrorCode.CANCELLED) if cancelled else answer.problem()
        limits = None
        if request.limits is not None:
            limits = request.limits.over(agent.limits).over(DEFAULT_LIMITS)
        return ModelReply(
            model=model,
            text=clean(answer.text),
            refusal=clean(answer.refusal),
            calls=calls if why is None else (),
            finish_reason=answer.finish_reason,
            usage=usage,
            attempt=info.attempt,
            error=why,
            limits=limits,
        )

    def _refuse(self, answer: Answer) -> None:
        if answer.problem() is not None:
            return
        what = f"{len(answer.calls)} tool calls at once" if answer.calls else "an empty answer"
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
