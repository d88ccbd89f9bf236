"""What hypothesis may draw for a simulated Run: its start, and what its Steps end with."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from perdure.runs.actions import Action, Resolution
from perdure.runs.checked import Checked, Judged
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.files import FileRef, StoredText
from perdure.runs.limits import Limits, Terms, Timeouts
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.policy import Approval, ToolPolicy
from perdure.runs.start import ContextBundle, RunStart
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from perdure.runs.usage import InputTokensDetails, ModelUsage, OutputTokensDetails, Usage

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TOKENS = st.integers(0, 50)
WINDOWS = st.none() | st.integers(10, 400)
ODDS = st.sampled_from([True, True, True, False])
ENDED_MODEL_CODES = [
    ErrorCode.LLM_UNAVAILABLE,
    ErrorCode.STREAM_INCOMPLETE,
    ErrorCode.REFUSED,
    ErrorCode.CONTEXT_OVERFLOW,
    ErrorCode.MAX_OUTPUT,
    ErrorCode.CANCELLED,
]
ENDED_TOOL_CODES = [ErrorCode.TOOL_FAILED, ErrorCode.OUTCOME_UNKNOWN, ErrorCode.CANCELLED]


def _file(number: int, media_type: str, size: int) -> FileRef:
    stored = StoredText(bytes=size, driver="none", claim={"n": str(number)})
    return FileRef(
        name=f"{number}", media_type=media_type, bytes=size, sha256=f"{number:064}", stored=stored
    )


TYPES = st.sampled_from(["image/png", "text/plain", "application/pdf", "application/zip"])
FILES = st.lists(
    st.builds(_file, st.integers(1, 9), TYPES, st.integers(1, 90_000)), max_size=2
).map(tuple)


@st.composite
def starts(draw: DrawFn) -> RunStart:
    """Draw what a Run is started with; limits are low, so that they are met."""
    earlier = st.lists(st.tuples(TEXT, TEXT), max_size=2)
    context = [
        message
        for asked, told in draw(earlier)
        for message in (UserMessage(content=asked), AssistantMessage(content=told))
    ]
    low = st.none() | st.integers(1, 6)
    return RunStart(
        agent="helper",
        input=draw(TEXT),
        files=draw(FILES),
        context=ContextBundle(messages=tuple(context), variables={"n": 1}),
        on_limit=draw(st.sampled_from([None, "stop", "finalize", "pause"])),
        on_unknown=draw(st.sampled_from([None, "ask"])),
        limits=Limits(
            max_turns=draw(low),
            max_identical_calls=draw(st.none() | st.integers(1, 3)),
            max_tool_calls=draw(low),
            max_tokens=draw(st.none() | st.integers(50, 400)),
            max_cost=draw(st.none() | st.integers(1, 4)),
        ),
        timeouts=Timeouts(run_s=60),
    )


@st.composite
def usages(draw: DrawFn) -> ModelUsage:
    """Draw a call's usage; costs are quarters, whose sums are exact."""
    return ModelUsage(
        model=draw(st.sampled_from(["m", "n"])),
        input_tokens=draw(TOKENS),
        output_tokens=draw(TOKENS),
        input_tokens_details=InputTokensDetails(cached_tokens=draw(TOKENS)),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=draw(TOKENS)),
        model_calls=1,
        cost=draw(st.integers(0, 4)) / 4,
        unpriced_calls=draw(st.integers(0, 1)),
        complete=draw(st.booleans()),
    )


JUDGED = st.builds(Judged, judge=st.just("judge"), about=st.just("input"), usage=usages())


@st.composite
def calls(draw: DrawFn) -> tuple[RequestedCall, ...]:
    """Draw a turn's tool calls, often none: the ids are those of every other turn."""
    if not draw(ODDS):
        return ()
    refused = st.none() | st.just(error(ErrorCode.TOOL_ARGUMENTS_INVALID))
    return tuple(
        RequestedCall(
            call_id=f"c{number}",
            name="look",
            arguments='{"at": "ö", "question": "Why?", "input": "Do it."}',
            policy=draw(policies()),
            rejection=rejection,
            raw_arguments=None if rejection is None else "{at",
        )
        for number, rejection in enumerate(draw(st.lists(refused, min_size=1, max_size=4)))
    )


