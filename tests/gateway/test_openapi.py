"""The OpenAPI document: it is complete, and the gateway does what it says."""

import asyncio
import re
import sys
from pathlib import Path

import httpx2
import pytest

from perdure import Agent
from perdure.gateway import access
from perdure.gateway.access import EVERYTHING, Caller
from tests.gateway.conftest import Gateway
from tests.harness.engine import Engine

SEED = "6"
EXAMPLES = "8"
"""Of each operation and kind of data; `make test` is to stay short."""


async def test_the_document_describes_every_route_completely(refusing: httpx2.AsyncClient) -> None:
    document = (await refusing.get("/openapi.json")).json()
    assert document["security"] == [{"bearer": []}, {"basic": []}]
    ids: list[str] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            at = f"{method} {path}"
            ids.append(operation["operationId"])
            assert operation["summary"], at
            assert operation["description"], at
            if path in ("/healthz", "/readyz"):
                assert operation["security"] == [], at
                continue
            for status, response in operation["responses"].items():
                assert response["description"], at
                if status == "204":
                    continue
                kind = "application/json" if status < "3" else "application/problem+json"
                assert kind in response["content"], f"{at} {status}"
            assert {"401", "403", "422", "429", "500", "503"} <= operation["responses"].keys(), at
            assert ("requestBody" in operation) is (method in ("post", "patch")), at
    assert len(ids) == len(set(ids))
    named = set(
        re.findall(r"#/components/schemas/([^\"]+)", (await refusing.get("/openapi.json")).text)
    )
    assert named <= document["components"]["schemas"].keys()


async def test_the_gateway_does_what_its_document_says(
    engine: Engine, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By schemathesis, with requests that fit and that do not, over a real Temporal server."""
    # What other tests have left would be found in lists, and used.
    alone = Caller("tester", EVERYTHING, f"tenant-{engine.task_queue}")
    monkeypatch.setattr(access, "ANYBODY", alone)
    async with engine.serving(Agent(name="assistant")):
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"{gateway.url}/openapi.json",
            # Nobody asks for keys here; and what fits a schema may still make no sense, such as an
            # answer to what is no question.
            *("--exclude-checks", "ignored_auth,positive_data_acceptance"),
            *("--checks", "all", "--phases", "fuzzing", "--workers", "1"),
            *("--max-examples", EXAMPLES, "--seed", SEED, "--generation-deterministic"),
            *("--request-timeout", "100"),
            *("--suppress-health-check", "all", "--max-response-time", "60", "--no-color"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
