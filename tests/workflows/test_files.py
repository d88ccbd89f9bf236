"""Files that go into a Run: by reference from end to end, and whole where a model reads them."""

import asyncio
import os
from pathlib import Path

import pytest

from perdure import Agent, ContextBundle, File, Fork, ModelProfile, tool
from perdure.activities.transcripts import Transcripts
from perdure.client.manager import RunManager
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.runs.errors import ErrorCode, IdempotencyConflict, InvalidRequest, StorageUnavailable
from perdure.runs.status import RunStatus
from perdure.runs.transcript import opening
from tests.harness.engine import Engine, soon
from tests.harness.pictures import data_url, image_part, png, text_part
from tests.harness.replies import Gate
from tests.harness.scripted_openai import call, status, text, tool_calls

MB = 1_000_000
SMALL, LARGE = png(), png(5 * MB)
PDF = b"%PDF-1.7\n" + b"x" * 20_000
NOTES = "Hören, sehen.\n"


@tool(effect="read")
def look(number: int) -> str:
    """Look something up."""
    return f"{number}: " + "It is 4711. " * 40


AGENT = Agent(name="viewer", tools=[look])
BLIND = Agent(name="blind", tools=[look], profile=ModelProfile(images=False))


def given(*files: tuple[bytes, str]) -> list[File]:
    return [File.from_bytes(data, name=name) for data, name in files]


def stored(folder: Path | None = None) -> set[Path]:
    """Return the files of a storage directory."""
    found = folder or Path(os.environ["PERDURE_STORAGE_DIR"])
    return {path for path in found.rglob("*") if path.is_file()}


async def history_bytes(engine: Engine, run_id: str) -> int:
    executions = await engine.executions(run_id)
    return sum(event.ByteSize() for each in executions for event in each.events)


async def test_small_files_travel_along_and_reach_the_model_in_order(engine: Engine) -> None:
    files = given((SMALL, "a.png"), (NOTES.encode(), "notes.md"), (PDF, "p.pdf"))
    files.append(File.from_url("https://example.org/cat.jpg?size=2"))
    files.append(File.from_bytes(b"RIFF....WAVEfmt ", name="say.wav"))
    engine.model.script([text("Seen.")])
    async with engine.serving(AGENT):
        run = await engine.run("viewer", "Look.", files=files)
        read = [await engine.manager.file(run.run_id, n) for n in (1, 2, 3, 5)]
    assert (run.status, run.output) == (RunStatus.COMPLETED, "Seen.")
    said = engine.model.requests[0].messages[-1]["content"]
    assert said[:3] == [
        text_part("Look."),
        image_part(SMALL),
        text_part(f'File "notes.md":\n{NOTES}'),
    ]
    assert said[3] == {
        "type": "file",
        "file": {"filename": "p.pdf", "file_data": data_url(PDF, "application/pdf")},
    }
    assert said[4]["image_url"] == {"url": "https://example.org/cat.jpg?size=2"}
    assert said[5]["input_audio"]["format"] == "wav"
    assert read == [*files[:3], files[4]]
    assert [f.stored is None for f in run.input_files] == [True, True, False, True, True]


async def test_5_mb_are_kept_once_and_read_once_and_the_history_stays_small(
    engine: Engine,
) -> None:
    gate = Gate()
    asks = [tool_calls(call("look", {"number": n}), usage=(2_000, 10)) for n in range(3)]
    engine.model.script([asks[0].hold(gate), *asks[1:], text("Seen.", usage=(2_000, 10))])
    before = stored()
    async with engine.serving(AGENT):
        run_id = await engine.start("viewer", "", files=given((LARGE, "large.png")))
        await gate.reached
        [blob] = stored() - before
        content = blob.read_bytes()
        # From here on, the worker has it in its memory.
        blob.unlink()
        gate.open()
        run = await engine.ended(run_id)
        size = await history_bytes(engine, run.run_id)
    assert run.output == "Seen."
    assert size < 25_000
    assert [r.messages[0]["content"] for r in engine.model.requests] == [[image_part(LARGE)]] * 4
    assert len(engine.model.requests[0].raw) > len(LARGE)
    blob.write_bytes(content)
    assert (await engine.manager.file(run.run_id, "large.png")).data == LARGE


