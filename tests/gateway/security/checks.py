"""Checks that any application has to pass; the real one, and a small one."""

import base64
import re
from collections.abc import Collection, Mapping

import httpx2
from fastapi import FastAPI

from perdure.engine.api_keys import INCLUDED, Scope
from tests.gateway.security import matrix

OPEN = ("/healthz", "/readyz")
CHANGING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|run_[0-9a-f]{20}")
"""What is another one in each answer: times, and ids that were chosen just then."""
NO_KEY = "pdk_0123456789ab_" + "x" * 43


def speaking(app: FastAPI, **headers: str) -> httpx2.AsyncClient:
    """Return a client of an application, in this process."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(key: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"me:{key}".encode()).decode()}


def unacceptable(others: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return headers that must not let anybody in.

    Args:
        others: Keys that are not valid any more, by what is wrong with them.
    """
    return {
        "none": {},
        "unknown": bearer(NO_KEY),
        "basic": basic(NO_KEY),
        "empty": bearer(""),
        "no base64": {"Authorization": "Basic %%%"},
        "another scheme": {"Authorization": f"Digest {NO_KEY}"},
        **{why: bearer(key) for why, key in others.items()},
    }


async def only_health_is_open(app: FastAPI, others: Mapping[str, str], valid: str) -> int:
    """Check that every route wants a valid key; return how many calls were made."""
    made = 0
    async with speaking(app) as client:
        for route in matrix.routes(app):
            if route.path in OPEN and route.method in ("GET", "HEAD"):
                assert (await client.request(route.method, route.url)).status_code in (200, 503)
                continue
            for why, headers in unacceptable(others).items():
                params = {"api_key": valid, "key": valid, "access_token": valid}
                answer = await client.request(
                    route.method, route.url, headers=headers, params=params
                )
                assert answer.status_code == 401, f"{route} with key: {why}"
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers.get_list("www-authenticate") == [
                    'Bearer realm="Perdure"',
                    'Basic realm="Perdure"',
                ]
                if route.method != "HEAD":
                    assert answer.json()["code"] == "unauthorized"
                    assert valid not in answer.text
                made += 1
    return made


async def every_route_wants_its_scope(app: FastAPI, keys: Mapping[Scope, str]) -> int:
    """Check each route with a key of each single scope; return how many calls were made."""
    made = 0
    async with speaking(app) as client:
        for route in matrix.routes(app):
            if route.scope is None:
                continue
            for scope, key in keys.items():
                answer = await client.request(route.method, route.url, headers=bearer(key))
                is_refused = answer.status_code == 403
                assert is_refused is (route.scope not in INCLUDED[scope]), f"{route}, {scope}"
                if is_refused and route.method != "HEAD":
                    assert answer.json()["code"] == "forbidden"
                made += 1
    return made


async def foreign_ids_are_unknown(
    app: FastAPI,
    key: str,
    own: Mapping[str, str],
    foreign: Mapping[str, str],
    takes_any: Collection[tuple[str, str]] = (),
) -> int:
    """Check that an id of another tenant is answered as one that there is not, wherever it stands.

    Args:
        app: The application.
        key: One of scope admin, of a tenant.
        own: Ids of that tenant's, as `run_id` and `session_id`; other values that requests need.
        foreign: Ids of another tenant's that there are.
        takes_any: Methods and paths that begin something of an id that there is not; their answers
            tell how far that has got.

    Returns:
        How many places were tried.
    """
    tried = 0
    async with speaking(app, **bearer(key)) as client:
        # What begins something comes last: the rest is to find nothing.
        for place in sorted(matrix.places(app), key=lambda each: _begins(each, takes_any)):
            kind = "session_id" if "session" in place.name else "run_id"
            there = foreign[kind]
            other = there[:-1] + ("x" if there[-1] != "x" else "y")
            answers = []
            for value in (there, other):
                asked = matrix.asked(app, place, value, dict(own))
                got = await client.request(asked.method, asked.url, **asked.kwargs())
                assert got.status_code not in (401, 403, 405, 415, 422, 500), f"{place}: {got.text}"
                told = CHANGING.sub("", got.text.replace(value, "ID"))
                answers.append((got.status_code, told))
                assert not [each for each in foreign.values() if each in told], place
            assert answers[0][0] == answers[1][0], place
            if (place.method, place.path) in takes_any:
                continue
            assert answers[0] == answers[1], place
            assert place.where != "path" or answers[0][0] == 404, place
            tried += 1
    return tried


def _begins(place: matrix.Place, takes_any: Collection[tuple[str, str]]) -> int:
    return 2 if (place.method, place.path) in takes_any else int(place.name.startswith("new_"))
