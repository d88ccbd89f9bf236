"""Asking a judge: a model that says whether a text passes an agent's check."""

import json
from collections.abc import Awaitable, Callable

from temporalio.exceptions import ApplicationError

from perdure.activities.answering import Call
from perdure.activities.endpoints import Endpoints
from perdure.activities.heartbeat import Progress
from perdure.activities.terms import terms_of
from perdure.activities.verdicts import JudgeUnavailable, Refused
from perdure.agents.checks import Judge, Verdict, allow
from perdure.runs.checked import Judged
from perdure.runs.contract import ModelRequest
from perdure.runs.limits import Terms
from perdure.runs.messages import UserMessage, canonical_json, wire, without_lone_surrogates
from perdure.runs.steps import ModelReply

ATTEMPTS = 2
"""Answers of a judge that are read before nothing passes."""

AskModel = Callable[[Call, bytes], Awaitable[ModelReply]]
"""Asks a model, with one message in wire form."""


class Judging:
    """Asks judges.

    Args:
        ask_model: Asks a model, once.
        endpoints: Where models are.
        default: Model of judges that name none.
    """

    def __init__(self, ask_model: AskModel, endpoints: Endpoints, default: str) -> None:
        self._ask_model = ask_model
        self._endpoints = endpoints
        self._default = default

    async def ask(self, judge: Judge, about: str, text: str, judged: list[Judged]) -> Verdict:
        """Return what a judge says of a text.

        Args:
            judge: Whom to ask.
            about: What it judges: `input` or `output`.
            text: Its text.
            judged: What it says is added to this, whatever that is.

        Raises:
            Refused: When its answer can't be read.
            JudgeUnavailable: When its provider failed.
        """
        request = ModelRequest(agent=judge.name, step=0, turn=0, terms=Terms())
        endpoint = self._endpoints.of(judge.agent.model or self._default)
        terms = terms_of(judge.agent, request, endpoint)
        call = Call(judge.agent, request, endpoint, terms, Progress(), judge.agent)
        message = wire(UserMessage(content=canonical_json(without_lone_surrogates(text)).decode()))
        for _ in range(ATTEMPTS):
            try:
                reply = await self._ask_model(call, message)
            except ApplicationError as exc:
                raise JudgeUnavailable(exc) from exc
            said = json.loads(reply.text or "{}") if reply.structured else {}
            passes, why = bool(said.get("passes")), str(said.get("reason", "no verdict"))
            judged.append(
                Judged(judge=judge.name, about=about, passes=passes, reason=why, usage=reply.usage)
            )
            if reply.structured:
                return allow() if passes else Verdict(judge.otherwise, why)
        why = reply.error.message if reply.error is not None else "no answer"
        raise Refused(judge.name, f"the judge gave no verdict: {why}")
