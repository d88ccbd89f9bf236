"""The live page, and what it has to know of the gateway. Its files are in `gateway/page`."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from perdure.client.manager import RunManager
from perdure.client.ui import run_url
from perdure.engine.settings import Settings
from perdure.gateway.described import problems
from perdure.gateway.routes.callers import Manager, Reader
from perdure.runs.errors import ConfigurationError
from perdure.runs.frozen import Frozen

router = APIRouter(tags=["page"])

FOLDER = Path(__file__).resolve().parent.parent / "page"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CONTENT_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing of another site, nothing inline; and no text can be made HTML, whatever a script does."""


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    tag: str


def _read(path: Path) -> _File:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return _File(content, MEDIA_TYPES[path.suffix], tag)


_FILES = {each.name: _read(each) for each in sorted(FOLDER.iterdir()) if each.suffix in MEDIA_TYPES}


class PageConfig(Frozen):
    """What the live page has to know."""

    version: str
    caller: str
    """Whose decisions the page sends: the name of the API key."""
    tenant: str | None = None
    scopes: tuple[str, ...]
    """What the API key may do."""
    temporal_ui_url_template: str | None = None
    """Where the Temporal UI shows a Run, with `{run_id}` in its place; none where that is not
    known."""
    trace_url_template: str | None = None
    """Where the Trace of a Run is shown, with `{run_id}` or `{trace_id}` in its place:
    PERDURE_TRACE_URL."""


@router.get("/", include_in_schema=False)
async def page(request: Request, caller: Reader) -> Response:
    """Return the live page."""
    return _answer(request, _FILES["index.html"])


@router.get("/page/{name}", include_in_schema=False)
async def page_file(name: str, request: Request, caller: Reader) -> Response:
    """Return a file that the live page is made of."""
    found = _FILES.get(name)
    if found is None:
        raise HTTPException(404)
    return _answer(request, found)


@router.get(
    "/v1/config",
    response_model=PageConfig,
    responses=problems(),
    summary="Get what the live page needs.",
)
async def get_config(request: Request, caller: Reader, manager: Manager) -> Any:
    """Return who calls, what they may do, and where else Runs are shown."""
    settings: Settings = request.app.state.settings
    return PageConfig(
        version=request.app.version,
        caller=caller.name,
        tenant=caller.tenant,
        scopes=tuple(sorted(caller.scopes)),
        temporal_ui_url_template=_temporal_ui(settings, manager),
        trace_url_template=settings.trace_url,
    )


def _answer(request: Request, file: _File) -> Response:
    headers = {
        "Cache-Control": "no-cache",  # asked for again each time, and sent only when it changed
        "Content-Security-Policy": CONTENT_POLICY,
        "ETag": file.tag,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _temporal_ui(settings: Settings, manager: RunManager) -> str | None:
    try:
        return run_url(settings, manager.client.namespace, None) + "/{run_id}"
    except ConfigurationError:
        return None
