"""The tool calls of a model's answer, checked.

Names and arguments that a model chose are untrusted input. What can't be executed becomes a
rejection that tells the model why.
"""

import json
import re
from typing import Any

from pydantic import ValidationError

from perdure.activities.gate import approval_needed, told
from perdure.activities.openai_chat import Answer, PartialCall
from perdure.activities.toolbox import Tools
from perdure.agents.agent import Agent
from perdure.agents.tool import NAME_LENGTH, AnyTool
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_AGENT_DEPTH
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.model_json import parsed
from perdure.runs.steps import Repair, RequestedCall

RAW_CHARS = 200
"""How much of unusable arguments is kept, and shown to the model."""


class _Unusable(Exception):
    """Arguments that are no JSON object."""


def requested_calls(
    answer: Answer, offered: Tools, agent: Agent, request: ModelRequest
) -> tuple[RequestedCall, ...]:
    """Return the calls of an answer, each with its tool's policy or why it is rejected.

    Ids are unique afterwards and the same on every reading: the provider's, or one made of
    the Step and the position where that is missing or was used twice. The same call given
    twice under one id is one call.
    """
    calls: list[RequestedCall] = []
    seen: set[tuple[str, str, str]] = set()
    # A made-up id must not be one that the provider uses further on.
    taken = {partial.id for partial in answer.calls}
    given: set[str] = set()
    for position, partial in enumerate(answer.calls, start=1):
        content = (partial.id, partial.name, _comparable(partial.arguments))
        if partial.id and content in seen:
            continue
        seen.add(content)
        call_id = without_lone_surrogates(partial.id)
        if not call_id or call_id in given:
            call_id = _made_up(f"call_{request.step}_{position}", taken | given)
        given.add(call_id)
        checked = _checked(partial, call_id, offered, agent, answer.finish)
        checked = _possible(checked, partial, request, calls)
        if partial.id and call_id != partial.id:
            original = without_lone_surrogates(partial.id)
            checked = checked.model_copy(update={"provider_id": original})
        calls.append(checked)
    return tuple(calls)


def _possible(
    call: RequestedCall,
    partial: PartialCall,
    request: ModelRequest,
    before: list[RequestedCall],
) -> RequestedCall:
    """Return the call, or its rejection where this Run, or this turn, can't have it."""
    kind, why = call.policy.kind, ""
    if kind == "agent" and request.depth >= MAX_AGENT_DEPTH:
        why = f"Agents call each other at most {MAX_AGENT_DEPTH} Runs deep; do it yourself."
    if kind == "handoff" and any(each.policy.kind == "handoff" for each in before):
        why = "The conversation was handed over already, by another call."
    if not why:
        return call
    return _rejected(call.call_id, call.name, partial, error(ErrorCode.TOOL_NOT_FOUND, why))


def _comparable(arguments: str) -> str:
    """Return arguments so that two spellings of the same ones are equal."""
    try:
        return json.dumps(json.loads(arguments.strip() or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _made_up(call_id: str, taken: set[str]) -> str:
    while call_id in taken:
        call_id += "_"
    return call_id


def _checked(
    partial: PartialCall, call_id: str, offered: Tools, agent: Agent, finish: str
) -> RequestedCall:
    name = without_lone_surrogates(partial.name)
    if finish == "length":
        cut = "The call was cut by the output limit and not executed; ask for less at once."
        return _rejected(call_id, name, partial, error(ErrorCode.OUTPUT_TRUNCATED, cut))
    found = offered.tool(name)
    if found is None:
        known = ", ".join(each.name for each in offered.tools) or "none"
        missing = f"There is no tool {name!r}. Tools: {known}."
        return _rejected(call_id, name, partial, error(ErrorCode.TOOL_NOT_FOUND, missing))
    try:
        arguments, values, repaired = _object_text(partial.arguments, found)
    except _Unusable as exc:
        invalid = error(ErrorCode.TOOL_ARGUMENTS_INVALID, str(exc))
        return _rejected(call_id, name, partial, invalid)
    return RequestedCall(
        call_id=call_id,
        name=name,
        arguments=arguments,
        policy=found.policy.model_copy(
            update={"approval": approval_needed(agent, found, values, found.policy.effect)}
        ),
        repaired=repaired,
    )


def _rejected(call_id: str, name: str, partial: PartialCall, why: RunError) -> RequestedCall:
    # What goes back to the provider must be valid, whatever the model wrote: the error keeps the
    # name as it was.
    raw = without_lone_surrogates(partial.arguments[:RAW_CHARS])
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:NAME_LENGTH] or "unnamed"
    return RequestedCall(
        call_id=call_id, name=name, arguments="{}", rejection=why, raw_arguments=raw
    )


def _object_text(raw: str, found: AnyTool) -> tuple[str, dict[str, Any], Repair | None]:
    repaired: Repair | None = None
    text = without_lone_surrogates(raw).strip() or "{}"
    value = _parsed(text)
    if isinstance(value, str):
        # Some models encode the object twice; one layer is undone, if it fits then.
        text, repaired = without_lone_surrogates(value), "double_encoded"
        value = _parsed(text)
    if not isinstance(value, dict):
        raise _Unusable(f"Arguments must be a JSON object, not {text[:RAW_CHARS]!r}.")
    try:
        values = found.keyword_arguments(text)
    except ValidationError as exc:
        raise _Unusable(told(exc)) from exc
    except ValueError as exc:
        raise _Unusable(f"Arguments do not fit: {exc}") from exc
    return text, values, repaired


def _parsed(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError as exc:
        raise _Unusable(f"Arguments are not valid JSON ({exc}): {text[:RAW_CHARS]!r}") from exc
