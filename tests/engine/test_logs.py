"""Records of anybody's become lines: complete, bounded, without content, one line each."""

import json
import logging
import re
import subprocess
import sys
from io import StringIO
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider

from perdure.activities.redaction import Redactor
from perdure.engine import logs
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError

CANARY, SECRET = "canary of somebody", "canary/of+a=secret"
UUID = "019a0000-0000-7000-8000-000000000000"


def line(
    name: str = "shop",
    said: object = "said",
    args: Any = (),
    *,
    exc: BaseException | None = None,
    content: bool = False,
    **extra: Any,
) -> dict[str, Any]:
    """Return what is written of a record."""
    record = logging.getLogger(name).makeRecord(
        name, logging.INFO, extra.pop("path", "shop.py"), 1, said, args, None, extra=extra
    )
    record.exc_info = (type(exc), exc, exc.__traceback__) if exc else None
    written = logs.formatter(Redactor([SECRET]), None, content=content).format(record)
    assert len(written.splitlines()) == 1
    read: dict[str, Any] = json.loads(written)
    return read


def raised() -> BaseException:
    try:
        try:
            raise ValueError(CANARY)
        except ValueError as exc:
            raise ConfigurationError(f"because of {CANARY}") from exc
    except ConfigurationError as exc:
        return exc


def test_a_line_says_when_who_and_what() -> None:
    told = line("shop.orders", "order %d of %s", (7, "Anna"), basket="full")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("timestamp"))
    expected = {"level": "info", "logger": "shop.orders", "event": "order 7 of Anna"}
    assert told == expected | {"basket": "full"}


@pytest.mark.parametrize(
    ("said", "args", "told"),
    [
        ("got %s from %r at %d", (CANARY, UUID, 7), f"got … from {UUID} at 7"),
        ("100%% of %.1f %-5s", (1.5, CANARY), "100% of 1.5 …"),
        ("%(who)s said", ({"who": CANARY},), "… said"),
        (f"Exception handling failed, original error: {CANARY}", (), None),
        (f"Odd {CANARY} here", (), "Odd … here"),
        (f"Task exception was never retrieved\nfuture: <{CANARY}>", (), None),
        ("too few %s %s", (CANARY,), "too few … …"),
    ],
    ids=["values", "widths", "names", "behind-a-colon", "an-error's", "second-line", "too-few"],
)
def test_of_libraries_only_the_fixed_part_is_told(said: str, args: Any, told: str | None) -> None:
    written = line("openai.client", said, args, exc=raised(), body=CANARY)
    assert CANARY not in json.dumps(written)
    if told is not None:
        assert written["event"] == told
    assert CANARY in json.dumps(line("openai.client", said, args, exc=raised(), content=True))


def test_an_exception_is_told_by_type_code_and_place() -> None:
    error = line(exc=raised())["error"]
    assert (error["type"], error["code"]) == ("ConfigurationError", "configuration")
    assert re.fullmatch(r".*test_logs\.py:\d+ in raised", error["frames"][-1])
    assert error["cause"]["type"] == "ValueError"
    assert "message" not in json.dumps(error)
    group = line(exc=ExceptionGroup(CANARY, [ValueError(CANARY)] * 9))["error"]
    assert [each["type"] for each in group["errors"]] == ["ValueError"] * 5
    assert line(exc=raised(), content=True)["error"]["cause"]["message"] == CANARY


def test_what_is_content_is_told_only_where_it_is_asked_for() -> None:
    record = {"content": CANARY}
    made = logging.getLogger("perdure").makeRecord(
        "perdure", 20, "", 1, "x", (), None, extra=record
    )
    assert CANARY not in logs.formatter(str, None, content=False).format(made)
    assert CANARY in logs.formatter(str, None, content=True).format(made)


class Odd:
    def __str__(self) -> str:
        raise RuntimeError(CANARY)


def test_whatever_is_logged_is_written_within_bounds() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    told = line(
        said="said %s", args=(Odd(),),
        nan=float("nan"), huge=10**5000, odd=Odd(), deep=deep, long="x" * 10**6,
        many=list(range(1000)), secret={"in": [f"a {SECRET}"]}, half="x" * 8190 + SECRET,
        **{"a key\nof mine": b"bytes", "level": "mine", "run_id": "mine"},
    )  # fmt: skip
    assert told["event"].startswith("said")
    assert (told["odd"], told["nan"]) == ("<Odd>", "nan")
    assert (len(told["long"]), len(told["many"])) == (8192, 50)
    assert told["secret"] == {"in": ["a [redacted]"]}
    assert "canary" not in told["half"]
    assert (told["level"], told["run_id"]) == ("info", "mine")


