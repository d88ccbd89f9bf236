"""What the compose file starts, started as plain processes: the same commands, variables, files.

Only hosts, ports and folders of containers are those of this machine, and Temporal keeps its data
in memory: no server that keeps it in PostgreSQL is to be had as a package.
"""

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from perdure.engine.attributes import ATTRIBUTES, register_search_attributes
from perdure.engine.dev_server import RETENTION, binary
from tests.conftest import free_port
from tests.deploy.composed import DEPLOY, SERVICES, Machine, env_file, read
from tests.harness.processes import Process, ended, perdure, said
from tests.harness.scripted_openai import Gate, ScriptedOpenAI, text

CONTAINER_FILES = "/var/lib/perdure"


@dataclass
class Deployment:
    """Where what the compose file names is on this machine."""

    temporal: str
    http_port: int
    deploy: Path
    files: Path

    def machine(self) -> Machine:
        """Return a machine with ports of its own, as every container has them."""
        away = free_port()
        return Machine(
            {
                "temporal:7233": self.temporal,
                "127.0.0.1:7243": f"127.0.0.1:{self.http_port}",
                # Nobody is there: Runs do not mind.
                "otel-collector:4317": f"127.0.0.1:{away}",
                CONTAINER_FILES: str(self.files),
                "/deploy/": f"{DEPLOY}/temporal/",
                **{port: str(free_port()) for port in ("8080", "8081", "9464")},
            }
        )

    @asynccontextmanager
    async def running(self, service: str) -> AsyncIterator[tuple[Process, dict[str, str], Machine]]:
        """Run a service of ours."""
        machine = self.machine()
        env = machine.environment(service, self.deploy)
        async with perdure(*SERVICES[service]["command"], env=env) as process:
            yield process, env, machine


async def output(command: list[str], env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command to its end; return its exit code, and what it said."""
    path = f"{Path(binary()).parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}"
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | {"PATH": path + os.environ["PATH"]} | (env or {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def is_well(service: str, machine: Machine) -> None:
    """Run the health check of a service until it says so, as often as compose would."""
    check = SERVICES[service]["healthcheck"]
    kind, *command = check["test"]
    assert kind == "CMD"
    for _ in range(check["retries"]):
        code, answer = await output(machine.texts(command))
        if code == 0:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(answer)


@pytest.fixture(scope="module")
async def deployment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Temporal, with our dynamic configuration, set up by what compose runs once."""
    folder = tmp_path_factory.mktemp("deployment")
    deploy = folder / "deploy"
    deploy.mkdir()
    for file in [*DEPLOY.glob("*.env.example"), DEPLOY / "secrets.sh"]:
        shutil.copy(file, deploy)
    subprocess.run(["sh", str(deploy / "secrets.sh")], check=True, capture_output=True)  # noqa: ASYNC221, S603, S607
    port = free_port()
    options = ["--ip", "127.0.0.1", "--port", str(port), "--http-port", str(port + 1000)]
    for key, (only,) in read("deploy/temporal/dynamic-config.yaml").items():
        options += ["--dynamic-config-value", f"{key}={only['value']}"]
    server = await asyncio.create_subprocess_exec(
        binary(), "server", "start-dev", "--headless", "--log-level", "never", *options
    )
    files = folder / "files"
    (files / "keys").mkdir(parents=True)
    made = Deployment(f"127.0.0.1:{port}", port + 1000, deploy, files)
    try:
        await is_well("temporal", made.machine())
        yield made
    finally:
        server.terminate()
        await server.wait()


async def set_up(deployment: Deployment, namespace: str | None = None) -> Client:
    """Run the service that sets up the namespace; return a client of that."""
    machine = deployment.machine()
    env = machine.environment("temporal-namespace", deployment.deploy)
    env["TEMPORAL_NAMESPACE"] = namespace or env["TEMPORAL_NAMESPACE"]
    code, answer = await output(machine.texts(SERVICES["temporal-namespace"]["command"]), env)
    assert code == 0, answer
    return await Client.connect(deployment.temporal, namespace=env["TEMPORAL_NAMESPACE"])


@pytest.mark.parametrize("namespace", [None, "another"], ids=["there already", "not yet there"])
async def test_a_namespace_is_set_up_and_may_be_set_up_again(
    deployment: Deployment, namespace: str | None
) -> None:
    await set_up(deployment, namespace)
    client = await set_up(deployment, namespace)
    described = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace)
    )
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
    assert kept == RETENTION
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    kinds = {name: IndexedValueType.Name(kind) for name, kind in ATTRIBUTES.items()}
    found = {n: IndexedValueType.Name(kind) for n, kind in listed.custom_attributes.items()}
    assert kinds == {name: found.get(name) for name in kinds}
    assert await register_search_attributes(client) == []


