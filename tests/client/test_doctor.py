"""`perdure doctor` against set-ups that are broken, and one that is not. All of them are real."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from perdure import Agent
from perdure.client.doctor.diagnosis import diagnose
from perdure.client.doctor.finding import Finding
from perdure.client.doctor.surroundings import FULL_BYTES, NEARLY_FULL_BYTES, space
from perdure.client.doctor.workers import clock
from perdure.engine.api_keys import KeyFile
from perdure.engine.dev_server import DevServer
from perdure.runs import contract
from tests.conftest import free_port
from tests.harness.canaries import CANARY, assert_absent
from tests.harness.engine import Engine, soon
from tests.harness.gate import Authority, gate
from tests.harness.processes import output

KEY = "key-of-the-provider-2718"


async def found(*queues: str) -> dict[str, list[Finding]]:
    """Return what a doctor finds, by check."""
    told: dict[str, list[Finding]] = {}
    async for _, findings in diagnose(queues):
        for each in findings:
            told.setdefault(each.check, []).append(each)
    return told


def verdicts(told: dict[str, list[Finding]], *checks: str) -> list[str]:
    return [each.verdict for check in checks for each in told[check]]


def as_text(told: dict[str, list[Finding]]) -> str:
    return "\n".join(each.model_dump_json() for findings in told.values() for each in findings)


class Provider(BaseHTTPRequestHandler):
    """A provider that lists its models to whoever has the key."""

    listing = 200

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == f"Bearer {KEY}"
        status = self.listing if known else 401
        if self.path == "/elsewhere":
            status = 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://localhost:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def provider(listing: int = 200) -> Iterator[str]:
    handler = type("Handler", (Provider,), {"listing": listing})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERDURE_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
async def fresh_namespace(client: Client) -> str:
    """A namespace that nobody has set up, with the shortest retention."""
    name = f"fresh-{secrets.token_hex(4)}"
    request = RegisterNamespaceRequest(
        namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
    )
    await client.workflow_service.register_namespace(request)
    await soon(partial(_is_known, client, name))
    return name


async def _is_known(client: Client, name: str) -> bool:
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError:
        return False
    return True


async def test_a_whole_set_up_is_well(
    temporal: DevServer, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeyFile(folder / "keys.json")
    keys.create("ci", ["read"])
    monkeypatch.setenv("PERDURE_API_KEYS", str(keys.path))
    monkeypatch.setenv("PERDURE_DATA_DIR", str(temporal.database.parent))
    monkeypatch.setenv("PERDURE_TASK_QUEUE", engine.task_queue)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with engine.serving(Agent(name="speaker", instructions="Speak.")):
        with provider() as url:
            # Anything that listens will do for Traces.
            env = {"OPENAI_BASE_URL": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
            code, text, error = await output("doctor", "--json", env=env)
    told = json.loads(text)
    assert (code, told["ok"], error) == (0, True, ""), text
    said = {each["check"]: each for each in told["checks"]}
    assert {each["verdict"] for each in told["checks"]} == {"ok"}, text
    assert "A worker serves speaker." in said["agents"]["message"]
    assert "takes the key" in said["provider"]["message"]
    assert_absent(text, KEY)


async def test_without_a_server_it_says_so_and_looks_at_the_rest() -> None:
    code, text, _ = await output(
        "doctor", env={"TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}", "PERDURE_TSK": "1"}
    )
    assert code == 1
    assert "No Temporal server answers" in text
    assert "→ Start one with `perdure dev`" in text
    assert "PERDURE_TSK (environment) is no setting" in text
    for rest in ("disk", "provider", "redis"):
        assert rest in text


async def test_without_a_namespace_it_says_how_to_make_one(
    temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")
    told = await found()
    assert verdicts(told, "server", "namespace", "workers") == ["ok", "fail", "unknown"]
    assert "temporal operator namespace create -n nowhere" in told["namespace"][0].hint


async def test_a_namespace_that_nobody_has_set_up_is_told_apart(
    client: Client, fresh_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search attributes that are missing, or of another type; retention; no worker."""
    monkeypatch.setenv("TEMPORAL_NAMESPACE", fresh_namespace)
    told = await found("gpu")
    checks = ("namespace", "retention", "search attributes", "workers", "agents", "tool queue")
    assert verdicts(told, *checks) == ["ok", "warn", "fail", "fail", "unknown", "fail"]
    assert verdicts(told, "clock") == ["ok"]
    assert "1 day after" in told["retention"][0].message
    assert "PerdureStatus --type Keyword" in told["search attributes"][0].hint
    assert "'gpu'" in told["tool queue"][0].message

    wrong = {contract.STATUS_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_INT}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=fresh_namespace, search_attributes=wrong)
    )

    async def is_told() -> bool:
        found_now = (await found())["search attributes"][0]
        return "PerdureStatus Keyword, they should be" in found_now.message

    await soon(is_told)


