"""Logging of our own processes: one line of JSON, or of text, for each record of anybody's.

Only the mains of processes set it up. Whoever uses us as a library keeps their own logging.
"""

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from temporalio import activity, workflow
from temporalio.envconfig import ClientConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter

from perdure.engine.log_lines import LIBRARIES, USED_BY_ALL, Redact, Teller
from perdure.engine.models import model_table
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for what users, models and tools say; the one that spans obey."""
QUIET = (*LIBRARIES, "opentelemetry")
"""At `warning`, whatever the level: below it they tell bodies and headers, and more than anybody
reads."""
SECRET_VARIABLES = (
    "TEMPORAL_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "PERDURE_LOCAL_MODEL_KEY",
)
HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
"""Of pairs `name=value` that may be keys."""

log = logging.getLogger("perdure")


def set_up(
    log_format: Literal["auto", "text", "json"] = "auto", level: str = "info", redact: Redact = str
) -> None:
    """Log to the standard error from now on, whoever logs.

    Args:
        log_format: `auto` is text on a terminal, and JSON elsewhere.
        level: The lowest that is written.
        redact: Takes secrets out of a text.
    """
    content = os.environ.get(CONTENT, "").strip().lower() == "true"
    is_text = sys.stderr.isatty() if log_format == "auto" else log_format == "text"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(redact, sys.stderr if is_text else None, content=content))
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(chosen)
    told = chosen if content and chosen <= logging.DEBUG else max(chosen, logging.WARNING)
    for name in QUIET:
        logging.getLogger(name).setLevel(told)
    for name in USED_BY_ALL:
        logging.getLogger(name).setLevel(chosen)
    # A line that can't be written is lost: telling so would quote it.
    logging.raiseExceptions = False
    # The ids are fields of their own.
    activity.logger.activity_info_on_message = False
    workflow.logger.workflow_info_on_message = False
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    _catch_what_python_prints(content=content)


def core_logging() -> LoggingConfig:
    """Return how the SDK's Core, which writes to the standard output by itself, logs with us."""
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio"),
        prepend_target_on_message=False,
        append_log_fields_to_message=False,
    )
    return LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding)


def known_secrets(settings: Settings) -> list[str]:
    """Return everything that no line may show: keys of the provider, of tools, of what we use."""
    found = list(settings.secret_values.values())
    for each in (settings.openai_api_key, settings.redis_url):
        found += [each.get_secret_value()] if each else []
    if settings.redis_url is not None:
        login = settings.redis_url.get_secret_value().rpartition("@")[0]
        found.append(login.rpartition(":")[2])
    found += [os.environ.get(name, "") for name in SECRET_VARIABLES]
    for name in HEADER_VARIABLES:
        pairs = os.environ.get(name, "").split(",")
        found += [pair.partition("=")[2].strip() for pair in pairs]
    with contextlib.suppress(ConfigurationError):  # a file that can't be used: workers say so
        found += [key.get_secret_value() for key in model_table(settings).keys.values()]
    with contextlib.suppress(RuntimeError):  # a profile that can't be read: connecting says so
        found.append(ClientConfig.load_client_connect_config().get("api_key") or "")
    return [each for each in found if each]


def formatter(redact: Redact, terminal: TextIO | None, *, content: bool) -> ProcessorFormatter:
    """Return what makes a line of a record: text for people where there is a terminal, else JSON.

    Args:
        redact: Takes secrets out of a text.
        terminal: Decides whether there are colours.
        content: Whether what users, models and tools say may be written.
    """
    renderer = Text(terminal) if terminal is not None else structlog.processors.JSONRenderer()
    return ProcessorFormatter(
        processors=[Teller(redact, content=content), renderer],
        use_get_message=False,
        pass_foreign_args=True,
    )


class Text:
    """A processor of structlog: writes the fields of a line for people.

    Args:
        stream: Where it goes: a terminal gets colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = structlog.dev.ConsoleRenderer(
            colors=stream.isatty() and "NO_COLOR" not in os.environ,
            pad_event_to=0,
            sort_keys=False,
        )

    def __call__(self, logger: Any, method: str, line: Any) -> str:
        """Return the line, and below it where an exception comes from."""
        at = datetime.fromisoformat(line["timestamp"]).replace(tzinfo=UTC)
        error = line.pop("error", None)
        shown = {_visible(name): _visible_in(each) for name, each in line.items()}
        shown["timestamp"] = at.astimezone().strftime("%H:%M:%S")
        told = self._console(logger, method, shown)
        return "\n".join([str(told), *(_told(error) if isinstance(error, dict) else ())])


def _told(error: dict[str, Any], how: str = "") -> list[str]:
    name = " ".join(_visible(error[key]) for key in ("type", "code", "message") if key in error)
    lines = [f"  {how}{name}", *(f"    {_visible(each)}" for each in error["frames"])]
    for each in error.get("errors", ()):
        lines += _told(each, "of which ")
    return lines + (_told(error["cause"], "from ") if "cause" in error else [])


def _visible(text: str) -> str:
    """Return a text without what moves a cursor or begins another line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _visible_in(value: Any) -> Any:
    return _visible(value) if isinstance(value, str) else value


def _catch_what_python_prints(*, content: bool) -> None:
    """Let what Python would write to the standard error by itself be lines as well."""

    def uncaught(kind: type[BaseException], exc: BaseException, _: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            log.critical("The process ends by an error.", exc_info=exc)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        log.error("A thread ended by an error.", exc_info=args.exc_value)

    def unraisable(args: Any) -> None:
        log.warning("An error could not be raised.", exc_info=args.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = in_thread
    sys.unraisablehook = unraisable
    warnings.showwarning = _warning(content=content)


def _warning(*, content: bool) -> Callable[..., None]:
    def show(
        message: Warning | str, category: type[Warning], path: str, line: int, *_: Any
    ) -> None:
        # Pydantic's warnings, for one, quote the value that they warn of.
        said = {"content": str(message)} if content else {}
        log.warning("Python warns: %s at %s:%d.", category.__name__, path, line, extra=said)

    return show
