"""Structured output: what completes fits, whatever the provider does; what does not is told."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from perdure import Agent, ErrorCode, Limits, ModelProfile, tool
from perdure.client.continuing import Fork
from perdure.runs.errors import ConfigurationError, InvalidRequest, OutputInvalid
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import ScriptedOpenAI, call, text, tool_calls
from tests.workflows.test_approvals import asks


class Person(BaseModel):
    name: str
    age: int
    tags: list[str] = []

    @field_validator("name")
    @classmethod
    def no_numbers(cls, name: str) -> str:
        if name.isdigit():
            raise ValueError("a name is no number")
        return name


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


@tool(name="final_answer", effect="read")
def clash(what: str) -> str:
    """Have the name that the answering tool would have."""
    return what


@tool(effect="read", approval=True)
def hold(what: str) -> str:
    """Wait for a person."""
    return what


ANN = Person(name="Ann", age=3)
GOOD = '{"name":"Ann","age":3,"tags":[]}'
NATIVE = Agent(name="native", instructions="Help.", tools=[look], output_type=Person)
BY_TOOL = Agent(
    name="by-tool", tools=[look], output_type=Person, profile=ModelProfile(structured="tool")
)
CLASHING = Agent(
    name="clashing", tools=[clash], output_type=Person, profile=ModelProfile(structured="tool")
)
BY_WORDS = Agent(
    name="by-words",
    instructions="Help.",
    output_type=Person,
    profile=ModelProfile(structured="prompt"),
)
COUNTER = Agent(name="counter", output_type=list[int])
PLAIN = Agent(name="plain", tools=[look])
CALLER = Agent(name="caller", tools=[NATIVE.as_tool()])
HOLDER = Agent(name="holder", tools=[hold])
AGENTS = (HOLDER, NATIVE, BY_TOOL, CLASHING, BY_WORDS, COUNTER, PLAIN, CALLER)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}},
    "required": ["n"],
    "additionalProperties": False,
}

BAD_SCHEMAS: list[dict[str, Any]] = [
    {"type": "objekt"},
    {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
]


def told(model: ScriptedOpenAI, message: int = -1) -> str:
    """Return what the latest request says to the model."""
    return str(model.requests[-1].body["messages"][message]["content"])


def assert_fits(run: Run) -> None:
    assert run.status is RunStatus.COMPLETED, run.error
    assert run.output == GOOD
    assert run.output_parsed == ANN.model_dump()
    assert run.output_as(Person) == ANN


async def test_the_output_of_a_type_is_its_canonical_json(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("look", {"what": "Ann"})),
            text('```json\n{ "age": "3", ', '"name": "Ann", "more": 1}\n```'),
        ]
    )
    async with engine.serving(*AGENTS):
        run = await engine.run("native")
        assert_fits(run)
        with pytest.raises(OutputInvalid, match="no list"):
            run.output_as(list[int])
        asked = engine.model.requests[0].body
        assert asked["response_format"]["type"] == "json_schema"
        assert asked["response_format"]["json_schema"]["strict"] is True
        assert asked["response_format"] == engine.model.requests[1].body["response_format"]
        assert [each["function"]["name"] for each in asked["tools"]] == ["look"]

        # What is no object is asked for in one, and taken out of it.
        engine.model.script([text('{"value": [1, 18014398509481985]}'), text("[2]")])
        run = await engine.run("counter")
        assert (run.output, run.output_parsed) == ("[1,18014398509481985]", [1, 2**54 + 1])
        assert run.output_as(list[int]) == [1, 2**54 + 1]
        run = await engine.run("counter")
        assert run.output_parsed == [2]

        # An agent that is called as a tool returns it.
        engine.model.script(
            [tool_calls(call("native", {"input": "Who?"})), text(GOOD), text("It is Ann.")]
        )
        run = await engine.run("caller")
        assert run.tool_calls[0].result == GOOD
        assert (run.output, run.output_parsed) == ("It is Ann.", None)


async def test_what_does_not_fit_is_told_and_asked_for_again(engine: Engine) -> None:
    engine.model.script([text("It is Ann."), text('{"name":"7","age":3}'), text(GOOD)])
    async with engine.serving(*AGENTS):
        run = await engine.run("native")
        assert_fits(run)
        assert "not valid JSON" in str(run.steps[0].unfit)
        assert "a name is no number" in told(engine.model)
        assert '"properties"' in told(engine.model)
        assert [step.structured for step in run.steps] == [False, False, True]
        assert run.usage.model_calls == 3

        engine.model.script([text("no")] * 3)
        run = await engine.run("native")
        assert run.error is not None
        assert (run.status, run.error.code) == (RunStatus.FAILED, ErrorCode.OUTPUT_INVALID)
        assert (run.output, run.output_parsed) == ("no", None)
        engine.model.script([text("no"), text(GOOD)])
        await engine.manager.resume(run.run_id)
        assert_fits(await engine.ended(run.run_id))

        # At a limit it is checked as well, and not asked for again.
        engine.model.script([tool_calls(call("look", {"what": "x"})), text("no")])
        limits: dict[str, Any] = {"limits": Limits(max_turns=1), "on_limit": "finalize"}
        run = await engine.run("by-tool", **limits)
        assert run.error is not None
        assert run.error.code is ErrorCode.MAX_TURNS
        assert run.steps[-1].error is not None
        assert run.steps[-1].error.code is ErrorCode.OUTPUT_INVALID
        assert "tools" not in engine.model.requests[-1].body
        assert '"properties"' in told(engine.model, 0)
        engine.model.script([tool_calls(call("look", {"what": "x"})), text(GOOD)])
        run = await engine.run("by-tool", **limits)
        assert_fits(run)
        assert run.stop_reason == "max_turns"

        # A later answer that is cut leaves no value behind.
        engine.model.script([text(GOOD[:20], finish_reason="length")])
        run = await engine.run("native")
        assert (run.output, run.output_parsed) == (GOOD[:20], None)


async def test_a_model_may_answer_by_calling_a_tool(engine: Engine) -> None:
    final = call("final_answer", {"name": "Ann", "age": 3}, id="f")
    async with engine.serving(*AGENTS):
        # Beside other calls it is too early; the others are executed.
        engine.model.script(
            [tool_calls(final, call("look", {"what": "x"}, id="l")), tool_calls(final, final)]
        )
        run = await engine.run("by-tool")
        assert_fits(run)
        assert [each.status for each in run.tool_calls] == ["rejected", "completed"]
        assert "no results yet" in (run.tool_calls[0].result or "")
        asked = engine.model.requests[0].body
        assert "response_format" not in asked
        assert [each["function"]["name"] for each in asked["tools"]] == ["look", "final_answer"]

        # Different ones in one answer, one that does not fit, one encoded twice; words.
        other = call("final_answer", {"name": "Bob", "age": 4}, id="g")
        engine.model.script([tool_calls(final, other), tool_calls(call("final_answer", "{"))])
        engine.model.script([tool_calls(call("final_answer", json.dumps(GOOD)))])
        run = await engine.run("by-tool")
        assert_fits(run)
        assert "2 final answers" in str(run.steps[0].unfit)
        assert "not valid JSON" in told(engine.model)
        assert run.tool_calls == ()
        engine.model.script([text(GOOD)])
        assert_fits(await engine.run("by-tool"))

        # A tool of the agent's that has the name keeps it.
        engine.model.script(
            [
                tool_calls(call("final_answer", {"what": "x"})),
                tool_calls(call("final_answer_", GOOD)),
            ]
        )
        run = await engine.run("clashing")
        assert_fits(run)
        assert run.tool_calls[0].result == "x"

        engine.model.script([text(GOOD)])
        assert_fits(await engine.run("by-words"))
        assert told(engine.model, 0).startswith("Help.\n\nYour final answer must be JSON")
        assert "response_format" not in engine.model.requests[-1].body


async def test_a_caller_says_what_the_output_has_to_be(engine: Engine) -> None:
    async with engine.serving(*AGENTS):
        engine.model.script([text('{"n": 0}'), text('{"n": 2}')])
        run = await engine.run("native", output_schema=SCHEMA)
        assert run.output_parsed == {"n": 2}
        assert "$.n: 0 is less than the minimum of 1" in told(engine.model)
        assert run.output_schema == SCHEMA

        # Forks keep it, unless they have another one; so do Runs in a Session.
        engine.model.script([text('{"n": 3}'), text('["a"]')])
        forked = await engine.manager.fork(run.run_id, Fork(message="More."))
        assert (await engine.ended(forked)).output_parsed == {"n": 3}
        other = Fork(message="Else.", output_schema={"type": "array"})
        forked = await engine.manager.fork(run.run_id, other)
        assert (await engine.ended(forked)).output_parsed == ["a"]

        engine.model.script([text(GOOD)])
        session = engine.manager.session(f"{engine.task_queue}-session")
        started = await session.start_run("plain", "Who?", output_schema=Person)
        assert (await engine.ended(started.run_id)).output_as(Person) == ANN
        engine.model.script([text("Hello.")])
        started = await session.start_run("plain", "Hi.")
        assert (await engine.ended(started.run_id)).output == "Hello."

        # A later answer that is cut has no value, though the one before it had.
        engine.model.script([text('{"n": 4}')])
        run = await engine.run("plain", output_schema=SCHEMA)
        engine.model.script([text('{"n"', finish_reason="length")])
        forked = await engine.manager.fork(run.run_id, Fork(message="More."))
        run = await engine.ended(forked)
        assert (run.status, run.output, run.output_parsed) == (RunStatus.FAILED, '{"n"', None)

        for bad in BAD_SCHEMAS:
            run = await engine.run("plain", output_schema=bad)
            assert run.error is not None
            assert "can't be used" in run.error.message
        with pytest.raises(InvalidRequest, match="16,384 are allowed"):
            await engine.start("plain", output_schema={"enum": ["x" * 20_000]})
        with pytest.raises(InvalidRequest, match="no JSON"):
            await engine.start("plain", output_schema={"enum": [float("nan")]})
        with pytest.raises(InvalidRequest, match="can't be an output"):
            await engine.start("plain", output_schema=print)


async def test_a_large_schema_is_in_the_history_twice_and_known_to_every_worker(
    engine: Engine,
) -> None:
    schema = SCHEMA | {"description": "mark-of-the-schema " * 100}
    engine.model.script([tool_calls(call("hold", {"what": "x"}, id="h"))])
    async with engine.serving(*AGENTS):
        run_id = await engine.start("holder", output_schema=schema)
        await asks(engine, run_id)
    engine.model.script([text("no"), text('{"n": 1}')])
    async with engine.serving(*AGENTS):
        await engine.manager.approve(run_id, "h", by="ann")
        run = await engine.ended(run_id)
    assert run.output_parsed == {"n": 1}
    sent = [each.body["response_format"]["json_schema"]["schema"] for each in engine.model.requests]
    assert sent == [schema] * 3
    (history,) = await engine.executions(run_id)
    kept = [event for event in history.events if b"mark-of-the" in event.SerializeToString()]
    assert len(kept) == 2


@pytest.mark.parametrize("bad", [print, {"$ref": "#"}, *BAD_SCHEMAS])
def test_a_type_that_no_schema_is_made_of_is_refused_where_it_is_declared(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="can't be an output"):
        Agent(name="bad", output_type=bad)
