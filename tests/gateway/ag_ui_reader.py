"""What an AG-UI client makes of a stream: the rules it checks, and the messages it then has.

Written after the protocol's specification; `test_ag_ui_client` shows that the official client
takes the same streams.
"""

from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

Json = dict[str, Any]
TYPES: TypeAdapter[Any] = TypeAdapter(Event)

OPENERS = {
    "TEXT_MESSAGE_START": "messageId",
    "REASONING_START": "messageId",
    "REASONING_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "STEP_STARTED": "stepName",
}
WITHIN = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_START",
    "TOOL_CALL_ARGS": "TOOL_CALL_START",
}
CLOSERS = {
    "TEXT_MESSAGE_END": "TEXT_MESSAGE_START",
    "REASONING_MESSAGE_END": "REASONING_MESSAGE_START",
    "REASONING_END": "REASONING_START",
    "TOOL_CALL_END": "TOOL_CALL_START",
    "STEP_FINISHED": "STEP_STARTED",
}
ANYWHERE = {"TOOL_CALL_RESULT", "MESSAGES_SNAPSHOT", "CUSTOM"}


def assert_is_event(event: Json) -> None:
    """The official types know the event, every field of it, and write it as it was."""
    parsed = TYPES.validate_python(event)
    _assert_no_more(parsed)
    assert TYPES.dump_python(parsed, mode="json", by_alias=True) == event


def _assert_no_more(value: Any) -> None:
    if isinstance(value, BaseModel):
        assert value.model_extra == {}, (type(value), value.model_extra)
        for name in type(value).model_fields:
            _assert_no_more(getattr(value, name))
    elif isinstance(value, list):
        for each in value:
            _assert_no_more(each)


class Connection:
    """One response: the order of its events."""

    def __init__(self) -> None:
        self.open: dict[str, set[str]] = {}
        self.state = "new"

    def check(self, event: Json) -> None:
        """The event may stand here."""
        kind = event["type"]
        if kind == "RUN_STARTED":
            assert self.state in ("new", "finished", "errored")
            self.state, self.open = "running", {}
            return
        assert self.state == "running", (self.state, event)
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            # The protocol lets an error leave things open; we don't.
            assert not any(self.open.values()), self.open
            self.state = "finished" if kind == "RUN_FINISHED" else "errored"
        elif kind in OPENERS:
            ids = self.open.setdefault(kind, set())
            assert event[OPENERS[kind]] not in ids
            ids.add(event[OPENERS[kind]])
        elif kind in WITHIN:
            assert event[OPENERS[WITHIN[kind]]] in self.open[WITHIN[kind]]
        elif kind in CLOSERS:
            self.open[CLOSERS[kind]].remove(event[OPENERS[CLOSERS[kind]]])
        else:
            assert kind in ANYWHERE


class Reader:
    """A client over any number of connections: what it shows."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: dict[str, Json] = {each["id"]: dict(each) for each in messages}
        self.connection = Connection()
        self.last: Json = {}
        self.kinds: list[str] = []

    def reconnects(self) -> None:
        """The next event is the first one of another response."""
        self.connection = Connection()

    def read(self, events: Iterable[Json]) -> None:
        """Take events."""
        for event in events:
            assert_is_event(event)
            self.connection.check(event)
            self._apply(event)
            self.last = event
            self.kinds.append(event["type"])

    def shown(self, *roles: str) -> dict[str, Json]:
        """Return the messages of these roles, by id."""
        return {id: each for id, each in self.messages.items() if each["role"] in roles}

    def _apply(self, event: Json) -> None:
        id = event.get("messageId", "")
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self.messages.setdefault(id, {"id": id, "role": event["role"]})
            case "REASONING_MESSAGE_START":
                self.messages.setdefault(id, {"id": id, "role": "reasoning"})
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                message = self.messages[id]
                message["content"] = message.get("content", "") + event["delta"]
            case "TOOL_CALL_START":
                self._call(event)
            case "TOOL_CALL_ARGS":
                self._calls()[event["toolCallId"]]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                assert id not in self.messages
                assert event["toolCallId"] in self._calls()
                told = {name: event[name] for name in ("role", "toolCallId", "content")}
                self.messages[id] = {"id": id} | told
            case "MESSAGES_SNAPSHOT":
                self._replace(event["messages"])

    def _call(self, event: Json) -> None:
        id, parent = event["toolCallId"], event["parentMessageId"]
        message = self.messages.setdefault(parent, {"id": parent, "role": "assistant"})
        assert id not in self._calls()
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": id, "type": "function", "function": function}
        message.setdefault("toolCalls", []).append(call)

    def _calls(self) -> dict[str, Json]:
        made = (each.get("toolCalls", []) for each in self.messages.values())
        return {call["id"]: call for calls in made for call in calls}

    def _replace(self, messages: list[Json]) -> None:
        ids = [each["id"] for each in messages]
        assert len(ids) == len(set(ids))
        has_reasoning = any(each["role"] == "reasoning" for each in messages)
        kept = set(ids) | (set() if has_reasoning else self.shown("reasoning").keys())
        stays = {id: each for id, each in self.messages.items() if id in kept}
        self.messages = stays | {each["id"]: _copied(each) for each in messages}


def _copied(message: Json) -> Json:
    calls = [each | {"function": dict(each["function"])} for each in message.get("toolCalls", [])]
    return message | ({"toolCalls": calls} if calls else {})
