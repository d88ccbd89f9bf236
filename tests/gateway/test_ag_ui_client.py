"""The official AG-UI client talks to agents: over HTTP, with real Runs."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure import Agent, tool
from perdure.agents.asking import ask_user
from tests.gateway.conftest import NODE, Gateway
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, text, tool_calls

DOCS = Path(__file__).parents[2] / "docs/ag-ui.md"
LIMIT_S = 60.0


@tool(approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    return f"paid {euros}"


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


CLERK = Agent(name="clerk", tools=[pay, look, ask_user], handoffs=["boss"])
BOSS = Agent(name="boss", description="Leads.")


def url_of(gateway: Gateway) -> str:
    return f"{gateway.url}/v1/agents/clerk/ag-ui"


async def finished(program: Sequence[str]) -> tuple[str, str]:
    """Run a program of Node's to its end; return what it has written."""
    process = await asyncio.create_subprocess_exec(
        *program, cwd=NODE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    return out.decode(), err.decode()


async def conversed(
    node: str, url: str, thread: str, *turns: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return what the client made of each turn of a conversation."""
    program = [node, str(NODE / "converse.mjs"), url, thread, json.dumps(turns)]
    out, err = await finished(program)
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


async def test_the_official_client_converses_decides_and_goes_on(
    engine: Engine, gateway: Gateway, node: str
) -> None:
    both = tool_calls(
        call("look", {"what": "x"}, id="a"), call("pay", {"euros": 5}, id="b"), content="I look."
    )
    which = tool_calls(call("ask_user", {"question": "Which?", "choices": ["red", "blue"]}))
    over = tool_calls(call("handoff_to_boss", {}, id="h"))
    engine.model.script([both, text("Done: 5."), which, over, text("Blue it is.")])
    async with engine.serving(CLERK, BOSS):
        approves, done, asks, answers = await conversed(
            node,
            url_of(gateway),
            engine.task_queue,
            {"say": "Pay 5.", "id": "u1"},
            {"decide": {"approved": True, "editedArgs": {"euros": 6}}},
            {"say": "And now?", "id": "u2"},
            {"decide": {"answer": "blue"}},
        )
    for turn in (approves, done, asks, answers):
        assert "failed" not in turn["end"], turn["end"]
    assert approves["end"]["outcome"]["interrupts"][0]["reason"] == "tool_call"
    assert done["end"]["outcome"]["type"] == answers["end"]["outcome"]["type"] == "success"
    assert (done["end"]["result"], answers["end"]["result"]) == ("Done: 5.", "Blue it is.")
    said = [(each["role"], each.get("content")) for each in answers["messages"]]
    assert [each for each in said if each[0] != "reasoning"] == [
        ("user", "Pay 5."),
        ("assistant", "I look."),
        ("tool", "saw x"),
        ("tool", '[A person changed the arguments to {"euros": 6}]\npaid 6'),
        ("assistant", "Done: 5."),
        ("user", "And now?"),
        ("assistant", None),
        ("tool", "blue"),
        ("assistant", None),
        ("tool", "The conversation goes on with the agent 'boss'."),
        ("assistant", "Blue it is."),
    ]


async def test_the_official_client_is_told_why_a_run_failed(
    engine: Engine, gateway: Gateway, node: str
) -> None:
    nowhere = tool_calls(call("nothing", {}))
    engine.model.script([nowhere, nowhere, nowhere])
    async with engine.serving(CLERK, BOSS):
        (turn,) = await conversed(
            node, url_of(gateway), engine.task_queue, {"say": "Go.", "id": "u1"}
        )
    assert (turn["end"]["type"], turn["end"]["code"]) == ("RUN_ERROR", "model_misbehaving")
    assert turn["end"]["message"]
    assert turn["end"]["usage"][0]["totalTokens"] > 0


async def test_the_example_of_the_documentation_works(
    engine: Engine, gateway: Gateway, node: str
) -> None:
    example = DOCS.read_text().split("```js\n")[1].split("```")[0]
    engine.model.script([tool_calls(call("pay", {"euros": 5})), text("Paid.")])
    async with engine.serving(CLERK, BOSS):
        here = example.replace("http://127.0.0.1:8080/v1/agents/clerk/ag-ui", url_of(gateway))
        here = here.replace("thread-1", engine.task_queue)
        program = [node, "--input-type=module", "--eval", here]
        out, err = await finished(program)
    assert (out, err) == ('Approve pay({"euros": 5})?\nPaid.', "")
