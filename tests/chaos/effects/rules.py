"""What must hold of each call whose worker died: judged by the book, not by what was planned."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from perdure.runs.errors import ErrorCode
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.steps import ToolCall
from tests.chaos.effects.book import Row
from tests.chaos.effects.points import Doomed
from tests.chaos.effects.stage import SAID, Seen
from tests.chaos.workers import Life

KILLED = -9
"""Exit code of `kill -9`, as `subprocess` has it."""


def kills(waves: Iterable[Sequence[Doomed]], seen: Seen) -> Counter[tuple[str, str]]:
    """Return how many calls really stood at their point when their worker died there."""
    killed = _killed(seen.lives)
    return Counter(
        (doomed.effect, doomed.point.value)
        for wave in waves
        for doomed in wave
        if _is_hit([row for row in seen.rows if row.entry == doomed.entry], killed)
    )


def short(
    waves: Iterable[Sequence[Doomed]], counted: Counter[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return how many kills are missing, where any are: without them nothing is shown."""
    planned = Counter((d.effect, d.point.value) for wave in waves for d in wave)
    return dict(planned - counted)


def violations(waves: Iterable[Sequence[Doomed]], seen: Seen) -> list[str]:
    """Return what was promised and does not hold, with the Run of each."""
    killed = _killed(seen.lives)
    return [
        f"{doomed.entry}: {wrong}"
        for wave in waves
        for doomed in wave
        for wrong in _of_call(
            doomed,
            seen.runs.get(doomed.entry),
            [row for row in seen.rows if row.entry == doomed.entry],
            killed,
        )
    ]


def _killed(lives: Iterable[Life]) -> set[int]:
    return {life.pid for life in lives if life.code == KILLED}


def _is_hit(rows: Sequence[Row], killed: set[int]) -> bool:
    for index, row in enumerate(rows):
        if row.kind == "at":
            # Whatever it did after that, another process did.
            return row.pid in killed and all(row.pid != later.pid for later in rows[index + 1 :])
    return False


def _of_call(
    doomed: Doomed, run: Run | None, rows: Sequence[Row], killed: set[int]
) -> Iterator[str]:
    if run is None or run.status is not RunStatus.COMPLETED or run.output != SAID:
        yield f"the Run did not complete: {run.status if run else 'it is missing'}"
        return
    if len(run.tool_calls) != 1:
        yield f"{len(run.tool_calls)} calls"
        return
    call = run.tool_calls[0]
    yield from _of_approval(doomed, run, call)
    effects = [row for row in rows if row.kind == "effect"]
    began = [row for row in rows if row.kind == "began"]
    if doomed.effect == "unsafe":
        yield from _of_unsafe(call, began, effects, killed)
        return
    if call.error is not None or call.result != f"recorded {doomed.entry}":
        yield f"its result is {call.result!r}"
    if not effects:
        yield "it had no effect"
    if doomed.effect == "keyed":
        if len(effects) > 1:
            yield f"{len(effects)} effects"
        if len({row.key for row in (*began, *effects)}) != 1:
            yield f"keys of its attempts: {sorted({row.key for row in (*began, *effects)})}"


def _of_unsafe(
    call: ToolCall, began: Sequence[Row], effects: Sequence[Row], killed: set[int]
) -> Iterator[str]:
    if len(effects) > 1:
        yield f"{len(effects)} effects"
    if len(began) > 1:
        yield f"{len(began)} attempts"
    if call.error is None:
        if len(effects) != 1:
            yield f"it is said to be done, with {len(effects)} effects"
    elif call.error.code is not ErrorCode.OUTCOME_UNKNOWN:
        yield f"its error is {call.error.code}"
    elif all(row.pid not in killed for row in began):
        yield "its outcome is unknown, but no worker died of it"


def _of_approval(doomed: Doomed, run: Run, call: ToolCall) -> Iterator[str]:
    if run.actions_asked != int(doomed.gated):
        yield f"a person was asked {run.actions_asked} times"
    if doomed.gated and (call.action is None or not call.action.is_approved):
        yield "nobody approved it"
