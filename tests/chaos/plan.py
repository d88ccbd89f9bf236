"""What is to happen: Runs and the faults that meet them, all of it made from one seed.

No I/O and no clock here: the same seed and size give the same plan, anywhere.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, cycle, islice, pairwise

EFFECTS = ("read", "keyed", "unsafe")


class Fault(StrEnum):
    """Kinds of faults, named after what happens."""

    STATUS_500 = "500"
    STATUS_503 = "503"
    STATUS_529 = "529"
    STATUS_429 = "429"
    """With `retry-after-ms`."""
    RESET = "reset"
    """The request is read, and the connection closed without a byte of an answer."""
    CUT = "cut"
    """The connection closes in the middle of the text, or of a tool call's arguments."""
    NO_FINISH = "no_finish"
    """The body ends properly, without a finish reason."""
    HANG = "hang"
    """Nothing more comes after the first words."""

    KILL_AFTER_SEND = "kill_after_send"
    KILL_MID_STREAM = "kill_mid_stream"
    KILL_AFTER_ANSWER = "kill_after_answer"
    """The whole answer is sent; the worker dies about when it reports the Step's end."""

    STOP_MID_STREAM = "stop_mid_stream"
    """SIGSTOP for longer than the heartbeat timeout: the answer is read when it is too late."""

    STOP_BEFORE_EFFECT = "stop_before_effect"
    """The tool has its effect when its attempt is over long since."""
    KILL_BEFORE_EFFECT = "kill_before_effect"
    KILL_AFTER_EFFECT = "kill_after_effect"
    """Before the tool returns: the effect is there, the result is not."""
    KILL_AFTER_RESULT = "kill_after_result"
    """About when the tool's end is reported, or the next Step starts."""

    KILL_AT_CONTINUE = "kill_at_continue"
    """When the history shows that the Run continued as new: the worker that did it."""

    KILL = "kill"
    KILL_BEFORE_SEND = "kill_before_send"
    """The first worker to connect to the provider from then on, before its request is read."""
    STOP = "stop"
    """SIGSTOP for longer than the heartbeat timeout, then SIGCONT."""
    RESTART_SERVER = "restart_server"
    """`kill -9` of the Temporal server; it is started again over the same database."""
    OUTAGE = "outage"
    """The provider breaks off a worker's connections, and refuses new ones."""


STATUSES = (Fault.STATUS_500, Fault.STATUS_503, Fault.STATUS_529, Fault.STATUS_429)
PROVIDER = (*STATUSES, Fault.RESET, Fault.CUT, Fault.NO_FINISH, Fault.HANG)
MODEL_KILLS = (Fault.KILL_AFTER_SEND, Fault.KILL_MID_STREAM, Fault.KILL_AFTER_ANSWER)
TOOL_KILLS = (Fault.KILL_BEFORE_EFFECT, Fault.KILL_AFTER_EFFECT, Fault.KILL_AFTER_RESULT)
STOPS = (Fault.STOP, Fault.STOP_MID_STREAM, Fault.STOP_BEFORE_EFFECT)


@dataclass(frozen=True)
class PlannedFault:
    """One fault, at a time or at a named point of a Run."""

    id: str
    kind: Fault
    at_s: float | None = None
    """Seconds after the start, for a fault by time."""
    worker: int | None = None
    """Which of the workers, for a fault by time that hits one."""
    run: str | None = None
    turn: int | None = None
    """Of the Run, for a fault that its model Step meets; the next attempt meets the next one."""
    call: str | None = None
    """Id of the tool call that meets it."""
    for_s: float = 0.0
    """How long it lasts, or how much later it comes than the point."""


@dataclass(frozen=True)
class PlannedCall:
    """A tool call that the model will ask for."""

    call_id: str
    effect: str
    value: int
    """What the tool returns."""
    takes_s: float


@dataclass(frozen=True)
class PlannedRun:
    """One Run: its calls, turn by turn; the turn after the last one is its answer."""

    run_id: str
    start_s: float
    turns: tuple[tuple[PlannedCall, ...], ...]
    chunk_delay_s: float
    """Seconds that the model takes before each chunk."""

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """All calls, in the order in which they are asked for."""
        return tuple(chain.from_iterable(self.turns))


@dataclass(frozen=True)
class Size:
    """How much happens."""

    runs: int = 1000
    steps: int = 8
    rate: float = 0.3
    """Runs started a second."""
    workers: int = 3
    kills: int | None = None
    """Kills by time; one every eight seconds when not given. Each makes a worker start again,
    which takes seconds of a processor: more of them on a small machine, and no worker works."""
    stops: int | None = None
    restarts: int | None = None
    long_every: int = 12
    """Each so-manieth Run has three times the Steps."""

    @property
    def window_s(self) -> float:
        """Seconds over which Runs are started and faults by time happen."""
        return self.runs / self.rate


QUICK = Size(runs=24, stops=1, restarts=2)


@dataclass(frozen=True)
class Plan:
    """Everything that is to happen."""

    seed: int
    size: Size
    runs: tuple[PlannedRun, ...]
    faults: tuple[PlannedFault, ...]

    def at_turn(self, run: str, turn: int) -> tuple[PlannedFault, ...]:
        """Return the faults of one model Step, the first attempt's first."""
        return tuple(f for f in self.faults if f.run == run and f.turn == turn)


def planned(seed: int, size: Size) -> Plan:
    """Return the plan of a seed."""
    dice = random.Random(seed)  # noqa: S311 - must be repeatable, not secret
    runs = tuple(_run(dice, seed, size, number) for number in range(size.runs))
    faults = (*_at_points(dice, runs), *sorted(_by_time(dice, size), key=lambda f: f.at_s or 0))
    return Plan(seed, size, runs, faults)


