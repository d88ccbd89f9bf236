"""What there is to be tried on an application: every route, every scope, every place for an id.

Nothing in here knows the application: it is read from its route table and its OpenAPI document.
"""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from perdure.engine.api_keys import Scope
from perdure.gateway.access import Needs

NOWHERE = "/v1/nowhere/at/all"
OURS = re.compile(r"(run|session)_ids?$|^forked_from$")
"""Names of ids that belong to a tenant; others, such as of actions, are looked for within a Run."""


@dataclass(frozen=True)
class Route:
    """One method of one route."""

    method: str
    path: str
    scope: Scope | None

    @property
    def url(self) -> str:
        return re.sub(r"\{([^}:]+)[^}]*\}", r"some_\1", self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def routes(app: FastAPI) -> list[Route]:
    """Return every method of every route, with the scope that it needs, and one of no route."""
    found = [Route(method, NOWHERE, None) for method in ("GET", "POST")]
    for each in iter_route_contexts(app.routes):
        path = each.path or ""
        scopes = [s for s in _scopes(getattr(each, "dependant", None)) if s]
        if each.methods is None:  # files
            found.append(Route("GET", f"{path}/index.html", None))
        scope = scopes[0] if scopes else None
        found += [Route(method, path, scope) for method in each.methods or ()]
    return sorted(set(found), key=str)


def _scopes(dependant: Any) -> Iterator[Scope]:
    for below in getattr(dependant, "dependencies", ()):
        if isinstance(below.call, Needs):
            yield below.call.scope
        yield from _scopes(below)


@dataclass(frozen=True)
class Place:
    """A place of a request where an id may stand."""

    method: str
    path: str
    where: str
    name: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.where} {self.name}"


@dataclass
class Asked:
    """A request, to be filled in."""

    method: str
    url: str
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None

    def kwargs(self) -> dict[str, Any]:
        return {"params": self.params, "headers": self.headers, "json": self.json}


def places(app: FastAPI) -> list[Place]:
    """Return every place for an id of a Run or a Session."""
    document = app.openapi()
    found = []
    for path, method, operation in _operations(document):
        given = [each for each in operation.get("parameters", ()) if OURS.search(each["name"])]
        found += [Place(method, path, each["in"], each["name"]) for each in given]
        schema = _body(document, operation)
        names = _properties(document, schema) if schema else ()
        found += [Place(method, path, "body", name) for name in names if OURS.search(name)]
    return sorted(set(found), key=str)


def asked(app: FastAPI, place: Place, value: str, own: dict[str, str]) -> Asked:
    """Return a request that has `value` at a place, and is otherwise as it should be.

    Args:
        app: What is asked.
        place: Where the value stands.
        value: An id.
        own: Ids of the caller's own, and other values, by the name of the place.
    """
    document = app.openapi()
    operation = document["paths"][place.path][place.method.lower()]
    names = re.findall(r"\{([^}:]+)[^}]*\}", place.path)
    in_path = {name: own.get(name, "x") for name in names}
    request = Asked(place.method, "")
    if place.where == "path":
        in_path[place.name] = value
    elif place.where == "query":
        request.params[place.name] = value
    elif place.where == "header":
        request.headers[place.name] = value
    request.url = re.sub(r"\{([^}:]+)[^}]*\}", lambda found: in_path[found[1]], place.path)
    schema = _body(document, operation)
    if schema:
        request.json = _sample(document, schema, own)
        if place.where == "body":
            _put(document, schema, request.json, place.name, value)
    return request


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _body(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return _resolved(document, schema) if schema else None


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(kind, ()):
            if each.get("type") != "null":
                return _resolved(document, each)
    return schema


def _properties(document: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return the names of the fields of a body; below its top, as `context.run_id`."""
    found = []
    for name, below in schema.get("properties", {}).items():
        inner = _resolved(document, below)
        found.append(name)
        if inner is not schema and inner.get("type") == "object":
            found += [f"{name}.{each}" for each in inner.get("properties", {})]
    return found


def _sample(document: dict[str, Any], schema: dict[str, Any], own: dict[str, str]) -> Any:
    match schema:
        case {"default": default}:
            return default
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case {"type": "object"}:
            below = schema.get("properties", {})
            extra = {name for name in own.keys() & below.keys() if not OURS.search(name)}
            names = {*schema.get("required", ()), *extra}
            return {n: own.get(n) or _of(document, below[n], own) for n in sorted(names)}
        case {"type": "array"}:
            return []
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 1)
        case {"type": "boolean"}:
            return False
    return "x"


def _of(document: dict[str, Any], schema: dict[str, Any], own: dict[str, str]) -> Any:
    return _sample(document, _resolved(document, schema), own)


def _put(
    document: dict[str, Any], schema: dict[str, Any], body: dict[str, Any], name: str, value: str
) -> None:
    outer, _, inner = name.rpartition(".")
    if outer:
        schema = _resolved(document, schema["properties"][outer])
        body = body.setdefault(outer, _sample(document, schema, {}))
    is_list = _resolved(document, schema["properties"][inner]).get("type") == "array"
    body[inner] = [value] if is_list else value


def forms(secret: str) -> list[str]:
    """Return a secret as it is, URL-encoded, and in base64 at each of the three offsets."""
    found = [secret, quote(secret, safe="")]
    for before in ("", "a", "ab"):
        coded = base64.b64encode((before + secret).encode()).decode()
        found.append(coded[4 : len(coded) - 4])
    return found