def test_every_deployment_has_passwords_of_its_own_for_its_owner_only(
    deployment: Deployment,
) -> None:
    made = {path.name: path for path in deployment.deploy.glob("*.env")}
    assert len(made) == 4
    assert {path.stat().st_mode & 0o777 for path in made.values()} == {0o600}
    postgres = env_file(made["postgres.env"])
    values = {postgres[name] for name in ("POSTGRES_PASSWORD", "POSTGRES_PWD", "SQL_PASSWORD")}
    values.add(env_file(made["grafana.env"])["GF_SECURITY_ADMIN_PASSWORD"])
    assert len(values) == 2
    assert all(len(value) == 48 for value in values)
    before = made["postgres.env"].read_text()
    script = str(deployment.deploy / "secrets.sh")
    subprocess.run(["sh", script], check=True, capture_output=True)  # noqa: S603, S607
    assert made["postgres.env"].read_text() == before


async def test_runs_go_through_a_gateway_and_two_workers_of_which_one_is_stopped(
    deployment: Deployment, model: ScriptedOpenAI
) -> None:
    await set_up(deployment)
    with (deployment.deploy / "worker.env").open("a") as file:
        file.write(f"OPENAI_BASE_URL={model.base_url}\nOPENAI_API_KEY={secrets.token_hex()}\n")
    gate = Gate(timeout_s=60)
    model.script([text("All is well.").hold(gate, before_chunk=1)])
    async with (
        deployment.running("worker") as (first, _, here),
        deployment.running("worker") as (second, _, there),
        deployment.running("gateway") as (gateway, env, front),
    ):
        url = f"http://127.0.0.1:{env['PERDURE_HTTP_PORT']}"
        # A process each to look: not before there is something to see.
        await asyncio.gather(said(first, "Worker ready"), said(second, "Worker ready"))
        await asyncio.gather(
            is_well("worker", here), is_well("worker", there), is_well("gateway", front)
        )
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            asked = {"agent": "assistant", "input": "Is all well?"}
            # Nobody gets in before there is a key, nor without it after.
            assert (await http.post("/v1/runs", json=asked)).status_code == 503
            key = await api_key(env)
            assert (await http.post("/v1/runs", json=asked)).status_code == 401
            http.headers["Authorization"] = f"Bearer {key}"
            started = await http.post("/v1/runs", json=asked)
            assert started.status_code == 202, started.text
            run_id = started.json()["run_id"]
            await gate.reached
            first.send_signal(signal.SIGTERM)
            await said(first, "Stopping")
            gate.open()
            assert await ended(first, 30) == 0
            run = await http.get(f"/v1/runs/{run_id}/wait", params={"timeout_s": 50})
        assert (run.json()["status"], run.json()["output"]) == ("completed", "All is well.")
        assert len(model.requests) == 1, "whoever had the Step ended it"
        for process in (second, gateway):
            process.send_signal(signal.SIGTERM)
            assert await ended(process, 30) == 0


async def api_key(env: dict[str, str]) -> str:
    """Make an API key as `docker compose run gateway keys create` does."""
    async with perdure("keys", "create", "ci", "--scope", "admin", "--json", env=env) as process:
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return str(json.loads(out)["key"])
