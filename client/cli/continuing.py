"""What the commands do that go on from a Run: `steps`, `resume`, `fork`, `limits`."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError
from rich.text import Text

from perdure.client.cli.following import conclude, show_live
from perdure.client.cli.render import run_view, steps_list
from perdure.client.cli.session import err, out, print_json
from perdure.client.continuing import Fork
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs.errors import InvalidRequest
from perdure.runs.limits import Limits, Timeouts
from perdure.sessions.parts import SessionSettings

Values = TypeVar("Values", Limits, Timeouts, SessionSettings)


def read_values(kind: type[Values], text: str | None) -> Values:
    """Read what stands behind `--limits` and its like, such as `max_turns=50,max_cost=2`.

    Raises:
        InvalidRequest: When a name or a value is unknown.
    """
    known = ", ".join(kind.model_fields)
    given: dict[str, str] = {}
    for part in filter(None, (text or "").replace(" ", ",").split(",")):
        name, _, value = part.partition("=")
        if name not in kind.model_fields:
            raise InvalidRequest(f"There is no limit {name!r}.", hint=f"There are: {known}.")
        given[name] = value
    try:
        return kind.model_validate(given)
    except ValidationError as exc:
        problem = exc.errors()[0]
        raise InvalidRequest(
            f"{problem['loc'][0]}: {problem['msg']}.",
            hint="Write name=number, with commas between.",
        ) from exc


async def steps(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """List the Steps of a Run, and where it can be forked."""
    run = await (await RunManager.connect(settings)).get_run(run_id)
    if as_json:
        for step in run.steps:
            print_json(step)
        return 0
    out.print(steps_list(run))
    err.print(Text(f"Fork from any that has ended: perdure fork {run_id} --step N", style="dim"))
    return 0


async def resume(
    settings: Settings, run_id: str, limits: str | None, timeouts: str | None, *, follow: bool
) -> int:
    """Let a Run go on."""
    manager = await RunManager.connect(settings)
    await manager.resume(
        run_id,
        limits=read_values(Limits, limits),
        timeouts=read_values(Timeouts, timeouts),
    )
    if follow:
        return await show_live(manager, run_id, as_json=False)
    out.print(run_id, soft_wrap=True)
    return 0


async def fork(
    settings: Settings, run_id: str, changed: Callable[[], Fork], *, follow: bool
) -> int:
    """Start a Run from a Step of another."""
    manager = await RunManager.connect(settings)
    forked = await manager.fork(run_id, changed())
    if follow:
        return await show_live(manager, forked, as_json=False)
    out.print(forked, soft_wrap=True)
    return 0


async def limits(settings: Settings, run_id: str, text: str, *, as_json: bool) -> int:
    """Change the limits of a Run that is going on."""
    manager = await RunManager.connect(settings)
    run = await manager.raise_limits(run_id, read_values(Limits, text))
    if as_json:
        print_json(run)
    elif run.status.is_terminal:
        conclude(run, as_json=False)
    else:
        out.print(run_view(run))
    return 0
