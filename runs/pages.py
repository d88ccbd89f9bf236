"""Large Runs and transcripts in pages: what fits one answer to a query, and back together."""

from collections.abc import Iterable

from perdure.runs.contract import (
    RunPage,
    RunPageRequest,
    RunStatusReport,
    TranscriptPage,
    TranscriptPageRequest,
)
from perdure.runs.files import chars
from perdure.runs.messages import Message, UserMessage, wire
from perdure.runs.run import Run
from perdure.runs.steps import Step, ToolCall
from perdure.runs.transcript import messages


def run_page(run: Run, request: RunPageRequest) -> RunPage:
    """Return the Run with the Steps after `request.after_step`, as many as fit.

    At least one Step comes along, whatever its size, so that every Run can be read to its end.
    """
    asked: dict[int, list[ToolCall]] = {}
    for call in run.tool_calls:
        if call.model_step > request.after_step:
            asked.setdefault(call.model_step, []).append(call)
    steps: list[Step] = []
    size = 0
    for step in run.steps[request.after_step :]:
        size += _size(step, asked.get(step.number, []))
        if steps and size > request.max_bytes:
            break
        steps.append(step)
    last = request.after_step + len(steps)
    calls = tuple(call for step in steps for call in asked.get(step.number, []))
    return RunPage(
        run=run.model_copy(update={"steps": tuple(steps), "tool_calls": calls}),
        next_after_step=last if last < len(run.steps) else None,
    )


def joined(pages: Iterable[RunPage]) -> Run:
    """Put the pages of one Run together; the last one has the newest word on all else."""
    steps: list[Step] = []
    calls: list[ToolCall] = []
    run: Run | None = None
    for page in pages:
        run = page.run
        steps.extend(run.steps)
        calls.extend(run.tool_calls)
    if run is None:
        raise ValueError("a Run has at least one page")
    return run.model_copy(update={"steps": tuple(steps), "tool_calls": tuple(calls)})


def transcript_page(run: Run, request: TranscriptPageRequest) -> TranscriptPage:
    """Return the messages of a Run from `request.start` on, as many as fit; at least one."""
    return page_of(messages(run, request.start), request)


def page_of(found: Iterable[Message], request: TranscriptPageRequest) -> TranscriptPage:
    """Return as many of the messages as fit; at least one.

    Args:
        found: Those from `request.start` on.
        request: What was asked for.
    """
    page: list[Message] = []
    size = 0
    for message in found:
        size += len(wire(message))
        size += chars(message.files) if isinstance(message, UserMessage) else 0
        if page and size > request.max_bytes:
            return TranscriptPage(messages=tuple(page), next_start=request.start + len(page))
        page.append(message)
    return TranscriptPage(messages=tuple(page))


def status_report(run: Run) -> RunStatusReport:
    """Return where a Run stands; small whatever its size."""
    return RunStatusReport(
        run_id=run.run_id,
        status=run.status,
        turn=run.turn,
        current_step=run.current_step,
        total_tokens=run.total_tokens,
        total_cost=run.total_cost,
        waiting_on=run.waiting_on,
    )


def _size(step: Step, calls: list[ToolCall]) -> int:
    # Estimated: serialising only to measure would double the work of every page.
    per_record = 500
    said = len(step.text or "") + sum(len(c.arguments) + len(c.result or "") for c in calls)
    said += sum(chars(call.files) for call in calls)
    return said + per_record * (1 + len(calls))
