"""The messages of a Run as AG-UI has them. All their ids follow from the Run.

    r1:input             what the Run was asked
    r1:context.0         what it was told before
    r1:2.1               what its Step 2 said, in attempt 1
    r1:2.1:reasoning.1   what the model thought meanwhile
    r1:2.1:call.0        the first tool call that it asked for
    r1:2.1:call.0:result what that call brought
    r1:said.0            what a person said meanwhile

So a message that was streamed, and the same one in a snapshot, are one to the client. The ids that
providers give to tool calls would not do: some use the same ones in every turn.
"""

from collections.abc import Iterator, Sequence

from perdure.gateway.streaming.ag_ui.wire import Json, event
from perdure.runs.messages import AssistantMessage, ToolMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import FollowUp
from perdure.runs.steps import Step, ToolCall

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where providers put what a model thinks; the first that there is."""


def message_id(run_id: str, step: int, attempt: int) -> str:
    """Return the id of what an attempt of a model Step says."""
    return f"{run_id}:{step}.{attempt}"


def call_id(message: str, number: int) -> str:
    """Return the id of a tool call of a message, counted from 0."""
    return f"{message}:call.{number}"


def reasoning_id(message: str, number: int) -> str:
    """Return the id of a stretch of reasoning beside a message, counted from 1."""
    return f"{message}:reasoning.{number}"


def said_id(run: Run, number: int) -> str:
    """Return the id of what a person said after the Run had begun, counted from 0."""
    return f"{run.run_id}:said.{number}"


def called(run: Run) -> Iterator[tuple[str, ToolCall]]:
    """Yield the tool calls of a Run with their ids."""
    numbers: dict[int, int] = {}
    for call in run.tool_calls:
        number = numbers.get(call.model_step, 0)
        numbers[call.model_step] = number + 1
        attempt = run.steps[call.model_step - 1].attempt
        yield call_id(message_id(run.run_id, call.model_step, attempt), number), call


def calls_of(run: Run, step: int) -> list[ToolCall]:
    """Return the calls that a model Step asked for, in their order."""
    return [call for call in run.tool_calls if call.model_step == step]


def reasoning_of(step: Step) -> str:
    """Return what is kept of what a model thought: the beginning, where it was long."""
    return next((step.extra[name] for name in REASONING_FIELDS if step.extra.get(name)), "")


def result_event(id: str, call: ToolCall) -> Json:
    """Return the event that a call's result is."""
    return event(
        "TOOL_CALL_RESULT",
        messageId=f"{id}:result",
        toolCallId=id,
        content=call.result or "",
        role="tool",
    )


def snapshot(run: Run, before: Sequence[Json] | None, void: Sequence[str] = ()) -> Json:
    """Return the event that replaces all messages which a client has.

    Args:
        run: As it stands.
        before: Messages that the client has sent, the Run's input among them; none when the Run
            is all that it knows.
        void: Ids of reasoning that is taken back. Clients keep reasoning that a snapshot is
            silent about, so it is emptied.
    """
    emptied = [{"id": id, "role": "reasoning", "content": ""} for id in void]
    return event("MESSAGES_SNAPSHOT", messages=[*_opening(run, before), *_said(run), *emptied])


def _opening(run: Run, before: Sequence[Json] | None) -> list[Json]:
    if before is not None:
        return [each for each in before if not str(each.get("id")).startswith(f"{run.run_id}:")]
    told = [_given(run, number, each) for number, each in enumerate(run.context.messages)]
    return [*told, {"id": f"{run.run_id}:input", "role": "user", "content": run.input_message}]


def _given(run: Run, number: int, message: UserMessage | AssistantMessage | ToolMessage) -> Json:
    told: Json = {"id": f"{run.run_id}:context.{number}", "role": message.role}
    if message.content is not None:
        told["content"] = message.content
    if isinstance(message, ToolMessage):
        told["toolCallId"] = message.tool_call_id
    if isinstance(message, AssistantMessage) and message.tool_calls:
        told["toolCalls"] = [
            _call(each.id, each.name, each.arguments) for each in message.tool_calls
        ]
    return told


def _said(run: Run) -> Iterator[Json]:
    """Yield what was said in a Run; what a person said stands behind the Step it came after."""
    calls: dict[int, list[tuple[str, ToolCall]]] = {}
    for id, call in called(run):
        calls.setdefault(call.model_step, []).append((id, call))
    follow_ups = list(enumerate(run.follow_ups))
    for step in run.steps:
        if step.kind != "model" or step.purpose == "compact":
            continue
        while follow_ups and follow_ups[0][1].after_step < step.number:
            yield _follow_up(run, *follow_ups.pop(0))
        yield from _of_step(run, step, calls.get(step.number, []))
    for rest in follow_ups:
        yield _follow_up(run, *rest)


def _follow_up(run: Run, number: int, said: FollowUp) -> Json:
    return {"id": said_id(run, number), "role": "user", "content": said.text}


def _of_step(run: Run, step: Step, calls: Sequence[tuple[str, ToolCall]]) -> Iterator[Json]:
    id = message_id(run.run_id, step.number, step.attempt)
    if reasoning := reasoning_of(step):
        yield {"id": reasoning_id(id, 1), "role": "reasoning", "content": reasoning}
    if step.text or calls:
        message: Json = {"id": id, "role": "assistant"}
        if step.text:
            message["content"] = step.text
        if calls:
            message["toolCalls"] = [_call(id, each.name, each.arguments) for id, each in calls]
        yield message
    for id, call in calls:
        if call.is_settled:
            told = {"id": f"{id}:result", "role": "tool", "toolCallId": id}
            yield told | {"content": call.result or ""}


def _call(id: str, name: str, arguments: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
