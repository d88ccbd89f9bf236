"""The live page for everybody: phones, keyboards, screen readers, keys that may not do all."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.gateway.page.agents import HOSTILE, PAID
from tests.gateway.page.browsing import Site, at, barriers, fits, status
from tests.harness.scripted_openai import Gate, call, text, tool_calls


async def test_hostile_words_stay_words_and_nothing_is_wider_than_a_phone(site: Site) -> None:
    site.engine.model.script([text(HOSTILE, "\n{}")])
    run_id = await site.engine.start("speaker", HOSTILE, session_id="s" * 128)
    phone = {"viewport": {"width": 360, "height": 740}}
    async with site.page(at(run_id), **phone) as page, site.page(**phone) as listing:
        await status(page, "completed")
        said = page.locator("#step-1 .said")
        await expect(said).to_contain_text(r"<script>alert(1)</script>")
        await expect(said).to_contain_text(r"\u202eevil\u001b[2Jwww")
        assert await page.locator("main script, main img").count() == 0
        assert await fits(page)
        for summary in await page.locator("aside > details > summary").all():
            await summary.click()
        assert await fits(page)
        await expect(listing.get_by_role("link", name=run_id)).to_be_visible()
        assert await fits(listing)
        await page.get_by_role("button", name="Fork", exact=True).click()
        assert await fits(page)
    await site.engine.ended(run_id)


async def test_the_keyboard_is_enough(site: Site) -> None:
    gate = Gate()
    site.engine.model.script([tool_calls(call("pay", {"euros": 3})), text("x", "y").hold(gate, 2)])
    async with site.page() as page:
        await reach(page, "Start a Run")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog").get_by_label("Agent")).to_be_focused()
        await page.keyboard.type("clerk")
        await page.keyboard.press("Tab")
        await page.keyboard.type("Pay 3 euros.")
        await reach(page, "Start")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("#/runs/"))
        run_id = page.url.rpartition("/")[2]
        await expect(page.locator(".asks")).to_have_count(1)
        await reach(page, "Approve")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said").last).to_contain_text("x")
        await reach(page, "Cancel")
        await page.keyboard.press("Enter")
        await reach(page, "Cancel the Run")
        await page.keyboard.press("Enter")
        await status(page, "cancelled")
        gate.open()
    assert PAID == [3]
    await site.engine.ended(run_id)


async def reach(page: Page, name: str) -> None:
    """Press Tab until a button of that name has the focus."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if await focused.count() and (await focused.inner_text()).strip() == name:
            return
    raise AssertionError(f"Tab does not come to {name!r}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_a_barrier(site: Site, node: str, scheme: str) -> None:
    asked = [call("pay", {"euros": 1}), call("ask_user", {"question": "Why?"}, id="Q")]
    site.engine.model.script(
        [text("One"), tool_calls(call("nothing", {}), *asked, content="So."), text("Two")]
    )
    ended = await site.engine.run("speaker")
    run_id = await site.engine.start("clerk", "Pay.")
    options = {"color_scheme": scheme}
    async with site.page(**options) as listing, site.page(at(run_id), **options) as page:
        await expect(listing.get_by_role("link", name=ended.run_id)).to_be_visible()
        assert await barriers(listing) == []
        await listing.get_by_role("button", name="Start a Run").click()
        await expect(listing.get_by_role("dialog", name="Start a Run")).to_be_visible()
        assert await barriers(listing) == []
        await expect(page.locator(".asks")).to_have_count(2)
        assert await barriers(page) == []
        await page.get_by_role("button", name="Approve").click()
        await page.get_by_label("Answer").fill("Because.")
        await page.get_by_role("button", name="Answer").click()
        await status(page, "completed")
        assert await barriers(page) == []
        outline = await page.locator("main").aria_snapshot()
        for part in ('heading "Run', 'list "Steps"', 'complementary "About the Run"'):
            assert part in outline
    await site.engine.ended(run_id)


async def test_what_a_key_may_not_do_says_why(site: Site) -> None:
    site.engine.model.script([tool_calls(call("pay", {"euros": 1})), text("No.")])
    run_id = await site.engine.start("clerk")
    async with site.page(scopes=["read"]) as page:
        await page.goto(site.url + at(run_id))
        approve = page.get_by_role("button", name="Approve")
        await expect(approve).to_be_disabled()
        await approve.click(force=True)
        await expect(page.locator(".note")).to_contain_text("it needs the scope “approve”")
        for name in ("Message", "Pause", "Cancel", "Start a Run"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    assert PAID == []
    await site.engine.manager.cancel(run_id)
    await site.engine.ended(run_id)
