"""The example agents do their work: real tools on real data, called as a model would."""

import json
import re
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from perdure import Agent, ToolContext
from perdure.agents.registry import Registry
from perdure.runs.run import Run
from tests.examples.asking import is_of, results, told
from tests.harness.engine import Engine, soon
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.workflows.test_approvals import asks

README = Path(__file__).parents[2] / "README.md"
CITATION = re.compile(r"\[([\w./-]+):(\d+)\]")


@pytest.fixture
def agents(examples: Registry) -> dict[str, Agent]:
    return {agent.name: agent for agent, _ in examples.listing()}


def cites(request: RecordedRequest) -> Reply:
    """Answer with the first line that a search has found, and where it stands."""
    path, line, found = told(request)[0].split("\n")[0].split(":", 2)
    return text(f"{found.strip()} [{path}:{line}]")


def cited_lines(output: str | None) -> list[str]:
    from perdure.examples.researcher.agent import FOLDER

    cited = CITATION.findall(output or "")
    return [(FOLDER / path).read_text().split("\n")[int(line) - 1] for path, line in cited]


def test_the_readme_serves_and_asks_agents_that_are_there(examples: Registry) -> None:
    (part,) = re.findall(r"\n## Examples\n(.*?)\n## ", README.read_text(), re.DOTALL)
    blocks = re.findall(r"```\n(.*?)```", part, re.DOTALL)
    served = Registry.load(re.findall(r"--agents (\S+)", blocks[0]))
    served.check()
    asked = re.findall(r"--agent (\S+)", "".join(blocks[1:]))
    assert sorted(asked) == served.names() == ["analyst", "operations", "planner", "researcher"]
    assert set(served.names()) <= set(examples.names())


async def test_the_researcher_cites_lines_that_say_so(
    engine: Engine, agents: dict[str, Agent]
) -> None:
    engine.model.script(
        [
            tool_calls(
                call("docs_list_files", {}),
                call("docs_read_file", {"path": "returns.md"}),
                call("docs_read_file", {"path": "../agent.py"}),
            ),
            tool_calls(call("docs_search_files", {"query": "returned days"})),
        ]
    )
    engine.model.respond_with(cites)
    async with engine.serving(agents["researcher"]):
        run = await engine.run("researcher", "Can a kite be returned after it was flown?")
    (line,) = cited_lines(run.output)
    assert line == "A kite can be returned within 30 days of delivery, flown or not."
    names = [entry.split(" (")[0] for entry in results(run, "docs_list_files")[0].split("\n")]
    assert names == ["care.md", "kites.md", "repairs.md", "returns.md", "shipping.md"]
    assert line in results(run, "docs_read_file")[0]
    assert "path_denied" in results(run, "docs_read_file")[1]


async def test_the_analyst_counts_with_sql_and_calculates_from_that(
    engine: Engine, agents: dict[str, Agent], folder: Path
) -> None:
    counted = (
        "SELECT kite, count(*) AS orders, sum(status = 'returned') AS returned, sum(total_eur) "
        "AS euros FROM orders GROUP BY kite ORDER BY kite"
    )
    engine.model.script(
        [
            tool_calls(call("sql_schema", {})),
            tool_calls(
                call("sql_query", {"sql": counted}),
                call("sql_query", {"sql": "DELETE FROM orders"}),
            ),
            tool_calls(call("calculate", {"expression": "round(100 * 7 / 77, 1)"})),
        ]
    )
    engine.model.respond_with(lambda request: text(f"{told(request)[0]} % of the Gannets."))
    async with engine.serving(agents["analyst"]):
        run = await engine.run("analyst", "How many of the Gannets came back?")
    assert run.output == "9.1 % of the Gannets."
    assert "orders(id INTEGER, day TEXT" in results(run, "sql_schema")[0]
    rows = json.loads(results(run, "sql_query")[0])["rows"]
    # The same on every machine: the README tells some of them.
    assert rows == [
        ["Gannet", 77, 7, 13720],
        ["Heron", 52, 3, 8040],
        ["Puffin", 104, 10, 2660],
        ["Sparrow", 116, 10, 5180],
        ["Swift", 51, 5, 5440],
    ]
    database = sqlite3.connect(folder / "new" / "shop.db")
    orders = database.execute("SELECT kite FROM orders").fetchall()
    database.close()
    assert Counter(kite for (kite,) in orders) == {row[0]: row[1] for row in rows}
    assert "query_denied" in results(run, "sql_query")[1]


def test_the_shop_is_made_once_and_not_again(examples: Registry, tmp_path: Path) -> None:
    from perdure.examples.analyst.shop import made

    one, other = made(tmp_path / "one.db"), made(tmp_path / "other.db")
    assert one.read_bytes() == other.read_bytes()
    one.write_text("theirs")
    assert made(one).read_text() == "theirs"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.db", "other.db"]


