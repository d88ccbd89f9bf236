"""Server, workers, provider and Runs, and what happens to them according to the plan."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.client.manager import RunManager
from perdure.client.workers import absence
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DYNAMIC_CONFIG, DevServer
from perdure.runs.errors import EngineUnavailable, NoWorker, PerdureError, RunAlreadyExists
from perdure.runs.limits import Limits, Timeouts
from tests.chaos.conversation import prompt
from tests.chaos.evidence import Evidence
from tests.chaos.gathering import gathered
from tests.chaos.ledger import Ledger
from tests.chaos.plan import STOPS, Fault, Plan, PlannedFault, PlannedRun
from tests.chaos.provider import Provider
from tests.chaos.workers import Workers
from tests.conftest import free_port
from tests.harness.engine import soon

ROOT = Path(__file__).parents[2]
TASK_QUEUE = "chaos"
SHORT_HISTORIES = DYNAMIC_CONFIG | {"limit.historyCount.suggestContinueAsNew": 30}
"""Continue-as-new once in a Run of eight Steps."""
PATIENCE_S = 240.0
"""How long after the last planned moment all Runs must have ended."""
TIMEOUTS = Timeouts(model_first_byte_s=6.0, model_idle_s=4.0)
"""Short, so that a hanging answer is given up while the Run still has time."""
WITHOUT_WORKER = (Fault.OUTAGE, Fault.RESTART_SERVER)
"""Faults by time that do not take a worker away."""
PRECARIOUS = 4
"""Attempts of a pending Step, of six, from which on faults by time let it be."""

Say = Callable[[str], None]


class Stage:
    """One execution of a plan.

    Args:
        plan: What is to happen.
        folder: An empty folder of its own, for the server's database, ledger and logs.
        say: Told how things stand.
    """

    def __init__(self, plan: Plan, folder: Path, say: Say) -> None:
        self.plan = plan
        self.ended = 0
        self.refused = 0
        self._open: set[str] = set()
        self.happened: list[PlannedFault] = []
        self._say = say
        self._folder = folder
        self._ledger = Ledger(folder / "ledger")
        self._server = DevServer(Address("127.0.0.1", free_port()), folder, SHORT_HISTORIES)
        self._provider = Provider(plan, self._hit)
        self._hits: set[asyncio.Task[float]] = set()
        self._restarting = asyncio.Lock()
        self._began = 0.0

    async def execute(self) -> Evidence:
        """Let everything happen, and return what was seen."""
        for name in list(os.environ):
            # Nobody's keys and profiles decide what happens.
            if name.startswith(("TEMPORAL_", "PERDURE_", "OPENAI_")):
                del os.environ[name]
        os.environ["TEMPORAL_CONFIG_FILE"] = os.devnull
        os.environ["TEMPORAL_ADDRESS"] = str(self._server.address)
        self._ledger.create(_points(self.plan))
        await self._server.start()
        try:
            self._client = await connect()
            await register_search_attributes(self._client)
            async with self._provider.listening() as provider:
                self._workers = Workers([*map(self._environment, provider.endpoints)], self._folder)
                async with self._workers.running():
                    return await self._executed(self._client)
        finally:
            await self._server.stop()

    def _environment(self, endpoint: object) -> dict[str, str]:
        return dict(os.environ) | {
            "PERDURE_TASK_QUEUE": TASK_QUEUE,
            "OPENAI_BASE_URL": str(getattr(endpoint, "base_url", "")),
            "OPENAI_API_KEY": "no-key",
            "CHAOS_FOLDER": str(self._ledger.folder),
            "PYTHONPATH": str(ROOT),
        }

    async def _executed(self, client: Client) -> Evidence:
        self._manager = RunManager(client, TASK_QUEUE)

        async def polled() -> bool:
            return await absence(client, TASK_QUEUE) is None

        await soon(polled, timeout_s=60.0)
        self._began = time.monotonic()
        runs = [asyncio.create_task(self._run(run)) for run in self.plan.runs]
        faults = [asyncio.create_task(self._fault(f)) for f in self.plan.faults if _is_ours(f)]
        watch = asyncio.create_task(self._continue_stopped())
        with suppress(TimeoutError):
            async with asyncio.timeout(self.plan.size.window_s + PATIENCE_S):
                await asyncio.gather(*runs, *faults)
                await asyncio.gather(*self._hits)
        took_s = time.monotonic() - self._began
        for task in (*runs, *faults, watch):
            task.cancel()
        self._say("reading what happened")
        self.happened += self._provider.happened
        traces = await gathered(client, self._manager, self._provider, self.plan)
        return Evidence(
            plan=self.plan,
            happened=frozenset({f.id for f in self.happened} | self._ledger.fired().keys()),
            runs=traces.runs,
            requests=traces.requests(self._workers.lives),
            lines=self._ledger.lines(),
            lives=self._workers.lives,
            malformed=self._provider.violations,
            starts_refused=self.refused,
            took_s=took_s,
        )

    async def _moment(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, self._began + at_s - time.monotonic()))

    async def _run(self, run: PlannedRun) -> None:
        await self._moment(run.start_s)
        while True:
            try:
                await self._manager.start_run(
                    "clerk",
                    prompt(run.run_id),
                    run_id=run.run_id,
                    limits=Limits(max_turns=1000),
                    timeouts=TIMEOUTS,
                )
                break
            except RunAlreadyExists:  # the answer to an earlier try was lost with the server
                break
            except (EngineUnavailable, NoWorker):
                # A server that has just come back does not know of any worker for a moment.
                self.refused += 1
                await asyncio.sleep(0.5)
        self._open.add(run.run_id)
        while True:
            with suppress(EngineUnavailable):
                await self._manager.wait(run.run_id)
                break
        self._open.discard(run.run_id)
        self.ended += 1
        self._say(f"{self.ended} of {len(self.plan.runs)} Runs ended")

    async def _fault(self, fault: PlannedFault) -> None:
        if fault.kind is Fault.KILL_AT_CONTINUE:
            await self._kill_at_continue(fault)
            return
        await self._moment(fault.at_s or 0.0)
        await self._bearable(fault)
        match fault.kind, fault.worker:
            case Fault.KILL, int(worker):
                self._workers.kill(worker)
            case Fault.KILL_BEFORE_SEND, _:
                self._provider.kill_at_next_connection(fault)
                return  # the provider tells when it has happened
            case Fault.STOP, int(worker):
                while not await self._workers.stop(worker, fault.for_s):
                    await self._bearable(fault)  # that one died, as planned, a moment before
            case Fault.OUTAGE, int(worker):
                await self._provider.endpoints[worker].outage(fault.for_s)
            case _:
                await self._restart_server(fault.for_s)
        self.happened.append(fault)

    def _hit(self, worker: int, fault: PlannedFault) -> None:
        if fault.kind in STOPS:
            task = asyncio.get_running_loop().create_task(self._workers.stop(worker, fault.for_s))
            self._hits.add(task)
        else:
            self._workers.kill(worker)

    async def _continue_stopped(self) -> None:
        """Let workers go on in time that stopped themselves."""
        planned = {f.id: f for f in self.plan.faults if f.kind is Fault.STOP_BEFORE_EFFECT}
        while planned:
            await asyncio.sleep(0.05)
            for fault, pid in self._ledger.fired().items():
                number = self._workers.number_of(pid)
                if fault in planned and number is not None:
                    self._hit(number, planned.pop(fault))

    async def _bearable(self, fault: PlannedFault) -> None:
        """Wait until the fault leaves a second worker, and takes no Step its last attempts.

        So the plan says when a fault happens at the earliest: what is promised is promised for
        as long as there are workers and attempts.
        """
        while True:
            spares = fault.kind in WITHOUT_WORKER or self._workers.can_spare(fault.worker)
            if spares and not await self._is_precarious():
                # Looking took a while, in which another fault may have happened.
                if fault.kind in WITHOUT_WORKER or self._workers.can_spare(fault.worker):
                    return
            await asyncio.sleep(0.2)

    async def _is_precarious(self) -> bool:
        try:
            for run_id in tuple(self._open):
                pending = await self._manager.pending_steps(run_id)
                if any(step.attempt >= PRECARIOUS for step in pending):
                    return True
        except PerdureError:
            return True  # the server is away
        return False

    async def _restart_server(self, away_s: float) -> None:
        async with self._restarting:
            pid = int((self._folder / "temporal.pid").read_text())
            os.kill(pid, signal.SIGKILL)
            while await self._server.address.is_open():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            await asyncio.sleep(away_s)
            await self._server.start()

    async def _kill_at_continue(self, fault: PlannedFault) -> None:
        """Kill the worker that makes a Run continue as new, as soon as the history shows it."""
        assert fault.run is not None
        run = next(run for run in self.plan.runs if run.run_id == fault.run)
        await self._moment(run.start_s)
        worker = ""
        while True:
            with suppress(RPCError):
                told = await self._client.get_workflow_handle(fault.run).describe()
                first = told.raw_description.workflow_execution_info.first_run_id
                handle = self._client.get_workflow_handle(fault.run, run_id=first)
                async for event in handle.fetch_history_events(wait_new_event=True):
                    if event.HasField("workflow_task_completed_event_attributes"):
                        worker = event.workflow_task_completed_event_attributes.identity
                    if event.HasField("workflow_execution_continued_as_new_event_attributes"):
                        number = self._workers.number_of(int(worker.partition("@")[0]))
                        if number is not None:
                            self._workers.kill(number)
                        # Dead already: then another fault was as quick.
                        self.happened.append(fault)
                        return
                    if event.HasField("workflow_execution_completed_event_attributes"):
                        return
            await asyncio.sleep(0.1)


def _is_ours(fault: PlannedFault) -> bool:
    return fault.at_s is not None or fault.kind is Fault.KILL_AT_CONTINUE


def _points(plan: Plan) -> dict[str, object]:
    """Return what the tools need to know."""
    deadly = {(f.run, f.call): f for f in plan.faults if f.call is not None}
    points: dict[str, object] = {}
    for run in plan.runs:
        for call in run.calls:
            known: dict[str, object] = {"value": call.value, "takes_s": call.takes_s}
            fault = deadly.get((run.run_id, call.call_id))
            if fault is not None:
                known |= {"fault": fault.kind.value, "for_s": fault.for_s}
            points[f"{run.run_id}/{call.call_id}"] = known
    return json.loads(json.dumps(points))  # type: ignore[no-any-return]