@st.composite
def policies(draw: DrawFn) -> ToolPolicy:
    """Draw how a call is executed: half of them need nobody's yes."""
    kind = draw(st.sampled_from(["function", "function", "function", "question", "agent"]))
    if draw(st.integers(0, 9)) == 9:
        kind = "handoff"
    approval = Approval(expires_s=draw(st.none() | st.integers(1, 9)))
    return ToolPolicy(
        kind=kind,
        effect=draw(st.sampled_from(["read", "unsafe"])),
        target="other" if kind in ("agent", "handoff") else None,
        timeout_s=60 if kind == "question" else None,
        approval=approval if kind != "question" and draw(st.integers(0, 2)) == 2 else None,
    )


@st.composite
def resolutions(draw: DrawFn, action: Action) -> Resolution:
    """Draw how a person decides."""
    if action.kind == "input":
        answered = Resolution(verdict="answered", by="ann", answer=draw(TEXT) + "!")
        return draw(st.sampled_from([answered, Resolution(verdict="rejected", by="ann")]))
    if draw(st.booleans()):
        return Resolution(verdict="rejected", by="bob", note=draw(TEXT))
    edits = action.about == "call" and draw(st.booleans())
    return Resolution(verdict="approved", by="ann", arguments='{"input": "!"}' if edits else None)


@st.composite
def model_outcomes(draw: DrawFn) -> ModelReply | RunError:
    """Draw what a model Step ends with: an answer, an unusable one, or an error."""
    if draw(st.integers(0, 9)) == 9:
        fallback = draw(st.sampled_from([None, "n"]))
        return error(draw(st.sampled_from(ENDED_MODEL_CODES)), fallback=fallback)
    why = draw(st.sampled_from(ENDED_MODEL_CODES)) if draw(st.integers(0, 9)) == 9 else None
    asked_for = () if why is not None else draw(calls())
    is_unfit = why is None and not asked_for and draw(st.integers(0, 3)) == 3
    return ModelReply(
        model="m",
        text=draw(st.none() | TEXT),
        refusal=draw(st.sampled_from([None, None, None, "No."])),
        calls=asked_for,
        unfit=error(ErrorCode.OUTPUT_INVALID) if is_unfit else None,
        checked=Checked(judged=tuple(draw(st.lists(JUDGED, max_size=2)))) if draw(ODDS) else None,
        finish_reason="stop",
        usage=draw(usages()),
        attempt=draw(st.integers(1, 3)),
        error=None if why is None else error(why),
        review=draw(st.sampled_from([None, None, None, None, Approval(reason="Look!")])),
        terms=draw(
            st.none()
            | st.builds(Terms, limits=st.just(Limits(max_turns=8)), context_window=WINDOWS)
        ),
    )


@st.composite
def changed_inputs(draw: DrawFn, count: int) -> ModelReply:
    """Draw what a model Step ends with whose checks changed so many inputs."""
    told = tuple(draw(TEXT) for _ in range(count))
    return ModelReply(model="m", error=error(ErrorCode.GUARDRAIL), checked=Checked(inputs=told))


@st.composite
def tool_outcomes(draw: DrawFn) -> ToolReply | RunError:
    """Draw what a tool Step ends with: a result, one that tells of an error, or an error."""
    code = draw(st.sampled_from([None, None, *ENDED_TOOL_CODES]))
    if code is None:
        usage = Usage().plus_call(draw(usages())) if draw(st.integers(0, 3)) == 3 else None
        attempt, files = draw(st.integers(1, 2)), draw(FILES)
        return ToolReply(text=draw(TEXT), attempt=attempt, usage=usage, files=files)
    why = error(code)
    return ToolReply(text="It failed.", error=why) if draw(st.booleans()) else why