async def test_operations_looks_by_itself_and_waits_before_it_does_what_may_hurt(
    engine: Engine, agents: dict[str, Agent]
) -> None:
    from perdure.examples.operations import services

    question = {"question": "Which one?", "choices": ["payments", "mail"]}
    engine.model.script(
        [
            tool_calls(call("list_services", {}), call("ask_user", question, id="ask")),
            tool_calls(
                call("show_log", {"service": "payments", "lines": 2}),
                call("show_log", {"service": "nothing"}),
            ),
            tool_calls(
                call("restart_service", {"service": "payments"}, id="restart"),
                call("scale_service", {"service": "payments", "replicas": 4}, id="scale"),
                call("scale_service", {"service": "storefront", "replicas": 5}, id="costly"),
            ),
            text("Payments was restarted."),
        ]
    )
    async with engine.serving(agents["operations"]):
        run_id = await engine.start("operations", "Something is broken.")
        await asks(engine, run_id)
        await engine.manager.answer(run_id, "ask", "payments", by="ann")

        async def others_are_done() -> bool:
            run = await engine.manager.get_run(run_id)
            return {each.call_id: each.status for each in run.tool_calls}.get(
                "scale"
            ) == "completed"

        await soon(others_are_done)
        run = await asks(engine, run_id, 2)
        before = services.read()
        reasons = {each.call_id: each.action.reason for each in run.tool_calls if each.action}
        await engine.manager.approve(run_id, "restart", by="ann")
        await engine.manager.reject(run_id, "costly", by="bob", note="Not this month.")
        run = await engine.ended(run_id)
    after = services.read()
    assert [before.named(name).status for name in ("payments", "storefront")] == [
        "failing",
        "running",
    ]
    assert before.named("payments").log[-1] == "INFO scaled from 1 to 4 replicas"
    assert reasons["restart"] == "payments answers nobody while it restarts."
    assert reasons["costly"] == "More than 4 replicas cost."
    assert after.named("payments").log[-1] == "INFO restarted"
    assert after.named("payments").status == "running"
    assert after.named("storefront") == before.named("storefront")
    assert "payments: failing, replicas: 1" in results(run, "list_services")[0]
    assert json.loads(results(run, "show_log")[0]) == [
        "ERROR 50 of 50 connections in use",
        "ERROR no connection left",
    ]
    assert "there are storefront, payments, mail" in results(run, "show_log")[1]
    assert "Not this month." in results(run, "scale_service")[1]


def test_a_scaling_that_is_run_again_changes_nothing(
    examples: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.examples.operations import services
    from perdure.examples.operations.agent import scale_service

    monkeypatch.setattr(services, "FOLDER", tmp_path / "new")
    first, second = ToolContext(idempotency_key="a"), ToolContext(idempotency_key="b")
    scale_service("mail", 3, first)
    scale_service("mail", 2, second)
    scale_service("mail", 3, first)
    assert services.read().named("mail").replicas == 2


async def test_the_planner_lets_both_agents_work_side_by_side(
    engine: Engine, agents: dict[str, Agent]
) -> None:
    planner, researcher, analyst = (agents[n] for n in ("planner", "researcher", "analyst"))
    gate = Gate()
    count = "SELECT count(*) FROM orders WHERE kite = 'Gannet' AND status = 'returned'"
    engine.model.on(
        is_of(planner),
        tool_calls(
            call("researcher", {"input": "How long can a kite be returned?"}),
            call("analyst", {"input": "How many orders of Gannets were returned?"}),
        ),
    )
    search = tool_calls(call("docs_search_files", {"query": "returned days"}))
    engine.model.on(is_of(researcher), search.hold(gate))
    query = tool_calls(call("sql_query", {"sql": count}))
    engine.model.on(is_of(analyst), query.hold(gate))

    def answer(request: RecordedRequest) -> Reply:
        if is_of(researcher)(request):
            return cites(request)
        return text(" ".join(told(request)))

    engine.model.respond_with(answer)
    async with engine.serving(planner, researcher, analyst):
        run_id = await engine.start("planner", "How many Gannets came back, and how long may they?")
        # Planner, researcher and analyst: neither of the two has been answered yet.
        await engine.model.wait_for_requests(3)
        gate.open()
        run = await engine.ended(run_id)
        children = await children_of(engine, run)
    assert [child.agent for child in children] == ["researcher", "analyst"]
    assert {child.parent_run_id for child in children} == {run_id}
    assert [len(child.tool_calls) for child in children] == [1, 1]
    assert run.output == f"{children[0].output} {children[1].output}"
    (line,) = cited_lines(run.output)
    assert "30 days" in line
    assert '"rows":[[7]]' in (run.output or "")


async def children_of(engine: Engine, run: Run) -> list[Run]:
    ids = [step.child_run_id for step in run.steps if step.child_run_id is not None]
    return [await engine.ended(each) for each in ids]
