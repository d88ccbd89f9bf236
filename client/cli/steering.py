"""What the commands do that steer a Run: `send`, `pause`, `unpause`."""

import sys

from perdure.client.cli.files import read_files
from perdure.client.cli.session import out, print_json
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs.run import Run


async def send(
    settings: Settings, run_id: str, text: str, files: list[str] | None, *, as_json: bool
) -> int:
    """Say something to a Run."""
    manager = await RunManager.connect(settings)
    said = sys.stdin.read() if text == "-" else text
    run = await manager.send_message(run_id, said, files=read_files(files))
    return _told(run, f"Run {run_id} was told.", as_json=as_json)


async def pause(settings: Settings, run_id: str, reason: str, *, as_json: bool) -> int:
    """Pause a Run; say whether something is still in flight."""
    run = await (await RunManager.connect(settings)).pause(run_id, reason)
    when = "is paused" if run.current_step is None else "pauses when what is in flight has ended"
    return _told(run, f"Run {run_id} {when}.", as_json=as_json)


async def unpause(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Let a Run go on."""
    run = await (await RunManager.connect(settings)).unpause(run_id)
    return _told(run, f"Run {run_id} is not paused any more.", as_json=as_json)


def _told(run: Run, line: str, *, as_json: bool) -> int:
    if as_json:
        print_json(run)
    else:
        out.print(line, soft_wrap=True)
    return 0