def _run(dice: random.Random, seed: int, size: Size, number: int) -> PlannedRun:
    is_long = size.long_every and number % size.long_every == size.long_every - 1
    steps = size.steps * 3 if is_long else size.steps
    turns = max(2, round(steps * 3 / 8))
    count = max(turns - 1, steps - turns)
    effects = list(islice(cycle(EFFECTS), count))
    dice.shuffle(effects)
    borders = [0, *sorted(dice.sample(range(1, count), turns - 2)), count]
    calls: list[tuple[PlannedCall, ...]] = []
    for turn, (first, last) in enumerate(pairwise(borders), start=1):
        calls.append(
            tuple(
                PlannedCall(
                    call_id=f"t{turn}c{position}",
                    effect=effect,
                    value=dice.randrange(1, 1000),
                    takes_s=round(dice.uniform(0.0, 0.3), 3),
                )
                for position, effect in enumerate(effects[first:last], start=1)
            )
        )
    return PlannedRun(
        run_id=f"chaos-{seed}-{number:04}",
        start_s=round(dice.uniform(0, size.window_s), 2),
        turns=tuple(calls),
        chunk_delay_s=round(dice.uniform(0.0, 0.06), 3),
    )


def _at_points(dice: random.Random, runs: Sequence[PlannedRun]) -> Iterator[PlannedFault]:
    """Plan the faults that Steps meet.

    At most two a model Step and one a tool call: a Step must not run out of attempts when
    faults by time hit it as well.
    """
    steps = [(run, turn) for run in runs for turn in range(1, len(run.turns) + 2)]
    dice.shuffle(steps)
    for number, (run, turn) in enumerate(steps[: len(steps) // 3]):
        kind = PROVIDER[number % len(PROVIDER)]
        for attempt in range(1 + (number % 4 == 0)):
            yield _at_turn(
                dice, kind if attempt == 0 else dice.choice(PROVIDER), run, turn, attempt
            )
    kills, stops = max(3, len(runs) * 3 // 20), max(1, len(runs) // 48)
    deadly = [*islice(cycle(MODEL_KILLS), kills), *[Fault.STOP_MID_STREAM] * stops]
    for kind, (run, turn) in zip(deadly, steps[len(steps) // 3 :], strict=False):
        yield _at_turn(dice, kind, run, turn, 0)
    calls = [(run, call) for run in runs for call in run.calls]
    dice.shuffle(calls)
    deadly = [*islice(cycle(TOOL_KILLS), kills), *[Fault.STOP_BEFORE_EFFECT] * stops]
    for kind, (run, call) in zip(deadly, calls, strict=False):
        yield PlannedFault(
            id=f"{run.run_id}/{call.call_id}",
            kind=kind,
            run=run.run_id,
            call=call.call_id,
            for_s=_length(dice, kind),
        )
    for run in dice.sample(runs, max(1, len(runs) // 20)):
        yield PlannedFault(f"{run.run_id}/continue", Fault.KILL_AT_CONTINUE, run=run.run_id)


STOPPED_S = (12.0, 18.0)
"""The heartbeat timeout is 10 s."""
DELAYS: dict[Fault, tuple[float, float]] = {
    Fault.STATUS_429: (0.2, 0.9),
    Fault.KILL_MID_STREAM: (0.02, 0.6),
    Fault.KILL_AFTER_ANSWER: (0.0, 0.012),
    Fault.KILL_AFTER_RESULT: (0.0, 0.04),
    Fault.STOP: STOPPED_S,
    Fault.STOP_MID_STREAM: STOPPED_S,
    Fault.STOP_BEFORE_EFFECT: STOPPED_S,
    Fault.RESTART_SERVER: (0.0, 2.0),
    Fault.OUTAGE: (0.3, 1.2),
}
"""Seconds between which the length of a fault, or its delay, is drawn."""


def _at_turn(
    dice: random.Random, kind: Fault, run: PlannedRun, turn: int, attempt: int
) -> PlannedFault:
    return PlannedFault(
        id=f"{run.run_id}/turn{turn}.{attempt + 1}",
        kind=kind,
        run=run.run_id,
        turn=turn,
        for_s=_length(dice, kind),
    )


def _length(dice: random.Random, kind: Fault) -> float:
    return round(dice.uniform(*DELAYS[kind]), 4) if kind in DELAYS else 0.0


def _by_time(dice: random.Random, size: Size) -> Iterator[PlannedFault]:
    window = size.window_s
    kills = round(window / 8) if size.kills is None else size.kills
    stops = round(window / 120) if size.stops is None else size.stops
    restarts = round(window / 60) if size.restarts is None else size.restarts
    counts = {
        Fault.KILL: kills - kills // 3,
        Fault.KILL_BEFORE_SEND: kills // 3,
        Fault.STOP: stops,
        Fault.RESTART_SERVER: restarts,
        Fault.OUTAGE: max(1, round(window / 30)),
    }
    for kind, count in counts.items():
        for number in range(count):
            # One in each part of the time, so that they do not come all at once.
            at = (number + dice.random()) * window / count
            hits_one = kind in (Fault.KILL, Fault.STOP, Fault.OUTAGE)
            yield PlannedFault(
                id=f"{kind}-{number + 1}",
                kind=kind,
                at_s=round(min(at, window * 0.85), 2),
                worker=dice.randrange(size.workers) if hits_one else None,
                for_s=_length(dice, kind),
            )