async def test_another_worker_reads_what_this_one_had(engine: Engine) -> None:
    engine.model.script([tool_calls(call("look", {"number": 1})), text("Seen.")])
    files = given((png(30_000), "a.png"), (SMALL, "b.png"))
    async with engine.serving(AGENT):
        run_id = await engine.start("viewer", files=files)
        await engine.manager.pause(run_id)

        async def is_paused() -> bool:
            return (await engine.manager.get_run(run_id)).waiting_on is not None

        await soon(is_paused)
    engine.transcripts = Transcripts()
    async with engine.serving(AGENT):
        await engine.manager.unpause(run_id)
        run = await engine.ended(run_id)
    assert run.output == "Seen."
    assert len(engine.model.requests) == 2
    for request in engine.model.requests:
        said = [text_part("Go."), image_part(png(30_000)), image_part(SMALL)]
        assert request.messages[0]["content"] == said


async def test_content_that_is_missing_ends_the_run_and_is_found_again(
    engine: Engine, tmp_path: Path
) -> None:
    client = await connect(Settings(storage_dir=tmp_path))
    stranger = RunManager(client, engine.task_queue)
    engine.model.script([text("Seen.")])
    async with engine.serving(AGENT):
        missing = png(30_000, 2)
        run_id = await stranger.start_run("viewer", "Go.", files=given((missing, "a.png")))
        async with asyncio.timeout(40):
            run = await engine.ended(run_id)
        assert run.error is not None
        assert run.error.code is ErrorCode.STORAGE_UNAVAILABLE
        assert run.steps[0].attempt == 3
        assert engine.model.requests == []
        with pytest.raises(StorageUnavailable, match="is not in the storage directory"):
            await engine.manager.file(run_id, 1)
        [blob] = stored(tmp_path)
        shared = Path(os.environ["PERDURE_STORAGE_DIR"]) / blob.relative_to(tmp_path)
        shared.parent.mkdir(parents=True, exist_ok=True)
        shared.write_bytes(blob.read_bytes())
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert run.output == "Seen."
    assert engine.model.requests[0].messages[0]["content"][1] == image_part(missing)


async def test_a_session_remembers_files_and_a_fork_takes_them_over(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text(f"Answer {request.index}."))
    async with engine.serving(AGENT):
        session = engine.manager.session("album")
        pictures = given((png(30_000, 3), "a.png"))
        first = (await session.start_run("viewer", "This?", files=pictures)).run_id
        await engine.ended(first)
        await engine.ended((await session.start_run("viewer", "And now?")).run_id)
        forked = await engine.manager.fork(
            first, Fork(step=1, message="Or this?", files=tuple(given((SMALL, "b.png"))))
        )
        await engine.ended(forked)
        again = await engine.manager.fork(first, Fork(step=0, message="What?"))
        await engine.ended(again)
        other = await engine.manager.fork(first, Fork(step=0, files=tuple(given((SMALL, "b.png")))))
        await engine.ended(other)
        report = await engine.rest("album")
    old = [text_part("This?"), image_part(png(30_000, 3))]
    seen = [
        [m["content"] for m in r.messages if m["role"] == "user"] for r in engine.model.requests
    ]
    assert seen == [
        [old],
        [old, "And now?"],
        [old, [text_part("Or this?"), image_part(SMALL)]],
        [[text_part("What?"), old[1]]],
        [[text_part("This?"), image_part(SMALL)]],
    ]
    assert report.runs == 2


