"""HIST: transcripts that every server accepts, whatever came before."""

from collections.abc import Callable
from typing import Any

from perdure.runs.messages import AssistantMessage, UserMessage
from tests.activities.streams import delta, entry, piece
from tests.bugbank.case import (
    CALLS,
    END,
    STOP,
    Case,
    asked,
    done,
    ends,
    one,
    rejected,
    said,
    stream,
)
from tests.harness.scripted_openai import RecordedRequest

PING = entry("c1", "ping", "{}")


def second_system(request: RecordedRequest) -> bool:
    """Tell whether a system message stands anywhere but first."""
    return any(message["role"] == "system" for message in request.messages[1:])


def answers(request: RecordedRequest) -> list[dict[str, Any]]:
    """Return the assistant messages of a request."""
    return [message for message in request.messages if message["role"] == "assistant"]


ONE_SYSTEM = [
    Case(
        "HIST-01",
        what,
        (reply, END),
        refused_if=second_system,
        executed=executed,
        next_request=('"messages":[{"role":"system","content":"Help."}',),
    )
    for what, reply, executed in [
        ("after a result", asked(PING), ("ping",)),
        ("after a rejected call", one("get_date", "{}"), ()),
        ("after a cut call", asked(PING, content=None), ("ping",)),
        ("after a result that was shortened", one("measure", '{"kind":"long"}'), ("measure long",)),
    ]
]


def has_content(value: Any) -> Callable[[RecordedRequest], bool]:
    """Return the rule of a server that refuses this content beside tool calls."""

    def refuses(request: RecordedRequest) -> bool:
        return any(message.get("content", "missing") == value for message in answers(request))

    return refuses


REFUSED = {
    "status": "failed",
    "code": "invalid_request",
    "output": None,
    "requests": 2,
    "error_holds": ("Scripted refusal.",),
}
SERVERS = {"null": None, "an empty string": "", "a missing key": "missing"}
ACCEPTED = {
    "helper": ("an empty string", "a missing key"),
    "empty-content": ("null", "a missing key"),
}
CONTENT = [
    Case(
        "HIST-03",
        f"{agent} says {content!r} at a server that refuses {server}",
        (asked(PING, content=content), END) if server in accepted else (asked(PING),),
        agent=agent,
        refused_if=has_content(refused),
        executed=("ping",),
        **({} if server in accepted else REFUSED),
    )
    for agent, accepted in ACCEPTED.items()
    for server, refused in SERVERS.items()
    for content in ([None, ""] if server in accepted else [None])
]


def without_reasoning(request: RecordedRequest) -> bool:
    """Tell whether an answer lacks the field that its model wants back."""
    return any("reasoning_content" not in message for message in answers(request))


THOUGHT = asked(PING, reasoning_content="think")
PIECES = stream(
    delta(reasoning_content="thi"),
    delta(reasoning_content="nk", content=None),
    delta(reasoning_content=None),
    piece("ping", "{}", index=0, id="c1"),
    CALLS,
)
LONG = "Grübeln " * 10_000
SAID = AssistantMessage(content="Hello.", extra={"reasoning_content": "think"})
ECHO = [
    Case(
        "HIST-05",
        f"sent back: {what}",
        (reply, END),
        agent="reasoner",
        refused_if=without_reasoning,
        executed=("ping",),
        step={"echo": echo, "extra": {}},
        next_request=(f'"reasoning_content":"{sent}"',),
    )
    for what, reply, echo, sent in [
        ("whole", THOUGHT, {"reasoning_content": "think"}, "think"),
        ("streamed", PIECES, {"reasoning_content": "think"}, "think"),
        ("missing", asked(PING), {}, ""),
        ("null", asked(PING, reasoning_content=None), {}, ""),
        ("no text", asked(PING, reasoning_content={"a": 1}), {}, ""),
        (
            "half a character",
            asked(PING, reasoning_content="a\ud83d"),
            {"reasoning_content": "a\ufffd"},
            "a\ufffd",
        ),
        (
            "without an end",
            asked(PING, reasoning_content=LONG),
            {"reasoning_content": LONG[: 64 * 1024]},
            LONG[: 64 * 1024],
        ),
    ]
] + [
    Case(
        "HIST-05",
        "kept and not sent where no profile asks for it",
        (THOUGHT, END),
        executed=("ping",),
        step={"extra": {"reasoning_content": "think"}, "echo": {}},
        never_sent=("reasoning_content", "think"),
    ),
    Case(
        "HIST-05",
        "other fields are kept, cut, and not sent",
        (asked(PING, reasoning="r" * 9000, vendor="v", tags=["x"]), END),
        agent="reasoner",
        executed=("ping",),
        step={"extra": {"reasoning": "r" * 4096, "vendor": "v"}},
        never_sent=('"reasoning":', "vendor", '"extra"'),
    ),
    Case("HIST-05", "refused without a profile", (THOUGHT,), refused_if=without_reasoning,
         executed=("ping",), **REFUSED),
    Case(
        "HIST-05",
        "not sent to another model than the one that it came from",
        (END,),
        context=(UserMessage(content="Hi."), SAID),
        never_sent=("reasoning_content", "think", '"extra"'),
        next_request=('{"role":"assistant","content":"Hello."}',),
    ),
    Case(
        "HIST-05",
        "sent when the conversation goes on",
        (END,),
        agent="reasoner",
        context=(UserMessage(content="Hi."), SAID, UserMessage(content="And?"),
                 AssistantMessage(content="Well.")),
        refused_if=without_reasoning,
        next_request=('"content":"Hello.","reasoning_content":"think"',
                      '"content":"Well.","reasoning_content":""'),
    ),
]  # fmt: skip

