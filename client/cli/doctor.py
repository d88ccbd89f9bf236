"""The command `perdure doctor`."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perdure.client.cli.session import err, execute, out
from perdure.client.cli.words import escaped
from perdure.client.doctor.diagnosis import diagnose
from perdure.client.doctor.finding import Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "dim"}
SOMETHING_FAILS = 1


def doctor(
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", help="A task queue that tools name, to look at too; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look whether everything is there that Runs need; say how to mend what is not.

    Exit code 0 if nothing fails, warnings or not; 1 otherwise. What is `unknown` can't be known
    from here, or is not configured.
    """
    execute(_doctor(tuple(queue or ()), as_json=as_json), as_json=as_json)


async def _doctor(queues: tuple[str, ...], *, as_json: bool) -> int:
    by_place: dict[int, list[Finding]] = {}
    with _progress() as progressed:
        async for place, found in diagnose(queues):
            by_place[place] = found
            progressed(len(by_place))
    findings = [each for place in sorted(by_place) for each in by_place[place]]
    well = all(each.verdict != "fail" for each in findings)
    if as_json:
        told = {"ok": well, "checks": [each.model_dump() for each in findings]}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        out.print(_table(findings))
    return 0 if well else SOMETHING_FAILS


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show how far it is, on a terminal only."""
    if not err.is_terminal:
        yield lambda _: None
        return
    with err.status("Looking …") as status:
        yield lambda count: status.update(f"Looking … {count} done")


def _table(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    for each in findings:
        message = Text(escaped(each.message))
        if each.hint:
            message.append(f"\n→ {escaped(each.hint)}", style="dim")
        table.add_row(Text(each.verdict, style=STYLES[each.verdict]), each.check, message)
    return table
