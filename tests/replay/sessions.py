"""One Session of each kind, for the stored histories. Add kinds; never change one."""

from collections.abc import Awaitable, Callable

from perdure.runs.errors import SessionNotFound
from perdure.sessions.contract import workflow_id
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, status, text

RUNS = 25
"""Twice as many as the recording server lets a history have."""


async def begun(engine: Engine, session_id: str, words: str, **options: str) -> str:
    session = engine.manager.session(session_id)
    return (await session.start_run("adder", words, **options)).run_id  # type: ignore[arg-type]


async def spoken(engine: Engine, session_id: str, *words: str) -> None:
    for each in words:
        await engine.manager.wait(await begun(engine, session_id, each))


async def three_runs(engine: Engine) -> str:
    engine.model.script([text("One."), status(401), text("Three.")])
    await spoken(engine, "three", "1", "2", "3")
    return "three"


async def waiting_runs(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("One.").hold(gate), text("Three.")])
    await begun(engine, "waiting", "1", idempotency_key="k")
    await begun(engine, "waiting", "1", idempotency_key="k")
    cancelled = await begun(engine, "waiting", "2", on_busy="enqueue")
    await begun(engine, "waiting", "3", on_busy="enqueue")
    await engine.manager.cancel(cancelled)
    gate.open()
    return "waiting"


async def interrupting_run(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2), text("Two.")])
    await begun(engine, "interrupting", "1")
    await gate.reached
    await begun(engine, "interrupting", "2", on_busy="interrupt")
    return "interrupting"


async def rolled_back_run(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2), text("Two.")])
    await begun(engine, "back", "1")
    await gate.reached
    await begun(engine, "back", "2", on_busy="rollback")
    return "back"


async def long_session(engine: Engine) -> str:
    engine.model.respond_with(lambda request: text("Hi."))
    await spoken(engine, "long", *map(str, range(RUNS)))
    return "long"


async def long_session_with_runs(engine: Engine) -> str:
    gate = Gate(60)
    engine.model.script([text("One.").hold(gate), text("Two.")])
    session = engine.manager.session("held")
    await begun(engine, "held", "1")
    await begun(engine, "held", "2", on_busy="enqueue")
    while len(await engine.executions(workflow_id("held"))) == 1:
        await session.configure(SessionSettings(max_queued=3))
    gate.open()
    return "held"


async def resumed_run(engine: Engine) -> str:
    engine.model.script([text("One."), status(401), text("Two.")])
    await spoken(engine, "resumed", "1")
    run_id = await begun(engine, "resumed", "2")
    await engine.manager.wait(run_id)
    await engine.manager.resume(run_id)
    return "resumed"


async def edited_session(engine: Engine) -> str:
    engine.model.script([text("One."), text("Two.")])
    await spoken(engine, "edited", "1")
    session = engine.manager.session("edited")
    await session.configure(SessionSettings(max_tokens=9999), variables={"city": "Ulm"})
    await session.clear()
    fork = await session.fork("fork")
    await spoken(engine, "fork", "2")
    return fork.session_id


async def expired_session(engine: Engine) -> str:
    engine.model.script([text("One.")])
    await spoken(engine, "expired", "1")
    await engine.manager.session("expired").configure(SessionSettings(idle_s=0.1))

    async def is_over() -> bool:
        try:
            await engine.manager.session("expired").clear()
        except SessionNotFound:
            return True
        return False

    await soon(is_over)
    return "expired"


async def cancelled_session(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    await begun(engine, "cancelled", "1")
    await begun(engine, "cancelled", "2", on_busy="enqueue")
    await gate.reached
    handle = engine.client.get_workflow_handle(workflow_id("cancelled"))
    await handle.cancel()
    await handle.result()
    return "cancelled"


SESSIONS: dict[str, Callable[[Engine], Awaitable[str]]] = {
    each.__name__: each
    for each in (
        three_runs,
        waiting_runs,
        interrupting_run,
        rolled_back_run,
        long_session,
        long_session_with_runs,
        resumed_run,
        edited_session,
        expired_session,
        cancelled_session,
    )
}
