"""Makes the pictures in `docs/screenshots`: `python -m tests.gateway.page.screenshots`."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from perdure import Agent, tool
from perdure.agents.tool import ToolContext
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DevServer
from tests.conftest import free_port
from tests.gateway.page.browsing import Site, chromium, site_of
from tests.harness.engine import Engine, soon
from tests.harness.pages import chunk
from tests.harness.replies import chunks
from tests.harness.scripted_openai import Gate, Reply, ScriptedOpenAI, call, text, tool_calls

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "screenshots"
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}
ANSWER = (
    "Three of the four suppliers confirmed the new delivery date in writing. ",
    "The fourth, Nordlicht GmbH, has moved it by two weeks; ",
    "their notice reached us on Monday.\n\n",
    "What follows for the plan: the assembly of the second line can begin as agreed, ",
)


@tool(effect="read")
async def search_mail(query: str, context: ToolContext) -> str:
    """Search the mailbox."""
    return (
        f'[{{"from": "einkauf@nordlicht.example", "subject": "Liefertermin", "query": "{query}"}}]'
    )


@tool(approval=lambda asked: f"It moves {asked.arguments['amount_eur']} euros.")
def pay_invoice(invoice: str, amount_eur: str, iban: str) -> str:
    """Pay an invoice."""
    return f"Paid {invoice}."


PLANNER = Agent(name="planner", model="gpt-5-mini", tools=[search_mail])
BOOKKEEPER = Agent(name="bookkeeper", model="gpt-5-mini", tools=[pay_invoice, search_mail])


def thinking(*deltas: dict[str, Any]) -> Reply:
    """Answer with the deltas of a model that shows what it thinks."""
    return chunks(*map(chunk, deltas), chunk({}, finish_reason="stop"), b"data: [DONE]\n\n")


async def past(engine: Engine) -> None:
    """Make Runs that have ended, so that there is something to list."""
    used = (1840, 212, 1024, 96)
    for number in range(4):
        engine.model.script(
            [
                tool_calls(call("search_mail", {"query": f"invoice {number}"}), usage=used),
                text("Nothing is open.", usage=used),
            ]
        )
        session = "suppliers" if number % 2 else None
        await engine.run("planner", "What is open?", session_id=session)
    gate = Gate()
    engine.model.script([text("I look").hold(gate)])
    run_id = await engine.start("planner", "Is anything late?")
    await gate.reached
    await engine.manager.cancel(run_id, "Not needed any more.")
    gate.open()
    await engine.ended(run_id)


async def take(page: Page, name: str) -> None:
    """Write a picture."""
    await page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")


async def pictures(site: Site) -> None:
    """Write all pictures."""
    engine, gate = site.engine, Gate(600)
    await past(engine)
    asked = {"invoice": "2026-1187", "amount_eur": "4210.00", "iban": "DE02120300000000202051"}
    engine.model.script(
        [
            tool_calls(call("search_mail", {"query": "2026-1187"}), usage=(1320, 64)),
            tool_calls(
                call("pay_invoice", asked),
                content="The invoice matches the order and the delivery note.",
                usage=(1710, 80, 1024, 0),
            ),
        ]
    )
    waiting = await engine.start("bookkeeper", "Pay invoice 2026-1187 if it is right.")

    async def waits() -> bool:
        run = await engine.manager.get_run(waiting)
        return run.waiting_on is not None and run.waiting_on.type == "approval"

    await soon(waits)
    said = [{"reasoning_content": "Four suppliers; I have to compare the dates. "}]
    said += [{"content": each} for each in ANSWER]
    engine.model.script(
        [
            tool_calls(
                call("search_mail", {"query": "Liefertermin"}),
                call("search_mail", {"query": "delivery date"}),
                usage=(1540, 96, 0, 64),
            ),
            thinking(*said).hold(gate, len(said)),
        ]
    )
    question = "Which suppliers have confirmed the new date, and what follows for the plan?"
    running = await engine.start("planner", question, session_id="suppliers")
    for scheme in ("light", "dark"):
        options: dict[str, Any] = {"color_scheme": scheme}
        suffix = "" if scheme == "light" else "-dark"
        async with site.page(**WIDE, **options) as page:
            await expect(page.locator("tbody tr")).to_have_count(7)
            await take(page, f"list{suffix}")
        async with site.page(f"/#/runs/{running}", **WIDE, **options) as page:
            await expect(page.locator(".said").last).to_contain_text("can begin as agreed")
            await page.get_by_role("button", name="Latest").click()
            await take(page, f"run{suffix}")
    async with site.page(f"/#/runs/{waiting}", **WIDE) as page:
        await page.locator(".asks").scroll_into_view_if_needed()
        await take(page, "approval")
    async with site.page(f"/#/runs/{waiting}", **PHONE) as page:
        await page.locator(".asks").scroll_into_view_if_needed()
        await page.get_by_role("button", name="Approve").scroll_into_view_if_needed()
        await take(page, "phone")
    gate.open()
    await engine.ended(running)
    await engine.manager.cancel(waiting)


async def main() -> None:
    """Start everything, write the pictures, stop everything."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = DevServer(Address("127.0.0.1", free_port()), Path(folder))
        os.environ["TEMPORAL_ADDRESS"] = str(server.address)
        os.environ["PERDURE_STORAGE_DIR"] = f"{folder}/storage"
        await server.start()
        try:
            client = await connect()
            await register_search_attributes(client)
            async with ScriptedOpenAI() as model, chromium() as browser:
                await scene(Engine(client, model, "screenshots"), browser)
        finally:
            await server.stop()


async def scene(engine: Engine, browser: Browser) -> None:
    """Serve the agents and the page."""
    async with engine.serving(PLANNER, BOOKKEEPER), site_of(engine, browser) as site:
        await pictures(site)


if __name__ == "__main__":
    asyncio.run(main())
