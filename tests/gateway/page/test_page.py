"""The live page in a real Chromium, over a real gateway, worker and model endpoint."""

import json
import re

from playwright.async_api import Page, expect

from perdure import Limits
from tests.gateway.page.agents import HOSTILE, HUGE, PAID
from tests.gateway.page.browsing import Site, at, status
from tests.harness.scripted_openai import Gate, call, echo_conversation, text, tool_calls


async def test_words_are_shown_before_their_step_ends_and_the_list_follows(site: Site) -> None:
    gate, more = Gate(), Gate()
    site.engine.model.script([text("Once ", "upon ", "a time").hold(gate, 2).hold(more, 3)])
    run_id = await site.engine.start("speaker", session_id=f"s-{site.port}")
    async with site.page() as listing, site.page(at(run_id)) as page:
        row = listing.locator("tr", has=listing.get_by_role("link", name=run_id))
        await expect(row).to_contain_text("running")
        said = page.locator("#step-1 .said")
        await expect(said).to_have_text("Once")
        gate.open()
        await expect(said).to_have_text("Once upon")
        await expect(page.locator("#step-1")).to_contain_text("running")
        more.open()
        await expect(said).to_have_text("Once upon a time")
        await status(page, "completed")
        await expect(page.locator(".output")).to_contain_text("Once upon a time")
        await expect(row).to_contain_text("completed")
        # The list is of all Runs of the server; its filters are in the address.
        await listing.get_by_label("Session").fill(f"s-{site.port}")
        await listing.get_by_role("button", name="Show").click()
        await expect(listing.locator("tbody tr")).to_have_count(1)
        await listing.get_by_label("Status").select_option("failed")
        await expect(listing.locator(".empty")).to_have_text("No Run is like that.")
    await site.engine.ended(run_id)


async def test_a_call_is_approved_with_all_of_its_arguments_in_view(site: Site) -> None:
    asked = call("pay", json.dumps({"euros": HUGE, "to": f"\u200b{HOSTILE}"}, ensure_ascii=False))
    site.engine.model.script([tool_calls(asked, call("pay", {"euros": 7}, id="B")), text("Done.")])
    run_id = await site.engine.start("clerk")
    async with site.page(at(run_id)) as page:
        cards = page.locator(".asks")
        await expect(cards).to_have_count(2)
        shown = cards.first.locator("pre")
        await expect(shown).to_contain_text(str(HUGE))
        await expect(shown).to_contain_text(r'"to": "\u200b<script>')
        await expect(shown).to_contain_text(r"\u202eevil\u001b[2J" + "w" * 3000)
        await expect(cards.first).to_contain_text("More than")
        await expect(page.locator(".waitbox")).to_contain_text("Waits for: approval, since")
        await cards.first.get_by_text("Change the arguments").click()
        area = cards.first.get_by_label("Arguments to use instead")
        assert str(HUGE) in await area.input_value()
        await area.fill("no JSON")
        await cards.first.get_by_role("button", name="Approve").click()
        await expect(cards.first.locator(".error")).to_contain_text("arguments")
        site.forgive("422")
        await area.fill(f'{{"euros": {HUGE}, "to": "me"}}')
        await cards.first.get_by_label("Note").fill("But to me.")
        await cards.first.get_by_role("button", name="Approve").click()
        await expect(cards).to_have_count(1)
        await cards.get_by_role("button", name="Reject").click()
        await status(page, "completed")
        await expect(page.locator(".call").first).to_contain_text(f"paid {HUGE}")
        await expect(page.locator(".call").last).to_contain_text("action_rejected")
    assert PAID == [HUGE]
    run = await site.engine.ended(run_id)
    first = run.tool_calls[0].action
    assert first is not None
    assert first.resolution is not None
    assert (first.resolution.note, json.loads(first.resolution.arguments or "")["to"]) == (
        "But to me.",
        "me",
    )


