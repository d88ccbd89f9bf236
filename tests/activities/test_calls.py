"""Tool calls of a model are untrusted: what is executed, what is rejected, what goes back."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.calls import RAW_CHARS, requested_calls
from perdure.activities.openai_chat import Answer, PartialCall
from perdure.agents.agent import Agent
from perdure.agents.tool import tool
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ErrorCode
from perdure.runs.messages import ToolMessage, wire
from perdure.runs.steps import RequestedCall
from perdure.runs.transcript import assistant_message
from tests.activities.streams import entry, folded, whole
from tests.harness.transcript_rules import check_request


@tool(effect="read", timeout_s=7)
def ping() -> str:
    """Answer."""
    return "pong"


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return city


@tool
def find(id: int) -> int:
    """Find a thing."""
    return id


@tool
def scale(by: float) -> float:
    """Scale."""
    return by


AGENT = Agent(name="helper", tools=[ping, weather, find, scale])
REQUEST = ModelRequest(agent=AGENT.name, step=1, turn=1)


def checked(*calls: tuple[Any, ...], finish: str = "tool_calls", step: int = 3) -> Any:
    """Return the calls of an answer of the third Step, each given as (id, name, arguments)."""
    answer = folded([whole(*(entry(*call) for call in calls))])
    answer.finish_reason = finish
    return requested_calls(answer, AGENT, AGENT, ModelRequest(agent=AGENT.name, step=step, turn=1))


def only(name: str, arguments: str, finish: str = "tool_calls") -> RequestedCall:
    """Return the one call of an answer."""
    (call,) = checked(("c1", name, arguments), finish=finish)
    assert isinstance(call, RequestedCall)
    return call


def is_rejected(call: RequestedCall, code: ErrorCode) -> str:
    """Check that a call is rejected so, and return what the model is told."""
    assert call.rejection is not None
    assert call.rejection.code is code
    assert call.arguments == "{}"
    return call.rejection.message


@pytest.mark.parametrize("arguments", ["", "  ", "\n", "{}", " {} ", '"{}"'])
def test_no_arguments_in_any_form_are_an_empty_object(arguments: str) -> None:
    """Case TOOL-01."""
    call = only("ping", arguments)
    assert (call.arguments, call.rejection) == ("{}", None)
    assert call.policy == ping.policy
    assert call.policy.timeout_s == 7


def test_missing_arguments_are_named() -> None:
    """Case TOOL-01."""
    told = is_rejected(only("weather", ""), ErrorCode.TOOL_ARGUMENTS_INVALID)
    assert "city" in told


def test_cut_arguments_are_replaced_and_kept_aside() -> None:
    """Case TOOL-03: sent back as they are, they would wedge the conversation for ever."""
    call = only("weather", "{" + "x" * 500)
    told = is_rejected(call, ErrorCode.TOOL_ARGUMENTS_INVALID)
    assert "char 1" in told
    assert call.raw_arguments == ("{" + "x" * 500)[:RAW_CHARS]


def test_one_extra_layer_of_encoding_is_undone() -> None:
    """Case TOOL-04."""
    object = '{"city":"Oslo"}'
    assert only("weather", json.dumps(object)).arguments == object
    twice = only("weather", json.dumps(json.dumps(object)))
    is_rejected(twice, ErrorCode.TOOL_ARGUMENTS_INVALID)


@pytest.mark.parametrize("arguments", ["[]", "3", '"x"', "null", "true", '"[]"', '""', "[" * 99999])
def test_what_is_no_object_is_refused(arguments: str) -> None:
    """Case TOOL-04."""
    is_rejected(only("ping", arguments), ErrorCode.TOOL_ARGUMENTS_INVALID)


def test_an_invented_tool_is_told_the_names_there_are() -> None:
    """Case TOOL-07."""
    call = only("get_date", "{}")
    told = is_rejected(call, ErrorCode.TOOL_NOT_FOUND)
    assert call.name == "get_date"
    assert "ping, weather, find, scale" in told


def test_an_invented_name_goes_back_in_a_form_that_providers_accept() -> None:
    call = requested_calls(
        Answer(calls=[PartialCall(key=0, id="a", name="get date! " * 20, arguments="{}")]),
        AGENT,
        AGENT,
        REQUEST,
    )[0]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
    assert call.rejection is not None
    assert "get date!" in call.rejection.message


def test_the_same_call_under_the_same_id_is_one_call() -> None:
    """Case TOOL-09."""
    pay = ("dup", "weather", '{"city":"Oslo"}')
    assert [call.call_id for call in checked(pay, pay, pay)] == ["dup"]


def test_the_same_call_is_dropped_also_when_others_of_its_id_stand_between() -> None:
    """Cases TOOL-09 and TOOL-10 together."""
    a, b = ("x", "weather", '{"city":"A"}'), ("x", "weather", '{"city":"B"}')
    calls = checked(a, b, a, b)
    assert [call.arguments for call in calls] == ['{"city":"A"}', '{"city":"B"}']


def test_different_calls_under_one_id_are_told_apart() -> None:
    """Case TOOL-10."""
    calls = checked(("x", "weather", '{"city":"A"}'), ("x", "weather", '{"city":"B"}'))
    assert [(call.call_id, call.arguments) for call in calls] == [
        ("x", '{"city":"A"}'),
        ("call_3_2", '{"city":"B"}'),
    ]


@pytest.mark.parametrize("missing", ["", None])
def test_a_missing_id_is_made_of_the_step_and_the_position(missing: str | None) -> None:
    """Cases TOOL-12, TOOL-13: never random, so that a replay finds the same."""
    calls = checked((missing, "ping", "{}"), (missing, "ping", "{}"))
    assert [call.call_id for call in calls] == ["call_3_1", "call_3_2"]
    again = checked((missing, "ping", "{}"), (missing, "ping", "{}"))
    assert again == calls


def test_a_made_up_id_is_none_that_the_provider_uses_elsewhere() -> None:
    calls = checked(("call_3_2", "ping", "{}"), ("", "ping", "{}"), ("call_3_2_", "ping", "{}"))
    assert [call.call_id for call in calls] == ["call_3_2", "call_3_2__", "call_3_2_"]


@pytest.mark.parametrize("number", [2512292042121000001, 9223372036854775807, -(2**80)])
def test_big_integers_stay_exact(number: int) -> None:
    """Case TOOL-14."""
    text = f'{{"id":{number}}}'
    call = only("find", text)
    assert (call.arguments, call.rejection) == (text, None)
    assert find.keyword_arguments(call.arguments) == {"id": number}


def test_an_integer_in_exponent_form_is_taken_exactly_or_refused() -> None:
    """Case TOOL-16."""
    call = only("find", '{"id":1e16}')
    assert call.rejection is None
    assert find.keyword_arguments(call.arguments) == {"id": 10**16}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(("name", "argument"), [("find", "id"), ("scale", "by")])
def test_what_is_no_number_never_reaches_a_tool(number: str, name: str, argument: str) -> None:
    """Case TOOL-16."""
    call = only(name, f'{{"{argument}":{number}}}')
    is_rejected(call, ErrorCode.TOOL_ARGUMENTS_INVALID)


def test_arguments_that_do_not_fit_are_told_without_being_repeated_at_length() -> None:
    told = is_rejected(only("find", '{"id":"seven","more":1}'), ErrorCode.TOOL_ARGUMENTS_INVALID)
    assert "id: Input should be a valid integer" in told
    assert "more: Extra inputs are not permitted" in told


@pytest.mark.parametrize("arguments", ['{"city":"Os', '{"city":"Oslo"}', ""])
def test_a_call_cut_by_the_output_limit_is_not_executed_though_it_may_parse(
    arguments: str,
) -> None:
    """Case RESP-06."""
    told = is_rejected(only("weather", arguments, finish="length"), ErrorCode.OUTPUT_TRUNCATED)
    assert "output limit" in told


def test_halves_of_a_character_in_two_pieces_are_joined_in_arguments() -> None:
    """Case HIST-08."""
    answer = Answer(calls=[PartialCall(0, "a", "weather", '{"city":"\ud83d\ude00"}')])
    (call,) = requested_calls(answer, AGENT, AGENT, REQUEST)
    assert (call.arguments, call.rejection) == ('{"city":"😀"}', None)


PIECES = st.builds(
    PartialCall,
    key=st.none(),
    id=st.sampled_from(["", "a", "b", "call_1_1", "call_1_2", "\ud800", "\udfff"]),
    name=st.sampled_from(["", "ping", "weather", "find", "nothing", "\ud800"]),
    arguments=st.sampled_from(["", "{}", "{", '{"city":"\ud800"}', '{"id":1e16}', "NaN", '"{}"'])
    | st.text(st.characters(), max_size=4),
)


@given(st.lists(PIECES, max_size=5), st.sampled_from(["stop", "length"]))
def test_whatever_a_model_calls_the_next_request_is_valid(
    pieces: list[PartialCall], finish: str
) -> None:
    answer = Answer(calls=pieces, finish_reason=finish)
    calls = requested_calls(answer, AGENT, AGENT, REQUEST)
    said = json.loads(wire(assistant_message(None, calls)))
    results = [
        json.loads(wire(ToolMessage(tool_call_id=call.call_id, content=""))) for call in calls
    ]
    assert check_request({"messages": [said, *results]}) == []
    for call in calls:
        assert RequestedCall.model_validate_json(call.model_dump_json()) == call
