"""Deciding: the part of `RunManager` with which people approve, reject and answer."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pydantic import PositiveInt
from temporalio.client import Client

from perdure.client import follow
from perdure.client.changing import Change, changed
from perdure.client.listing import RunFilter, list_runs
from perdure.client.steering import Steering
from perdure.runs import contract, gate, resolving
from perdure.runs.actions import Action, Resolution
from perdure.runs.contract import ResolveActionRequest
from perdure.runs.errors import InvalidRequest, RunNotFound
from perdure.runs.frozen import Frozen
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.run import Run


class OpenAction(Frozen):
    """Something that a Run waits for a person to decide."""

    run_id: str
    agent: str
    session_id: str | None = None
    action: Action


class ActionList(Frozen):
    """A page of what people are to decide, of the newest Runs first."""

    actions: tuple[OpenAction, ...]
    next_cursor: str | None = None
    """Ask again with this; none on the last page."""


def open_actions(run: Run) -> tuple[OpenAction, ...]:
    """Return what people are to decide for a Run now; nothing once it has ended."""
    if run.status.is_terminal:
        return ()
    whose = {"run_id": run.run_id, "agent": run.agent, "session_id": run.session_id}
    return tuple(OpenAction(**whose, action=each) for each in gate.open_actions(run))


class Deciding(Steering):
    """What Runs wait for people to decide, and the decisions."""

    async def list_actions(
        self, chosen: RunFilter | None = None, *, limit: PositiveInt = 50, cursor: str | None = None
    ) -> ActionList:
        """Return what people are to decide, in one page of the Runs that wait for it.

        Args:
            chosen: Which Runs; all by default. Those of a Session with the Runs they have called.
            limit: Runs in the page; each may ask several things.
            cursor: Where to go on.

        Raises:
            InvalidRequest: When the cursor is not one of ours.
            EngineUnavailable: When Temporal does not answer.
        """
        asked = {"waiting": True, "with_called": True}
        waiting = (chosen or RunFilter()).model_copy(update=asked)
        found = await list_runs(self.client, waiting, limit, cursor)
        asked_by = await asyncio.gather(*[self._open_actions(each.run_id) for each in found.runs])
        actions = tuple(chain.from_iterable(asked_by))
        return ActionList(actions=actions, next_cursor=found.next_cursor)

    async def _open_actions(self, run_id: str) -> tuple[OpenAction, ...]:
        try:
            return open_actions(await follow.latest(self.client, run_id))
        except RunNotFound:
            return ()  # deleted since it was listed

    async def approve(
        self,
        run_id: str,
        action: str,
        *,
        by: str,
        note: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> Run:
        """Approve what a Run asks, and return it as it stands then.

        *Idempotency*: the same decision again changes nothing; another one is refused.

        Args:
            run_id: Which Run.
            action: The id of the action, or of the tool call that it is about.
            by: Who decides; kept with the decision.
            note: Kept with the decision.
            arguments: What the tool is to be called with instead; the model is told.

        Raises:
            RunNotFound: When there is no such Run.
            ActionNotFound: When it asks nothing like that.
            ActionAlreadyResolved: When it was decided otherwise, or has expired.
            RunAlreadyTerminal: When the Run has ended or is being stopped.
            InvalidRequest: When it is no yes or no that is asked for, or the arguments are no JSON.
            NoWorker: When nothing would take the decision.
            EngineUnavailable: When Temporal does not answer.
        """
        edited = None if arguments is None else _json(arguments)
        resolution = Resolution(verdict="approved", by=by, note=note, arguments=edited)
        return await _decided(self.client, self.task_queue, run_id, action, resolution)

    async def reject(self, run_id: str, action: str, *, by: str, note: str = "") -> Run:
        """Reject what a Run asks, or decline to answer; return it as it stands then.

        The model reads the note, and goes on without.

        *Idempotency*: as `approve`.

        Raises:
            PerdureError: As `approve`.
        """
        resolution = Resolution(verdict="rejected", by=by, note=note)
        return await _decided(self.client, self.task_queue, run_id, action, resolution)

    async def answer(self, run_id: str, action: str, text: str, *, by: str) -> Run:
        """Answer what a Run asks, and return it as it stands then.

        *Idempotency*: as `approve`.

        Args:
            run_id: Which Run.
            action: The id of the action, or of the tool call that it is about.
            text: The answer; one of the choices, where there are any.
            by: Who answers; kept with the answer.

        Raises:
            PerdureError: As `approve`.
        """
        said = without_lone_surrogates(text)
        resolution = Resolution(verdict="answered", by=by, answer=said)
        return await _decided(self.client, self.task_queue, run_id, action, resolution)


async def _decided(
    client: Client, task_queue: str, run_id: str, asked: str, resolution: Resolution
) -> Run:
    clean = {"by": without_lone_surrogates(resolution.by)}
    clean["note"] = without_lone_surrogates(resolution.note)
    action = resolving.find_action(await follow.latest(client, run_id), asked)
    request = ResolveActionRequest(
        action_id=action.action_id,
        digest=action.digest,
        resolution=resolution.model_copy(update=clean),
    )

    def is_done(run: Run) -> bool:
        return resolving.check_resolution(run, request, datetime.now(UTC))

    change = Change(
        contract.RESOLVE_ACTION_UPDATE, request, is_done, "Decide again: it counts once."
    )
    return await changed(client, task_queue, run_id, change)


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidRequest(
            f"The arguments are not JSON: {exc}.", hint="Use texts, numbers, lists and objects."
        ) from exc
    return without_lone_surrogates(text)
