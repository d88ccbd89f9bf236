"""Agents whose tools log, fail and raise, as users' do."""

import logging
import threading
import warnings

import structlog
from temporalio import activity

from perdure import Agent, ToolContext, tool

log = logging.getLogger("shop.orders")


@tool(effect="read")
async def look_up(order: str) -> str:
    """Look an order up.

    Args:
        order: Which.
    """
    log.info("Looking up\nan order\x1b[2J", extra={"shelf": 7})
    activity.logger.debug("said by the SDK's logger")
    return f"shipped: {order}"


@tool(effect="read")
def charge(order: str, context: ToolContext) -> str:
    """Charge for an order.

    Args:
        order: Which.
        context: Of the call.
    """
    key = context.secret("bank")
    log.warning("Charging with %s", key)
    log.warning("%d is no number", "this")
    structlog.get_logger("shop.structured").info("charged", basket="full", token=key)
    warnings.warn(f"odd order {order}", stacklevel=1)
    thread = threading.Thread(target=_fails, args=(order,))
    thread.start()
    thread.join()
    return f"charged: {order}"


def _fails(order: str) -> None:
    raise ValueError(f"no such order: {order}")


@tool(effect="read")
def refuse(order: str) -> str:
    """Refuse an order.

    Args:
        order: Which.
    """
    try:
        _fails(order)
    except ValueError as exc:
        raise RuntimeError(f"can't do {order}") from exc
    return ""


shop = Agent(name="shop", instructions="Sell.", tools=[look_up, charge, refuse])
