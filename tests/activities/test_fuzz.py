"""Whatever a provider streams: reading never raises, and what goes back is always valid."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.answering import kept_fields
from perdure.activities.calls import requested_calls
from perdure.activities.openai_chat import Answer, clean
from perdure.activities.reported_usage import is_suspect, model_usage
from perdure.agents.agent import Agent
from perdure.agents.profile import ModelProfile
from perdure.runs.contract import ModelRequest
from perdure.runs.messages import ToolMessage, wire
from perdure.runs.steps import ModelReply
from perdure.runs.transcript import assistant_message
from tests.activities.test_calls import find, ping, scale, weather
from tests.activities.test_provider_errors import CHUNKS, JSON
from tests.harness.transcript_rules import check_request

AGENT = Agent(
    name="helper",
    tools=[ping, weather, find, scale],
    profile=ModelProfile(echo_fields=("reasoning_content",)),
)
REQUEST = ModelRequest(agent=AGENT.name, step=1, turn=1)

HALVES = st.sampled_from(["\ud83d", "\ude00", "a\udc97", "", " "])
TEXT = st.text(max_size=4) | HALVES
ODD = JSON | TEXT
ARGUMENTS = st.sampled_from(
    [*("{", "}", '{"city"', ':"Oslo"}', '{"id":1e16}', '{"city":"\ud800"}', '"{}"', "NaN", "{}")]
)
PIECE = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 1, "0", None, True, 1.5, -1]) | JSON,
        "id": st.sampled_from(["a", "b", "call_1_1", "call_1_2", "", None, 7]) | ODD,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["ping", "weather", "find", "pi", "ng", "no"]) | ODD,
                "arguments": ARGUMENTS | ODD,
            },
        )
        | JSON,
    },
)
SAID = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant") | JSON,
        "content": TEXT | st.lists(st.fixed_dictionaries({"text": TEXT})) | JSON,
        "refusal": st.none() | TEXT | JSON,
        "tool_calls": st.lists(PIECE | JSON, max_size=3) | PIECE | JSON,
        "reasoning_content": TEXT | JSON,
        "\ud83d": TEXT,
    },
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 1, None, "0"]) | JSON,
        "delta": SAID | JSON,
        "message": SAID | JSON,
        "finish_reason": st.sampled_from([None, "", "stop", "length", "tool_calls"]) | ODD,
        "usage": JSON,
    },
)
CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE | JSON, max_size=2)},
    optional={
        "model": ODD,
        "usage": st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens"]), JSON)
        | JSON,
    },
)


def reply_to(chunks: list[Any]) -> ModelReply:
    """Return what the activity makes of these chunks."""
    answer = Answer()
    for chunk in chunks:
        answer.feed(chunk)
    echo, extra = kept_fields(answer, AGENT.profile)
    why = answer.failure or answer.problem()
    return ModelReply(
        model=answer.model,
        text=clean(answer.text),
        refusal=clean(answer.refusal),
        calls=requested_calls(answer, AGENT, AGENT, REQUEST) if why is None else (),
        finish_reason=answer.finish_reason,
        usage=model_usage(answer.usage, "m"),
        usage_suspect=is_suspect(answer.usage),
        echo=echo,
        extra=extra,
        error=why,
    )


@given(st.lists(CHUNK | CHUNKS, max_size=5))
def test_whatever_comes_can_be_kept_and_sent_back(chunks: list[Any]) -> None:
    """INV-1, INV-2."""
    reply = reply_to(chunks)
    assert ModelReply.model_validate_json(reply.model_dump_json()) == reply
    if reply.error is not None or not (reply.text or reply.calls):
        return
    said = json.loads(wire(assistant_message(reply.said, reply.calls, reply.echo)))
    results = [
        json.loads(wire(ToolMessage(tool_call_id=call.call_id, content=""))) for call in reply.calls
    ]
    assert check_request({"messages": [said, *results]}) == []
    for call in reply.calls:
        if call.rejection is None:
            found = AGENT.tool(call.name)
            assert found is not None
            found.keyword_arguments(call.arguments)


@given(st.lists(CHUNK, max_size=5))
def test_the_same_chunks_give_the_same_reply(chunks: list[Any]) -> None:
    """Cases TOOL-12, TOOL-13: no id is made of anything but the answer."""
    assert reply_to(chunks) == reply_to(chunks)


@given(st.lists(CHUNK, max_size=5))
def test_bytes_are_counted_as_they_come(chunks: list[Any]) -> None:
    answer = Answer()
    for chunk in chunks:
        answer.feed(chunk)
    said = [answer.text, answer.refusal]
    for call in answer.calls:
        said += [call.id, call.name, call.arguments]
    assert answer.size == sum(len(text.encode("utf-8", "surrogatepass")) for text in said)
