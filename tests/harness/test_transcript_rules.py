"""One case a rule, and one conversation that obeys them all."""

from typing import Any

import pytest

from tests.harness.recorded import parse_body
from tests.harness.transcript_rules import check_request

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi"}


def calls(*ids: str, arguments: Any = "{}", content: str | None = None) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    listed = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": listed}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def with_parts(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def result(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "r"}


def test_a_proper_conversation_has_no_violation() -> None:
    conversation = [
        *(SYSTEM, USER, calls("a", "b"), result("b"), result("a")),
        *(calls("a", arguments='{"x": [1.5, "\\u00e9"]}', content="again"), result("a")),
        *(with_parts({"type": "text", "text": "These:"}, IMAGE),),
        *({"role": "assistant", "content": ""}, USER),
    ]
    assert check_request({"messages": conversation, "temperature": 0.5}) == []


@pytest.mark.parametrize(
    ("messages", "violation"),
    [
        ([], "messages: must be a list with at least one message"),
        (["hi"], "messages[0]: must be an object"),
        ([USER, SYSTEM], "messages[1]: a system message may only stand at index 0"),
        ([{"role": "robot", "content": ""}], "messages[0]: unknown role 'robot'"),
        (
            [{"role": "assistant", "content": [1]}],
            "messages[0]: content must be a string, not list",
        ),
        ([with_parts(IMAGE, 1)], "messages[0].content[1]: no part that the reference has"),
        (
            [with_parts({"type": "text", "text": "a"})],
            "messages[0]: what is only text must be a string",
        ),
        (
            [with_parts(IMAGE, {"type": "image_url", "image_url": {"url": "data:text/html,a"}})],
            "messages[0].content[1]: no part that the reference has",
        ),
        (
            [with_parts({"type": "file", "file": {"filename": "a", "file_data": "data:,a"}})],
            "messages[0].content[0]: no data URL of a PDF",
        ),
        (
            [with_parts({"type": "input_audio", "input_audio": {"data": "%", "format": "wav"}})],
            "messages[0].content[0]: no audio",
        ),
        ([{"role": "assistant"}], "messages[0]: content may be null only beside tool_calls"),
        (
            [{"role": "assistant", "content": "", "tool_calls": []}],
            "messages[0]: tool_calls must be left out rather than empty",
        ),
        (
            [calls("a", "a"), result("a")],
            "messages[0].tool_calls[1]: id 'a' must be non-empty and unique in its message",
        ),
        (
            [{**calls("a"), "role": "user", "content": ""}, result("a")],
            "messages[0]: only an assistant message may hold tool_calls",
        ),
        (
            [calls("a", arguments="[1]"), result("a")],
            "messages[0].tool_calls[0]: arguments must be the text of a JSON object, not '[1]'",
        ),
        (
            [calls("a", arguments={}), result("a")],
            "messages[0].tool_calls[0]: arguments must be the text of a JSON object, not '{}'",
        ),
        (
            [calls("a", arguments='{"x": NaN}'), result("a")],
            "messages[0].tool_calls[0].arguments.x: nan is not JSON",
        ),
        (
            [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}],
            "messages[0].tool_calls[0]: must hold id, type 'function' and a function with a name",
        ),
        ([calls("a"), USER], "messages[1]: tool call 'a' is not answered before this"),
        ([calls("a")], "the end: tool call 'a' is not answered before this"),
        (
            [calls("a"), result("a"), result("a")],
            "messages[2]: tool call 'a' is answered twice",
        ),
        (
            [calls("a"), result("a"), USER, result("a")],
            "messages[3]: 'a' is no tool call of the assistant message before",
        ),
        (
            [{"role": "tool", "content": ""}],
            "messages[0]: a tool message must hold a tool_call_id",
        ),
        (
            [{"role": "user", "content": "\ud83d"}],
            "body.messages[0].content: holds a lone surrogate, which is not Unicode text",
        ),
    ],
)
def test_each_rule_is_enforced(messages: list[Any], violation: str) -> None:
    assert check_request({"messages": messages}) == [violation]


@pytest.mark.parametrize(
    ("raw", "violation"),
    [
        (b"{", "the body is not JSON"),
        (b"[]", "the body is not a JSON object but list"),
        (b'{"a": "\xff"}', "the body is not UTF-8"),
        (b'{"a": -Infinity}', "the body holds -Infinity, which is not JSON"),
    ],
)
def test_a_body_must_be_a_json_object_in_utf8(raw: bytes, violation: str) -> None:
    [found] = parse_body(raw)[1]
    assert found.startswith(violation)
