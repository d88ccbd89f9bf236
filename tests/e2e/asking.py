"""A client process that starts a Run in a Session: `python -m tests.e2e.asking SESSION KEY`.

It prints what it was answered, as JSON.
"""

import asyncio
import sys

from perdure.client.manager import RunManager
from perdure.runs.errors import NoWorker


async def main(session_id: str, key: str) -> None:
    """Start one Run."""
    session = (await RunManager.connect()).session(session_id)
    while True:
        try:
            started = await session.start_run("clerk", "Send.", idempotency_key=key)
        except NoWorker:
            continue  # as its hint says: ask again, with the same key
        sys.stdout.write(started.model_dump_json() + "\n")
        return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
