"""Any Run, cut anywhere, as AG-UI: the client ends with the truth."""

from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perdure.gateway.streaming.ag_ui import AgUi
from perdure.gateway.streaming.ag_ui.endings import is_asking
from perdure.gateway.streaming.ag_ui.messages import snapshot
from perdure.gateway.streaming.ag_ui.wire import Json
from perdure.runs.deltas import LiveEvent, Reset
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.gateway.ag_ui_reader import Reader
from tests.gateway.live import encoded, folded, resumed, streams

STREAMS = streams()
OWN = [
    {"id": "u1", "role": "user", "content": "Before."},
    {"id": "u2", "role": "user", "content": "Go."},
]
simulated = settings(
    max_examples=25,
    # To make a stream smaller takes longer than a test may take.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def told(run: Run, *roles: str) -> dict[str, Json]:
    """Return the messages that a client is to have of a Run."""
    messages = snapshot(run, None)["messages"]
    return {each["id"]: each for each in messages if each["role"] in roles}


def assert_tells(reader: Reader, run: Run) -> None:
    """The client has what the Run keeps, all of it, once."""
    if run.status is RunStatus.PENDING:
        assert reader.kinds == []
        return
    roles = ("user", "assistant", "tool")
    if not is_asking(run):
        assert reader.shown(*roles) == told(run, *roles) | drafts_shown(reader, run)
    if run.is_terminal or is_asking(run):
        assert reader.last["type"] in ("RUN_FINISHED", "RUN_ERROR")
        assert reader.connection.state in ("finished", "errored")


def drafts_shown(reader: Reader, run: Run) -> dict[str, Json]:
    """Return the message of the Step that runs, as the client has it."""
    if run.current_step is None:
        return {}
    mine = f"{run.run_id}:{run.current_step}."
    return {id: each for id, each in reader.shown("assistant").items() if id.startswith(mine)}


@simulated
@given(STREAMS, st.booleans())
def test_whoever_follows_from_the_beginning_has_in_the_end_what_the_run_keeps(
    items: Sequence[LiveEvent], has_started_it: bool
) -> None:
    run = folded(items)
    own = OWN if has_started_it else None
    reader = Reader(own or ())
    reader.read(encoded(AgUi(before=own), items))
    if own is None:
        assert_tells(reader, run)
        return
    # What the client has sent stays where it is, and is not told again.
    assert list(reader.messages.values())[:2] == own
    opening = {f"r1:context.{n}" for n in range(len(run.context.messages))} | {"r1:input"}
    assert not opening & reader.messages.keys()
    if run.is_terminal:
        shown = reader.shown("user", "assistant", "tool").keys()
        assert shown == told(run, "user", "assistant", "tool").keys() - opening | {"u1", "u2"}


@simulated
@given(STREAMS, st.data())
def test_a_stream_may_be_cut_anywhere_and_begun_again(
    items: Sequence[LiveEvent], data: st.DataObject
) -> None:
    position = data.draw(st.integers(1, len(items)))
    reader = Reader()
    reader.read(encoded(AgUi(), items[:position]))
    reader.reconnects()
    encoder = AgUi(folded(items[:position]))
    reader.read(encoder.opening())
    reader.read(encoded(encoder, resumed(items, position)))
    assert_tells(reader, folded(items))


@simulated
@given(STREAMS, st.data())
def test_a_reset_puts_the_client_right_in_the_same_stream(
    items: Sequence[LiveEvent], data: st.DataObject
) -> None:
    begun, position = sorted(data.draw(st.tuples(*[st.integers(1, len(items))] * 2)))
    reader, encoder = Reader(), AgUi()
    reader.read(encoded(encoder, items[:begun]))
    if reader.connection.state == "errored" or folded(items[:begun]).is_terminal:
        return  # nothing is reset behind an end
    run = folded(items[:position])
    reset = Reset(run_id="r1", reason="events_expired", run=run)
    reader.read(encoder.encode(reset))
    reader.read(encoded(encoder, resumed(items, position)))
    assert_tells(reader, folded(items))
