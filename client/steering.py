"""Steering: the part of `RunManager` with which people talk to a Run that is going on."""

import secrets
from collections.abc import Sequence

from temporalio.client import Client

from perdure.client.changing import Change, changed
from perdure.client.files import placed
from perdure.client.starting import checked_reason
from perdure.runs import contract, steering
from perdure.runs.contract import MessageRequest, PauseRequest, UnpauseRequest
from perdure.runs.given_file import File, checked_files
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.run import Run


class Steering:
    """Messages to Runs, and pauses."""

    client: Client
    task_queue: str

    async def send_message(
        self,
        run_id: str,
        text: str,
        *,
        message_id: str | None = None,
        files: Sequence[File] = (),
    ) -> Run:
        """Say something to a Run while it goes on; return it as it stands then.

        The message joins before the next model call: after the answer that is under way, and
        the results of the tools that it asks for. A Run that had just given its final answer
        goes on with the message.

        *Idempotency*: a message is heard once, however often it is sent with one `message_id`.

        Args:
            run_id: Which Run.
            text: What the user says.
            message_id: Chosen by us when not given.
            files: What the message comes with.

        Raises:
            RunNotFound: When there is no such Run.
            RunAlreadyTerminal: When it has ended, is being stopped or concludes at a limit;
                nothing was recorded then.
            InvalidRequest: When the message is empty or too large, or there are too many.
            NoWorker: When nothing would take it. Whether a Run that does not answer has it is
                unknown: send it again, with the same `message_id`.
            EngineUnavailable: When Temporal does not answer.
        """
        chosen = message_id if message_id is not None else f"msg_{secrets.token_hex(10)}"
        request = MessageRequest(
            text=without_lone_surrogates(text),
            message_id=chosen,
            files=await placed(self.client, checked_files(files), run_id),
        )
        change = Change(
            contract.SEND_MESSAGE_UPDATE,
            request,
            lambda run: steering.check_message(run, request),
            f"Send it again with the message_id {chosen!r}: it is heard once.",
        )
        return await changed(self.client, self.task_queue, run_id, change)

    async def pause(self, run_id: str, reason: str = "") -> Run:
        """Pause a Run, and return it as it stands then.

        What is in flight goes to its end; nothing new starts, and the Run does not end, before
        `unpause`. It can be cancelled, and takes messages; its time goes on.

        *Idempotency*: a Run that is paused stays as it is.

        Args:
            run_id: Which Run.
            reason: Kept while the Run is paused, for people.

        Raises:
            RunNotFound: When there is no such Run.
            RunAlreadyTerminal: When it has ended or is being stopped.
            InvalidRequest: When the reason is too long.
            NoWorker: When nothing would take it.
            EngineUnavailable: When Temporal does not answer.
        """
        request = PauseRequest(reason=checked_reason(reason))
        change = Change(contract.PAUSE_UPDATE, request, steering.check_pause)
        return await changed(self.client, self.task_queue, run_id, change)

    async def unpause(self, run_id: str) -> Run:
        """Let a paused Run go on, and return it as it stands then.

        One that has reached a limit meanwhile waits for that to be raised.

        *Idempotency*: a Run that is not paused stays as it is.

        Raises:
            RunNotFound: When there is no such Run.
            RunAlreadyTerminal: When it has ended or is being stopped.
            NoWorker: When nothing would take it.
            EngineUnavailable: When Temporal does not answer.
        """
        change = Change(contract.UNPAUSE_UPDATE, UnpauseRequest(), steering.check_unpause)
        return await changed(self.client, self.task_queue, run_id, change)
