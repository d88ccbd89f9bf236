"""The tools as a worker executes them: what the model is told when one refuses."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities.redaction import Redactor
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings, tool_activity
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.tool import AnyTool
from perdure.runs.actions import Approved, digest_of
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode
from perdure.runs.steps import StoredText, ToolReply
from perdure.tools import fetch_url, file_tools, shell_tool, sql_tools

SECRET = "hunter2-hunter2"  # noqa: S105 - made up


async def kept(text: bytes, run_id: str) -> StoredText:
    raise AssertionError("no result is that large")


async def executed(tool: AnyTool, **arguments: Any) -> ToolReply:
    """Run the activity of a tool."""
    agents, redact = {"a": Agent(name="a")}, Redactor([SECRET])
    given = Surroundings(agents.get, Threads(), redact, Transcripts(), kept)
    written, environment = json.dumps(arguments), ActivityEnvironment()
    digest = digest_of(environment.info.workflow_id or "", "action_1", tool.name, written)
    request = ToolRequest(
        agent="a",
        step=2,
        turn=1,
        call_id="c",
        name=tool.name,
        arguments=written,
        approval=Approved(action_id="action_1", digest=digest),
    )
    return await environment.run(tool_activity(tool, given), request)


@pytest.fixture
def offered(tmp_path: Path) -> dict[str, AnyTool]:
    """All tools, over a folder and a database."""
    database = tmp_path / "shop.db"
    sqlite3.connect(database).close()
    tools = [*file_tools(tmp_path, write=True), *sql_tools(f"sqlite:///{database}")]
    return {each.name: each for each in [*tools, fetch_url, shell_tool(tmp_path)]}


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("read_file", {"path": f"../{SECRET}"}, ErrorCode.PATH_DENIED),
        ("write_file", {"path": "/etc/x", "text": ""}, ErrorCode.PATH_DENIED),
        ("list_files", {"folder": ".."}, ErrorCode.PATH_DENIED),
        ("fetch_url", {"url": f"http://127.0.0.1/{SECRET}"}, ErrorCode.URL_DENIED),
        ("sql_query", {"sql": "CREATE TABLE x (a)"}, ErrorCode.QUERY_DENIED),
        ("sql_query", {"sql": "ATTACH 'x' AS y"}, ErrorCode.QUERY_DENIED),
        ("read_file", {"path": "absent"}, ErrorCode.TOOL_FAILED),
        ("run_command", {"command": []}, ErrorCode.TOOL_FAILED),
    ],
)
async def test_a_refusal_has_its_code_and_no_secrets(
    offered: dict[str, AnyTool], name: str, arguments: dict[str, Any], code: ErrorCode
) -> None:
    reply = await executed(offered[name], **arguments)
    assert reply.error
    assert reply.error.code is code
    assert json.loads(reply.text)["error"]["code"] == code.value
    assert SECRET not in reply.model_dump_json()


async def test_what_is_no_refusal_is_the_result(offered: dict[str, AnyTool]) -> None:
    written = await executed(offered["write_file"], path="a.txt", text="x")
    assert (written.text, written.error) == ("1 bytes were written to 'a.txt'.", None)
    assert (await executed(offered["read_file"], path="a.txt")).text == "x"
    told = await executed(offered["sql_query"], sql="SELECT 1 AS one")
    assert told.text == '{"columns":["one"],"rows":[[1]]}'
    assert (await executed(offered["run_command"], command=["pwd"])).error is None


def test_a_model_can_be_told_of_every_tool(offered: dict[str, AnyTool]) -> None:
    for tool in offered.values():
        described = tool.schema["function"]
        assert described["description"]
        for parameter in described["parameters"]["properties"].values():
            assert parameter["description"]
