"""What the checks of an agent do to one model call: to what goes in, and to what comes out."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from temporalio import activity

from perdure.activities.answering import Call
from perdure.activities.checked_calls import checked_call
from perdure.activities.redaction import Redactor
from perdure.activities.structured import wanted_output
from perdure.activities.verdicts import Refused, verdict_on
from perdure.agents.checks import CheckedInput, CheckedOutput, Judge, Verdict, name_of
from perdure.agents.output import Unfit
from perdure.runs.checked import Checked, Judged
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import DEFAULT_ACTION_S, MAX_INPUT_BYTES
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.policy import Approval
from perdure.runs.steps import ModelReply
from perdure.runs.strict_json import strict_json
from perdure.runs.usage import ModelUsage

AskJudge = Callable[[Judge, str, str, list[Judged]], Awaitable[Verdict]]
"""Asks a judge about an input or output: its text; what it says is added to the list."""


NOTHING_SAID: dict[str, Any] = {"text": None, "extra": {}, "echo": {}}
"""Of a reply whose words are kept nowhere."""


@dataclass
class _Passed:
    """A text on its way through checks."""

    text: str
    changed_by: str = ""
    asks: str = ""
    """Why a person is to decide."""
    retries: str = ""
    """Why the model is to answer again."""


class Checks:
    """The checks of the agent of one model call.

    Args:
        call: Which call.
        run_id: Of which Run.
        redact: Applied to what checks raise.
        ask: Asks a judge.
    """

    def __init__(self, call: Call, run_id: str, redact: Redactor, ask: AskJudge) -> None:
        self._call = call
        self._agent = call.agent
        self._run_id = run_id
        self._redact = redact
        self._ask = ask
        self._judged: list[Judged] = []

    async def inputs(self, wired: Sequence[bytes]) -> ModelReply | None:
        """Return the reply with which the Step ends unless the model may be asked now.

        It may not, when an input is refused, or a person is to decide; nor when one is changed:
        then the workflow records that first, for all requests to come.

        Args:
            wired: The transcript.

        Raises:
            JudgeUnavailable: When a judge could not be asked.
        """
        count = self._call.request.unchecked if self._agent.input_checks else 0
        said = [str(json.loads(each)["content"]) for each in wired[len(wired) - count :]]
        try:
            found = [await self._through(self._agent.input_checks, "input", each) for each in said]
        except Refused as exc:
            return self._instead(exc.as_error("input"))
        told = tuple(each.text for each in found)
        reasons = " ".join(each.asks for each in found if each.asks)
        is_changed = list(told) != said
        if not reasons and not is_changed:
            return None
        reply = self._instead(error(ErrorCode.GUARDRAIL, "A check changed the input.", hint=""))
        if is_changed:
            reply = reply.model_copy(update={"checked": Checked(inputs=told)})
        if reasons:
            why = error(ErrorCode.GUARDRAIL, f"A person is to approve the input: {reasons}")
            reply = reply.model_copy(update={"error": why, "review": self._review(reasons)})
        return reply

    async def answer(self, reply: ModelReply, call: Call) -> ModelReply:
        """Return what the model answered, as the checks of calls and outputs leave it.

        Args:
            reply: What it answered.
            call: With the tools that it was offered.

        Raises:
            JudgeUnavailable: When a judge could not be asked.
        """
        if self._call.request.purpose == "compact" or reply.error is not None:
            return self.withheld(reply)
        if reply.calls:
            calls = [await checked_call(call, each, self._redact) for each in reply.calls]
            return reply.model_copy(update={"calls": tuple(calls)})
        if reply.unfit is not None or not self._agent.output_checks:
            return reply
        return await self._checked_output(reply)

    def withheld(self, reply: ModelReply) -> ModelReply:
        """Return a reply without text that no output check has seen, if there are any."""
        if self._agent.output_checks and self._call.request.purpose != "compact":
            return reply.model_copy(update=NOTHING_SAID)
        return reply

    @property
    def has_spent(self) -> bool:
        """Whether a judge was asked."""
        return bool(self._judged)

    def counted(self, reply: ModelReply) -> ModelReply:
        """Return a reply with what its checks used."""
        if not self._judged:
            return reply
        checked = (reply.checked or Checked()).model_copy(update={"judged": tuple(self._judged)})
        return reply.model_copy(update={"checked": checked})

    async def _checked_output(self, reply: ModelReply) -> ModelReply:
        text = reply.text or ""
        try:
            found = await self._through(self._agent.output_checks, "output", text, reply)
        except Refused as exc:
            return self._ended(reply, exc.as_error("output"))
        if found.retries:
            why = error(ErrorCode.GUARDRAIL, found.retries, details={"about": "output"})
            if self._call.request.purpose == "conclude":
                return self._ended(reply, why)
            return reply.model_copy(update={"unfit": why, "structured": False})
        update: dict[str, Any] = {"text": found.text}
        if found.changed_by:
            update["checked"] = Checked(changed_by=found.changed_by)
        if found.asks:
            update["review"] = self._review(found.asks)
        return reply.model_copy(update=update)

    def _ended(self, reply: ModelReply, why: RunError) -> ModelReply:
        """Return an answer that is refused: what it said is kept nowhere."""
        return reply.model_copy(update={**NOTHING_SAID, "error": why, "structured": False})

    async def _through(
        self, checks: Sequence[Any], about: str, text: str, reply: ModelReply | None = None
    ) -> _Passed:
        """Show a text to one check after the other, each to what the one before has left of it."""
        passed = _Passed(text)
        for check in checks:
            subject = self._subject(check, passed.text, reply)
            ask = partial(self._asked, about)
            verdict = await verdict_on(check, about, subject, self._redact, ask)
            if verdict.kind == "change":
                passed.text = self._changed(check, verdict.value, reply)
                passed.changed_by = name_of(check)
            elif verdict.kind == "retry":
                passed.retries = verdict.reason or "Answer again."
                break
            elif verdict.kind == "ask":
                passed.asks = f"{passed.asks} {verdict.reason}".strip() or name_of(check)
        return passed

    def _subject(self, check: Any, text: str, reply: ModelReply | None) -> Any:
        if isinstance(check, Judge):
            return text
        if reply is None:
            return CheckedInput(text, self._agent.name, self._run_id)
        value = json.loads(text) if reply.structured else None
        return CheckedOutput(text, value, self._agent.name, self._run_id)

    def _changed(self, check: Any, value: Any, reply: ModelReply | None) -> str:
        """Return what a check makes of a text; of structured output, it must fit as before."""
        if reply is None or not reply.structured:
            if not isinstance(value, str):
                raise Refused(name_of(check), f"it changed a text to {type(value).__name__}")
            if len(value) > MAX_INPUT_BYTES:
                raise Refused(name_of(check), f"it made {len(value):,} characters of a text")
            return without_lone_surrogates(value)
        output = wanted_output(self._agent, self._call.request, ())
        try:
            if output is None:
                raise Unfit("there is no schema")
            return output.kept(json.loads(strict_json(value)))
        except (Unfit, ValueError) as exc:
            raise Refused(name_of(check), f"it changed the output to what is none: {exc}") from exc

    async def _asked(self, about: str, judge: Judge, subject: Any) -> Verdict:
        return await self._ask(judge, about, str(subject), self._judged)

    def _review(self, reason: str) -> Approval:
        return Approval(
            reason=reason, expires_s=self._call.terms.timeouts.action_s or DEFAULT_ACTION_S
        )

    def _instead(self, why: RunError) -> ModelReply:
        """Return the reply of a Step in which the model was not asked."""
        call = self._call
        return ModelReply(
            model=call.endpoint.model,
            alias=call.endpoint.alias,
            usage=ModelUsage(model=call.endpoint.model),
            attempt=activity.info().attempt,
            error=why,
            terms=None if call.request.terms is None else call.terms,
        )