async def test_a_question_is_answered_and_a_message_joins(site: Site) -> None:
    question = call("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]})
    gate = Gate()
    site.engine.model.script([tool_calls(question), text("Blue.").hold(gate), text("In metres.")])
    run_id = await site.engine.start("clerk")
    async with site.page(at(run_id)) as page:
        await expect(page.locator(".asks")).to_contain_text("Which colour?")
        await page.get_by_role("button", name="blue").click()
        await gate.reached
        await page.get_by_role("button", name="Message").click()
        await page.get_by_role("dialog").get_by_label("Message").fill("In metres, please.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.locator(".followup")).to_contain_text("In metres, please.")
        gate.open()
        await status(page, "completed")
        await expect(page.locator(".output")).to_contain_text("In metres.")
    assert (await site.engine.ended(run_id)).tool_calls[0].result == "blue"


async def test_a_run_is_cancelled_resumed_with_other_limits_and_forked(site: Site) -> None:
    gate = Gate()
    add = tool_calls(call("pay", {"euros": 1}))
    site.engine.model.script([add, text("Half ", "of it").hold(gate, 2)])
    run_id = await site.engine.start("clerk", limits=Limits(max_turns=9))
    async with site.page(at(run_id)) as page:
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator(".said").last).to_contain_text("Half")
        await page.get_by_role("button", name="Cancel", exact=True).click()
        dialog = page.get_by_role("dialog")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await dialog.get_by_label("Reason").fill("Enough.")
        await dialog.get_by_role("button", name="Cancel the Run").click()
        await status(page, "cancelled")
        await expect(page.locator(".runhead")).to_contain_text("Enough.")
        await expect(page.locator(".said").last).to_contain_text("Half")
        gate.open()
        site.engine.model.script([text("All of it.")])
        await page.get_by_role("button", name="Resume").click()
        await dialog.get_by_label("Turns").fill("12")
        await dialog.get_by_role("button", name="Resume").click()
        await status(page, "completed")
        await expect(page.locator(".output")).to_contain_text("All of it.")
        await expect(page.locator("aside")).to_contain_text("12 turns")
        site.engine.model.script([text("Forked.")])
        await page.get_by_role("button", name="Fork from Step 2").click()
        await dialog.get_by_label("Message").fill("Say it otherwise.")
        await dialog.get_by_role("button", name="Fork").click()
        await expect(page.locator(".output")).to_contain_text("Forked.")
        await expect(page.locator("aside")).to_contain_text(f"Forked from{run_id} after 2 Steps")
        forked = page.url.rpartition("/")[2]
    assert (await site.engine.ended(run_id)).limits.max_turns == 12
    assert (await site.engine.ended(forked)).forked_from == run_id


async def test_a_draft_is_dropped_with_its_attempt(site: Site) -> None:
    broken, again, whole = Gate(), Gate(), Gate()
    site.engine.model.script(
        [
            text("Wrong ", "words").hold(broken, 2).without_done(3),
            text("Right ", "words").hold(again).hold(whole, 2),
        ]
    )
    run_id = await site.engine.start("speaker")
    async with site.page(at(run_id)) as page:
        said = page.locator("#step-1 .said")
        await expect(said).to_have_text("Wrong")
        broken.open()
        await expect(page.locator("#step-1 .retry")).to_contain_text("Attempt 2")
        await expect(said).to_have_text("")
        again.open()
        await expect(said).to_have_text("Right")
        whole.open()
        await status(page, "completed")
        await expect(page.locator("#step-1 .meta")).to_contain_text("attempt 2")
        await expect(said).to_have_text("Right words")
    await site.engine.ended(run_id)


async def test_a_gateway_that_restarts_is_followed_on(site: Site) -> None:
    first, second = Gate(), Gate(60)
    site.engine.model.script([text("One ", "two ", "three").hold(first, 2).hold(second, 3)])
    run_id = await site.engine.start("speaker")
    async with site.page(at(run_id)) as page:
        positions: list[str | None] = []
        page.on("request", lambda asked: positions.append(asked.headers.get("last-event-id")))
        said = page.locator("#step-1 .said")
        await expect(said).to_have_text("One")
        await expect(page.locator(".connection")).to_have_text("Live")
        await site.stop()
        await expect(page.locator(".connection")).to_contain_text("lost")
        first.open()
        await site.start()
        await expect(page.locator(".connection")).to_have_text("Live")
        await expect(said).to_have_text("One two")
        assert re.fullmatch(r"\d+:1\.1\.4", positions[-1] or "")
        second.open()
        await status(page, "completed")
        await expect(said).to_have_text("One two three")
        site.forgive("net::ERR_")
    await site.engine.ended(run_id)


async def test_a_long_run_is_shown_in_parts(site: Site) -> None:
    site.engine.model.respond_with(echo_conversation(35, 20))
    run = await site.engine.run("echoer")
    async with site.page(at(run.run_id)) as page:
        await expect(page.locator(".output")).to_contain_text("Done after 35 turns.")
        await expect(page.locator("#step-1")).to_have_count(0)
        assert await page.locator(".steps > li").count() <= 31
        await page.get_by_role("button", name="10 earlier Steps").click()
        await expect(page.locator("#step-1")).to_have_count(1)
        places = "[...document.querySelectorAll('.steps > li')].map((e) => e.id)"
        shown = [int(each[5:] or 0) for each in await page.evaluate(places)]
        assert shown == sorted(shown)
        assert len(shown) == 37


async def test_what_was_followed_looks_like_what_is_read_anew(site: Site) -> None:
    first, last = Gate(), Gate()
    calls = [call("echo", {"text": "a"}, id="A"), call("pay", {"euros": 2}, id="B")]
    site.engine.model.script(
        [
            tool_calls(*calls, call("echo", "no JSON", id="C"), content="So.").hold(first),
            tool_calls(call("echo", {"text": "b" * 90}, id="A"), call("nothing", {}, id="B")),
            text("The ", "end").hold(last, 2),
        ]
    )
    run_id = await site.engine.start("clerk")
    async with site.page(at(run_id)) as page:
        await expect(page.locator("#step-1")).to_contain_text("has not said anything yet")
        first.open()
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("dialog").get_by_label("Reason").fill("Lunch.")
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator(".waitbox")).to_contain_text("Waits for: pause")
        await page.get_by_role("button", name="Let it go on").click()
        await expect(page.locator(".said").last).to_have_text("The")
        async with site.page(at(run_id)) as anew:
            await expect(anew.locator(".said").last).to_have_text("The")
            for part in (".story", ".waitbox, .state", "aside details >> nth=0"):
                told = [await shown(each, part) for each in (page, anew)]
                assert told[0] == told[1]
        last.open()
        await status(page, "completed")
    await site.engine.ended(run_id)


async def shown(page: Page, part: str) -> str:
    """Return the text of a part of the page, without what depends on the time."""
    text = await page.locator(part).first.inner_text()
    return re.sub(r"[\d.,]+ (ms|s)( so far)?\b", "…", text)
