"""What the gateway serves for the live page: its files, and what it has to know."""

import re

import httpx2

from perdure.engine.settings import Settings
from perdure.gateway.routes.page import FOLDER
from tests.gateway.conftest import gateway_of, http_client
from tests.harness.engine import Engine

TRACES = "https://traces.example.com/?run={run_id}"


async def test_the_page_may_load_nothing_of_others_and_is_sent_once(
    http: httpx2.AsyncClient,
) -> None:
    page = await http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    again = await http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in set(re.findall(r'"(/page/[^"]+)"', page.text)):
        assert (await http.get(path)).status_code == 200
    for name in ("nothing.js", "..%2F__init__.py", "%2e%2e/app.py", "index.html.bak"):
        assert (await http.get(f"/page/{name}")).status_code == 404


def test_the_page_asks_nobody_else() -> None:
    for file in FOLDER.iterdir():
        addresses = re.findall(r"https?://[^\s\"')]+", file.read_text())
        known = ("http://www.w3.org/2000/svg", "https://html.spec.whatwg.org/")
        assert [each for each in addresses if not each.startswith(known)] == []
        assert "innerHTML" not in file.read_text()


async def test_the_page_knows_who_calls_and_where_else_runs_are_shown(engine: Engine) -> None:
    settings = engine.settings.model_copy(
        update={"trace_url": TRACES, "ui_url": "http://localhost:8233/"}
    )
    async with gateway_of(engine.manager, settings) as gateway, http_client(gateway.url) as http:
        told = (await http.get("/v1/config")).json()
    assert told.pop("version")
    assert told == {
        "caller": "anonymous",
        "tenant": None,
        "scopes": ["admin", "approve", "read", "write"],
        "temporal_ui_url_template": "http://localhost:8233/namespaces/default/workflows/{run_id}",
        "trace_url_template": TRACES,
    }
    assert Settings(trace_url="").trace_url is None
