"""What models and tools say can't move a terminal's cursor, or colour what stands around it."""

from io import StringIO

import pytest
from rich.console import Console

from perdure.client.cli.render import run_view, steps_list
from perdure.client.cli.words import short, visible
from perdure.runs import record
from perdure.runs.decide import Finish
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import ToolReply
from tests.runs.building import answered, at, executed, reply, running, wanted

EVIL = "\x1b[2J\x1b]0;owned\x07gone\x9b31m"


@pytest.mark.parametrize("view", [run_view, steps_list])
def test_no_view_of_a_run_lets_a_control_character_through(view: object) -> None:
    run = answered(running(), reply(EVIL, wanted("a")))
    run = executed(run, "a", ToolReply(text=EVIL))
    run = answered(run, reply(EVIL))
    run = run.apply(
        record.ended(run, at(9), Finish(RunStatus.COMPLETED, StopReason.END_TURN, EVIL))
    )
    written = StringIO()
    Console(file=written, width=200, color_system=None).print(view(run))  # type: ignore[operator]
    assert "gone" in written.getvalue()
    assert not set(written.getvalue()) & {"\x1b", "\x07", "\x9b"}


def test_lines_and_tabs_are_kept_and_short_texts_are_one_line() -> None:
    assert visible("a\tb\nc\r\x00") == "a\tb\nc"
    assert short("a\tb\n\x1bc") == "a b c"
