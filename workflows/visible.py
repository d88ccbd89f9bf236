"""What a person sees who opens a Run in the Temporal UI, without decoding any JSON.

Search attributes cost a history event each time they are written, so they are written when a
Run starts and ends; the details cost none, they are answered by query.
"""

import logging
from typing import Any

from perdure.runs import contract, record
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.steps import Step
from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

STATUS = SearchAttributeKey.for_keyword(contract.STATUS_ATTRIBUTE)
AGENT = SearchAttributeKey.for_keyword(contract.AGENT_ATTRIBUTE)
SESSION = SearchAttributeKey.for_keyword(contract.SESSION_ATTRIBUTE)
TOKENS = SearchAttributeKey.for_int(contract.TOKENS_ATTRIBUTE)
WAITING = SearchAttributeKey.for_keyword(contract.WAITING_ATTRIBUTE)
COST = SearchAttributeKey.for_float(contract.COST_ATTRIBUTE)

SHOWN_STEPS = 30
"""Steps in the details of a Run: the latest, so that writing them costs the same at any size."""


def show(run: Run) -> None:
    """Put the Run's present state into the workflow's details."""
    workflow.set_current_details(details(run))


def index(run: Run) -> None:
    """Make the Run findable by its status, and by its totals once it has ended."""
    updates: list[SearchAttributeUpdate[Any]] = [STATUS.value_set(run.status.value)]
    if run.status.is_terminal:
        updates += [TOKENS.value_set(run.total_tokens), COST.value_set(run.total_cost)]
    workflow.upsert_search_attributes(updates)


def index_waiting(run: Run) -> None:
    """Make a Run findable that waits for a person; its history says so by this, too."""
    waiting = run.waiting_on.type if run.waiting_on is not None else ""
    workflow.upsert_search_attributes([WAITING.value_set(waiting)])


def index_expired() -> None:
    """Say, in the history, that nobody decided in time."""
    workflow.upsert_search_attributes([WAITING.value_set(record.EXPIRED)])


def index_agent(run: Run) -> None:
    """Make a Run findable by the agent that goes on with it; its history says so by this, too."""
    workflow.upsert_search_attributes([AGENT.value_set(run.agent)])


def log_end(run: Run) -> None:
    """Log that the Run has ended, and what it came to: the one line of a Run that goes well."""
    has_failed = run.status in (RunStatus.FAILED, RunStatus.TIMEOUT)
    told = {
        "agent": run.agent,
        "status": run.status.value,
        "stop_reason": run.stop_reason,
        "code": run.error.code.value if run.error is not None else None,
        "turns": run.turn,
        "tokens": run.total_tokens,
        "cost": run.total_cost,
        "duration_ms": run.total_duration_ms,
    }
    level = logging.WARNING if has_failed else logging.INFO
    workflow.logger.log(level, "The Run has ended.", extra=told)


def details(run: Run) -> str:
    """Return the state of a Run as Markdown, in a few lines and a table of its latest Steps."""
    lines = [
        f"**{run.status}**{_stopped(run)} · agent {run.agent} · turn {run.turn} · "
        f"{run.total_tokens:,} tokens · {run.total_cost:.4f} USD"
    ]
    if run.waiting_on is not None:
        lines.append(f"waiting on {run.waiting_on.type}: {run.waiting_on.detail}")
    if run.error is not None:
        lines.append(f"error `{run.error.code}`: {run.error}")
    shown = run.steps[-SHOWN_STEPS:]
    if shown:
        lines += ["", "| Step | turn | what | status | tokens |", "|---|---|---|---|---|"]
        lines += [_row(step) for step in shown]
    if len(shown) < len(run.steps):
        lines.append(f"\n{len(run.steps) - len(shown)} earlier Steps are not shown.")
    return "\n".join(lines)


def _stopped(run: Run) -> str:
    return f" ({run.stop_reason})" if run.stop_reason else ""


def _row(step: Step) -> str:
    tokens = f"{step.usage.total_tokens:,}" if step.usage else ""
    status = f"{step.status} `{step.error.code}`" if step.error else step.status
    return f"| {step.number} | {step.turn} | {step.kind} {step.name} | {status} | {tokens} |"
