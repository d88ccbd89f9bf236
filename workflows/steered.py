"""The part of the workflow that people talk to: messages and pauses, while the Run goes on.

A handler only records; what follows from it is for `decide`. The client sends updates, which a
validator can refuse; another workflow can only send a signal, which is passed over then.
"""

from perdure.runs import contract, pages, resolving, steering
from perdure.runs.contract import (
    MessageRequest,
    PauseRequest,
    ResolveActionRequest,
    RunStatusReport,
    UnpauseRequest,
)
from perdure.runs.events import Event
from perdure.runs.measures import measures
from perdure.runs.metering import Instruments
from perdure.runs.run import Run
from perdure.workflows import visible
from temporalio import workflow


class Steered:
    """The state of a Run, and how it takes what people tell it."""

    state: Run
    instruments: Instruments

    @property
    def stopping(self) -> bool:
        """True once the Run was asked to stop."""
        return self.state.cancel is not None

    @property
    def aborting(self) -> bool:
        """True once what is in flight is to be aborted, too."""
        return self.state.cancel is not None and self.state.cancel.is_urgent

    def emit(self, event: Event | None) -> None:
        """Let an Event happen, if there is one: the only way the state changes."""
        if event is not None:
            before, self.state = self.state, self.state.apply(event)
            visible.show(self.state)
            for found in measures(before, event, self.state):
                self.instruments.record(found.metric, found.value, **found.labels)

    def index_end_of_wait(self, before: Run) -> None:
        """Let a Run be found no longer as one that waits, once it does not."""
        if before.waiting_on is not None and self.state.waiting_on is None:
            visible.index_waiting(self.state)

    @workflow.update(name=contract.SEND_MESSAGE_UPDATE)
    def on_send_message(self, request: MessageRequest) -> RunStatusReport:
        """Let a message join before the next model call."""
        self.emit(steering.message_accepted(self.state, workflow.now(), request))
        return pages.status_report(self.state)

    @on_send_message.validator
    def check_send_message(self, request: MessageRequest) -> None:
        """Refuse what the Run can't take: the sender keeps it."""
        steering.check_message(self.state, request)

    @workflow.signal(name=contract.MESSAGE_SIGNAL)
    def on_message(self, request: MessageRequest) -> None:
        """Take a message where that is still possible; else nothing is recorded."""
        if not self.stopping:
            self.emit(steering.message_accepted(self.state, workflow.now(), request))

    @workflow.update(name=contract.PAUSE_UPDATE)
    def on_pause(self, request: PauseRequest) -> RunStatusReport:
        """Let what is in flight end, and start nothing more."""
        self.emit(steering.pause_requested(self.state, workflow.now(), request))
        return pages.status_report(self.state)

    @on_pause.validator
    def check_pause(self, request: PauseRequest) -> None:
        """Refuse it for a Run that ends anyway."""
        steering.check_pause(self.state)

    @workflow.update(name=contract.RESOLVE_ACTION_UPDATE)
    def on_resolve_action(self, request: ResolveActionRequest) -> RunStatusReport:
        """Take a person's decision; what waits for it goes on at once."""
        before = self.state
        self.emit(resolving.action_resolved(self.state, workflow.now(), request))
        self.index_end_of_wait(before)
        return pages.status_report(self.state)

    @on_resolve_action.validator
    def check_resolve_action(self, request: ResolveActionRequest) -> None:
        """Refuse a decision on something else, or a second one."""
        resolving.check_resolution(self.state, request, workflow.now())

    @workflow.update(name=contract.UNPAUSE_UPDATE)
    def on_unpause(self, request: UnpauseRequest) -> RunStatusReport:
        """Let a paused Run go on."""
        self.emit(steering.unpause_requested(self.state, workflow.now()))
        return pages.status_report(self.state)

    @on_unpause.validator
    def check_unpause(self, request: UnpauseRequest) -> None:
        """Refuse it for a Run that ends anyway."""
        steering.check_unpause(self.state)
