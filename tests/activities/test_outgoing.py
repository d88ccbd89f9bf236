"""Messages as they are sent: profiles change what they are for, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.outgoing import outgoing
from perdure.agents.profile import ModelProfile
from perdure.runs.messages import (
    AssistantMessage,
    MessageCall,
    ToolMessage,
    UserMessage,
    canonical_json,
    wire,
)

CALL = MessageCall(id="a", name="ping", arguments="{}")
USUAL = ModelProfile()
ODD = ModelProfile(null_content=False, echo_fields=("reasoning_content", "signature"))

MESSAGES = st.one_of(
    st.builds(UserMessage, content=st.text(max_size=5)),
    st.builds(ToolMessage, tool_call_id=st.just("a"), content=st.text(max_size=5)),
    st.builds(
        AssistantMessage,
        content=st.none() | st.text(max_size=5) | st.just('null,"extra":{}'),
        tool_calls=st.sampled_from([(), (CALL,), (CALL, CALL)]),
        extra=st.dictionaries(
            st.sampled_from(["reasoning_content", "signature", "vendor"]), st.text(max_size=5)
        ),
    ),
)


def expected(message: Any, profile: ModelProfile) -> dict[str, Any]:
    """Return what is to be sent, written in the plain way."""
    body: dict[str, Any] = json.loads(wire(message))
    if body["role"] != "assistant":
        return body
    extra = body.pop("extra", {})
    if body["content"] is None and not profile.null_content:
        body["content"] = ""
    return body | {name: extra.get(name, "") for name in profile.echo_fields}


@given(MESSAGES, st.sampled_from([USUAL, ODD, ModelProfile(null_content=False)]))
def test_what_is_cut_out_of_bytes_is_what_the_profile_says(
    message: Any, profile: ModelProfile
) -> None:
    sent = outgoing(wire(message), profile)
    assert json.loads(sent) == expected(message, profile)
    assert canonical_json(json.loads(sent)) == sent


@given(MESSAGES)
def test_a_usual_model_gets_the_bytes_that_are_kept(message: Any) -> None:
    if not getattr(message, "extra", {}):
        assert outgoing(wire(message), USUAL) is not None
        assert outgoing(wire(message), USUAL) == wire(message)


@pytest.mark.parametrize("profile", [USUAL, ODD])
def test_no_field_of_one_vendor_reaches_another(profile: ModelProfile) -> None:
    message = AssistantMessage(content="Hi.", extra={"vendor": "secret"})
    assert b"secret" not in outgoing(wire(message), profile)
