"""What is said in one line of log: from a record, whoever made it, to the fields that are written.

Lines are for operators, so nothing that users, models or tools have said is in them unless
`content` is asked for: exceptions are told by type, code and place, and of libraries only the fixed
part of what they say. What agents' and tools' own code logs is theirs, and kept. Everything goes
through the redactor.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import temporalio
from temporalio import activity, workflow
from temporalio.common import SearchAttributeKey

from perdure.engine.log_errors import text_of, told_error, within
from perdure.engine.tracing import current_span
from perdure.runs.contract import AGENT_ATTRIBUTE, SESSION_ATTRIBUTE
from perdure.sessions.contract import SESSION_WORKFLOW

FIELDS = {
    "timestamp": "when, in UTC (RFC 3339)",
    "level": "`debug`, `info`, `warning`, `error` or `critical`",
    "logger": "who says it",
    "event": "what is said",
    "run_id": "the Run",
    "session_id": "the Session",
    "agent": "the agent that the Run is with",
    "step": "the number of the Step",
    "attempt": "the attempt of the Step, from 1",
    "activity": "Temporal's name of the Step: `call_model`, `tool.` and the tool's name",
    "execution": "Temporal's run id: which execution of the Run or Session",
    "trace_id": "of the current span, where traces are on",
    "span_id": "the same",
    "code": "an error code ([errors.md](errors.md)), or that of a gRPC status",
    "retry_in_s": "seconds until the next attempt",
    "status": "with the end of a Run its status, with a request its HTTP status",
    "stop_reason": "with the end of a Run: why",
    "turns": "the same: how many",
    "tokens": "the same: in all",
    "cost": "the same: in USD",
    "duration_ms": "of a Run, or a request",
    "method": "of a request",
    "route": "of a request: the path with names in place of ids",
    "error": "of an exception: `type`, `code` if it has one, `frames` (`file:line in function`, "
    "innermost last), what it comes from (`cause`) or is a group of (`errors`)",
    "content": "what a provider, a tool or a server has said; only where content is asked for",
}
"""Every field that we write ourselves, in this order."""

LIBRARIES = (
    "temporalio",
    "asyncio",
    "openai",
    "httpx2",
    "httpx",
    "httpcore2",
    "httpcore",
    "mcp",
    "uvicorn",
    "fastapi",
    "starlette",
    "redis",
    "boto3",
    "botocore",
    "aioboto3",
    "aiobotocore",
    "urllib3",
)
"""Loggers whose lines may hold what goes over the wire."""
USED_BY_ALL = (activity.logger.base_logger.name, workflow.logger.base_logger.name)
"""Of the SDK, but tools and our workflows log by them, too."""

MOST_CHARS = 8192
"""Of one value; the rest is cut."""
MOST_ITEMS = 50
DEEPEST = 4
MOST_BITS = 64
"""Of a whole number."""

_PLACEHOLDER = re.compile(r"%(?:\((?P<name>\w+)\))?[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[a-zA-Z%]")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GRPC_CODE = re.compile(r"\bcode: \"?(\w+)")
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
    "temporal_activity",
    "temporal_workflow",
    "temporal_log",
    "__temporal_error_identifier",
    "_logger",
    "_name",
}
"""What is in every record, or put there for other formatters."""
_MCP_SESSION = str(Path("mcp", "client", "session.py"))
"""Its logger is called `client`, as anybody's might be."""
_SDK = str(Path(temporalio.__file__).parent)
_SESSION = SearchAttributeKey.for_keyword(SESSION_ATTRIBUTE)
_AGENT = SearchAttributeKey.for_keyword(AGENT_ATTRIBUTE)

Redact = Callable[[str], str]
Fields = dict[str, Any]


