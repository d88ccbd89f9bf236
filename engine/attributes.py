"""Search attributes: what Runs can be found by. Registered by us where they are missing."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runs import contract
from perdure.runs.errors import ConfigurationError

ATTRIBUTES = {
    contract.STATUS_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    contract.AGENT_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    contract.SESSION_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    contract.WAITING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    contract.TOKENS_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_INT,
    contract.COST_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}


async def register_search_attributes(client: Client) -> list[str]:
    """Register the search attributes that the namespace does not have yet.

    Without them a workflow that writes one would be stalled by the server, so a worker makes
    sure of them before it polls.

    Returns:
        The names that were missing.

    Raises:
        ConfigurationError: When they are missing and may not be registered from here.
    """
    operator = client.operator_service
    try:
        listed = await operator.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = {n: t for n, t in ATTRIBUTES.items() if n not in listed.custom_attributes}
        if missing:
            await operator.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
            )
    except RPCError as exc:
        if exc.status is RPCStatusCode.ALREADY_EXISTS:
            return []
        raise ConfigurationError(
            f"The search attributes of namespace {client.namespace!r} can't be registered "
            f"({exc.message}).",
            hint=f"Register them as an operator: {', '.join(sorted(ATTRIBUTES))}.",
        ) from exc
    return sorted(missing)
