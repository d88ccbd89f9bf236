"""Alert rules and dashboard, by a real Prometheus that scrapes a real worker and gateway."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.conftest import free_port
from tests.e2e.ledger import Ledger, Worker
from tests.e2e.test_metrics import gateway
from tests.harness.alerting import ALERTS, expressions, rules
from tests.harness.engine import Engine, soon
from tests.harness.processes import kill, said
from tests.harness.scripted_openai import call, text, tool_calls

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Debian's package prometheus is not installed"
)


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    async def ask(self, path: str, **query: str) -> Any:
        """Return what it answers; none while it does not."""
        async with httpx2.AsyncClient(timeout=30) as http:
            try:
                answer = await http.get(f"{self._url}/{path}", params=query)
            except httpx2.TransportError:
                return None
        told = answer.json()
        assert told["status"] == "success", told
        return told["data"]

    async def value(self, expression: str) -> float:
        """Return what an expression of one value comes to; 0 while there is none."""
        found = await self.ask("query", query=expression)
        return float(found["result"][0]["value"][1]) if found and found["result"] else 0.0

    async def alerts(self) -> set[str] | None:
        """Return the alerts that fire, or are about to; none before all rules were evaluated."""
        found = await self.ask("rules")
        every = [rule for group in found["groups"] for rule in group["rules"]] if found else []
        if len(every) < len(rules()) or any(rule["health"] == "unknown" for rule in every):
            return None
        assert {rule["health"] for rule in every} == {"ok"}, every
        return {rule["name"] for rule in every if rule["state"] != "inactive"}


@asynccontextmanager
async def prometheus(folder: Path, targets: dict[str, int]) -> AsyncIterator[Prometheus]:
    """Run one with our rules, which do not wait."""
    folder.joinpath("alerts.yml").write_text(
        re.sub(r"^( +for:) \w+$", r"\1 0s", ALERTS.read_text(), flags=re.MULTILINE)
    )
    scraped = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for job, port in targets.items()
    ]
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": often, "rule_files": ["alerts.yml"], "scrape_configs": scraped}
    folder.joinpath("prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with folder.joinpath("log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        await process.wait()


async def test_rules_and_panels_are_evaluated_on_what_is_scraped(
    engine: Engine, worker: Worker, ledger: Ledger, tmp_path: Path
) -> None:
    ledger.open()
    targets = {"perdure-worker": free_port(), "perdure-gateway": free_port()}
    engine.model.script([tool_calls(call("look", ledger.entry("one"))), text("Done.")])
    async with (
        worker(metrics_port=str(targets["perdure-worker"])) as process,
        gateway(engine, targets["perdure-gateway"]),
        prometheus(tmp_path, targets) as seen,
    ):
        await said(process, "Worker ready")
        await engine.ended(await engine.start("clerk"))

        async def is_counted() -> bool:
            return await seen.value("sum(perdure_runs_ended_total)") == 1

        async def is_calm() -> bool:
            return await seen.alerts() == set()

        async def is_alarmed() -> bool:
            return "PerdureNoWorker" in (await seen.alerts() or ())

        await soon(is_counted, 60)
        await soon(is_calm, 60)
        for each in expressions():
            await seen.ask("query", query=each.replace("$__rate_interval", "1m"))
        await kill(process)
        await soon(is_alarmed, 60)
