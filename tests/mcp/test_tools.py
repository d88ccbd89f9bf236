"""What becomes of tools that servers declare: names, policies, schemas, limits, texts."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from pydantic import ValidationError
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure import Agent, StdioServer
from perdure.activities.calls import requested_calls
from perdure.activities.mcp import tools
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.servers import McpServers
from perdure.activities.mcp.tools import McpTool, usable_tools
from perdure.activities.openai_chat import Answer, PartialCall
from perdure.activities.redaction import Redactor
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings, ToolActivity, tool_activity
from perdure.activities.toolbox import Toolbox
from perdure.activities.transcripts import Transcripts
from perdure.agents.mcp import McpServer
from perdure.agents.registry import Registry
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ModelRequest, ToolRequest
from perdure.runs.policy import Effect
from perdure.runs.steps import StoredText, ToolReply
from tests.mcp.launching import scripted

ANY = StdioServer("s", "true")
ACCEPTED = re.compile("[A-Za-z0-9_-]{1,64}")


async def never(asked: McpTool, arguments: dict[str, Any]) -> str:
    raise AssertionError("it is only looked at")


def declared(name: str, schema: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=schema or {"type": "object"}, **more)


def names(server: McpServer, *listed: types.Tool) -> list[str]:
    return [each.name for each in usable_tools(server, listed, never)]


def test_a_name_does_not_depend_on_what_else_is_offered() -> None:
    alone = names(ANY, declared("a b"))
    assert alone == names(ANY, declared("a/b"), declared("a_b"), declared("a b"))[2:]


def test_tools_are_chosen_and_renamed() -> None:
    listed = [declared("one"), declared("two"), declared("three")]
    assert names(StdioServer("s", "true", include=["two", "one"]), *listed) == ["s__one", "s__two"]
    assert names(StdioServer("s", "true", exclude=["two"]), *listed) == ["s__one", "s__three"]
    swapped = names(StdioServer("s", "true", rename={"one": "two"}), *listed)
    assert (swapped[0], swapped[2]) == ("s__two", "s__three")
    assert re.fullmatch("s__two_[0-9a-f]{8}", swapped[1])


@pytest.mark.parametrize(
    ("server", "hints", "effect", "attempts"),
    [
        (ANY, {"read_only_hint": True, "idempotent_hint": True}, "unsafe", 1),
        (StdioServer("s", "true", trusted=True), {"read_only_hint": True}, "read", 3),
        (StdioServer("s", "true", trusted=True), {"idempotent_hint": True}, "keyed", 3),
        (StdioServer("s", "true", trusted=True), {}, "unsafe", 1),
        (StdioServer("s", "true", effects={"t": "read"}), {}, "read", 3),
        (
            StdioServer("s", "true", trusted=True, effects={"t": "unsafe"}),
            {"read_only_hint": True},
            "unsafe",
            1,
        ),
    ],
)
def test_hints_are_believed_only_of_trusted_servers(
    server: McpServer, hints: dict[str, bool], effect: Effect, attempts: int
) -> None:
    listed = declared("t", annotations=types.ToolAnnotations(**hints))
    [made] = usable_tools(server, [listed], never)
    assert (made.policy.effect, made.policy.max_attempts) == (effect, attempts)


def test_what_a_provider_would_refuse_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nan: dict[str, Any] = {"type": "object", "x": float("nan")}
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(2000):
        deep = {"type": "object", "properties": {"a": deep}}
    listed = [
        declared("good"),
        declared("nan", nan),
        declared("deep", deep),
        declared("wrong", {"type": "object", "properties": 3}),
        declared("large", {"type": "object", "description": "x" * tools.MAX_SCHEMA_BYTES}),
        declared("good"),
    ]
    assert names(ANY, *listed) == ["s__good"]
    assert caplog.text.count("is left out") == 5


def test_a_server_can_t_fill_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [declared(f"t{number}") for number in range(1000)]
    assert len(names(ANY, *many)) == tools.MAX_TOOLS
    large = [declared(f"t{number}", description="ü" * 10_000) for number in range(100)]
    [made, *_] = offered = usable_tools(ANY, large, never)
    assert len(made.description) == tools.MAX_DESCRIPTION_CHARS
    assert 25 < len(offered) < 32


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "array", "items": {"type": "number"}},
        "name": {"type": "string", "pattern": "^(a+)+$"},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def rejection(arguments: str, schema: dict[str, Any] = SCHEMA) -> str:
    """Return why a call is rejected before it is executed, or nothing."""
    box = Toolbox(usable_tools(ANY, [declared("t", schema)], never))
    answer = Answer()
    answer.calls.append(PartialCall(0, id="a", name="s__t", arguments=arguments))
    [call] = requested_calls(answer, box, Agent(name="a"), ModelRequest(agent="a", step=1, turn=1))
    return call.rejection.message if call.rejection else ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"id":2512292042121000001}', ""),
        ('{"id":1,"at":[1,2.5]}', ""),
        ('{"id":"1"}', "fit the schema: id: '1' is not of type 'integer'"),
        ('{"id":1,"at":[1,"x"]}', "fit the schema: at.1: 'x' is not of type 'number'"),
        ("{}", "'id' is a required property"),
        ('{"id":1,"more":1}', "('more' was unexpected)"),
        ("[]", "must be a JSON object"),
        ('{"id":1e999}', "too large"),
        ('{"id":NaN}', "NaN is not JSON"),
        # What only stops the worker is left to the server.
        ('{"id":1,"name":"' + "a" * 60 + '!"}', ""),
    ],
)
def test_arguments_are_checked_by_the_server_s_schema(arguments: str, said: str) -> None:
    assert (said in rejection(arguments)) if said else rejection(arguments) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema"},
        {"properties": {"id": {"$ref": "#/nowhere"}}},
        {"properties": {"id": {"$ref": "#/properties/id"}}},
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"id": True}},
        {"$schema": "urn:unknown"},
    ],
)
def test_a_schema_that_leads_nowhere_stops_nothing(schema: dict[str, Any]) -> None:
    assert rejection('{"id":1,"' + "a" * 60 + '!":2}', schema) == ""


def test_a_problem_with_arguments_is_told_briefly() -> None:
    with pytest.raises(ValidationError) as raised:
        usable_tools(ANY, [declared("t", SCHEMA)], never)[0].keyword_arguments(
            '{"id":"' + "x" * 100_000 + '"}'
        )
    assert len(raised.value.errors()[0]["msg"]) <= 300


def test_results_are_read_as_text() -> None:
    def result(*content: Any, **more: Any) -> str:
        return result_text(types.CallToolResult(content=list(content), **more))

    text = types.TextContent(text="one")
    assert result(text, text) == "one\none"
    assert result() == ""
    assert result(structured_content={"a": [1, None]}) == '{"a":[1,null]}'
    assert result(text, structured_content={"a": 1}) == "one"
    assert result(types.ImageContent(data="AAA=", mime_type="image/png")) == (
        "[image image/png, 2 bytes, not shown]"
    )


async def kept(text: bytes, run_id: str) -> StoredText:
    return StoredText(bytes=len(text), driver="none", claim={"run": run_id})


def executed(what: AnyTool) -> ToolActivity:
    agents = {name: Agent(name=name) for name in ("a", "helper")}
    return tool_activity(
        what, Surroundings(agents.get, Threads(), Redactor([]), Transcripts(), kept)
    )


async def test_a_tool_that_has_changed_since_it_was_offered_harms_only_its_own_call() -> None:
    agent = Agent(name="a", mcp_servers=[scripted("s", "--old")])
    registry = Registry()
    registry.add(agent, "test")
    servers = McpServers(registry, executed)

    async def reply(box: Toolbox, name: str, arguments: str = "{}") -> ToolReply:
        known = box.tool(name)
        assert known is not None
        request = ToolRequest(
            agent="a", step=2, turn=1, call_id="a", name=name, arguments=arguments
        )
        return await ActivityEnvironment().run(executed(known), request)

    async with asyncio.timeout(20), servers.serving():
        offered = await servers.tools_of(agent)
        assert isinstance(offered, Toolbox)
        assert (await reply(offered, "s__grown", '{"size":1}')).text == "called grown"
        assert (await reply(offered, "s__change")).text == "changed"
        while (await servers.tools_of(agent)).tool("s__gone") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # until the notice has arrived
        grown = await reply(offered, "s__grown", '{"size":1}')
        gone = await reply(offered, "s__gone")
        same = await reply(offered, "s__echo", '{"text":"still"}')
    assert grown.error is not None
    assert "'depth' is a required property" in grown.error.message
    assert gone.error is not None
    assert "does not offer 's__gone' any more" in gone.error.message
    assert (same.error, same.text) == (None, "echo: still")


@pytest.mark.parametrize(
    ("activity_type", "name", "agent"),
    [
        ("tool.other__echo", "other__echo", "a"),
        ("tool.s__echo", "s__add", "a"),
        ("tool.s__echo", "s__echo", "nobody"),
        ("tool.echo", "echo", "a"),
        ("anything", "s__echo", "a"),
    ],
)
async def test_an_activity_that_is_no_tool_of_a_server_of_the_agent_is_unknown(
    activity_type: str, name: str, agent: str
) -> None:
    registry = Registry()
    registry.add(Agent(name="a", mcp_servers=[ANY]), "test")
    servers = McpServers(registry, executed)
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, activity_type=activity_type)
    request = ToolRequest(agent=agent, step=2, turn=1, call_id="a", name=name, arguments="{}")
    raw = RawValue(pydantic_data_converter.payload_converter.to_payload(request))
    environment.payload_converter = pydantic_data_converter.payload_converter
    with pytest.raises(ApplicationError) as raised:
        await environment.run(servers.call_tool, [raw])
    assert raised.value.type == "NotFoundError"
