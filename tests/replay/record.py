"""Store the histories of one Run, and one Session, of each kind: `python -m tests.replay.record`.

Into `tests/histories/<version>/`. What is stored stays: only missing ones are added.
"""

import asyncio
import os
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DYNAMIC_CONFIG, DevServer
from perdure.sessions.contract import workflow_id
from tests.conftest import free_port
from tests.harness.engine import Engine
from tests.harness.scripted_openai import ScriptedOpenAI
from tests.replay.replay import HISTORIES
from tests.replay.runs import AGENTS, KINDS
from tests.replay.sessions import SESSIONS

SHORT_HISTORIES = DYNAMIC_CONFIG | {"limit.historyCount.suggestContinueAsNew": 200}
"""Continue-as-new after some 15 turns, so that a small history shows it."""


def anonymous(history: str) -> str:
    """Return a history without what only tells of the machine that recorded it."""
    for name, value in (("identity", "recorder"), ("stackTrace", "")):
        history = re.sub(rf'"{name}": "(?:[^"\\]|\\.)*"', f'"{name}": "{value}"', history)
    return history + "\n"


async def played(engine: Engine, name: str, begun: str) -> str:
    """Wait until a Run has ended, or a Session is at rest; return the workflow id."""
    if name in KINDS:
        return (await engine.ended(begun)).run_id
    await engine.rest(begun)
    return workflow_id(begun)


async def record() -> None:
    folder = HISTORIES / version("perdure")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        server = DevServer(Address("127.0.0.1", free_port()), Path(data), SHORT_HISTORIES)
        os.environ["TEMPORAL_ADDRESS"] = str(server.address)
        await server.start()
        client = await connect()
        await register_search_attributes(client)
        for name, kind in (KINDS | SESSIONS).items():
            if any(folder.glob(f"{name}.*.json")):
                continue
            async with ScriptedOpenAI() as model:
                engine = Engine(client, model, f"record-{name}")
                async with engine.serving(*AGENTS):
                    recorded = await played(engine, name, await kind(engine))
                for part, text in enumerate(await engine.histories(recorded), start=1):
                    (folder / f"{name}.{part}.json").write_text(anonymous(text))
            sys.stderr.write(f"{name}\n")
        await server.stop()


if __name__ == "__main__":
    asyncio.run(record())