@pytest.mark.parametrize(
    ("listing", "key", "verdict", "told"),
    [
        pytest.param(200, "wrong-key-31415", "fail", "refuses the key", id="refused"),
        pytest.param(404, KEY, "warn", "answers with 404", id="no-list"),
        pytest.param(302, KEY, "warn", "answers with 302", id="elsewhere"),
        pytest.param(503, KEY, "fail", "answers with 503", id="down"),
    ],
)
async def test_a_provider_that_does_not_take_the_key(
    listing: int, key: str, verdict: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{free_port()}")
    with provider(listing) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        looked = (await found())["provider"][0]
    assert looked.verdict == verdict
    assert told in looked.message
    assert_absent(looked.model_dump_json(), key)


async def test_what_is_around_and_broken_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", closed)
    monkeypatch.setenv("PERDURE_STORAGE_DIR", "/proc/nobody")
    monkeypatch.setenv("PERDURE_API_KEYS", str(folder / "none.json"))
    monkeypatch.setenv("PERDURE_REDIS_URL", f"redis://:{KEY}@{closed}/0")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://u:{KEY}@{closed}/v1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://u:{KEY}@{closed}")
    told = await found()
    data, storage = told["disk"]
    assert data.verdict == "ok"
    assert "Nothing can be written in /proc/nobody" in storage.message
    checks = ("provider", "gateway keys", "redis", "server", "traces")
    assert verdicts(told, *checks) == ["fail", "fail", "fail", "fail", "warn"]
    assert closed in told["traces"][0].message
    assert_absent(as_text(told), KEY)


async def test_a_server_that_refuses_the_key_may_quote_it(
    temporal: DevServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Authority(folder / "ca")
    async with gate(str(temporal.address), ours.certificate("t"), api_key=KEY) as opened:
        monkeypatch.setenv("TEMPORAL_ADDRESS", opened.address)
        monkeypatch.setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", str(ours.ca))
        monkeypatch.setenv("TEMPORAL_API_KEY", "hunter2x")
        told = await found()
    assert verdicts(told, "server", "namespace") == ["fail", "unknown"]
    assert "missing, wrong or expired" in told["server"][0].message
    assert_absent(as_text(told), "hunter2x")


async def test_settings_that_are_unusable_are_all_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERDURE_HTTP_PORT", CANARY)
    told = await found()
    assert told.keys() == {"configuration"}
    assert verdicts(told, "configuration") == ["fail"]
    assert told["configuration"][0].message.startswith("PERDURE_HTTP_PORT: ")
    assert_absent(as_text(told), CANARY)


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, "fail"), (FULL_BYTES, "warn"), (NEARLY_FULL_BYTES, "ok")],
    ids=["full", "nearly", "space"],
)
def test_space_runs_out_in_two_steps(free: int, verdict: str) -> None:
    told = space("PERDURE_DATA_DIR", Path("/data"), free)
    assert told.verdict == verdict
    assert ("PERDURE_DATA_DIR" in told.hint) is (verdict != "ok")


@pytest.mark.parametrize(
    ("at_s", "verdict", "told"),
    [
        pytest.param(0.1, "ok", "agree", id="between"),
        pytest.param(-1.5, "ok", "agree", id="a-little"),
        pytest.param(-5, "warn", "5 s ahead of", id="ahead"),
        pytest.param(125.2, "fail", "125 s behind", id="behind"),
    ],
)
def test_clocks_are_compared(at_s: float, verdict: str, told: str) -> None:
    """The server's time was told between 0 and 0.2 s of ours."""
    before = datetime(2026, 1, 1, tzinfo=UTC)
    after = before + timedelta(seconds=0.2)
    looked = clock(before, before + timedelta(seconds=at_s), after)
    assert looked.verdict == verdict
    assert told in looked.message
