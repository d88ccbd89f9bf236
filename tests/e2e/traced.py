"""What tests of Traces share: worker processes that record them, and what holds of every Trace."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.harness.engine import Engine
from tests.harness.otlp import Span
from tests.harness.processes import Process, perdure, said

AGENTS = str(Path(__file__).with_name("traced_agents.py"))
CANARY = "canary-0123456789"
SECRET = "noted-0123456789"  # noqa: S105 - made up


def worker(engine: Engine, **env: str) -> AbstractAsyncContextManager[Process]:
    """Return a worker process of the agents here."""
    own = {
        "PERDURE_TASK_QUEUE": engine.task_queue,
        "OPENAI_BASE_URL": engine.model.base_url,
        "OPENAI_API_KEY": CANARY,
        "PERDURE_SECRET_NOTE": SECRET,
    }
    return perdure("worker", "--agents", AGENTS, env=own | env)


@asynccontextmanager
async def serving(engine: Engine, **env: str) -> AsyncIterator[Process]:
    """Run a worker process, and yield it when it polls."""
    async with worker(engine, **env) as process:
        heard = await said(process, "Worker ready")
        assert "Warning" not in heard
        yield process


def only(found: Iterable[Span], name: str) -> Span:
    (span,) = [each for each in found if each.name == name]
    return span


def assert_one_tree(found: list[Span], root_of: str = "") -> None:
    """No id twice, and every span below another one, but for the first."""
    ids = [span.span_id for span in found]
    assert len(ids) == len(set(ids)), sorted(span.name for span in found)
    assert {span.parent_id for span in found} - set(ids) == {root_of}
