"""RESP: answers that are none, or that end in odd ways."""

from perdure.runs.messages import AssistantMessage, UserMessage
from tests.activities.streams import delta, entry, piece
from tests.bugbank.case import (
    END,
    STOP,
    Case,
    asked,
    body,
    done,
    ends,
    failing,
    finished,
    rejected,
    said,
    stream,
)
from tests.harness.scripted_openai import Reply

PING = entry("c1", "ping", "{}")
NO_HELP = "I can't help with that."


CALLS_COUNT = [
    Case(
        "RESP-01",
        f"{form}, finish reason {reason!r}",
        (reply, END),
        executed=("ping",),
        step={"finish_reason": reason or "unknown"},
    )
    for reason in ("stop", "eos", None)
    for form, reply in {
        "whole": body(finished(reason, {"content": None, "tool_calls": [PING]})),
        "streamed": stream(piece("ping", "{}", index=0, id="c1"), delta(reason)),
    }.items()
] + [
    Case(
        "RESP-01",
        "with text beside them",
        (asked(PING, content="Let me see."), END),
        executed=("ping",),
        step={"text": "Let me see."},
        next_request=('"content":"Let me see."',),
    )
]

EMPTY_LISTS = [
    ends("RESP-02", "whole", None, said(content="hello", tool_calls=[]), output="hello"),
    Case(
        "RESP-02",
        "in the conversation so far",
        (said(content="Hi again."),),
        output="Hi again.",
        context=(UserMessage(content="Hi."), AssistantMessage(content="hello", tool_calls=())),
        next_request=('{"role":"assistant","content":"hello"}',),
    ),
    ends("RESP-02", "null", None, said(content="hello", tool_calls=None), output="hello"),
    ends(
        "RESP-02",
        "streamed",
        None,
        stream(delta(content="hello", tool_calls=[]), STOP),
        output="hello",
    ),
    Case(
        "RESP-02",
        "before a turn with calls",
        (asked(PING, content=""), asked(content="hello", tool_calls=[])),
        output="hello",
        executed=("ping",),
        never_sent=('"tool_calls":[]',),
    ),
]

FILTERED = [
    ends(
        "RESP-04",
        f"nothing said, {reason!r}",
        "content_filtered",
        body(finished(reason)),
        usage=(7, 3, True),
        step={"incomplete": False, "finish_reason": reason},
    )
    for reason in ("content_filter", "SAFETY", "sensitive")
] + [
    ends(
        "RESP-04",
        "partial text",
        "content_filtered",
        stream(delta(content="Half an"), delta("content_filter")),
        output="Half an",
        step={"incomplete": True, "text": "Half an"},
    ),
    ends(
        "RESP-04",
        "calls are not executed",
        "content_filtered",
        body(finished("content_filter", {"tool_calls": [PING]})),
        calls=[],
    ),
    ends(
        "RESP-04",
        "as a refused request",
        "content_filtered",
        failing(400, {"code": "content_filter", "message": "The response was filtered."}),
    ),
    Case(
        "RESP-04",
        "after a good turn, which is kept",
        (asked(PING), body(finished("content_filter"))),
        status="failed",
        code="content_filtered",
        output=None,
        executed=("ping",),
        calls=[done(result="pong")],
    ),
]

WHOLE_CALL = '{"path":"a","text":"b"}'
CUT_CALL = '{"path":"a","text":"<html>'
TRUNCATED = [
    Case(
        "RESP-06",
        f"arguments that {state}, {form}",
        (reply, END),
        calls=[rejected("output_truncated", raw_arguments=arguments)],
        next_request=("output_truncated", "output limit"),
    )
    for state, arguments in (("broke off", CUT_CALL), ("happen to parse", WHOLE_CALL))
    for form, reply in {
        "whole": body(finished("length", {"tool_calls": [entry("c1", "write", arguments)]})),
        "streamed": stream(piece("write", arguments, index=0, id="c1"), delta("MAX_TOKENS")),
    }.items()
] + [
    ends(
        "RESP-06",
        "again and again",
        "model_misbehaving",
        *[body(finished("length", {"tool_calls": [entry("c1", "write", CUT_CALL)]}))] * 3,
    ),
    ends(
        "RESP-06",
        "the server can't parse it: 500",
        None,
        *[failing(500, {"message": "Failed to parse tool call arguments as JSON"})] * 2,
        END,
        output="Done.",
    ),
    ends(
        "RESP-06",
        "text, cut",
        "output_truncated",
        body(finished("length", {"content": "Once upon"})),
        output="Once upon",
        step={"incomplete": True},
    ),
]

REFUSALS: dict[str, Reply] = {
    "whole": said(content=None, refusal=NO_HELP),
    "empty text": said(content="", refusal=NO_HELP),
    "streamed": stream(delta(refusal="I can't "), delta(refusal="help with that."), STOP),
    "streamed with nulls": stream(
        delta(content=None, refusal="I can't "), delta(refusal="help with that."), STOP
    ),
    "as a part": said(content=[{"type": "refusal", "refusal": NO_HELP}]),
    "after text": stream(delta(content="Well, "), delta(refusal=NO_HELP), STOP),
}
REFUSED = [
    ends("RESP-07", what, "refused", reply, output=NO_HELP, step={"text": NO_HELP})
    for what, reply in REFUSALS.items()
] + [
    ends("RESP-07", "an empty one is none", None, said(content="Hi.", refusal=""), output="Hi."),
    ends(
        "RESP-07",
        "by the finish reason alone",
        "refused",
        body(finished("refusal", {"content": "No."})),
        output="No.",
    ),
]

CASES: list[Case] = [*CALLS_COUNT, *EMPTY_LISTS, *FILTERED, *TRUNCATED, *REFUSED]
