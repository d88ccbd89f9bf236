"""What an AG-UI client asks for, as what is to be done: a Run to start, or decisions to take.

The client sends the whole conversation each time; a thread is a Session, which has it already, and
has it durably. So only the last message is taken: what the user says now.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.given_file import File

MEDIA = ("image", "audio", "video", "document")
"""Parts of a user's message that are files."""


class _Given(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class AgUiContext(_Given):
    """Something that the client's application knows."""

    description: str
    value: str


class AgUiAnswer(_Given):
    """What came of an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AgUiRequest(_Given):
    """`RunAgentInput`: what AG-UI clients POST. What else they send is passed over."""

    thread_id: str = Field(min_length=1)
    """The Session."""
    run_id: str = Field(min_length=1)
    """The client's own name for this request; the same one again does not start a second Run."""
    messages: tuple[dict[str, Any], ...] = ()
    """The conversation as the client has it; the last one is the input."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tools that the client would execute: not supported."""
    context: tuple[AgUiContext, ...] = ()
    state: Any = None
    forwarded_props: Any = None
    resume: tuple[AgUiAnswer, ...] | None = None
    """The answers to all interrupts with which the run before has ended."""


@dataclass(frozen=True)
class NewRun:
    """A Run to start in the Session that the thread is.

    Attributes:
        input: What the user says.
        files: What it comes with.
        variables: For the agent's tools: what the client's application told beside it.
        idempotency_key: The client's id for the request.
    """

    input: str
    files: tuple[File, ...]
    variables: dict[str, Any]
    idempotency_key: str


@dataclass(frozen=True)
class Decision:
    """What a person decided.

    Attributes:
        run_id: Which Run asked; as the client names it, so it is to be scoped.
        action_id: What it asked.
        verdict: What they said.
        note: What they add.
        answer: To a question.
        arguments: What the tool is to be called with instead.
        is_abandoned: True when nobody has decided, and nobody will: that the action was resolved
            meanwhile, for instance because its time was up, is no error then.
    """

    run_id: str
    action_id: str
    verdict: Literal["approved", "rejected", "answered"]
    note: str = ""
    answer: str = ""
    arguments: dict[str, Any] | None = None
    is_abandoned: bool = False


def asked(request: AgUiRequest) -> NewRun | tuple[Decision, ...]:
    """Return what is to be done: a Run to start, or the decisions that one waits for.

    Raises:
        InvalidRequest: When it is none of both, or asks for what is not supported.
    """
    if request.tools:
        names = ", ".join(repr(str(each.get("name", ""))[:80]) for each in request.tools[:5])
        raise unsupported(
            f"Tools that the client executes are not supported: {names}.",
            hint="Give the agent the tool, or leave `tools` empty.",
        )
    _check(request.messages)
    if request.resume:
        return tuple(_decision(each) for each in request.resume)
    return _new_run(request)


def unsupported(message: str, hint: str) -> InvalidRequest:
    """Return the refusal of something that a client may ask for, but not of us."""
    return InvalidRequest(message, hint=hint, code=ErrorCode.UNSUPPORTED_PARAMETER)


def _check(messages: Sequence[dict[str, Any]]) -> None:
    """Check what comes back to the client in snapshots."""
    for number, message in enumerate(messages):
        if not isinstance(message.get("id"), str) or not isinstance(message.get("role"), str):
            raise InvalidRequest(
                f"Message {number} has no id or no role.", hint="Give both, as texts."
            )


def _new_run(request: AgUiRequest) -> NewRun:
    last = request.messages[-1] if request.messages else {}
    if last.get("role") == "tool":
        raise unsupported(
            "The last message is the result of a tool that the client has executed.",
            hint="Answer interrupts with `resume`; the agent's own tools need no answer.",
        )
    if last.get("role") != "user":
        raise InvalidRequest(
            "The last message is not the user's.",
            hint="Put what the agent is to do last, as a message with the role `user`.",
        )
    text, files = _content(last.get("content"))
    told = {
        "state": request.state,
        "context": [each.model_dump() for each in request.context],
        "forwarded_props": request.forwarded_props,
    }
    variables = {name: value for name, value in told.items() if value not in (None, {}, [])}
    return NewRun(text, files, variables, request.run_id)


def _content(content: Any) -> tuple[str, tuple[File, ...]]:
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise InvalidRequest(
            "The content of the last message is neither text nor a list of parts.",
            hint="Give a text, or parts with a `type`.",
        )
    texts: list[str] = []
    files: list[File] = []
    for part in content:
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("type") in MEDIA:
            files.append(_file(part, len(files) + 1))
        else:
            raise unsupported(
                f"A part of the type {str(part.get('type'))[:80]!r} is not supported.",
                hint=f"Use text, or one of {', '.join(MEDIA)} with its content.",
            )
    return "\n".join(texts), tuple(files)


def _file(part: dict[str, Any], number: int) -> File:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    if source.get("type") != "data":
        raise unsupported(
            f"A file by reference ({str(source.get('type'))[:80]!r}) is not supported.",
            hint="Send its content: a source of the type `data`, in base64.",
        )
    try:
        data = base64.b64decode(str(source.get("value")), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidRequest(f"File {number} is not base64: {exc}.", hint="Encode it.") from exc
    told = part.get("metadata")
    name = told.get("filename") if isinstance(told, dict) else None
    return File.from_bytes(
        data, str(source.get("mimeType") or ""), str(name or f"{part['type']}-{number}")
    )


def _decision(given: AgUiAnswer) -> Decision:
    run_id, _, action_id = given.interrupt_id.rpartition("/")
    if not run_id or not action_id:
        raise InvalidRequest(
            f"{given.interrupt_id[:160]!r} is not the id of an interrupt.",
            hint="Take it from the outcome of the run that was interrupted.",
        )
    if given.status == "cancelled":
        return Decision(run_id, action_id, "rejected", is_abandoned=True)
    return _resolved(run_id, action_id, given.payload)


def _resolved(run_id: str, action_id: str, payload: Any) -> Decision:
    if isinstance(payload, bool):
        return Decision(run_id, action_id, "approved" if payload else "rejected")
    if isinstance(payload, str):
        return Decision(run_id, action_id, "answered", answer=payload)
    told = payload if isinstance(payload, dict) else {}
    note, edited = told.get("note", ""), told.get("editedArgs")
    if isinstance(told.get("answer"), str):
        return Decision(run_id, action_id, "answered", answer=told["answer"])
    is_sound = isinstance(note, str) and (edited is None or isinstance(edited, dict))
    if not isinstance(told.get("approved"), bool) or not is_sound:
        raise InvalidRequest(
            f"The payload for {action_id!r} fits neither an approval nor a question.",
            hint="Send what the interrupt's responseSchema describes.",
        )
    if not told["approved"]:
        return Decision(run_id, action_id, "rejected", note=note)
    return Decision(run_id, action_id, "approved", note=note, arguments=edited)
