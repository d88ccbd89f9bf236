"""Which way hypothesis drives a simulated Run: what comes next is drawn."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from perdure.client.continuing import Fork, forked_start
from perdure.runs import gate
from perdure.runs.inputs import unchecked
from tests.runs.drawing import (
    FILES,
    ODDS,
    TEXT,
    changed_inputs,
    model_outcomes,
    resolutions,
    starts,
    tool_outcomes,
)
from tests.runs.simulation import Simulation


@st.composite
def simulations(draw: DrawFn) -> Simulation:
    """Draw a Run driven for up to 40 actions: usually to its end, sometimes left in the middle."""
    simulation = Simulation(draw(starts()))
    _drive(draw, simulation)
    if draw(st.integers(0, 3)) == 3:
        _fork(draw, simulation)
    return simulation


def _fork(draw: DrawFn, simulation: Simulation) -> None:
    """Begin anew from a Step of the Run, with a message or without, and drive that to its end."""
    run = simulation.run
    ended = [
        n for n in range(len(run.steps) + 1) if all(s.status != "running" for s in run.steps[:n])
    ]
    step, message = draw(st.sampled_from(ended)), draw(st.none() | TEXT)
    start = forked_start(run, Fork(step=step, message=message), draw(FILES))
    simulation.__init__(start)  # type: ignore[misc]
    _drive(draw, simulation)


def _drive(draw: DrawFn, simulation: Simulation) -> None:
    stops_after = draw(st.none() | st.integers(0, 12))
    for action in range(draw(st.integers(30, 40)) if draw(ODDS) else draw(st.integers(0, 12))):
        if simulation.run.is_terminal:
            if simulation.run.status == "completed" or draw(st.booleans()):
                break
            simulation.resume()
        if action == stops_after:
            simulation.stop(draw(st.sampled_from(["now", "after_step", "rollback", "deadline"])))
        _steer(draw, simulation)
        _act(draw, simulation)


def _steer(draw: DrawFn, simulation: Simulation) -> None:
    """Now and then, let a person say something, pause the Run, or let it go on."""
    what = draw(st.integers(0, 15))
    if simulation.run.is_terminal:
        return
    if what in (1, 2):
        # Few ids: some come twice.
        simulation.say(f"m{draw(st.integers(0, 5))}", draw(TEXT), draw(FILES))
    elif what == 3:
        simulation.pause(draw(TEXT))
    elif what == 4:
        simulation.unpause()


def _act(draw: DrawFn, simulation: Simulation) -> None:
    """Do what can be done next; which of several tools ends first is drawn."""
    in_flight = simulation.in_flight
    if simulation.run.status == "pending":
        simulation.start()
    elif simulation.waits_for_people and draw(st.booleans()):
        _decide(draw, simulation)
    elif simulation.is_paused and simulation.run.cancel is None:
        simulation.raise_limits() if draw(st.booleans()) else simulation.unpause()
    elif not in_flight:
        simulation.go_on()
    elif in_flight[0].kind == "model":
        count = unchecked(simulation.run).count
        is_changed = count > 0 and draw(st.integers(0, 4)) == 4
        simulation.model_ends(draw(changed_inputs(count) if is_changed else model_outcomes()))
    else:
        simulation.tool_ends(draw(st.sampled_from(in_flight)), draw(tool_outcomes()))


def _decide(draw: DrawFn, simulation: Simulation) -> None:
    """Let a person decide something, or nobody in time."""
    if draw(st.integers(0, 4)) == 4:
        simulation.expire()
        return
    action = draw(st.sampled_from(gate.open_actions(simulation.run)))
    simulation.resolve(action, draw(resolutions(action)))
