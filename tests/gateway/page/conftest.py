"""Fixtures: one Chromium for all tests of the page; the page of an engine's gateway."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.gateway.page.agents import CLERK, ECHOER, PAID, SPEAKER
from tests.gateway.page.browsing import Site, chromium, site_of
from tests.harness.engine import Engine


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest.fixture
async def site(engine: Engine, browser: Browser) -> AsyncIterator[Site]:
    PAID.clear()
    async with engine.serving(SPEAKER, CLERK, ECHOER), site_of(engine, browser) as serving:
        yield serving
