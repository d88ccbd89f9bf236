"""Files that tools return: kept by reference, told to the model as text, and shown to it."""

import asyncio
from pathlib import Path
from typing import Any

from perdure import Agent, File, ModelProfile, tool
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.runs.files import MAX_FILES
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.pictures import image_part, png, text_part
from tests.harness.scripted_openai import RecordedRequest, call, text, tool_calls

CHART, MAP = png(), png(300_000, 7)
TOLD = "Files that the tools returned, in the order of their calls; not from the user:"


@tool(effect="read")
async def draw(name: str, wait_s: float = 0) -> File:
    """Draw something."""
    await asyncio.sleep(wait_s)
    return File.from_bytes(CHART if name.startswith("chart") else MAP, name=name)


@tool(effect="read")
def gather(kind: str) -> Any:
    """Gather something."""
    archive = File.from_bytes(b"PK\3\4\0", "application/zip", "../all.zip")
    table = File.from_bytes(b"a,b\n", name="t.csv")
    match kind:
        case "list":
            return ["Found:", table, archive]
        case "object":
            return {"rows": 1, "table": table}
        case "mixed":
            return [1, table]
        case "many":
            return [File.from_bytes(b"x", name=f"{n}.txt") for n in range(MAX_FILES + 2)]
        case "long":
            return File.from_bytes(b"long\n" * 20_000, name="long.txt")
        case _:
            return File.from_bytes(b"", name="empty.txt")


AGENT = Agent(name="artist", tools=[draw, gather])
BLIND = Agent(name="blind", tools=[draw], profile=ModelProfile(images=False))


def said(request: RecordedRequest) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in request.messages]


def note(name: str, what: str, size: int, how: str = "shown below") -> str:
    return f"[The file {name} ({what}, {size:,} bytes): {how}.]"


async def test_the_model_sees_what_parallel_calls_drew_behind_all_their_results(
    engine: Engine,
) -> None:
    calls = [
        call("draw", {"name": "map.png", "wait_s": 0.3}, id="slow"),
        call("gather", {"kind": "list"}, id="text"),
        call("draw", {"name": "chart.png"}, id="fast"),
    ]
    engine.model.script([tool_calls(*calls), text("More."), text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("artist", session_id="atelier")
        again = await engine.run("artist", "And?", session_id="atelier")
        await engine.rest("atelier")
        files = await engine.manager.files(run.run_id)
        drawn = await engine.manager.file(run.run_id, "map.png")
        archive = await engine.manager.file(run.run_id, "all.zip")
    results = [
        ("tool", note("map.png", "image/png", len(MAP))),
        (
            "tool",
            f"Found:\n{note('t.csv', 'text/csv', 4)}\n"
            + note("all.zip", "application/zip", 5, "kept for the user, not shown here"),
        ),
        ("tool", note("chart.png", "image/png", len(CHART))),
    ]
    shown = [text_part(TOLD), image_part(MAP), text_part('File "t.csv":\na,b\n'), image_part(CHART)]
    first = [("user", "Go."), ("assistant", None), *results, ("user", shown)]
    assert (run.status, again.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
    assert said(engine.model.requests[1]) == first
    assert said(engine.model.requests[2]) == [*first, ("assistant", "More."), ("user", "And?")]
    assert [f.file.name for f in files] == ["map.png", "t.csv", "all.zip", "chart.png"]
    assert [f.source for f in files] == ["draw", "gather", "gather", "draw"]
    assert drawn.data == MAP
    assert archive.media_type == "application/zip"
    assert (await engine.manager.result(run.run_id, "slow")) == results[0][1]


async def test_files_in_results_of_every_shape(engine: Engine) -> None:
    kinds = ["object", "mixed", "many", "long", "empty"]
    engine.model.script(
        [tool_calls(*(call("gather", {"kind": each}, id=each) for each in kinds)), text("Done.")]
    )
    async with engine.serving(AGENT):
        run = await engine.run("artist")
    told = {m["tool_call_id"]: m["content"] for m in engine.model.requests[1].messages[2:-1]}
    table = note("t.csv", "text/csv", 4)
    assert told["object"] == f'{{"rows":1,"table":"{table}"}}'
    assert told["mixed"] == f'[1,"{table}"]'
    assert told["many"].count("shown below") == MAX_FILES
    assert told["many"].count("not kept") == 2
    hidden = "kept for the user, not shown here"
    assert told["long"] == note("long.txt", "text/plain", 100_000, hidden)
    assert "is empty" in told["empty"]
    assert run.tool_calls[4].status == "failed"
    assert [len(each.files) for each in run.tool_calls] == [1, 1, MAX_FILES, 1, 0]
    last = engine.model.requests[1].messages[-1]
    # All of it is text: a model that reads nothing else must be able to.
    assert last["content"].startswith(TOLD)
    assert 'File "19.txt":\nx' in last["content"]


async def test_a_model_that_reads_no_images_is_told_that_there_is_one(engine: Engine) -> None:
    engine.model.script([tool_calls(call("draw", {"name": "chart.png"})), text("A chart.")])
    async with engine.serving(BLIND):
        run = await engine.run("blind")
    assert run.output == "A chart."
    last = engine.model.requests[1].messages[-1]
    what = f"[The file chart.png (image/png, {len(CHART)} bytes): this model can't read it.]"
    assert last == {"role": "user", "content": f"{TOLD}\n\n{what}"}


async def test_a_file_that_can_not_be_kept_is_lost_and_the_rest_is_not(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    client = await connect(Settings(storage_dir=tmp_path / "file"))
    other = Engine(client, engine.model, engine.task_queue)
    calls = [call("draw", {"name": "map.png"}), call("draw", {"name": "chart.png"})]
    engine.model.script([tool_calls(*calls), text("Done.")])
    async with other.serving(AGENT):
        run = await other.run("artist")
    assert run.tool_calls[0].result == "[The file map.png: it could not be kept.]"
    assert [len(each.files) for each in run.tool_calls] == [0, 1]
