"""The operations agent: which tools it has, and which calls wait for a person."""

from typing import Annotated

from pydantic import Field

from perdure import Agent, ProposedCall, ToolContext, ask_user, tool
from perdure.examples.operations import services

MAX_UNASKED = 4
"""Replicas up to which a service is scaled without asking: those cost nothing extra."""

Service = Annotated[str, "Its name, as list_services writes it."]


def always(call: ProposedCall) -> str:
    """Say why a restart waits for a person."""
    return f"{call.arguments['service']} answers nobody while it restarts."


def costly(call: ProposedCall) -> bool | str:
    """Say why a scaling waits for a person, if it does."""
    return call.arguments["replicas"] > MAX_UNASKED and f"More than {MAX_UNASKED} replicas cost."


@tool(effect="read")
def list_services() -> str:
    """List the services with their status and number of replicas."""
    found = services.read().services.items()
    return "\n".join(f"{name}: {each.status}, replicas: {each.replicas}" for name, each in found)


@tool(effect="read")
def show_log(service: Service, lines: Annotated[int, Field(ge=1, le=100)] = 10) -> list[str]:
    """Show the last lines of a service's log.

    Args:
        service: Which service.
        lines: How many at most.
    """
    return services.read().named(service).log[-lines:]


# Unsafe: a second restart would cut off the clients again. So it is run at most once.
@tool(effect="unsafe", approval=always)
def restart_service(service: Service) -> str:
    """Restart a service. For some seconds, it answers nobody."""
    with services.changed() as state:
        state.named(service).restart()
    return f"{service} was restarted."


# Keyed: should a worker die here, the call is run again, and finds its own key.
@tool(effect="keyed", approval=costly)
def scale_service(
    service: Service, replicas: Annotated[int, Field(ge=1, le=20)], context: ToolContext
) -> str:
    """Change how many replicas a service has."""
    with services.changed() as state:
        if context.idempotency_key not in state.done:
            state.named(service).scale(replicas)
            state.done.append(context.idempotency_key)
    return f"{service} was scaled to {replicas}."


operations = Agent(
    name="operations",
    description="Looks after the shop's services.",
    instructions=(
        "You look after the services of a shop. Look at them and at their logs before you change "
        "anything, and change only what the logs give a reason for. If it is not clear which "
        "service is meant, or what is wanted, ask the user. A person may refuse a change; then do "
        "not try another way, but say what you would do. In the end, say what you found and did."
    ),
    tools=[list_services, show_log, restart_service, scale_service, ask_user],
)
