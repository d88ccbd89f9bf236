"""Waiting until a Run has ended or needs a person, but no longer than somebody wants to."""

import asyncio

from temporalio.client import Client

from perdure.client import follow, history
from perdure.runs.events import ActionRequired, EndBase, RunPaused
from perdure.runs.run import Run

PEOPLES = ("approval", "input", "limit", "pause")
"""What only people can bring to an end."""


def is_settled(run: Run) -> bool:
    """Tell whether a Run has ended, or waits for something that only a person can do."""
    needs_person = run.waiting_on is not None and run.waiting_on.type in PEOPLES
    return run.is_terminal or needs_person


async def settled(client: Client, run_id: str, within_s: float) -> Run:
    """Return a Run once it is settled; as it stands, when it is not in time.

    It costs Temporal one long poll of the Run's history, however long it takes.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server stays away for a minute.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + within_s
    run = await follow.latest(client, run_id)
    while not is_settled(run) and (left := until - clock()) > 0:
        # In a task of its own: a time limit would become an error of the SDK.
        moved = asyncio.create_task(_moved(client, run))
        try:
            await asyncio.wait({moved}, timeout=left)
        finally:
            moved.cancel()
        if moved.done():
            moved.result()
        run = await follow.latest(client, run_id)
    return run


async def _moved(client: Client, run: Run) -> None:
    """Wait until a Run may have become settled since."""
    async for event in history.follow(client, run.run_id, run.last_event):
        if isinstance(event, (EndBase, ActionRequired, RunPaused)):
            return
