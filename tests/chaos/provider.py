"""The model provider of the chaos Runs, real HTTP, with the faults that the plan gives it.

One endpoint for each worker, so that it is known which worker asks, and which one to kill.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tests.chaos.conversation import answer, run_asked_for, turn_asked_for
from tests.chaos.ledger import now
from tests.chaos.plan import MODEL_KILLS, Fault, Plan, PlannedFault
from tests.harness.connection import Connection
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Completion, Reply, drop, no_answer, status
from tests.harness.scripted_openai import ScriptedOpenAI


@dataclass(eq=False)
class Asked:
    """One request, and what became of it."""

    run: str
    turn: int
    worker: int
    at: float
    recorded: RecordedRequest
    fault: PlannedFault | None


class Provider:
    """All endpoints together.

    Args:
        plan: What is to happen.
        hit: Called with the number of a worker and the fault that kills or stops it.
    """

    def __init__(self, plan: Plan, hit: Callable[[int, PlannedFault], object]) -> None:
        self.plan = plan
        self.endpoints = [Endpoint(self, number) for number in range(plan.size.workers)]
        self.asked: list[Asked] = []
        self.happened: list[PlannedFault] = []
        self._hit = hit
        self._runs = {run.run_id: run for run in plan.runs}
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._next_connections: deque[PlannedFault] = deque()
        self._waiting: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Provider"]:
        """Serve for the length of the block."""
        async with AsyncExitStack() as stack:
            for endpoint in self.endpoints:
                await stack.enter_async_context(endpoint)
                endpoint.respond_with(partial(self.answer, endpoint.number))
            yield self
            for task in self._waiting:
                task.cancel()

    @property
    def violations(self) -> list[str]:
        """What was wrong with requests, whatever the Run."""
        return [
            f"worker {endpoint.number}: {violation}"
            for endpoint in self.endpoints
            for violation in endpoint.violations
        ]

    def kill_at_next_connection(self, fault: PlannedFault) -> None:
        """Kill the worker that connects next, before its request is read."""
        self._next_connections.append(fault)
        for endpoint in self.endpoints:
            endpoint.close_idle()

    def kills_at_connection(self, worker: int) -> bool:
        """Kill the worker that has just connected, if that is planned; tell whether it was."""
        if not self._next_connections:
            return False
        fault = self._next_connections.popleft()
        self.happened.append(fault)
        self._hit(worker, fault)
        return True

    def answer(self, worker: int, request: RecordedRequest) -> Reply:
        """Return the answer to a request, or the fault that stands in its place."""
        run, turn = run_asked_for(request.messages), turn_asked_for(request.messages)
        faults = self.plan.at_turn(run, turn)
        attempt = self._attempts[run, turn]
        self._attempts[run, turn] += 1
        fault = faults[attempt] if attempt < len(faults) else None
        asked = Asked(run, turn, worker, now(), request, fault)
        self.asked.append(asked)
        # Tokens that no two answers share: which answer a Step is made of can be seen by them.
        proper = answer(self._runs[run], request.messages, (1000 + len(self.asked), 10 + turn))
        if fault is None:
            return proper
        self.happened.append(fault)
        if fault.kind is Fault.STOP_MID_STREAM:
            self._later(asked, fault, 0.0, answered=False)
            return proper
        if fault.kind in MODEL_KILLS:
            return self._deadly(proper, asked, fault)
        return faulty(proper, fault)

    def _deadly(self, proper: Reply, asked: Asked, fault: PlannedFault) -> Reply:
        if fault.kind is Fault.KILL_AFTER_SEND:
            self._hit(asked.worker, fault)
            return no_answer()
        if fault.kind is Fault.KILL_MID_STREAM:
            self._later(asked, fault, fault.for_s, answered=False)
            return proper.hang(after_chunks=_middle(proper))
        self._later(asked, fault, fault.for_s, answered=True)
        return proper

    def _later(self, asked: Asked, fault: PlannedFault, delay_s: float, *, answered: bool) -> None:
        async def wait_and_hit() -> None:
            if answered:
                await asked.recorded.completed.wait()
            await asyncio.sleep(delay_s)
            self._hit(asked.worker, fault)

        task = asyncio.get_running_loop().create_task(wait_and_hit())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


class Endpoint(ScriptedOpenAI):
    """What one worker knows as its provider."""

    def __init__(self, provider: Provider, number: int) -> None:
        super().__init__()
        self.number = number
        self._provider = provider

    def accept(self, connection: Connection) -> None:
        """Take note of a new connection, unless its worker dies of it."""
        super().accept(connection)
        if self._provider.kills_at_connection(self.number):
            connection.reset()

    def close_idle(self) -> None:
        """Make the next request come over a new connection."""
        for connection in list(self.connections):
            if connection.is_idle:
                connection.reset()


def faulty(proper: Reply, fault: PlannedFault) -> Reply:
    """Return an answer as a provider in trouble gives it."""
    match fault.kind:
        case Fault.STATUS_429:
            return status(429, headers={"retry-after-ms": str(round(fault.for_s * 1000))})
        case Fault.STATUS_500 | Fault.STATUS_503 | Fault.STATUS_529:
            return status(int(fault.kind))
        case Fault.RESET:
            return drop()
        case Fault.CUT:
            return proper.cut(after_chunks=_middle(proper))
        case Fault.NO_FINISH:
            return proper.without_done(after_chunks=_before_finish(proper))
        case Fault.HANG:
            return proper.hang(after_chunks=2)
        case _:
            raise ValueError(f"{fault.kind} is no fault of a provider")


def _completion(reply: Reply) -> Completion:
    assert isinstance(reply.body, Completion)
    return reply.body


def _middle(reply: Reply) -> int:
    """Return how many chunks come before the middle of the text, or of a call's arguments."""
    said = _completion(reply)
    if said.calls:
        return 1 + len(said.pieces) + 2
    return 1 + len(said.pieces) // 2


def _before_finish(reply: Reply) -> int:
    said = _completion(reply)
    return 1 + len(said.pieces) + 3 * len(said.calls)
