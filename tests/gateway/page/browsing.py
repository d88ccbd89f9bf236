"""A real Chromium that looks at the live page of a real gateway."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Route, async_playwright, expect

from perdure.gateway.serve import Server, listen, server, stop
from tests.conftest import free_port
from tests.gateway.conftest import NODE
from tests.harness.engine import Engine

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
AXE = NODE / "node_modules/axe-core/axe.min.js"
expect.set_options(timeout=30_000)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Launch the Chromium that is installed; skip where none is."""
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(CHROMIUMS)} is on the PATH")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=as_root)
        yield browser
        await browser.close()


class Site:
    """The gateway of an engine, on a port that it comes back to.

    Args:
        engine: Whose Runs it serves.
        browser: Which looks at it.
    """

    def __init__(self, engine: Engine, browser: Browser) -> None:
        self.engine = engine
        self.browser = browser
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.complaints: list[str] = []
        """Whatever the browser complained about: errors of scripts, refused styles, HTTP errors."""
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to serve."""
        listening = listen("127.0.0.1", self.port)
        self._server = server(self.engine.settings, self.engine.manager)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))

    async def stop(self) -> None:
        """Stop serving; whoever is connected is cut off."""
        assert self._server is not None
        assert self._serving is not None
        await stop(self._server)
        await self._serving

    @asynccontextmanager
    async def page(
        self, at: str = "/", *, scopes: list[str] | None = None, **options: Any
    ) -> AsyncIterator[Page]:
        """Open the page, and see that the browser has nothing to complain about in the end.

        Args:
            at: Where: `/`, or `/#/runs/…`.
            scopes: What the gateway is to say that the key may do, where it says otherwise.
            **options: Of the browser's context.
        """
        context = await self.browser.new_context(**options)
        page = await context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        if scopes is not None:

            async def told(route: Route) -> None:
                answer = await route.fetch()
                await route.fulfill(json=await answer.json() | {"scopes": scopes})

            await page.route("**/v1/config", told)
        await page.goto(self.url + at)
        try:
            yield page
        finally:
            await context.close()
        assert self.complaints == []

    def forgive(self, words: str) -> None:
        """Forget complaints in which these words are, such as of an error that is to happen."""
        assert [each for each in self.complaints if words in each]
        self.complaints = [each for each in self.complaints if words not in each]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")


@asynccontextmanager
async def site_of(engine: Engine, browser: Browser) -> AsyncIterator[Site]:
    """Serve the page of an engine for the length of the block."""
    site = Site(engine, browser)
    await site.start()
    try:
        yield site
    finally:
        await site.stop()


async def fits(page: Page) -> bool:
    """Tell whether nothing stands out to the right of the window."""
    return bool(
        await page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )


async def barriers(page: Page) -> list[str]:
    """Return what axe-core finds on the page as it is now."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations)"
    )
    return [f"{e['impact']}: {e['help']}: {n['html'][:200]}" for e in found for n in e["nodes"]]


def at(run_id: str) -> str:
    """Return where the page shows a Run."""
    return f"/#/runs/{run_id}"


async def status(page: Page, word: str) -> None:
    """Wait until the page says that its Run stands so."""
    await expect(page.locator(".state .badge")).to_contain_text(word)
