"""What AG-UI clients ask for: a Run to start, decisions, or a clear refusal."""

import base64
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, UserMessage

from perdure.gateway.streaming.ag_ui.asked import AgUiRequest, Decision, NewRun, asked
from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.given_file import File

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def request(**given: Any) -> AgUiRequest:
    """Return a request, as the official types write it."""
    hello = UserMessage(id="u1", content="Hello.")
    official = RunAgentInput(
        **{"thread_id": "t", "run_id": "q", "messages": [hello], "state": {}, "tools": []} | given
    )
    return AgUiRequest.model_validate_json(official.model_dump_json(by_alias=True))


def user(content: Any) -> UserMessage:
    return UserMessage(id="u1", content=content)


def test_the_last_message_is_the_input_and_the_rest_is_the_sessions() -> None:
    earlier = UserMessage(id="u0", content="Before.")
    given = request(
        messages=[earlier, user("Now.")],
        state={"page": 3},
        context=[{"description": "who", "value": "ann"}],
        forwarded_props={"theme": "dark"},
    )
    assert given.thread_id == "t"
    assert asked(given) == NewRun(
        "Now.",
        (),
        {
            "state": {"page": 3},
            "context": [{"description": "who", "value": "ann"}],
            "forwarded_props": {"theme": "dark"},
        },
        "q",
    )


def test_what_is_empty_is_no_variable() -> None:
    assert asked(request(context=[], forwarded_props={})) == NewRun("Hello.", (), {}, "q")


def test_files_come_with_their_content() -> None:
    source = {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": source, "metadata": {"filename": "a.png"}},
    ]
    assert asked(request(messages=[user(parts)])) == NewRun(
        "Look:", (File.from_bytes(PNG, "image/png", "a.png"),), {}, "q"
    )


@pytest.mark.parametrize(
    ("payload", "decided"),
    [
        (True, Decision("acme:r1", "action_1", "approved")),
        ({"approved": False, "note": "No."}, Decision("acme:r1", "action_1", "rejected", "No.")),
        (
            {"approved": True, "editedArgs": {"euros": 1}},
            Decision("acme:r1", "action_1", "approved", arguments={"euros": 1}),
        ),
        ("red", Decision("acme:r1", "action_1", "answered", answer="red")),
        ({"answer": "red"}, Decision("acme:r1", "action_1", "answered", answer="red")),
    ],
    ids=["yes", "no", "edited", "words", "answer"],
)
def test_an_interrupt_is_answered(payload: Any, decided: Decision) -> None:
    entry = {"interrupt_id": "acme:r1/action_1", "status": "resolved", "payload": payload}
    assert asked(request(resume=[entry])) == (decided,)


def test_an_interrupt_that_is_given_up_is_a_no() -> None:
    entry = {"interrupt_id": "r1/action_1", "status": "cancelled"}
    expected = Decision("r1", "action_1", "rejected", is_abandoned=True)
    assert asked(request(resume=[entry])) == (expected,)


TOOL = {"name": "alert", "description": "Show.", "parameters": {}}
RESULT = {"id": "m", "role": "tool", "content": "ok", "tool_call_id": "c"}
BY_URL = [{"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}}]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tools": [TOOL]}, "'alert'"),
        ({"messages": [RESULT]}, "result of a tool"),
        ({"messages": [user(BY_URL)]}, "by reference"),
    ],
    ids=["client's tools", "their results", "files by reference"],
)
def test_what_is_not_supported_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        asked(request(**given))
    assert refused.value.code is ErrorCode.UNSUPPORTED_PARAMETER
    assert refused.value.hint


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"messages": []}, "not the user's"),
        ({"messages": [{"id": "a", "role": "assistant", "content": "Hi."}]}, "not the user's"),
        ({"resume": [{"interrupt_id": "x", "status": "resolved", "payload": True}]}, "interrupt"),
        ({"resume": [{"interrupt_id": "r/a", "status": "resolved"}]}, "neither an approval"),
        (
            {
                "resume": [
                    {"interrupt_id": "r/a", "status": "resolved", "payload": {"approved": "yes"}}
                ]
            },
            "neither an approval",
        ),
    ],
    ids=["nothing", "assistant last", "no interrupt", "no payload", "no yes or no"],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        asked(request(**given))
    assert refused.value.hint
