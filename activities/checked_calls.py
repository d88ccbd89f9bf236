"""The checks of an agent on tool calls: when the model asks for one, and where it is executed."""

import json
from dataclasses import dataclass
from typing import Any

from perdure.activities.answering import Call
from perdure.activities.calls import RAW_CHARS
from perdure.activities.gate import approval_needed
from perdure.activities.redaction import Redactor
from perdure.activities.terms import timed
from perdure.activities.verdicts import Refused, verdict_on
from perdure.agents.agent import Agent
from perdure.agents.approval import ProposedCall
from perdure.agents.checks import ArgumentCheck, name_of
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES
from perdure.runs.policy import Approval
from perdure.runs.steps import RequestedCall
from perdure.runs.strict_json import strict_json


@dataclass(frozen=True)
class Passed:
    """Arguments that all checks let pass.

    Attributes:
        text: The arguments, as the checks leave them.
        changed_by: The check that changed them last; empty when none did.
        asks: Why a person is to decide; empty when none is.
    """

    text: str
    changed_by: str = ""
    asks: str = ""


async def checked_call(call: Call, asked: RequestedCall, redact: Redactor) -> RequestedCall:
    """Return a tool call as the agent's checks leave it: as it is, changed, waiting or rejected."""
    agent, tool = call.agent, call.offered.tool(asked.name)
    if asked.rejection is not None or tool is None or not agent.argument_checks:
        return asked
    raw = asked.arguments[:RAW_CHARS]
    try:
        passed = await _through(agent, tool, asked.arguments, redact)
    except Refused as exc:
        why = {"rejection": exc.as_error("call"), "arguments": "{}", "raw_arguments": raw}
        return asked.model_copy(update=why)
    update: dict[str, Any] = {}
    approval = asked.policy.approval
    if passed.changed_by:
        values = tool.keyword_arguments(passed.text)
        approval = approval_needed(agent, tool, values, asked.policy.effect)
        update = {
            "arguments": passed.text,
            "changed_by": passed.changed_by,
            "raw_arguments": raw,
        }
    if passed.asks:
        approval = Approval(reason=passed.asks)
    update["policy"] = asked.policy.model_copy(update={"approval": approval})
    return timed(asked.model_copy(update=update), agent, call.terms)


async def argument_refusal(
    agent: Agent | None, tool: AnyTool, request: ToolRequest, redact: Redactor
) -> RunError | None:
    """Return why the checks of an agent do not let a call be executed, if they do not.

    What they would change was not checked: a person edited it, or it came another way.
    """
    if agent is None or not agent.argument_checks:
        return None
    try:
        passed = await _through(agent, tool, request.arguments, redact)
    except Refused as exc:
        return exc.as_error("call")
    if passed.asks and request.approval is None:
        return error(ErrorCode.APPROVAL_MISSING)
    if json.loads(passed.text) != json.loads(request.arguments):
        why = "it would change the arguments, which were to be executed as they are"
        return Refused(passed.changed_by, why).as_error("call")
    return None


async def _through(agent: Agent, tool: AnyTool, text: str, redact: Redactor) -> Passed:
    asks: list[str] = []
    changed_by = ""
    for check in agent.argument_checks:
        subject = ProposedCall(tool.name, tool.keyword_arguments(text), tool.policy.effect)
        verdict = await verdict_on(check, "arguments", subject, redact)
        if verdict.kind == "change":
            text, changed_by = _as_arguments(check, tool, verdict.value), name_of(check)
        elif verdict.kind == "ask":
            asks.append(verdict.reason or f"The check {name_of(check)!r} asks.")
    return Passed(text, changed_by, " ".join(asks))


def _as_arguments(check: ArgumentCheck, tool: AnyTool, value: Any) -> str:
    try:
        text = strict_json(value).decode()
        tool.keyword_arguments(text)
    except ValueError as exc:
        why = f"it changed the arguments to what does not fit ({type(exc).__name__})"
        raise Refused(name_of(check), why) from exc
    if len(text.encode()) > MAX_REPLY_BYTES:
        raise Refused(name_of(check), f"it made more than {MAX_REPLY_BYTES:,} bytes of arguments")
    return text
