"""Commands: in their folder, without the worker's secrets, and dead when their time is up."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.tools import shell_tool
from perdure.tools.shell import MAX_OUTPUT_BYTES

LIMIT_S = 10.0


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # whoever adopted it may not have looked yet


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110 - nothing tells of what other processes do
            await asyncio.sleep(0)


async def dies(process: int) -> None:
    await until(lambda: not is_alive(process))


async def written(path: Path) -> int:
    """Return the process id that a command writes into a file, once it is there."""
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    with open(path) as file:  # noqa: ASYNC230 - a line
        return int(file.read())


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("echo a; echo b >&2", "(exit code 0)\na\nb\n"),
        ("exit 3", "(exit code 3)\n"),
        ("kill -9 $$", "(exit code -9)\n"),
        ("cat", "(exit code 0)\n"),
        (["echo", "$HOME; id"], "(exit code 0)\n$HOME; id\n"),
        ("printf '\\377'", "(exit code 0)\n\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_a_command_is_run_and_told_about(
    tmp_path: Path, command: str | list[str], answer: str
) -> None:
    assert await shell_tool(tmp_path)(command) == answer


async def test_a_command_starts_in_its_folder_without_the_environment_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    run = shell_tool(tmp_path, environment={"COLOUR": "red"})
    lines = (await run("pwd; env")).splitlines()
    assert lines[1] == str(tmp_path)
    names = {line.partition("=")[0] for line in lines[2:]}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "COLOUR"}
    assert f"HOME={tmp_path}" in lines


async def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    run = shell_tool(tmp_path)
    half = MAX_OUTPUT_BYTES // 2
    text = await run(f"head -c {half} /dev/zero | tr '\\0' a; echo -n xyz; yes b | head -c {half}")
    assert text.startswith("(exit code 0)\n" + "a" * half + "\n[… 3 bytes left out …]\n")
    whole = await run(f"head -c {2 * half} /dev/zero | tr '\\0' a")
    assert whole == "(exit code 0)\n" + "a" * 2 * half


async def test_what_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    run = shell_tool(tmp_path, timeout_s=0.5)
    text = await run("echo begun; sh -c 'trap : TERM; sleep 1000 & echo $! > child; wait'; echo no")
    assert text == "(killed: it took longer than 0.5 seconds)\nbegun\n"
    await dies(await written(tmp_path / "child"))
    endless = await run("yes")
    assert endless.startswith("(killed")
    assert len(endless.encode()) < MAX_OUTPUT_BYTES + 200


async def test_a_cancel_kills_with_all_that_was_started(tmp_path: Path) -> None:
    going = asyncio.create_task(
        shell_tool(tmp_path)("sleep 1000 & echo $! > child; echo $$ > parent; wait")
    )
    child, parent = await written(tmp_path / "child"), await written(tmp_path / "parent")
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    await dies(child)
    await dies(parent)


async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        assert await shell_tool(tmp_path)("sleep 1000 & echo $! > child") == "(exit code 0)\n"
    await dies(await written(tmp_path / "child"))


async def test_what_left_the_group_does_not_hold_the_answer_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.tools.shell._REST_S", 0.1)
    leave = (
        "import os, time; os.setsid(); print(os.getpid(), file=open('left', 'w')); time.sleep(99)"
    )
    async with asyncio.timeout(LIMIT_S):
        text = await shell_tool(tmp_path)(
            f"'{sys.executable}' -c \"{leave}\" & until [ -s left ]; do :; done; echo done"
        )
    assert text == "(exit code 0)\ndone\n"
    os.kill(await written(tmp_path / "left"), signal.SIGKILL)


async def test_nothing_stays_open_and_what_can_not_be_run_is_an_error(tmp_path: Path) -> None:
    run = shell_tool(tmp_path)
    await run("true")
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await run(["absent-program"])
    with pytest.raises(ValueError, match="empty"):
        await run([])
    with pytest.raises(ValueError, match="null byte"):
        await run("echo \0")
    await run("true")
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(NotADirectoryError):
        shell_tool(tmp_path / "absent")


def test_a_command_is_never_run_twice(tmp_path: Path) -> None:
    made = shell_tool(tmp_path, timeout_s=5, name="build")
    assert (made.name, made.policy.effect, made.policy.max_attempts) == ("build", "unsafe", 1)
    assert made.policy.timeout_s
    assert made.policy.timeout_s > 5
