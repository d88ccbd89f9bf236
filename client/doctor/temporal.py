"""Checks of the Temporal server and its namespace."""

from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.doctor.finding import Finding, fail, ok, unknown, warn
from perdure.client.ui import CLOUD_HOSTS
from perdure.engine.attributes import ATTRIBUTES
from perdure.engine.connect import Address
from perdure.engine.destination import Destination
from perdure.engine.dev_server import DYNAMIC_CONFIG, POLL_RPS, DevServer
from perdure.engine.settings import Settings

ANSWER_WITHIN = timedelta(seconds=4)
ENOUGH_DAYS = 7
"""Of retention: the history is the Run, so afterwards it can't be shown, resumed or forked. A week
lets people look at last week's Runs."""
NOT_ALLOWED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED)
POLL_KEYS = ", ".join(DYNAMIC_CONFIG)


async def server(destination: Destination, client: Client) -> list[Finding]:
    """Look at the server's version."""
    found = await client.workflow_service.get_system_info(
        GetSystemInfoRequest(), timeout=ANSWER_WITHIN
    )
    tls = f"TLS {destination.tls}" if destination.tls else "no TLS"
    version = found.server_version or "of an unknown version"
    return [ok("server", f"Temporal {version} answers at {destination} ({tls}).")]


async def namespace(client: Client) -> list[Finding]:
    """Look whether the namespace exists, for how long it keeps Runs, what they are found by."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        found = await client.workflow_service.describe_namespace(request, timeout=ANSWER_WITHIN)
    except RPCError as exc:
        if exc.status is RPCStatusCode.NOT_FOUND:
            return [
                fail(
                    "namespace",
                    f"There is no namespace {client.namespace!r}.",
                    "Set TEMPORAL_NAMESPACE, or create it: `temporal operator namespace create "
                    f"-n {client.namespace} --retention 90d`.",
                )
            ]
        if exc.status in NOT_ALLOWED:
            return [unknown("namespace", "The server does not let us look at the namespace.")]
        raise
    exists = ok("namespace", f"The namespace {client.namespace!r} exists.")
    return [exists, _retention(found), await _attributes(client)]


def _retention(found: DescribeNamespaceResponse) -> Finding:
    kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
    told = f"Runs are kept for {_length(kept)} after their end"
    if kept >= timedelta(days=ENOUGH_DAYS):
        return ok("retention", f"{told}.")
    return warn(
        "retention",
        f"{told}: then they can't be shown, resumed or forked.",
        f"`temporal operator namespace update -n {found.namespace_info.name} --retention 90d`, "
        "or as long as you need them.",
    )


def _length(kept: timedelta) -> str:
    hours = int(kept.total_seconds() // 3600)
    number, unit = (hours // 24, "day") if hours >= 24 else (hours, "hour")
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


async def _attributes(client: Client) -> Finding:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        listed = await client.operator_service.list_search_attributes(
            request, timeout=ANSWER_WITHIN
        )
    except RPCError as exc:
        if exc.status not in NOT_ALLOWED:
            raise
        return unknown(
            "search attributes",
            "The server does not let us look at the search attributes.",
            f"They have to be there: {', '.join(sorted(ATTRIBUTES))}.",
        )
    there = listed.custom_attributes
    wrong = {n: t for n, t in ATTRIBUTES.items() if n in there and there[n] != t}
    if wrong:
        return fail(
            "search attributes",
            f"Search attributes of another type: {_typed(wrong)}, they should be.",
            "Remove them, `temporal operator search-attribute remove`, and start a worker.",
        )
    missing = {n: t for n, t in ATTRIBUTES.items() if n not in there}
    if missing:
        options = " ".join(f"--name {n} --type {_type(t)}" for n, t in sorted(missing.items()))
        return fail(
            "search attributes",
            f"Search attributes are missing: {', '.join(sorted(missing))}.",
            "A worker registers them when it starts, where it may; else `temporal operator "
            f"search-attribute create -n {client.namespace} {options}`.",
        )
    return ok("search attributes", f"All {len(ATTRIBUTES)} are there.")


def _typed(attributes: dict[str, IndexedValueType.ValueType]) -> str:
    return ", ".join(f"{name} {_type(kind)}" for name, kind in sorted(attributes.items()))


def _type(kind: IndexedValueType.ValueType) -> str:
    return IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").capitalize()


async def dynamic_config(settings: Settings, destination: Destination) -> list[Finding]:
    """Say what is known of the server's dynamic configuration: no API tells it.

    It can't be measured from here either: activities outside workflows, which need no Run, took
    as long with the values raised as without (25 to 30 ms, server 1.32).
    """
    check = "dynamic config"
    if destination.host.endswith(CLOUD_HOSTS):
        return [ok(check, "Temporal Cloud sees to it.")]
    address = Address(destination.host, destination.port)
    if DevServer(address, settings.data_dir).is_tuned:
        return [ok(check, f"`perdure dev` started the server, with queue polls at {POLL_RPS}.")]
    return [
        unknown(
            check,
            "No API tells it: at the defaults a lone Run waits 50 ms for every Step.",
            f"See that the server's dynamic configuration has {POLL_RPS} for {POLL_KEYS}.",
        )
    ]
