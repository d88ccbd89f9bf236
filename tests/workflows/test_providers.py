"""Models by alias, at several providers: each is asked with its own key, and nothing else."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from perdure import Agent, ErrorCode, RetryRule, tool
from perdure.activities.pace import Pace
from perdure.agents.profile import ModelProfile
from perdure.client.cli.render import run_view
from perdure.client.continuing import Fork
from perdure.runs.errors import RunError
from perdure.runs.limits import RateLimit
from perdure.runs.run import Run
from perdure.worker import endpoints_of
from tests.harness.engine import Engine
from tests.harness.scripted_openai import (
    Gate,
    Reply,
    ScriptedOpenAI,
    Usage,
    call,
    chunk,
    chunks,
    status,
    text,
    tool_calls,
)

FIRST_KEY, SECOND_KEY = "first-canary-0001", "second-canary-0002"
BUSY = status(503, headers={"retry-after-ms": "1"})
ECHOING = ModelProfile(echo_fields=("reasoning_content",))
ONCE = {ErrorCode.LLM_UNAVAILABLE: RetryRule(max_attempts=1)}
FILE = """
[providers.first]
base_url = "{first}"
api_key = "FIRST_KEY"
headers = {{ X-Title = "of the first" }}
[providers.second]
base_url = "{second}"
api_key = "SECOND_KEY"
[models.fast]
provider = "first"
model = "vendor/quick"
price = {{ input = 1, output = 10 }}
context_window = 1234
fallbacks = ["steady", "slow", "last"]
[models.steady]
provider = "first"
model = "vendor/steady"
[models.slow]
provider = "second"
model = "vendor-slow"
price = {{ input = 2, output = 20 }}
[models.last]
provider = "second"
[models.also-fast]
provider = "first"
model = "vendor/quick"
"""


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENTS = (
    Agent(name="clerk", tools=[look], model="fast", retries=ONCE),
    Agent(name="own", model="fast", fallback_models=["last"], retries=ONCE),
    Agent(name="plain", model="plain-model", retries=ONCE),
    Agent(name="reasoner", tools=[look], model="fast", profile=ECHOING),
)


@pytest.fixture
async def second() -> AsyncIterator[ScriptedOpenAI]:
    async with ScriptedOpenAI() as server:
        yield server
        assert server.violations == []


@pytest.fixture
async def third() -> AsyncIterator[ScriptedOpenAI]:  # the default provider
    async with ScriptedOpenAI() as server:
        yield server
        assert server.violations == []


@pytest.fixture
def two(
    engine: Engine,
    second: ScriptedOpenAI,
    third: ScriptedOpenAI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Engine:
    """The engine, whose model is the first provider."""
    path = tmp_path / "perdure.toml"
    path.write_text(FILE.format(first=engine.model.base_url, second=second.base_url))
    monkeypatch.setenv("PERDURE_CONFIG_FILE", str(path))
    monkeypatch.setenv("FIRST_KEY", FIRST_KEY)
    monkeypatch.setenv("SECOND_KEY", SECOND_KEY)
    # What the client library takes from its own variables is OpenAI's alone.
    monkeypatch.setenv("OPENAI_ORG_ID", "org-canary")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ours: custom-canary")
    engine.settings.openai_base_url = third.base_url
    return engine


def asked(*servers: ScriptedOpenAI) -> list[list[str]]:
    return [[request.body["model"] for request in server.requests] for server in servers]


def answered(run: Run) -> list[tuple[str, str]]:
    return [(step.alias, step.name) for step in run.steps if step.kind == "model"]


def shown(run: Run) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(run_view(run))
    return captured.get()


def assert_keys_are_where_they_belong(servers: Sequence[ScriptedOpenAI]) -> None:
    first, second, third = servers
    for server, key in ((first, FIRST_KEY), (second, SECOND_KEY), (third, "test-key-1234")):
        others = {FIRST_KEY, SECOND_KEY, "test-key-1234"} - {key}
        for request in server.requests:
            sent = str(request.headers) + request.raw.decode()
            assert request.headers["authorization"] == f"Bearer {key}"
            assert not [other for other in others if other in sent]
            assert ("of the first" in sent) is (server is first)
            assert ("org-canary" in sent) is (server is third)
            assert ("custom-canary" in sent) is (server is third)


async def test_each_name_is_asked_for_where_it_belongs_and_costs_what_the_file_says(
    two: Engine, second: ScriptedOpenAI, third: ScriptedOpenAI
) -> None:
    for server in (two.model, second, third):
        server.respond_with(lambda request: text("Done.", usage=Usage(1_000_000, 100_000)))
    async with two.serving(*AGENTS):
        by_agent = await two.run("clerk")
        by_run = await two.run("clerk", model="slow")
        plain = await two.run("plain")
        listed = await two.manager.list_agents()
    assert asked(two.model, second, third) == [["vendor/quick"], ["vendor-slow"], ["plain-model"]]
    assert_keys_are_where_they_belong((two.model, second, third))
    assert (by_agent.model, by_run.model, plain.model) == (None, "slow", None)
    assert answered(by_agent) == [("fast", "vendor/quick")]
    assert answered(by_run) == [("slow", "vendor-slow")]
    assert answered(plain) == [("", "plain-model")]
    assert "slow (vendor-slow)" in shown(by_run)
    assert [each.model for each in by_agent.usage.by_model] == ["vendor/quick"]
    assert (by_agent.usage.cost, by_run.usage.cost) == (2.0, 4.0)
    assert plain.usage.unpriced_calls == 1
    assert by_agent.context_window == 1234
    assert {each.name: each.model for each in listed.agents}["clerk"] == "fast"


@pytest.mark.parametrize(
    ("refusal", "passed_over"),
    [
        (status(401), True),
        (status(402), True),
        (status(404, body={"error": {"code": "model_not_found"}}), True),
        (BUSY, False),
    ],
)
async def test_another_provider_goes_on_with_the_run(
    two: Engine, second: ScriptedOpenAI, third: ScriptedOpenAI, refusal: Reply, passed_over: bool
) -> None:
    """What a provider refuses altogether is asked of none of its other models."""
    two.model.script([tool_calls(call("look", {"number": 1})), refusal])
    two.model.script([] if passed_over else [refusal])
    second.script([text("Done.")])
    async with two.serving(AGENTS[0]):
        run = await two.run("clerk")
    assert (run.status, run.model, run.output) == ("completed", "slow", "Done.")
    quick = ["vendor/quick", "vendor/quick"]
    steady = [] if passed_over else ["vendor/steady"]
    assert asked(two.model, second) == [[*quick, *steady], ["vendor-slow"]]
    assert second.requests[0].messages == two.model.requests[1].messages
    assert_keys_are_where_they_belong((two.model, second, third))
    failed = next(step.error for step in run.steps if step.error is not None)
    assert isinstance(failed, RunError)
    assert failed.message.startswith("first: The provider answered")
    assert "OPENAI" not in failed.hint.replace("PERDURE", "")


async def test_the_chain_goes_on_where_the_run_chose_it(
    two: Engine, second: ScriptedOpenAI
) -> None:
    two.model.respond_with(lambda request: BUSY)
    second.respond_with(lambda request: BUSY if request.model == "vendor-slow" else text("Done."))
    async with two.serving(*AGENTS):
        chosen = await two.run("plain", model="fast")
        own = await two.run("own")
    assert (chosen.output, chosen.model, chosen.chosen_model) == ("Done.", "last", "fast")
    assert (own.output, own.model, own.chosen_model) == ("Done.", "last", None)
    assert asked(two.model, second) == [
        ["vendor/quick", "vendor/steady", "vendor/quick"],
        ["vendor-slow", "last", "last"],
    ]


async def test_an_alias_may_change_its_meaning_while_a_run_goes_on(
    two: Engine, second: ScriptedOpenAI, tmp_path: Path
) -> None:
    gate = Gate()
    two.model.script([tool_calls(call("look", {"number": 1})), text("Never heard.").hold(gate)])
    second.script([text("Done.")])
    two.settings.grace_s = 0
    async with two.serving(AGENTS[0]):
        run_id = await two.start("clerk", model="fast")
        await gate.reached
    written = FILE.format(first=second.base_url, second=second.base_url)
    path = tmp_path / "perdure.toml"
    path.write_text(written.replace("FIRST_KEY", "SECOND_KEY"))
    async with two.serving(AGENTS[0]):
        run = await two.ended(run_id)
    assert (run.output, run.model) == ("Done.", "fast")
    assert asked(second) == [["vendor/quick"]]
    assert second.requests[0].messages == two.model.requests[1].messages


async def test_an_alias_that_is_gone_ends_the_run_with_a_word_about_it(two: Engine) -> None:
    two.settings.openai_base_url = two.settings.openai_api_key = None
    async with two.serving(AGENTS[0]):
        run = await two.run("clerk", model="gone")
    assert run.error is not None
    assert (run.status, run.error.code) == ("failed", "model_not_found")
    assert "no model 'gone'; it has: also-fast, fast, last, slow, steady." in run.error.message


def thinking(thought: str, number: int) -> Reply:
    """Return a call of `look` with a field that its model wants back."""
    function = {"name": "look", "arguments": f'{{"number":{number}}}'}
    called = {"index": 0, "id": f"c{number}", "type": "function", "function": function}
    delta = {"role": "assistant", "reasoning_content": thought, "tool_calls": [called]}
    return chunks(chunk(delta=delta), chunk({}, finish_reason="tool_calls"))


async def test_what_a_provider_wants_back_goes_to_no_other_one(
    two: Engine, second: ScriptedOpenAI
) -> None:
    two.model.script([thinking("canary one", 1), status(402)])
    second.script([thinking("canary two", 2), text("Done.")])
    async with two.serving(AGENTS[3]):
        run = await two.run("reasoner")
    two.model.script([text("Back.")])
    async with two.serving(AGENTS[3]):
        forked = await two.ended(
            await two.manager.fork(run.run_id, Fork(model="fast", message="Once more."))
        )
    assert forked.output == "Back."
    told = [[m.get("reasoning_content") for m in r.messages] for r in second.requests]
    assert told == [[None] * 3, [None, None, None, "canary two", None]]
    back = [m.get("reasoning_content") for m in two.model.requests[-1].messages]
    assert back == [None, "canary one", None, "", None, "", None]
    assert two.model.requests[-1].raw.count(b"perdure_provider") == 0


async def test_what_one_provider_says_of_another_ones_key_is_masked(
    two: Engine, second: ScriptedOpenAI
) -> None:
    two.model.script([status(400, body={"error": {"message": f"No: {FIRST_KEY} {SECOND_KEY}"}})])
    async with two.serving(AGENTS[0]):
        run = await two.run("clerk")
    assert run.error is not None
    assert run.error.message == "first: The provider answered 400: No: [redacted] [redacted]"
    found = "".join(await two.histories(run.run_id)) + run.model_dump_json()
    assert "canary" not in found


async def test_a_pause_holds_for_one_model_at_one_provider_whatever_it_is_called(
    two: Engine, second: ScriptedOpenAI, third: ScriptedOpenAI
) -> None:
    found = endpoints_of(two.settings)
    lanes = [found.of(name).lane for name in ("fast", "also-fast", "slow", "vendor-slow")]
    await found.close()
    assert lanes[0] == lanes[1]
    assert len(set(lanes)) == 3
    two.pace = Pace({lanes[0]: RateLimit(requests_per_minute=1)}, window_s=3600)
    for server in (two.model, second, third):
        server.respond_with(lambda request: text("Done."))
    async with two.serving(*AGENTS):
        await two.run("clerk")
        waits = await two.start("clerk", model="also-fast")
        others = [await two.run("clerk", model=name) for name in ("slow", "vendor-slow", "steady")]
        await two.manager.cancel(waits)
        stopped = await two.ended(waits)
    assert [run.status for run in others] == ["completed"] * 3
    assert stopped.status == "cancelled"
    assert asked(two.model) == [["vendor/quick", "vendor/steady"]]
