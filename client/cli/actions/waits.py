"""Noticing what a Run, and the Runs below it, ask people, while one follows it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from perdure.client.deciding import OpenAction, open_actions
from perdure.client.manager import RunManager
from perdure.runs.errors import PerdureError, RunNotFound
from perdure.runs.events import ActionRequired, StepStarted

BEGINS_WITHIN = 20
"""Looks for a Run that another one is just starting."""
LOOK_EVERY_S = 0.25

Tell = Callable[[OpenAction], None]


@asynccontextmanager
async def noticing(manager: RunManager, run_id: str, tell: Tell) -> AsyncIterator[None]:
    """Tell, while the block runs, what is asked; not what has been decided by then.

    A nicety for whoever follows the Run: it ends quietly when Temporal stays away.
    """
    task = asyncio.create_task(_notice(manager, run_id, tell))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _notice(manager: RunManager, run_id: str, tell: Tell) -> None:
    async with asyncio.TaskGroup() as below:
        with contextlib.suppress(PerdureError):
            async for event in manager.events(run_id):
                if isinstance(event, ActionRequired):
                    new = {action.action_id for action in event.actions}
                    for asked in open_actions(await manager.get_run(run_id)):
                        if asked.action.action_id in new:
                            tell(asked)
                elif isinstance(event, StepStarted) and event.child_run_id is not None:
                    below.create_task(_notice_below(manager, event.child_run_id, tell))


async def _notice_below(manager: RunManager, run_id: str, tell: Tell) -> None:
    for _ in range(BEGINS_WITHIN):
        try:
            if (await manager.get_run(run_id)).status.is_terminal:
                return  # long ago, where one joins late
            break
        except RunNotFound:
            await asyncio.sleep(LOOK_EVERY_S)
        except PerdureError:
            return
    await _notice(manager, run_id, tell)
