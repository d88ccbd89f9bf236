"""Launching: the part of `RunManager` that starts Runs."""

from collections.abc import Mapping, Sequence

from temporalio.client import Client

from perdure.client.launch import asked_for, start
from perdure.client.outputs import OutputSchema
from perdure.runs.given_file import File
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.start import ContextBundle
from perdure.sessions.admission import OnBusy


class Launching:
    """How Runs are started."""

    client: Client
    task_queue: str

    async def start_run(  # noqa: PLR0913 - keyword-only: the call is the request
        self,
        agent: str,
        input: str,
        *,
        files: Sequence[File] = (),
        run_id: str | None = None,
        session_id: str | None = None,
        context: ContextBundle | None = None,
        model: str | None = None,
        limits: Limits | None = None,
        on_limit: OnLimit | None = None,
        on_unknown: OnUnknown | None = None,
        timeouts: Timeouts | None = None,
        metadata: Mapping[str, str] | None = None,
        output_schema: OutputSchema | None = None,
        on_busy: OnBusy = "reject",
        idempotency_key: str | None = None,
    ) -> str:
        """Start a Run and return its id, at once.

        *Idempotency*: with a `run_id` of yours, a second start is refused; with an
        `idempotency_key`, it returns the id of the first.

        Args:
            agent: Name of an agent that the workers have.
            input: What the user says.
            files: What that comes with: images, text, PDF, WAV or MP3 files.
            run_id: Chosen by us when not given.
            session_id: The conversation that it belongs to; `session` has more to it.
            context: Earlier messages and variables; in a Session, variables only.
            model: Instead of the agent's.
            limits: Over the agent's own.
            on_limit: What happens when one is reached: `stop`, the default; `finalize`; `pause`.
            on_unknown: When nobody knows what a tool did: `tell` the model, or `ask` a person.
            timeouts: Over the agent's own.
            metadata: Kept with the Run, for you.
            output_schema: What the output has to be: a JSON schema, or a pydantic model.
            on_busy: What happens when another Run of its Session is going on.
            idempotency_key: The same key and request give the same Run, for a day at least.

        Raises:
            SessionBusy: When another Run of its Session is going on, and this one may not wait.
            SessionLimitReached: When its Session has used what it may use.
            QueueFull: When too many Runs wait in its Session.
            IdempotencyConflict: When the key was used with another request.
            InvalidRequest: When the input is empty, or something too large or unusable.
            StorageUnavailable: When large input can't be put where workers find it.
            NoWorker: When nothing would pick the Run up.
            RunAlreadyExists, EngineUnavailable: As their names say.
        """
        asked = asked_for(
            agent,
            input,
            session_id,
            files=files,
            run_id=run_id,
            context=context,
            model=model,
            limits=limits,
            on_limit=on_limit,
            on_unknown=on_unknown,
            timeouts=timeouts,
            metadata=metadata,
            output_schema=output_schema,
            on_busy=on_busy,
            idempotency_key=idempotency_key,
        )
        return (await start(self.client, self.task_queue, asked)).run_id
