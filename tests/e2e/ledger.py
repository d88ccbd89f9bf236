"""What tests with worker processes share: starting them, and reading what their tools wrote."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.harness.engine import Engine, soon
from tests.harness.processes import Process, perdure

AGENTS = str(Path(__file__).with_name("ledger_agents.py"))

Worker = Callable[..., AbstractAsyncContextManager[Process]]


def workers(engine: Engine, *arguments: str) -> Worker:
    """Return what starts a worker process for a test's task queue; settings come as keywords."""

    def start(**settings: str) -> AbstractAsyncContextManager[Process]:
        env = {"PERDURE_TASK_QUEUE": engine.task_queue}
        # Workers that call no models have to do without.
        if settings.get("worker_role") != "workflows" and "tool_queue" not in settings:
            env |= {"OPENAI_BASE_URL": engine.model.base_url, "OPENAI_API_KEY": "test-key-1234"}
        named = {f"PERDURE_{name.upper()}": value for name, value in settings.items()}
        return perdure("worker", "--agents", AGENTS, *arguments, env=env | named)

    return start


class Ledger:
    """A file that tools write to, and wait beside until they may end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"

    def entry(self, name: str) -> dict[str, str]:
        """Return a tool's arguments."""
        return {"ledger": str(self.path), "entry": name}

    def open(self) -> None:
        """Let all tools end."""
        self.path.with_suffix(".open").touch()

    @property
    def lines(self) -> list[str]:
        """What was written."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    async def written(self, count: int = 1) -> None:
        """Wait until so many lines are written."""

        async def enough() -> bool:
            return len(self.lines) >= count

        await soon(enough, 60)
