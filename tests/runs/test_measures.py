"""What the Events of a Run measure adds up to what the Run says, whatever happens to it."""

from collections import Counter

import pytest
from hypothesis import given

from perdure.runs import measures as measuring
from perdure.runs import metering, metrics
from perdure.runs.errors import ErrorCode, error
from perdure.runs.events import RunStarted
from perdure.runs.measures import UNKNOWN_AGENT, measures
from perdure.runs.metering import MOST_VALUES, OTHER, Instruments, Measurement, Metric
from perdure.runs.policy import ToolPolicy
from perdure.runs.run import Run
from perdure.runs.start import RunStart
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from perdure.runs.usage import ModelUsage, Usage
from tests.runs.driving import simulations
from tests.runs.simulation import Simulation
from tests.runs.test_properties import simulated

SIMULATIONS = simulations()
USED = ModelUsage(model="m", input_tokens=5, output_tokens=2, model_calls=1, cost=0.25)


def measured(simulation: Simulation) -> list[Measurement]:
    run = Run.begin(simulation.events[0])
    found: list[Measurement] = []
    for event in simulation.events[1:]:
        before, run = run, run.apply(event)
        found += measures(before, event, run)
    return found


def total(found: list[Measurement], metric: Metric, **labels: str) -> float:
    return sum(
        each.value
        for each in found
        if each.metric is metric and labels.items() <= each.labels.items()
    )


@simulated
@given(SIMULATIONS)
def test_tokens_and_cost_are_those_of_the_run_without_the_runs_that_it_called(
    simulation: Simulation,
) -> None:
    found, run = measured(simulation), simulation.run
    children = Usage()
    for step in run.steps[run.copied_steps :]:
        children = children.plus_run(step.child_usage) if step.child_usage else children
    tokens = metrics.TOKEN_USAGE
    used = run.usage
    assert total(found, tokens) == used.total_tokens - children.total_tokens
    cached = used.input_tokens_details.cached_tokens
    cached -= children.input_tokens_details.cached_tokens
    assert total(found, metrics.CACHED_TOKENS) == cached
    reasoning = used.output_tokens_details.reasoning_tokens
    reasoning -= children.output_tokens_details.reasoning_tokens
    assert total(found, metrics.REASONING_TOKENS) == reasoning
    assert total(found, metrics.COST) == used.cost - children.cost
    assert total(found, metrics.UNPRICED) == used.unpriced_calls - children.unpriced_calls
    called = {each.model: each for each in children.by_model}
    for each in used.by_model:
        theirs = called.get(each.model, ModelUsage())
        for kind in ("input", "output"):
            labels = {"gen_ai_response_model": each.model, "gen_ai_token_type": kind}
            count = getattr(each, f"{kind}_tokens") - getattr(theirs, f"{kind}_tokens")
            assert total(found, tokens, **labels) == count
        assert total(found, metrics.COST, model=each.model) == each.cost - theirs.cost


@simulated
@given(SIMULATIONS)
def test_each_step_attempt_and_end_is_measured_once(simulation: Simulation) -> None:
    found, run = measured(simulation), simulation.run
    own = [step for step in run.steps[run.copied_steps :] if step.status != "running"]
    counted = Counter[tuple[str, str, str | None]]()
    for step in own:
        kind = "agent" if step.child_run_id else step.kind
        counted[kind, step.status, step.error.code.value if step.error else None] += 1
    told = Counter[tuple[str, str, str | None]]()
    for each in found:
        if each.metric is metrics.STEPS:
            labels = each.labels
            told[labels["kind"], labels["status"], labels.get("error_type")] += int(each.value)
    assert told == counted
    retries = sum(step.attempt - 1 for step in own if step.kind != "check")
    assert total(found, metrics.STEP_RETRIES) == retries
    types = Counter(event.type for event in simulation.events)
    ends = sum(hasattr(event, "stop_reason") for event in simulation.events)
    assert total(found, metrics.RUNS_ENDED) == ends
    assert total(found, metrics.RUNS_STARTED) == types["run.started"]
    assert total(found, metrics.RUNS_RESUMED) == types["run.resumed"]
    assert all(each.value >= 0 for each in found)


@simulated
@given(SIMULATIONS)
def test_lives_add_up_to_the_turns_that_were_taken(simulation: Simulation) -> None:
    found, run = measured(simulation), simulation.run
    taken = run.turn - (run.steps[run.copied_steps - 1].turn if run.copied_steps else 0)
    ended = total(found, metrics.RUN_TURNS)
    assert ended == taken if run.is_terminal else ended <= taken
    durations = [each for each in found if each.metric is metrics.RUN_DURATION]
    began = {"run.started", "run.resumed"}
    lives = sum(event.type in began for event in simulation.events)
    assert len(durations) == (lives if run.is_terminal else max(0, lives - 1))