class Teller:
    """A processor of structlog: makes the fields of a line.

    Args:
        redact: Takes secrets out of a text.
        content: Whether what users, models and tools say may be written.
    """

    def __init__(self, redact: Redact, *, content: bool) -> None:
        self._redact = redact
        self._content = content

    def __call__(self, _logger: object, _method: str, made: Any) -> Any:
        """Return the fields of what structlog made of a record."""
        record: logging.LogRecord = made["_record"]
        exc = _exception(made.pop("exc_info", None))
        own = self._content or not is_library(record)
        extras = self._extras(record, made) if own else {}
        said = _formatted(record.msg, made.get("positional_args")) if own else ""
        line: Fields = {
            "timestamp": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(made["event"]) if made["_from_structlog"] else said,
        }
        if not own:
            line["event"] = fixed_part(record.msg, made.get("positional_args"), exc)
        known = extras | structlog.contextvars.get_contextvars() | executing(record) | _span()
        line |= {name: value for name, value in known.items() if name not in line}
        if exc is not None:
            line["error"] = told_error(exc, self._short if self._content else None)
        return {self._redact(name)[:100]: self._value(name, line[name]) for name in _ordered(line)}

    def _extras(self, record: logging.LogRecord, made: Mapping[str, Any]) -> Fields:
        if made["_from_structlog"]:
            found = {name: value for name, value in made.items() if name not in _MADE}
        else:
            found = {name: each for name, each in record.__dict__.items() if name not in _OWN}
            found |= _of_core(record) if self._content else {}
        if not self._content:
            found.pop("content", None)
        return {str(name): value for name, value in found.items() if value is not None}

    def _value(self, name: str, value: Any) -> Any:
        is_told = name == "error" and isinstance(value, dict) and "frames" in value
        return value if is_told else self._plain(value)

    def _plain(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON can hold it, without secrets and within bounds."""
        match value:
            case None | bool():
                return value
            case int() if value.bit_length() <= MOST_BITS:
                return int(value)
            case float() if within(value):
                return value
            case Mapping() if depth < DEEPEST:
                items = list(value.items())[:MOST_ITEMS]
                return {self._short(name): self._plain(each, depth + 1) for name, each in items}
            case list() | tuple() | set() | frozenset() if depth < DEEPEST:
                return [self._plain(each, depth + 1) for each in list(value)[:MOST_ITEMS]]
            case _:
                return self._short(value)

    def _short(self, value: object) -> str:
        # Redacted before it is cut: half a secret would not be recognised.
        return self._redact(text_of(value)[: 2 * MOST_CHARS])[:MOST_CHARS]


_MADE = ("event", "_record", "_from_structlog", "positional_args", "stack_info", "exc_info")


def is_library(record: logging.LogRecord) -> bool:
    """Tell whether a library made a record, and not ours or users' code by its logger."""
    if record.name.partition(".")[0].partition("-")[0] not in LIBRARIES:
        return record.pathname.endswith(_MCP_SESSION)
    return record.name not in USED_BY_ALL or record.pathname.startswith(_SDK)


def fixed_part(said: object, args: object, exc: BaseException | None) -> str:
    """Return what a library says without the values in it: its first line, numbers and UUIDs.

    Args:
        said: The message as it was logged, with placeholders.
        args: What belongs in their places.
        exc: What it is about: its words may be in the message already.
    """
    given = list(args) if isinstance(args, tuple) else []

    def value(found: re.Match[str]) -> str:
        if found.group().endswith("%"):
            return "%"
        each = given.pop(0) if given else None
        is_safe = isinstance(each, int | float) or (
            isinstance(each, str) and _UUID.fullmatch(each) is not None
        )
        return str(each) if is_safe else "…"

    line = next(iter(text_of(said).splitlines()), "")
    # What is no template has its values behind a colon, most often.
    line = _PLACEHOLDER.sub(value, line) if args else line.partition(": ")[0]
    for words in _words(exc or sys.exc_info()[1]):
        line = line.replace(words, "…")
    return line


def _words(exc: BaseException | None) -> Iterable[str]:
    """Return what an exception, and those it comes from, say; the longest first."""
    found: set[str] = set()
    for _ in range(10):
        if exc is None:
            break
        said = text_of(exc)
        found |= {said, *said.splitlines()[:1]}
        exc = exc.__cause__ or exc.__context__
    return sorted(filter(None, found), key=len, reverse=True)


def executing(record: logging.LogRecord) -> Fields:
    """Return the ids of the Run, or Session, that is being worked on where a record was made."""
    if activity.in_activity():
        info = activity.info()
        found = _ids(info.workflow_type, info.workflow_id, info.workflow_run_id)
        return found | {"attempt": info.attempt, "activity": info.activity_type}
    if workflow.in_workflow():
        its = workflow.info()
        known = {"agent": _AGENT, "session_id": _SESSION}
        about = {name: its.typed_search_attributes.get(key) for name, key in known.items()}
        about = {name: value for name, value in about.items() if value}
        return about | _ids(its.workflow_type, its.workflow_id, its.run_id)
    told = getattr(record, "temporal_workflow", None)
    if isinstance(told, Mapping):  # the SDK, about a workflow, from outside it
        return _ids(told.get("workflow_type"), told.get("workflow_id"), told.get("run_id"))
    core = _of_core(record)
    found = _ids(None, core.get("workflow_id"), core.get("run_id"))
    status = _GRPC_CODE.search(str(core.get("error", "")))
    return found | ({"code": status.group(1)} if status else {})


def _of_core(record: logging.LogRecord) -> Fields:
    """Return what a record of Temporal's Core, which is no Python, has besides its message."""
    fields = getattr(getattr(record, "temporal_log", None), "fields", None)
    return dict(fields) if isinstance(fields, Mapping) else {}


def _ids(kind: str | None, workflow_id: str | None, execution: str | None) -> Fields:
    found: Fields = {}
    if kind == SESSION_WORKFLOW and workflow_id:
        found["session_id"] = workflow_id.partition("/")[2]
    elif workflow_id:
        found["run_id"] = workflow_id
    return found | ({"execution": execution} if execution else {})


def _span() -> Fields:
    span = current_span()
    return {} if span is None else {"trace_id": span.trace_id, "span_id": span.span_id}


def _exception(given: object) -> BaseException | None:
    if given is True:
        return sys.exc_info()[1]
    if isinstance(given, tuple):
        given = given[1]
    return given if isinstance(given, BaseException) else None


def _formatted(said: object, args: Any) -> str:
    if not args:
        return text_of(said)
    try:
        return str(text_of(said) % args)
    except Exception:  # noqa: BLE001 - a mistake in a line of log is not to cost the line
        return f"{text_of(said)} {text_of(args)}"


def _moment(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ordered(line: Fields) -> list[str]:
    ours = [name for name in FIELDS if name in line]
    return ours + [name for name in line if name not in FIELDS]
