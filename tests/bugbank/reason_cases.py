"""RESP-12 and RESP-13: finish reasons that are missing or strange, and text in other shapes."""

from tests.activities.streams import delta, piece
from tests.bugbank.case import END, STOP, Case, body, ends, finished, lost, said, stream
from tests.harness.scripted_openai import Reply

EMPTY_REASONS = (
    [
        ends(
            "RESP-12",
            f"{nothing!r}, then stop",
            None,
            stream(*(delta(nothing, content=c) for c in "abc"), STOP),
            output="abc",
            step={"finish_reason": "stop"},
        )
        for nothing in ("", "null")
    ]
    + [
        ends(
            "RESP-12",
            what,
            None,
            reply,
            output="abc",
            step={"finish_reason": "unknown"},
        )
        for what, reply in {
            "'' to the end": stream(*(delta("", content=c) for c in "abc")),
            "null to the end": stream(*(delta(None, content=c) for c in "abc")),
            "whole": said(None, content="abc"),
            "whole, ''": said("", content="abc"),
        }.items()
    ]
    + [
        Case(
            "RESP-12",
            "calls without a reason",
            (stream(piece("ping", "{}", index=0, id="a")), END),
            executed=("ping",),
            step={"finish_reason": "unknown"},
        ),
        ends(
            "RESP-12",
            "'' to the end, without [DONE]",
            None,
            stream(delta("", content="abc")).without_done(),
            END,
            output="Done.",
        ),
    ]
)

NO_REASONS = ("function_call", "eos", "error", "tool_calls", "stop", "ERROR", None, "", 7)
BLANKS = (" ", "\n\n", "", [], {}, 0, "\u00a0", [{"type": "text", "text": ""}])
ODD_REASONS = [
    ends(
        "RESP-13",
        f"{reason!r} and nothing said",
        "output_truncated",
        body(finished(reason)),
        step={"finish_reason": reason},
    )
    for reason in ("model_length", "MAX_TOKENS", "max_output_tokens")
] + [
    *lost("RESP-13", {f"{each!r} and nothing said": body(finished(each)) for each in NO_REASONS}),
    *lost(
        "RESP-13",
        {f"{blank!r} said": body(finished("stop", {"content": blank})) for blank in BLANKS},
    ),
    *lost("RESP-13", {"'error' after text": stream(delta(content="Ha"), delta("error"))}),
] + [
    ends(
        "RESP-13",
        f"{reason!r} and text",
        None,
        body(finished(reason, {"content": "Hi."})),
        output="Hi.",
        step={"finish_reason": reason},
    )
    for reason in ("function_call", "eos", "end_turn", "COMPLETE", "日")
]  # fmt: skip

PARTS: dict[str, Reply] = {
    "whole": said(content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]),
    "strings": said(content=["Hel", "lo"]),
    "streamed": stream(delta(content=[{"type": "text", "text": "Hel"}]), delta(content="lo"), STOP),
    "one part alone": said(content={"type": "text", "text": "Hello"}),
    "thoughts between": said(
        content=[{"type": "thinking", "text": "Hm."}, None, 7, {"type": "text", "text": "Hello"}]
    ),
    "choices: only the first counts": body(
        {
            "choices": [
                {"index": 1, "message": {"content": "Other."}, "finish_reason": "length"},
                {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"},
            ]
        }
    ),
    "choices without an index": body(
        {"choices": [{"message": {"content": "Hello"}}, {"message": {"content": "Other."}}]}
    ),
    "a stream that repeats all at its end": stream(
        delta(content="Hello"), {"choices": [{"message": {"content": "Hello"}}]}, STOP
    ),
    "a role alone first": stream(delta(role="assistant"), delta(content="Hello"), STOP),
    "labels of every kind": body(
        {
            "model": "\ud83d",
            "id": 7,
            "created": None,
            **finished("stop\udc9d", {"content": "Hello"}),
        }
    ),
}
SHAPES = [
    ends("RESP-12", f"the text is understood: {what}", None, reply, output="Hello")
    for what, reply in PARTS.items()
]

CASES: list[Case] = [*EMPTY_REASONS, *ODD_REASONS, *SHAPES]
