"""Files on the command line: given with `--file`, listed and saved by `files`."""

import json
from pathlib import Path

import pytest

from perdure import Agent, File, tool
from perdure.client.cli.files import files_lines, read_files
from perdure.client.files import save
from perdure.runs.errors import InvalidRequest
from tests.harness.engine import Engine
from tests.harness.pictures import image_part, png, text_part
from tests.harness.processes import output
from tests.harness.scripted_openai import call, text, tool_calls


@tool(effect="read")
def draw() -> File:
    """Draw."""
    return File.from_bytes(png(), name="a\x1b[2J.png")


async def test_files_are_given_listed_and_saved(engine: Engine, tmp_path: Path) -> None:
    env = {"PERDURE_TASK_QUEUE": engine.task_queue}
    picture, notes = tmp_path / "large.png", tmp_path / "notes.txt"
    picture.write_bytes(png(60_000))
    notes.write_text("Hello.")
    engine.model.script([tool_calls(call("draw", {})), text("Done.")])
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "notes.txt").write_text("mine")
    async with engine.serving(Agent(name="assistant", tools=[draw])):
        given = ("--file", str(picture), "--file", str(notes), "--file", "https://a.example/c.png")
        code, out, err = await output("start", "Look.", *given, env=env)
        assert (code, err) == (0, "")
        run = await engine.ended(out.strip())
        code, listed, _ = await output("files", run.run_id, env=env)
        code, lines, names = await output(
            "files", run.run_id, "--json", "--save", str(saved), env=env
        )
    content = engine.model.requests[0].messages[0]["content"]
    assert content[:2] == [text_part("Look."), image_part(png(60_000))]
    shown = "\n".join(line.plain for line in files_lines(run))
    for part in ("file 1 from input: large.png (image/png, 60,081 bytes)", "from draw: a_[2J.png"):
        assert part in shown
    assert "\x1b" not in shown + listed
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["1", "2", "3", "4"]
    told = [json.loads(line) for line in lines.splitlines()]
    assert [each["file"]["bytes"] for each in told if "bytes" in each["file"]][:2] == [60_081, 6]
    assert not any(each["file"].get("data") for each in told)
    assert "Not saved, it is at https://a.example/c.png" in names
    assert sorted(path.name for path in saved.iterdir()) == [
        *("a_[2J.png", "large.png", "notes-2.txt", "notes.txt")
    ]
    assert (saved / "large.png").read_bytes() == png(60_000)
    assert (saved / "notes.txt").read_text() == "mine"
    with pytest.raises(InvalidRequest, match="can't be read: No such file or directory"):
        read_files([str(tmp_path / "none")])


def test_saving_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to(tmp_path / "elsewhere")
    file = File.from_bytes(png(), name="../../a.png")
    paths = [save(file, tmp_path) for _ in range(2)]
    assert [path.name for path in paths] == ["a-2.png", "a-3.png"]
    assert paths[1].read_bytes() == png()
    assert not (tmp_path / "elsewhere").exists()
