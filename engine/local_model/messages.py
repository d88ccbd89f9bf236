"""A conversation with tools, in the form that a small model reads best. Pure.

The wording was chosen by trial with the model that `weights` names, at temperature 0, with the
three tools of `perdure.examples.assistant` and 28 questions about arithmetic, the time and files:
23 get the right call and the right answer (10 of 10, 8 of 8, 5 of 10); a space more or less in
the prompt changes one or two of them. What made the difference, in this order:

- the answer's form is not mentioned before there is a result: told of both forms, the model
  answers at once, from imagination (arithmetic 4 of 10 instead of 10 of 10);
- each tool comes with one example of its call, in the form that the model was trained on;
- after a result, the question once more, with the wish for a full sentence.

The price: a question that needs no tool gets a call all the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

JsonObject = dict[str, object]

HOW_TO_CALL = (
    "First call the tool that fits the question, by replying with its JSON: "
    '{"name": "<tool>", "arguments": {...}}.'
)
HOW_TO_ANSWER = (
    'Now reply {"answer": "..."}, with a full sentence that contains the result. The question was: '
)


class RequestRefused(Exception):
    """A request that can't be served as it is.

    Args:
        message: What is wrong, with what.
        param: The part of the request, in OpenAI's notation.
        code: OpenAI's code, if there is one.
        status: HTTP status.
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True)
class ToolSpec:
    """One function that the model may call."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of the arguments, an object."""

    @property
    def properties(self) -> Mapping[str, object]:
        """The schema of each argument by its name."""
        found = self.parameters.get("properties")
        return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Call:
    """One tool call."""

    name: str
    arguments: JsonObject

    def key(self) -> str:
        """The same text for the same call."""
        return json.dumps([self.name, self.arguments], sort_keys=True)

    def text(self) -> str:
        """The call as the model writes it."""
        return json.dumps({"name": self.name, "arguments": self.arguments}, ensure_ascii=False)


@dataclass(frozen=True)
class Conversation:
    """Messages as the model gets them."""

    messages: list[JsonObject]
    made: frozenset[str]
    """Keys of the calls that were made since the last question."""
    has_calls: bool
    """Whether any call is shown, so that the model will write in that form again."""


def read_conversation(messages: object, tools: Sequence[ToolSpec]) -> Conversation:
    """Rewrite OpenAI messages for a small model.

    Args:
        messages: The request's `messages`.
        tools: What the model may call now; their description is added to the instructions.

    Raises:
        RequestRefused: The messages are not what the Chat Completions API takes.
    """
    if not isinstance(messages, list) or not messages:
        raise RequestRefused("'messages' must be a list of at least one message.", param="messages")
    writer = _Writer()
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise RequestRefused("A message must be an object.", param=f"messages[{index}]")
        writer.add(message, f"messages[{index}]")
    return writer.finish(tools)


def text_of(content: object, where: str) -> str:
    """Return a message's text, given as a string, as text parts, or not at all.

    Raises:
        RequestRefused: It holds something other than text.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = []
    for part in parts:
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise RequestRefused("This model reads text only.", param=f"{where}.content")
        texts.append(text)
    return "".join(texts)


def read_call(call: object, where: str) -> tuple[str, Call]:
    """Read one entry of `tool_calls` into its id and the call.

    Raises:
        RequestRefused: It is not a function call.
    """
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise RequestRefused("A tool call must have a function.", param=f"{where}.tool_calls")
    try:
        arguments = json.loads(str(function.get("arguments") or "{}"))
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        # An earlier reply may have been cut off; it is shown as it is.
        arguments = {"text": str(function.get("arguments"))}
    return str(call.get("id")), Call(str(function.get("name")), arguments)


class _Writer:
    def __init__(self) -> None:
        self._instructions: list[str] = []
        self._messages: list[JsonObject] = []
        self._calls: dict[str, Call] = {}
        self._made: set[str] = set()
        self._results: list[str] = []
        self._question = ""

    def add(self, message: Mapping[str, object], where: str) -> None:
        role, text = message.get("role"), text_of(message.get("content"), where)
        if role != "tool":
            self._end_results(asking=False)
        match role:
            case "system" | "developer":
                self._instructions.append(text)
            case "user":
                self._question = text
                self._made.clear()
                self._say("user", text)
            case "assistant":
                self._add_reply(message.get("tool_calls"), text, where)
            case "tool":
                call = self._calls.get(str(message.get("tool_call_id")))
                self._results.append(f"Result of {call.name if call else 'the tool'}: {text}")
            case _:
                raise RequestRefused(f"There is no role {role!r}.", param=f"{where}.role")

    def _add_reply(self, calls: object, text: str, where: str) -> None:
        lines = [text] if text else []
        for entry in calls if isinstance(calls, list) else []:
            call_id, call = read_call(entry, where)
            self._calls[call_id] = call
            self._made.add(call.key())
            lines.append(call.text())
        self._say("assistant", "\n".join(lines))

    def _end_results(self, *, asking: bool) -> None:
        if self._results:
            ask = [f"{HOW_TO_ANSWER}{self._question}"] if asking and self._question else []
            self._say("user", "\n".join([*self._results, *ask]))
            self._results = []

    def _say(self, role: str, content: str) -> None:
        self._messages.append({"role": role, "content": content})

    def finish(self, tools: Sequence[ToolSpec]) -> Conversation:
        self._end_results(asking=True)
        instructions = list(self._instructions)
        if tools:
            lines = ["# Tools", *[_described(tool) for tool in tools]]
            instructions += ["\n".join(lines), HOW_TO_CALL]
        messages = self._messages
        if instructions:
            messages = [{"role": "system", "content": "\n\n".join(instructions)}, *messages]
        return Conversation(messages, frozenset(self._made), bool(self._calls))


def _described(tool: ToolSpec) -> str:
    """One tool as two lines: what it is, and a call of it."""
    arguments = ", ".join(f"{name}: {_kind(schema)}" for name, schema in tool.properties.items())
    notes = [
        f"{name}: {schema['description']}"
        for name, schema in tool.properties.items()
        if isinstance(schema, dict) and schema.get("description")
    ]
    # The first paragraph says what the tool does; a longer prompt costs 10 ms a token at the start.
    purpose = tool.description.strip().split("\n\n")[0]
    example = Call(tool.name, dict.fromkeys(tool.properties, "..."))
    says = f"{purpose} {'; '.join(notes)}".rstrip()
    return f"- {tool.name}({arguments}): {says}\n  {example.text()}"


def _kind(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else "any"
