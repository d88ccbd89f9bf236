"""The health endpoint answers whatever the event loop does."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx2
import pytest

from perdure.engine import health
from perdure.engine.health import health_endpoint
from perdure.runs.errors import ConfigurationError


@dataclass
class Stuck:
    """A loop in a thread of its own, that serves health and can be blocked."""

    problem: str | None = None
    address: str = ""
    blocked: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    wishes: "queue.Queue[str]" = field(default_factory=queue.Queue)

    async def serve(self, started: threading.Event) -> None:
        with health_endpoint("127.0.0.1", 0, lambda: self.problem) as self.address:
            started.set()
            while await asyncio.to_thread(self.wishes.get) == "block":
                self.blocked.set()
                self.release.wait(30)

    def get(self, path: str) -> tuple[int, dict[str, str]]:
        answer = httpx2.get(self.address + path, timeout=20)
        assert answer.headers["content-type"] == "application/json"
        return answer.status_code, answer.json()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    found, started = Stuck(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(found.serve(started)))
    thread.start()
    assert started.wait(20)
    yield found
    found.release.set()
    found.wishes.put("end")
    thread.join(20)
    assert not thread.is_alive()


OK = (200, {"status": "ok"})


def test_a_working_worker_is_alive_and_ready(stuck: Stuck) -> None:
    assert stuck.get("/healthz") == OK
    assert stuck.get("/readyz?verbose") == OK
    assert stuck.get("/")[0] == 404


def test_a_worker_with_a_problem_is_alive_and_says_why_it_is_not_ready(stuck: Stuck) -> None:
    stuck.problem = "Nothing goes."
    assert stuck.get("/healthz") == OK
    assert stuck.get("/readyz") == (503, {"status": "failing", "reason": "Nothing goes."})


def test_a_worker_whose_event_loop_is_blocked_is_neither(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "TURN_WITHIN_S", 0.1)
    stuck.wishes.put("block")
    assert stuck.blocked.wait(20)
    for path in ("/healthz", "/readyz"):
        status, body = stuck.get(path)
        assert status == 503
        assert "something blocks it" in body["reason"]


async def test_a_taken_port_is_named() -> None:
    with (
        health_endpoint("127.0.0.1", 0, lambda: None) as address,
        pytest.raises(ConfigurationError, match=f"served at {address.removeprefix('http://')}"),
        health_endpoint("127.0.0.1", int(address.rpartition(":")[2]), lambda: None),
    ):
        pass