def test_text_shows_what_would_move_the_cursor_and_stays_one_line() -> None:
    made = logging.getLogger("x").makeRecord(
        "x\n", 30, "", 1, "a\nb\x1b[2J\u2028é", (), None, extra={"k": "c\r\nd", "ord": 7}
    )
    text = logs.formatter(str, StringIO(), content=False).format(made)
    assert len(text.splitlines()) == 1
    assert r"a\nb\x1b[2J\u2028é" in text
    assert "ord=7" in text
    made.exc_info = (ValueError, ValueError("x"), None)
    below = logs.formatter(str, StringIO(), content=False).format(made).splitlines()[1:]
    assert below == ["  ValueError"]


def test_a_line_within_a_span_names_it() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("step") as span:
        told = line()
    context = span.get_span_context()
    assert told["trace_id"] == f"{context.trace_id:032x}"
    assert told["span_id"] == f"{context.span_id:016x}"
    assert "trace_id" not in line()


def test_what_the_sdk_says_of_a_workflow_from_outside_it_names_the_run() -> None:
    about = {"workflow_id": "run_1", "run_id": UUID, "workflow_type": "Run", "attempt": 3}
    assert (
        line("temporalio.worker", temporal_workflow=about).items()
        >= {
            "run_id": "run_1",
            "execution": UUID,
        }.items()
    )
    of_session = about | {"workflow_id": "session/anna", "workflow_type": "Session"}
    told = line("temporalio.worker", temporal_workflow=of_session)
    assert told["session_id"] == "anna"
    assert "run_id" not in told


class Core:
    """What the SDK's Core hands over with a record."""

    fields: ClassVar = {
        "error": f'Status {{ code: Unavailable, message: "{CANARY}" }}',
        "run_id": UUID,
    }


def test_what_core_says_names_execution_and_code_without_its_words() -> None:
    told = line("temporalio-sdk_core::temporal_client", "gRPC call failed", temporal_log=Core())
    assert (told["execution"], told["code"]) == (UUID, "Unavailable")
    assert CANARY not in json.dumps(told)


def test_everything_secret_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "OPENAI_API_KEY": "secret-1",
        "PERDURE_SECRET_BANK": "secret-2",
        "PERDURE_REDIS_URL": "redis://user:secret-3@host:6379/0",
        "TEMPORAL_API_KEY": "secret-4",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret-5, authorization=secret-6",
        "AWS_SECRET_ACCESS_KEY": "secret-7",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    known = logs.known_secrets(Settings.configured())
    assert {f"secret-{n}" for n in range(1, 8)} <= set(known)


PROCESS = """
import asyncio, logging, sys, threading
from perdure.engine import logs
logs.set_up("json", sys.argv[1])
for name in ("shop", "openai", "temporalio.activity", "temporalio.worker", "opentelemetry.sdk"):
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger(name), level)("%s", 1)
logging.getLogger("shop").warning("%s", object(), stack_info=True)
threading.Thread(target=lambda: 1 / 0).start()
raise SystemExit(asyncio.run(asyncio.sleep(0, 0)))
"""


@pytest.mark.parametrize(
    ("level", "content", "levels"),
    [
        ("info", "false", {"shop": "iww", "temporalio.activity": "iw"}),
        ("debug", "true", {"shop": "diww", "temporalio.activity": "diw", "openai": "diw"}),
    ],
)
def test_levels_and_which_loggers_stay_quiet(
    level: str, content: str, levels: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(logs.CONTENT, content)
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", PROCESS, level], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout == ""
    read = [json.loads(each) for each in done.stderr.splitlines()]
    found: dict[str, str] = {}
    for each in filter(lambda each: each["logger"] != "asyncio", read):
        found[each["logger"]] = found.get(each["logger"], "") + each["level"][0]
    quiet = levels.get("openai", "w")
    rest = dict.fromkeys(("openai", "temporalio.worker", "opentelemetry.sdk"), quiet)
    assert found == rest | levels | {"perdure": "e"}
    (error,) = (each["error"] for each in read if each["logger"] == "perdure")
    assert error["type"] == "ZeroDivisionError"
