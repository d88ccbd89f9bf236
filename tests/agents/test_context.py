"""A tool is tested without a worker: what it is told comes from the test."""

import asyncio
import math
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import ToolContext, ToolProgress, tool, tool_context
from perdure.agents.context import MAX_PROGRESS_CHARS
from perdure.runs.errors import ConfigurationError

TOKEN = "t0ken-of-the-test"  # noqa: S105 - made up


@tool(effect="keyed")
def pay(amount: int, context: ToolContext) -> dict[str, Any]:
    """Pay, once."""
    context.progress("paying", 0.5)
    return {
        "amount": amount,
        "key": context.idempotency_key,
        "tenant": context.variables["tenant"],
        "with": context.secret("bank-token"),
    }


@tool(effect="read")
def look() -> str:
    """Look, somewhere deeper down."""
    return tool_context().call_id


def test_a_test_gives_a_tool_its_context_as_the_parameter() -> None:
    told = ToolContext(
        idempotency_key="k1", variables={"tenant": "acme"}, secrets={"bank_token": TOKEN}
    )
    assert pay(3, told) == {"amount": 3, "key": "k1", "tenant": "acme", "with": TOKEN}
    assert told.last_progress == ToolProgress("paying", 0.5)
    assert TOKEN not in repr(told)


def test_a_test_enters_a_context_for_code_that_asks() -> None:
    with ToolContext(call_id="outer"):
        with ToolContext(call_id="inner") as told:
            assert (look(), told.call_id) == ("inner", "inner")
        assert look() == "outer"
    with pytest.raises(ConfigurationError, match=r"in a test, inside `with ToolContext\(\):`"):
        look()


async def test_an_entered_context_is_that_of_the_task_alone() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def one() -> str:
        with ToolContext(call_id="one"):
            entered.set()
            await left.wait()
            return look()

    task = asyncio.create_task(one())
    await entered.wait()
    with pytest.raises(ConfigurationError):
        look()
    left.set()
    assert await task == "one"


def test_everything_has_a_default_that_a_tool_can_work_with() -> None:
    told = ToolContext()
    assert told.deadline > datetime.now(UTC)
    assert (told.attempt, told.session_id, told.cancelled) == (1, None, False)
    assert told.last_progress is None


def test_a_tool_that_waits_is_woken_when_it_is_to_stop() -> None:
    told = ToolContext()
    assert told.wait_cancelled(0) is False
    waiting = threading.Timer(0, told.cancel)
    waiting.start()
    assert told.wait_cancelled(10) is True
    assert told.cancelled
    waiting.join()


@pytest.mark.parametrize("name", ["github", "GITHUB", "GitHub"])
def test_secrets_are_found_as_the_environment_names_them(name: str) -> None:
    assert ToolContext(secrets={"github": TOKEN}).secret(name) == TOKEN


def test_an_unknown_secret_says_what_to_set_and_tells_no_other() -> None:
    with pytest.raises(ConfigurationError, match="PERDURE_SECRET_GIT_HUB where") as refused:
        ToolContext(secrets={"bank": TOKEN}).secret("git-hub")
    assert "bank" not in str(refused.value)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [(None, None), (0, 0.0), (0.3, 0.3), (7, 1.0), (-1, 0.0), (math.inf, 1.0), (math.nan, None)],
)
def test_a_fraction_is_one_of_the_whole_or_unknown(
    given: float | None, shown: float | None
) -> None:
    told = ToolContext()
    told.progress("x", given)
    assert told.last_progress == ToolProgress("x", shown)


def test_a_message_is_cut_redacted_and_valid() -> None:
    told = ToolContext(redact=lambda said: said.replace(TOKEN, "[redacted]"))
    told.progress(f"{TOKEN} \udc9d " + "x" * MAX_PROGRESS_CHARS)
    assert told.last_progress is not None
    assert told.last_progress.message.startswith("[redacted] \ufffd xxx")
    assert len(told.last_progress.message) == MAX_PROGRESS_CHARS
    # A secret that stands across the cut is whole when it is looked for.
    told.progress("x" * (MAX_PROGRESS_CHARS - 3) + TOKEN)
    assert told.last_progress.message.endswith("x[re")
