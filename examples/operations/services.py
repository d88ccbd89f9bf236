"""Services that do not exist: their state is a JSON file, which takes the place of a cluster."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_data_path
from pydantic import BaseModel

FOLDER = Path(os.environ.get("OPERATIONS_FOLDER") or user_data_path("perdure") / "examples")
"""Where `services.json` is kept; remove the file to begin anew."""


class Service(BaseModel):
    """One service."""

    status: str
    replicas: int
    log: list[str]

    def restart(self) -> None:
        """Start it again, which always helps."""
        self.status = "running"
        self.log.append("INFO restarted")

    def scale(self, replicas: int) -> None:
        """Run more of it, or fewer."""
        self.log.append(f"INFO scaled from {self.replicas} to {replicas} replicas")
        self.replicas = replicas


class State(BaseModel):
    """All services, and the keys of the calls that need not be executed again."""

    services: dict[str, Service]
    done: list[str] = []

    def named(self, name: str) -> Service:
        """Return a service.

        Raises:
            ValueError: There is none of that name; says which there are.
        """
        if name not in self.services:
            raise ValueError(f"There is no service {name!r}; there are {', '.join(self.services)}.")
        return self.services[name]


def _first() -> State:
    return State(
        services={
            "storefront": Service(
                status="running",
                replicas=2,
                log=["INFO 41 requests/s", "WARN 212 requests/s", "WARN queue is 3 s long"],
            ),
            "payments": Service(
                status="failing",
                replicas=1,
                log=["INFO ready", "ERROR 50 of 50 connections in use", "ERROR no connection left"],
            ),
            "mail": Service(status="running", replicas=1, log=["INFO ready", "INFO 12 mails sent"]),
        }
    )


def read() -> State:
    """Return the state as it stands."""
    try:
        return State.model_validate_json((FOLDER / "services.json").read_bytes())
    except FileNotFoundError:
        return _first()


@contextmanager
def changed() -> Iterator[State]:
    """Give the state to change; it is written at the end of the block, if that does not fail.

    Calls of one turn, and other workers on this machine, wait for each other.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "services.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = read()
        yield state
        new = FOLDER / "services.json.new"
        new.write_text(state.model_dump_json(indent=1))
        new.replace(FOLDER / "services.json")