HALVES = [
    Case(
        "HIST-07",
        "in a result",
        (one("measure", '{"kind":"surrogate"}'), END),
        executed=("measure surrogate",),
        calls=[done(result="ok \ufffd")],
        next_request=('"content":"ok \ufffd"',),
    ),
    Case(
        "HIST-07",
        "deep in a result",
        (one("measure", '{"kind":"nested surrogate"}'), END),
        executed=("measure nested surrogate",),
        calls=[done(result='{"name":["ok \ufffd","漢字 😀"]}')],
    ),
    Case(
        "HIST-07",
        "in an error of a tool",
        (one("fail", '{"how":"surrogate"}'), END),
        calls=[{"status": "failed", "code": "tool_failed"}],
        next_request=("no \ufffd",),
    ),
    Case("HIST-07", "in the input", (END,), input="\ud83d", next_request=('"content":"\ufffd (',)),
    Case("HIST-07", "a pair in the input", (END,), input="\ud83d\ude00", next_request=("😀",)),
    Case("HIST-07", "none: emoji in the input", (END,), input="漢 😀", next_request=("漢 😀",)),
    Case(
        "HIST-07",
        "none: emoji and NUL in results",
        (asked(*(entry(k, "measure", f'{{"kind":"{k}"}}') for k in ("emoji", "nul"))), END),
        executed=("measure emoji", "measure nul"),
        calls=[done(result="漢字 😀"), done(result="a\x00b")],
        next_request=("漢字 😀", "a\\u0000b"),
    ),
]

IN_ANSWERS = [
    Case(
        "HIST-08",
        "in text beside a call",
        (asked(PING, content="bad \udc97"), END),
        executed=("ping",),
        step={"text": "bad \ufffd"},
        next_request=('"content":"bad \ufffd"',),
    ),
    ends(
        "HIST-08",
        "a pair in two chunks",
        None,
        stream(delta(content="a\ud83d"), delta(content="\ude00b"), STOP),
        output="a😀b",
    ),
    ends(
        "HIST-08",
        "halves in the wrong order",
        None,
        stream(delta(content="\ude00"), delta(content="\ud83d"), STOP),
        output="\ufffd\ufffd",
    ),
    Case(
        "HIST-08",
        "a pair in two pieces of arguments",
        (
            stream(
                piece("weather", '{"city":"\ud83d', index=0, id="a"),
                piece(None, '\ude00"}', index=0),
                CALLS,
            ),
            END,
        ),
        executed=("weather 😀",),
    ),
    Case(
        "HIST-08",
        "in a name",
        (one("pi\udc97ng", "{}"), END),
        calls=[rejected("tool_not_found")],
    ),
    ends("HIST-08", "in a refusal", "refused", said(refusal="No \udc97"), output="No \ufffd"),
]

CASES: list[Case] = [*ONE_SYSTEM, *CONTENT, *ECHO, *HALVES, *IN_ANSWERS]
