"""Guardrails: what a check refuses goes no further, what it changes is what everybody gets."""

import json

import pytest

from perdure.client.continuing import Fork
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.workflows.guarded import (
    CLERK,
    LAX,
    PAID,
    PLAIN,
    SEEN,
    assert_refused,
    forget,
    said_to_model,
)
from tests.workflows.test_approvals import asks


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    forget()


async def test_what_an_input_check_refuses_reaches_no_provider(engine: Engine) -> None:
    async with engine.serving(CLERK, PLAIN):
        assert_refused(await engine.run("clerk", "A bomb."), "input", "We cook")
        broken = await engine.run("clerk", "broken")
        assert_refused(broken, "input", "RuntimeError: no answer with [redacted]")
        assert_refused(await engine.run("clerk", "exit"), "input", "SystemExit")
        assert engine.model.requests == []

        # Neither does it in the next Run of its Session.
        session = engine.manager.session(f"{engine.task_queue}-s")
        started = await session.start_run("clerk", "A bomb.")
        assert_refused(await engine.ended(started.run_id), "input", "We cook")
        engine.model.script([text("Hello.")])
        started = await session.start_run("plain", "Hi.")
        await engine.ended(started.run_id)
        assert said_to_model(engine) == ["Hi."]

        # A message that comes later is an input as well, and looked at once.
        SEEN.clear()
        gate = Gate()
        engine.model.script([text("One.").hold(gate)])
        run_id = await engine.start("clerk", "First.")
        await gate.reached
        await engine.manager.send_message(run_id, "A bomb.")
        gate.open()
        run = await engine.ended(run_id)
        assert_refused(run, "input", "We cook")
        assert SEEN == ["First.", "A bomb."]
        assert run.usage.model_calls == 1


async def test_a_changed_input_is_what_every_request_has(engine: Engine) -> None:
    async with engine.serving(CLERK):
        gate = Gate()
        engine.model.script(
            [
                tool_calls(call("pay", {"euros": 1})),
                text("Later.").hold(gate),
                text("Done."),
                text("Again."),
            ]
        )
        run_id = await engine.start("clerk", "Card 4711.")
        await gate.reached
        await engine.manager.send_message(run_id, "Or 4711?")
        gate.open()
        run = await engine.ended(run_id)
        assert (run.output, run.input_message, run.told_input) == (
            "Done.",
            "Card 4711.",
            "Card ####.",
        )
        assert [step.status for step in run.steps if step.kind == "model"] == [
            "failed",
            "completed",
            "completed",
            "failed",
            "completed",
        ]
        assert SEEN == ["Card 4711.", "Or 4711?"]
        assert "4711" not in json.dumps([each.body for each in engine.model.requests])
        assert said_to_model(engine)[-1] == "Or ####?"
        assert run.follow_ups[0].told == "Or ####?"
        engine.transcripts.forget(run_id)
        forked = await engine.manager.fork(run_id, Fork(step=3))
        assert (await engine.ended(forked)).output == "Again."
        assert said_to_model(engine)[0] == "Card ####."


async def test_a_person_lets_an_input_through_or_does_not(engine: Engine) -> None:
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk", "maybe 4711")
        run = await asks(engine, run_id)
        assert run.waiting_on is not None
        assert engine.model.requests == []
        # What is said meanwhile was not approved with it.
        await engine.manager.send_message(run_id, "maybe not")
        engine.model.script([text("Fine.")])
        await engine.manager.approve(run_id, "action_1", by="ann")

        async def asked_again() -> bool:
            run = await engine.manager.get_run(run_id)
            return run.waiting_on is not None and run.waiting_on.action_ids == ("action_2",)

        await soon(asked_again)
        assert engine.model.requests == []
        await engine.manager.approve(run_id, "action_2", by="ann")
        run = await engine.ended(run_id)
        assert run.output == "Fine."
        assert said_to_model(engine) == ["maybe ####", "maybe not"]
        assert SEEN == ["maybe 4711", "maybe not"]

        run_id = await engine.start("clerk", "maybe")
        await asks(engine, run_id)
        await engine.manager.reject(run_id, "action_1", by="ann", note="It is not")
        assert_refused(await engine.ended(run_id), "input", "It is not")


async def test_arguments_are_checked_when_they_are_asked_for_and_where_they_are_used(
    engine: Engine,
) -> None:
    engine.model.script(
        [
            tool_calls(
                call("pay", {"euros": 1}, id="A"),
                call("pay", {"euros": 900}, id="B"),
                call("pay", {"euros": 666}, id="C"),
                call("pay", {"euros": 667}, id="D"),
                call("pay", {"euros": 500}, id="E"),
                call("pay", {"euros": 500}, id="F"),
            ),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        run = await asks(engine, run_id, 2)
        await engine.manager.approve(run_id, "E", by="ann")
        await engine.manager.approve(run_id, "F", by="ann", arguments={"euros": 800})
        run = await engine.ended(run_id)
        assert sorted(PAID) == [1, 100, 500]
        by_id = {each.call_id: each for each in run.tool_calls}
        assert (by_id["B"].arguments, by_id["B"].changed_by) == ('{"euros":100}', "sums")
        assert by_id["B"].raw_arguments == '{"euros": 900}'
        for call_id, why in (("C", "Never that"), ("D", "said 'no'"), ("F", "would change")):
            refused = json.loads(by_id[call_id].result or "")["error"]
            assert refused["code"] == "guardrail"
            assert why in refused["message"]
        sent = engine.model.requests[-1].body["messages"][1]["tool_calls"]
        assert sent[1]["function"]["arguments"] == '{"euros":100}'

        # What has come by without a check, or without a person, is not executed.
        PAID.clear()
        for euros, code in ((666, "guardrail"), (900, "guardrail"), (500, "approval_missing")):
            LAX.append(True)
            engine.model.script([tool_calls(call("pay", {"euros": euros})), text("Done.")])
            run = await engine.run("clerk")
            assert LAX == PAID == []
            assert json.loads(run.tool_calls[0].result or "")["error"]["code"] == code
