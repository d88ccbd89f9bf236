import json
from typing import Any, cast

import pytest

from perdure.engine.local_model.adapter import (
    Adapted,
    AnswerText,
    Reply,
    adapt,
    answer_only,
    read_reply,
    repeats_a_call,
)
from perdure.engine.local_model.messages import Call, RequestRefused


def function(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    described = {
        "name": name,
        "description": f"Does {name}.\n\nAt length.",
        "parameters": parameters,
    }
    return {"type": "function", "function": described}


CALCULATE = function(
    "calculate",
    {
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "What to work out."}},
        "required": ["expression"],
        "additionalProperties": False,
    },
)
NOW = function("now")
QUESTION = {"role": "user", "content": "What is 6 * 7?"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "calculate", "arguments": '{"expression": "6 * 7"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
SAME_CALL = Reply("", Call("calculate", {"expression": "6 * 7"}))


def request(*messages: dict[str, Any], **more: object) -> dict[str, object]:
    return {"messages": list(messages) or [QUESTION], "tools": [CALCULATE, NOW], **more}


def schema_of(adapted: Adapted) -> dict[str, Any]:
    body = cast("dict[str, Any]", adapted.body)
    schema: dict[str, Any] = body["response_format"]["json_schema"]["schema"]
    return schema


def allowed(adapted: Adapted) -> list[str]:
    """Return the names of the tools that may be called, and `answer` if one may be given."""
    replies = [reply["properties"] for reply in schema_of(adapted)["anyOf"]]
    return [reply["name"]["const"] if "name" in reply else "answer" for reply in replies]


def said(adapted: Adapted) -> list[tuple[str, str]]:
    messages = cast("list[dict[str, str]]", adapted.body["messages"])
    return [(message["role"], message["content"]) for message in messages]


def test_tools_become_one_schema_of_calls_and_an_answer() -> None:
    adapted = adapt(request())
    assert adapted.constrained
    assert "tools" not in adapted.body
    assert schema_of(adapted) == {
        "$defs": {
            "calculate": {
                "type": "object",
                "properties": {
                    "expression": {"type": "string", "description": "What to work out."}
                },
                "required": ["expression"],
                "additionalProperties": False,
            },
            "now": {"type": "object", "additionalProperties": False},
            " answer": {"type": "string"},
        },
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    "name": {"const": "calculate"},
                    "arguments": {"$ref": "#/$defs/calculate"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"name": {"const": "now"}, "arguments": {"$ref": "#/$defs/now"}},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"answer": {"$ref": "#/$defs/ answer"}},
                "required": ["answer"],
                "additionalProperties": False,
            },
        ],
    }


def test_references_inside_a_tools_schema_still_hold() -> None:
    parameters = {
        "type": "object",
        "$defs": {"Colour": {"enum": ["red"], "title": "Colour"}},
        # A property that is named like a keyword is no keyword.
        "properties": {"title": {"$ref": "#/$defs/Colour"}, "code": {"pattern": "[a-z]"}},
    }
    adapted = adapt({"messages": [QUESTION], "tools": [function("paint", parameters)]})
    assert schema_of(adapted)["$defs"]["paint"] == {
        "type": "object",
        "$defs": {"Colour": {"enum": ["red"]}},
        "properties": {"title": {"$ref": "#/$defs/paint/$defs/Colour"}, "code": {}},
    }


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (None, ["calculate", "now", "answer"]),
        ("auto", ["calculate", "now", "answer"]),
        ("required", ["calculate", "now"]),
        ({"type": "function", "function": {"name": "now"}}, ["now"]),
    ],
)
def test_tool_choice_narrows_what_may_be_replied(choice: object, names: list[str]) -> None:
    assert allowed(adapt(request(tool_choice=choice))) == names


def test_tool_choice_none_leaves_a_plain_request() -> None:
    adapted = adapt(request(tool_choice="none", stop=["."]))
    assert not adapted.constrained
    assert adapted.body == {
        "messages": [QUESTION],
        "temperature": 0.0,
        "max_tokens": 256,
        "stop": ["."],
    }


def test_without_tools_but_with_earlier_calls_an_answer_is_asked_for() -> None:
    adapted = adapt({"messages": [QUESTION, CALLED, RESULT]})
    assert allowed(adapted) == ["answer"]


def test_instructions_get_the_tools_with_an_example_of_each_call() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        QUESTION,
    ]
    assert said(adapt(request(*messages))) == [
        (
            "system",
            "Be brief.\n\nBe kind.\n\n# Tools\n"
            "- calculate(expression: string): Does calculate. expression: What to work out.\n"
            '  {"name": "calculate", "arguments": {"expression": "..."}}\n'
            "- now(): Does now.\n"
            '  {"name": "now", "arguments": {}}\n\n'
            "First call the tool that fits the question, by replying with its JSON: "
            '{"name": "<tool>", "arguments": {...}}.',
        ),
        ("user", "What is 6 * 7?"),
    ]