async def test_files_come_with_messages_and_with_runs_that_lose_their_turn(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([tool_calls(call("look", {"number": 1})).hold(gate), text("Seen.")])
    engine.model.respond_with(lambda request: text("Later."))
    async with engine.serving(AGENT):
        session = engine.manager.session("album-2")
        run_id = (await session.start_run("viewer", "Go.")).run_id
        await gate.reached
        sent = given((SMALL, "a.png"))
        for _ in range(2):
            await engine.manager.send_message(run_id, "", message_id="m1", files=sent)
        with pytest.raises(InvalidRequest, match="has another message"):
            await engine.manager.send_message(run_id, "", message_id="m1")
        more = given((NOTES.encode(), "n.txt"))
        steered = await session.start_run("viewer", "Read.", on_busy="steer", files=more)
        gate.open()
        run = await engine.ended(run_id)
        report = await engine.rest("album-2")
    assert steered.how == "steered"
    assert run.output == "Seen."
    said = [m["content"] for m in engine.model.requests[1].messages if m["role"] == "user"]
    assert said == ["Go.", [image_part(SMALL)], f'Read.\n\nFile "n.txt":\n{NOTES}']
    assert [(f.source, f.file.name) for f in await engine.manager.files(run_id)] == [
        ("message", "a.png"),
        ("message", "n.txt"),
    ]
    assert report.runs == 1


async def test_a_summary_keeps_the_files_of_the_task_and_names_the_others(engine: Engine) -> None:
    agent = Agent(name="clerk", tools=[look], context_window=20_000)
    engine.model.script(
        [
            *(tool_calls(call("look", {"number": n}), usage=(6_000 * n, 10)) for n in (1, 2, 3)),
            text("The picture is red; 4711.", usage=(9, 9)),
            text("Done."),
        ]
    )
    files = given((SMALL, "a.png"), (b"note\n" * 100, "n.txt"), (b"long\n" * 4_000, "long.txt"))
    async with engine.serving(agent):
        run = await engine.run("clerk", "Describe it.", files=files)
    assert run.output == "Done."
    summing_up, after = engine.model.requests[3].messages, engine.model.requests[4].messages
    assert "a.png (image/png" in summing_up[1]["content"]
    assert 'File "n.txt":\nnote' in summing_up[1]["content"]
    parts = after[0]["content"]
    assert "The picture is red" in parts[0]["text"]
    assert "long.txt (text/plain, 20,000 bytes)" in parts[0]["text"]
    assert parts[1:] == [image_part(SMALL), text_part('File "n.txt":\n' + "note\n" * 100)]


async def test_a_model_that_reads_no_images_is_not_asked_about_one(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("I read."))
    async with engine.serving(BLIND, AGENT):
        session = engine.manager.session("blind")
        started = await session.start_run("blind", "This?", files=given((SMALL, "a.png")))
        refused = await engine.ended(started.run_id)
        asked = len(engine.model.requests)
        texts = given((NOTES.encode(), "n.md"))
        # The picture of the Run before must not end the conversation for ever.
        await engine.ended((await session.start_run("blind", "Then this.", files=texts)).run_id)
        await engine.rest("blind")
    assert asked == 0
    assert refused.error is not None
    assert refused.error.code is ErrorCode.UNSUPPORTED_FILE
    assert "a.png (image/png" in refused.error.message
    assert [m["content"] for m in engine.model.requests[0].messages] == [
        f"This?\n\n[The file a.png (image/png, {len(SMALL)} bytes): this model can't read it.]",
        f'Then this.\n\nFile "n.md":\n{NOTES}',
    ]


async def test_what_the_provider_refuses_comes_through_as_it_says(engine: Engine) -> None:
    engine.model.script([status(400, {"error": {"message": "No images here."}})])
    async with engine.serving(AGENT):
        run = await engine.run("viewer", files=given((SMALL, "a.png")))
    assert run.error is not None
    assert run.error.code is ErrorCode.PROVIDER_REFUSED_REQUEST
    assert "No images here." in run.error.message


async def test_bad_files_start_nothing_and_a_key_stands_for_their_content(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Seen."))
    too_many = given((SMALL, "a.png")) * 21
    async with engine.serving(AGENT):
        for files in (too_many, given((b"PK\3\4\0", "a.zip")), [SMALL]):
            with pytest.raises(InvalidRequest):
                await engine.start("viewer", files=files)
        with pytest.raises(InvalidRequest, match="The input is empty"):
            await engine.start("viewer", "")
        once = given((png(30_000), "a.png"), (SMALL, "b.png"))
        started = [
            await engine.start("viewer", idempotency_key="k-files", files=once) for _ in "ab"
        ]
        other = given((png(30_000, 9), "a.png"), (SMALL, "b.png"))
        with pytest.raises(IdempotencyConflict):
            await engine.start("viewer", idempotency_key="k-files", files=other)
        await engine.ended(started[0])
    assert started[0] == started[1]
    assert len(engine.model.requests) == 1


async def test_files_of_a_conversation_given_by_hand_are_shown(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Seen."))
    async with engine.serving(AGENT):
        first = await engine.run("viewer", "This?", files=given((png(30_000), "a.png")))
        messages = opening(first)
        await engine.run("viewer", "Again.", context=ContextBundle(messages=messages))
    assert engine.model.requests[1].messages[0]["content"][1] == image_part(png(30_000))
