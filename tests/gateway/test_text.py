"""Plain text: the answer, and what has to be known to understand it."""

from collections.abc import Iterable, Sequence

from hypothesis import given

from perdure.client.cli.words import visible
from perdure.gateway.streaming.text import TAKEN_BACK, PlainText
from perdure.runs.deltas import LiveEvent, OutputTextDelta, Reset, StepRetrying
from perdure.runs.errors import ErrorCode, error
from perdure.runs.events import StepStarted
from perdure.runs.start import RunStart
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from tests.gateway.live import folded
from tests.gateway.test_ag_ui_streams import STREAMS, simulated
from tests.runs.simulation import Simulation


def begun() -> Simulation:
    """Return a Run whose model is being asked."""
    simulation = Simulation(RunStart(agent="helper", input="Go."))
    simulation.start()
    simulation.go_on()
    return simulation


def delta(text: str, offset: int = 0, attempt: int = 1, step: int = 1) -> OutputTextDelta:
    about = {"run_id": "r1", "after": 2, "step": step, "attempt": attempt}
    return OutputTextDelta(**about, offset=offset, delta=text)


def written(items: Iterable[LiveEvent], encoder: PlainText | None = None) -> str:
    to = encoder or PlainText()
    return "".join(to.encode(item) for item in items)


def whole(simulation: Simulation, *meanwhile: LiveEvent) -> list[LiveEvent]:
    """Return the stream of a Run that has ended, with deltas behind the start of its first Step."""
    *events, last = simulation.events
    at = next(n for n, each in enumerate(events, 1) if isinstance(each, StepStarted))
    end = last.model_copy(update={"run": simulation.run})
    return [*events[:at], *meanwhile, *events[at:], end]


def test_the_answer_streams_and_ends_with_one_newline() -> None:
    simulation = begun()
    simulation.model_ends(ModelReply(model="m", text="Hello, world."))
    simulation.go_on()
    assert written(whole(simulation)) == "Hello, world.\n"
    assert written(whole(simulation, delta("Hel"), delta("Hello", 0))) == "Hello, world.\n"


def test_what_is_said_beside_calls_stands_in_a_paragraph_of_its_own() -> None:
    simulation = begun()
    call = RequestedCall(call_id="c", name="look", arguments="{}")
    simulation.model_ends(ModelReply(model="m", text="I look.", calls=(call,)))
    simulation.go_on()
    simulation.tool_ends(simulation.in_flight[0], ToolReply(text="seen"))
    simulation.go_on()
    simulation.model_ends(ModelReply(model="m", text="Found."))
    simulation.go_on()
    assert written(whole(simulation)) == "I look.\n\nFound.\n"
    assert PlainText(simulation.run).opening() == "I look.\n\nFound.\n"


def test_a_draft_that_is_taken_back_is_marked() -> None:
    simulation = begun()
    simulation.model_ends(ModelReply(model="m", text="Right.", attempt=2))
    simulation.go_on()
    retry = StepRetrying(run_id="r1", after=2, step=1, attempt=2)
    retried = [delta("Wrong"), retry, delta("Ri", attempt=2)]
    assert written(whole(simulation, *retried)) == f"Wrong\n{TAKEN_BACK}\nRight.\n"
    assert written(whole(simulation, delta("Wrong"))) == f"Wrong\n{TAKEN_BACK}\nRight.\n"


def test_a_run_that_failed_ends_with_why() -> None:
    simulation = begun()
    simulation.model_ends(error(ErrorCode.LLM_AUTH))
    simulation.go_on()
    text = written(whole(simulation, delta("I am")))
    assert text.startswith(f"I am\n{TAKEN_BACK}\nerror (llm_auth): The provider refused the cred")
    assert text.count("\n") == 3


def test_nothing_moves_the_cursor_of_a_terminal() -> None:
    simulation = begun()
    simulation.model_ends(ModelReply(model="m", text="a\x1b[2J\r\nb"))
    simulation.go_on()
    assert written(whole(simulation)) == "a[2J\nb\n"


def test_a_compaction_is_not_shown() -> None:
    simulation = begun()
    simulation.model_ends(ModelReply(model="m", text="A summary."))
    events = list(simulation.events)
    events[2] = events[2].model_copy(update={"purpose": "compact"})
    assert written([*events[:3], delta("A sum"), *events[3:]]) == ""


def test_a_reset_tells_everything_again() -> None:
    simulation = begun()
    simulation.model_ends(ModelReply(model="m", text="Hello."))
    simulation.go_on()
    reset = Reset(run_id="r1", reason="events_expired", run=simulation.run)
    assert written([*simulation.events[:3], delta("Hel"), reset]) == (
        "Hel\n[from the beginning]\nHello.\n"
    )


@simulated
@given(STREAMS)
def test_of_any_run_everything_is_written_that_it_keeps(items: Sequence[LiveEvent]) -> None:
    text, run = written(items), folded(items)
    at = 0
    for step in run.steps[run.copied_steps :]:
        if step.kind == "model" and step.purpose != "compact" and step.text:
            shown = visible(step.text)
            at = text.index(shown, at) + len(shown)
    if run.is_terminal:
        assert text == "" or text.endswith("\n")
        assert (run.status != "completed") == ("error (" in text[at:])