def test_after_a_result_the_question_is_asked_again() -> None:
    assert said(adapt(request(QUESTION, CALLED, RESULT)))[1:] == [
        ("user", "What is 6 * 7?"),
        ("assistant", '{"name": "calculate", "arguments": {"expression": "6 * 7"}}'),
        (
            "user",
            "Result of calculate: 42\n"
            'Now reply {"answer": "..."}, with a full sentence that contains the result. '
            "The question was: What is 6 * 7?",
        ),
    ]


def test_only_the_last_results_ask_for_an_answer() -> None:
    again = {"role": "user", "content": "And 6 * 8?"}
    answered = {"role": "assistant", "content": "It is 42."}
    assert said(adapt(request(QUESTION, CALLED, RESULT, answered, again)))[3:] == [
        ("user", "Result of calculate: 42"),
        ("assistant", "It is 42."),
        ("user", "And 6 * 8?"),
    ]


def test_arguments_that_were_cut_off_earlier_are_shown_as_they_are() -> None:
    cut = json.loads(json.dumps(CALLED).replace('6 * 7\\"}', "6 *"))
    assert said(adapt(request(QUESTION, cut, RESULT)))[2][1] == (
        '{"name": "calculate", "arguments": {"text": "{\\"expression\\": \\"6 *"}}'
    )


def test_a_call_that_has_its_result_is_a_repetition() -> None:
    adapted = adapt(request(QUESTION, CALLED, RESULT))
    assert repeats_a_call(adapted, SAME_CALL)
    assert not repeats_a_call(adapted, Reply("", Call("calculate", {"expression": "7 * 6"})))
    assert not repeats_a_call(adapted, Reply("42"))
    assert allowed(answer_only(adapted)) == ["answer"]
    assert answer_only(adapted).body["messages"] == adapted.body["messages"]


def test_a_call_may_be_repeated_for_a_new_question_or_when_a_call_is_required() -> None:
    assert not repeats_a_call(adapt(request(QUESTION, CALLED, RESULT, QUESTION)), SAME_CALL)
    required = adapt(request(QUESTION, CALLED, RESULT, tool_choice="required"))
    assert not repeats_a_call(required, SAME_CALL)


def test_a_reply_becomes_a_call_or_an_answer() -> None:
    adapted = adapt(request())
    called = '{"name": "calculate", "arguments": {"expression": "6 * 7"}}'
    assert read_reply(adapted, called) == SAME_CALL
    assert read_reply(adapted, '{"answer": "It is \\"42\\"."}') == Reply('It is "42".')
    with pytest.raises(ValueError, match="neither a call nor an answer"):
        read_reply(adapted, '{"reply": 42}')


def test_without_a_schema_a_reply_is_its_text() -> None:
    assert read_reply(adapt({"messages": [QUESTION]}), '{"answer": 42}') == Reply('{"answer": 42}')


def test_a_reply_that_is_cut_off_keeps_its_answer_but_not_half_a_call() -> None:
    adapted = adapt(request())
    assert read_reply(adapted, '{"answer": "It is 4') == Reply("It is 4")
    assert read_reply(adapted, '{"name": "calculate", "arguments": {"expr') == Reply("")


def test_a_response_format_shapes_the_answer_only() -> None:
    number = {"type": "object", "properties": {"value": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "number", "schema": number}}
    adapted = adapt(request(response_format=wanted))
    assert schema_of(adapted)["$defs"][" answer"] == number
    assert not adapted.answers_in_text
    assert read_reply(adapted, '{"answer": {"value": 42}}') == Reply('{"value": 42}')


def test_an_answer_is_decoded_while_it_arrives() -> None:
    written = 'Grüße, "you" \\ 😀\n\u2028end'
    for text in (json.dumps({"answer": written}), json.dumps({"answer": written}, indent=1)):
        for size in range(1, 8):
            answer = AnswerText()
            pieces = [answer.feed(text[at : at + size]) for at in range(0, len(text), size)]
            assert "".join(pieces) == written


def test_a_call_is_no_answer_while_it_arrives() -> None:
    assert AnswerText().feed('{"name": "answer", "arguments": {"answer": "42"}}') == ""


def test_settings_of_the_request_are_kept() -> None:
    adapted = adapt(request(temperature=0.7, seed=3, max_completion_tokens=9, store=True))
    kept = {name: adapted.body[name] for name in ("temperature", "seed", "max_tokens")}
    assert kept == {"temperature": 0.7, "seed": 3, "max_tokens": 9}
    assert "store" not in adapted.body


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
        ),
        ({"tools": [{"type": "retrieval"}]}, "tools[0]"),
        ({"tools": [NOW, NOW]}, "tools"),
        ({"tools": [], "tool_choice": "required"}, "tools"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"response_format": {"type": "xml"}}, "response_format"),
    ],
)
def test_what_can_not_be_served_is_refused(wrong: dict[str, object], param: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        adapt({**request(), **wrong})
    assert (refused.value.status, refused.value.param) == (400, param)
