"""The part of the workflow that executes Steps, and asks people about them.

It does what `decide` says and records what happened; no rule stands here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from perdure.runs import record
from perdure.runs.contract import CancelRequest
from perdure.runs.decide import AwaitPeople, CallModel, also_ready, decide
from perdure.runs.errors import RunError
from perdure.runs.requests import child_request, model_request, tool_request
from perdure.runs.steps import ModelReply, ToolCall, ToolReply
from perdure.workflows import steps, visible
from perdure.workflows.children import Child
from perdure.workflows.failures import step_error
from perdure.workflows.steered import Steered
from perdure.workflows.waiting import unless_cancelled, until
from temporalio import workflow
from temporalio.exceptions import ActivityError


class InFlight(Protocol):
    """Something that is going on and can be told to stop."""

    def done(self) -> bool:
        """Tell whether it has ended."""

    def cancel(self) -> object:
        """Tell it to stop; how it ends is heard as usual."""


class Stepping(Steered):
    """How the Steps of a Run are executed."""

    in_flight: dict[int, InFlight]

    def stop(self, request: CancelRequest) -> None:
        """Record that the Run is to stop, unless that is recorded already."""
        now, asked = workflow.now(), request
        event = record.cancel_requested(self.state, now, asked.reason, asked.mode, asked.by)
        if event is not None:
            self.emit(event)

    async def call_model(self, call: CallModel) -> None:
        """Execute one model Step."""
        call, before = replace(call, model=call.model or self.state.model), self.state
        self.emit(record.model_step_started(self.state, workflow.now(), call))
        self.index_end_of_wait(before)
        request = model_request(self.state, call)
        handle = steps.start_model(request, self.state.timeouts.heartbeat_s)
        await self.settle(request.step, handle, None)

    async def call_tools(self, calls: Sequence[ToolCall]) -> None:
        """Execute calls of one turn concurrently, and those that people approve meanwhile."""
        tasks = {call.call_id: asyncio.create_task(self.call_tool(call)) for call in calls}

        def ready() -> list[ToolCall]:
            return [call for call in also_ready(self.state) if call.call_id not in tasks]

        def is_over() -> bool:
            return all(task.done() for task in tasks.values())

        while not is_over():
            await until(lambda: is_over() or bool(ready()))
            for call in ready():
                tasks[call.call_id] = asyncio.create_task(self.call_tool(call))
        for task in tasks.values():
            task.result()

    async def call_tool(self, call: ToolCall) -> None:
        """Execute one tool Step: by an activity, or as the Run of another agent."""
        if call.policy.kind == "agent":
            await self.call_agent(call)
            return
        self.emit(record.tool_step_started(self.state, workflow.now(), call.name, call.call_id))
        request = tool_request(self.state, call)
        handle = steps.start_tool(request, call, self.state.timeouts.heartbeat_s)
        await self.settle(request.step, handle, call)

    async def call_agent(self, call: ToolCall) -> None:
        """Execute a Step that is the Run of another agent."""
        number = len(self.state.steps) + 1
        child = Child(self.state.run_id, number, child_request(self.state, call))
        now, child_id = workflow.now(), child.run_id
        self.emit(record.tool_step_started(self.state, now, call.name, call.call_id, child_id))
        self.in_flight[number] = child
        outcome = await child.ended()
        del self.in_flight[number]
        self.emit(record.step_ended(self.state, workflow.now(), number, outcome))

    async def settle(
        self,
        step: int,
        handle: "workflow.ActivityHandle[ModelReply] | workflow.ActivityHandle[ToolReply]",
        call: ToolCall | None,
    ) -> None:
        """Wait for a Step's activity, and record how it ended."""
        self.in_flight[step] = handle
        outcome: ModelReply | ToolReply | RunError
        try:
            outcome = await handle
        except ActivityError as exc:
            outcome = step_error(exc, call.policy if call else None)
        del self.in_flight[step]
        self.emit(record.step_ended(self.state, workflow.now(), step, outcome))

    def ask(self) -> None:
        """Ask people what they are to decide; the Run's history says so by what is indexed."""
        self.emit(record.action_required(self.state, workflow.now()))
        visible.index_waiting(self.state)

    async def await_people(self, people: AwaitPeople) -> None:
        """Wait until something is decided, or expires, or the Run is stopped or paused."""
        now = workflow.now()
        patience = None if people.until is None else max(people.until - now, timedelta(0))
        try:
            with unless_cancelled():
                await workflow.wait_condition(
                    lambda: decide(self.state) != people,
                    timeout=patience,
                    timeout_summary=steps.ACTION_TIMER,
                )
        except TimeoutError:
            if decide(self.state) == people:
                self.emit(record.action_expired(self.state, workflow.now()))
                visible.index_expired()
                visible.index_waiting(self.state)

    def hand_off(self) -> None:
        """Go on as another agent; the history says so by what is indexed."""
        self.emit(record.handed_off(self.state, workflow.now()))
        visible.index_agent(self.state)

    async def hear_all(self) -> None:
        """Let everything that arrived together be recorded before anything follows from it.

        A result that came with a stop must not be thrown away, and nothing may start that the
        stop would take back at once: Temporal would never be told, so the history would not say.
        """
        for _ in range(3):
            await asyncio.sleep(0)
        reason = workflow.cancellation_reason()
        if reason is not None:
            self.stop(CancelRequest(reason=reason))

    async def abort_in_flight(self) -> None:
        """Cancel the Steps that have not ended yet; each brings back what it has."""
        await self.hear_all()
        for handle in self.in_flight.values():
            if not handle.done():
                handle.cancel()