@simulated
@given(SIMULATIONS)
def test_labels_are_the_ones_that_are_documented(simulation: Simulation) -> None:
    for each in measured(simulation):
        assert each.labels.keys() <= set(each.metric.labels)
        assert each.metric.place == "workflow"


def _ended(*outcomes: object, agent: str = "whoever") -> Simulation:
    simulation = Simulation(RunStart(agent=agent, input="Go."))
    simulation.start()
    for outcome in outcomes:
        simulation.go_on()
        simulation.model_ends(outcome)  # type: ignore[arg-type]
    return simulation


@pytest.mark.parametrize(
    ("code", "agent"),
    [
        (ErrorCode.AGENT_NOT_FOUND, UNKNOWN_AGENT),
        (ErrorCode.WORKER_LOST, UNKNOWN_AGENT),
        (ErrorCode.LLM_AUTH, "whoever"),
    ],
)
def test_an_agent_is_named_once_a_worker_has_said_that_it_has_it(
    code: ErrorCode, agent: str
) -> None:
    simulation = _ended(error(code))
    simulation.go_on()
    found = measured(simulation)
    assert total(found, metrics.RUNS_ENDED, agent=agent, status="failed") == 1
    agents = {each.labels.get("agent", agent) for each in found}
    assert agents == {agent}


def test_an_agent_that_was_stopped_before_anybody_looked_is_unknown() -> None:
    simulation = Simulation(RunStart(agent="whoever", input="Go."))
    simulation.start()
    simulation.go_on()
    simulation.stop("now")
    simulation.model_ends(error(ErrorCode.CANCELLED))
    simulation.go_on()
    assert measuring.agent_of(simulation.run) == UNKNOWN_AGENT


def test_the_wait_for_a_turn_is_measured_once_it_is_over() -> None:
    queued = Simulation(RunStart(agent="a", input="Go.", queued=True))
    before = queued.run
    queued.start()
    assert isinstance(queued.events[-1], RunStarted)
    (_, waited) = measures(before, queued.events[-1], queued.run)
    assert waited == Measurement(metrics.RUN_QUEUE, 1.0)


def test_what_another_agents_run_used_is_not_measured_with_its_caller() -> None:
    policy = ToolPolicy(kind="agent", target="other")
    asked = RequestedCall(call_id="c", name="other", arguments='{"input": "!"}', policy=policy)
    simulation = _ended(ModelReply(model="m", calls=(asked,), usage=USED))
    simulation.go_on()
    (step,) = simulation.in_flight
    theirs = Usage().plus_call(USED.model_copy(update={"model": "n"}))
    simulation.tool_ends(step, ToolReply(text="Done.", usage=theirs))
    assert simulation.run.total_tokens == 2 * USED.total_tokens
    found = measured(simulation)
    assert total(found, metrics.TOKEN_USAGE) == USED.total_tokens
    assert total(found, metrics.COST) == USED.cost


def test_a_request_that_never_went_out_costs_nothing() -> None:
    reply = ModelReply(model="m", error=error(ErrorCode.GUARDRAIL), usage=ModelUsage(model="m"))
    found = measured(_ended(reply))
    assert not total(found, metrics.TOKEN_USAGE)
    assert not [each for each in found if each.metric is metrics.COST]


class Meter:
    """A meter that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []

    def create_counter(self, *_: str) -> "Meter":
        return self

    create_histogram_float = create_gauge_float = create_counter

    def add(self, value: int, labels: dict[str, str]) -> None:
        self.told.append(labels)


def test_what_callers_choose_can_not_make_series_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "_told", {name: set() for name in metering.OPEN_LABELS})
    meter = Meter()
    instruments = Instruments(meter)
    for number in range(MOST_VALUES + 50):
        instruments.record(metrics.UNPRICED, 1, agent="a", model=f"m{number}")
    instruments.record(metrics.UNPRICED, 1, agent="a", model="m3")
    models = [labels["model"] for labels in meter.told]
    assert len(set(models)) == MOST_VALUES + 1
    assert models[-2:] == [OTHER, "m3"]


def test_names_are_usable_and_unique() -> None:
    names = [each.exported for each in metrics.METRICS]
    assert len(set(names)) == len(names)
    for each in metrics.METRICS:
        assert each.exported.replace("_", "").isalnum()
        assert bool(each.buckets) == (each.kind == "histogram")
        assert tuple(sorted(each.buckets)) == each.buckets
