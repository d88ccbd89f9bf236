"""`python -m tests.chaos.effects`: kill workers at named points of tool calls, and judge."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DevServer
from tests.chaos.effects.points import EFFECTS, Doomed, Point, waves
from tests.chaos.effects.rules import KILLED, kills, short, violations
from tests.chaos.effects.stage import Seen, struck
from tests.conftest import free_port


async def _interruptible(work: Coroutine[Any, Any, Seen]) -> Seen:
    # Being asked to stop must not leave a server and workers behind; Ctrl-C does not.
    striking = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, striking.cancel)
    return await striking


async def _executed(plan: Sequence[Sequence[Doomed]], folder: Path, lanes: int) -> Seen:
    for name in list(os.environ):
        # Nobody's keys and profiles decide what happens.
        if name.startswith(("TEMPORAL_", "PERDURE_", "OPENAI_")):
            del os.environ[name]
    server = DevServer(Address("127.0.0.1", free_port()), folder)
    os.environ["TEMPORAL_CONFIG_FILE"] = os.devnull
    os.environ["TEMPORAL_ADDRESS"] = str(server.address)
    await server.start()
    try:
        client = await connect()
        await register_search_attributes(client)
        return await struck(client, plan, folder, lanes)
    finally:
        await server.stop()


def _told(counted: Counter[tuple[str, str]], seen: Seen, took_s: float) -> str:
    lines = [f"{'calls killed at':16}" + "".join(f"{effect:>8}" for effect in EFFECTS)]
    for point in Point:
        numbers = "".join(f"{counted[effect, point.value]:8}" for effect in EFFECTS)
        lines.append(f"{point.value:16}{numbers}")
    sums = [sum(counted[effect, point.value] for point in Point) for effect in EFFECTS]
    lines.append(f"{'in all':16}" + "".join(f"{each:8}" for each in sums))
    died = sum(life.code == KILLED for life in seen.lives)
    effects = sum(row.kind == "effect" for row in seen.rows)
    errors = [c.error for run in seen.runs.values() for c in run.tool_calls if c.error]
    lines.append(
        f"{died} workers died, {len(seen.runs)} Runs, {effects} effects, "
        f"{len(errors)} calls of unknown outcome, {took_s:.0f} s"
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Execute, print, and leave with 1 when a promise was broken or a kill is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.effects", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="calls that die, of each effect")
    parser.add_argument("--together", type=int, default=3, help="calls that die with one worker")
    parser.add_argument("--lanes", type=int, default=3, help="workers at a time")
    options = parser.parse_args()
    plan = waves(options.kills, options.together)
    folder = Path(tempfile.mkdtemp(prefix="effects-"))
    began = time.monotonic()
    seen = asyncio.run(_interruptible(_executed(plan, folder, options.lanes)))
    counted, broken = kills(plan, seen), violations(plan, seen)
    sys.stdout.write(_told(counted, seen, time.monotonic() - began))
    broken += [f"kills that did not happen: {missing}" for missing in short(plan, counted).items()]
    sys.stdout.writelines(f"broken: {each}\n" for each in broken)
    if broken:
        sys.stdout.write(f"Book, logs and database are kept in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
