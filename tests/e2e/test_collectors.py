"""Collectors that are down, hang or refuse: Runs do not notice, and workers end (P40)."""

import asyncio
import signal

from perdure.runs.status import RunStatus
from tests.conftest import free_port
from tests.e2e.traced import serving
from tests.harness.engine import Engine
from tests.harness.otlp import never_answers, receiving, refuses
from tests.harness.processes import said
from tests.harness.scripted_openai import RecordedRequest, Reply, call, text, tool_calls

WORDS = "Traces can't be sent"


def answer(request: RecordedRequest) -> Reply:
    said = sum(message["role"] == "assistant" for message in request.messages)
    return text("Done.") if said == 3 else tool_calls(call("note", {"text": str(said)}))


async def test_whatever_the_collector_does_runs_are_the_same_and_workers_end(
    engine: Engine,
) -> None:
    engine.model.respond_with(answer)
    starting = asyncio.Semaphore(2)  # four that import everything at once take long to be ready

    async def through(name: str, env: dict[str, str]) -> tuple[object, str]:
        """Execute a Run by a worker with these variables, stop that; return what both said."""
        own = Engine(engine.client, engine.model, f"{engine.task_queue}-{name}")
        fast = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2", "OTEL_BSP_MAX_QUEUE_SIZE": "4"}
        async with starting, serving(own, **env, **fast) as process:
            run = await own.run("clerk", run_id=f"{own.task_queue}-run")
            heard = await said(process, WORDS) if name in ("down", "refuses") else ""
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                _, err = await process.communicate()
            assert process.returncode == 0
        assert run.status is RunStatus.COMPLETED
        done = [(step.kind, step.name, step.attempt) for step in run.steps]
        return (run.output, done), heard + err.decode()

    async with receiving() as refusing, receiving() as hanging, receiving() as good:
        refusing.broken, hanging.broken = refuses, never_answers
        nobody = f"http://127.0.0.1:{free_port()}"
        ratio = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}
        settings = {
            "down": good.env(OTEL_EXPORTER_OTLP_ENDPOINT=nobody, OTEL_EXPORTER_OTLP_TIMEOUT="1"),
            "refuses": refusing.env() | {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
            "hangs": hanging.env(),
            "unsampled": good.env(**ratio),
        }
        found = await asyncio.gather(*(through(name, env) for name, env in settings.items()))
        assert hanging.requests == 1
        assert refusing.requests > 1
        assert good.spans == []
        results, outputs = zip(*found, strict=True)
        assert results.count(results[0]) == len(results)
        for heard in outputs:
            assert heard.count(WORDS) <= 1, heard
            assert "Traceback" not in heard, heard
            assert "Warning" not in heard, heard
            assert "opentelemetry" not in heard, heard
