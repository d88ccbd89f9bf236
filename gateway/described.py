"""What the OpenAPI document says that the routes' signatures don't: errors, bodies, security."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from perdure.gateway.bodies import TAKEN
from perdure.gateway.problems import MEDIA_TYPE, Problem

Responses = dict[int | str, dict[str, Any]]

MEANING = {
    400: "The body is no JSON.",
    401: "`unauthorized`: no API key was given, or one that is not valid.",
    403: "`forbidden`: the API key may not do this.",
    404: "There is no such Run, Session, action or call; or it is not yours.",
    405: "`method_not_allowed`.",
    409: "Not as things stand: the code says why.",
    410: "`events_expired`.",
    413: "`payload_too_large`.",
    422: "`invalid_request` or `unsupported_parameter`: `errors` says what to change.",
    429: "`rate_limited` or `queue_full`: ask again later.",
    500: "`internal`: a fault of the gateway.",
    503: "`engine_unavailable`, `no_worker`, `storage_unavailable` or `configuration`.",
}
ALWAYS = (401, 403, 422, 429, 500, 503)
SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, where the gateway has any: `Authorization: Bearer …`.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "For browsers: any user name, and the API key as the password.",
    },
}
ABOUT = (
    "Durable agent Runs over HTTP. Every error is a problem as RFC 9457 has it, with a stable "
    "`code`. Unknown fields and parameters are refused."
)


def problems(*statuses: int) -> Responses:
    """Return the responses of a route that are problems, for its declaration."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    found = sorted({*statuses, *ALWAYS})
    return {each: {"description": MEANING[each], "content": content} for each in found}


def taking(*statuses: int) -> Responses:
    """Return the same for a route that takes a body."""
    return problems(400, 413, *statuses)


def name_of(route: APIRoute) -> str:
    """Return the operation id of a route."""
    return route.name


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the gateway."""
    document = get_openapi(
        title=app.title, version=app.version, description=ABOUT, routes=app.routes
    )
    kinds = [(kind, "validation") for kind in TAKEN.values()]
    _, given = models_json_schema(
        [*kinds, (Problem, "serialization")],  # type: ignore[list-item]
        ref_template="#/components/schemas/{model}",
    )
    components = document.setdefault("components", {})
    schemas = given["$defs"] | components.get("schemas", {})
    components["schemas"] = {name: schemas[name] for name in sorted(schemas)}
    components["securitySchemes"] = SECURITY
    document["security"] = [{each: []} for each in SECURITY]
    return document
