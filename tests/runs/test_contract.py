"""Names that cross a process are frozen: the histories of Runs that are going on hold them.

A test that fails here is not to be mended by changing the list, unless a name was *added*.
"""

import typing
from enum import StrEnum

import pytest
from pydantic import BaseModel

from perdure.runs import contract, events, policy, start, steps
from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus, StopReason, WaitingOn

NAMES = {
    "DEFAULT_TASK_QUEUE": "perdure",
    "RUN_WORKFLOW": "Run",
    "CANCEL_SIGNAL": "cancel",
    "BEGIN_SIGNAL": "begin",
    "MESSAGE_SIGNAL": "message",
    "RAISE_LIMITS_UPDATE": "raise_limits",
    "SEND_MESSAGE_UPDATE": "send_message",
    "PAUSE_UPDATE": "pause",
    "UNPAUSE_UPDATE": "unpause",
    "RESOLVE_ACTION_UPDATE": "resolve_action",
    "RUN_USAGE": "run_usage",
    "RUN_QUERY": "run",
    "STATUS_QUERY": "status",
    "TRANSCRIPT_QUERY": "transcript",
    "CALL_MODEL": "call_model",
    "REQUEST_CANCEL": "request_cancel",
    "TOOL_PREFIX": "tool.",
    "STATUS_ATTRIBUTE": "PerdureStatus",
    "AGENT_ATTRIBUTE": "PerdureAgent",
    "SESSION_ATTRIBUTE": "PerdureSession",
    "TOKENS_ATTRIBUTE": "PerdureTokens",
    "COST_ATTRIBUTE": "PerdureCost",
    "WAITING_ATTRIBUTE": "PerdureWaiting",
    "RESUMED_MEMO": "perdure_resumed",
    "REQUEST_MEMO": "perdure_request",
    "CREATED_MEMO": "perdure_created",
}

FIELDS: dict[str, set[str]] = {
    "Resumption": {"first_execution", "limits", "timeouts", "budget"},
    "RunRequest": {"start", "carried", "resumption"},
    "RunResult": {"output", "turns", "usage"},
    "ModelRequest": {
        "agent",
        "step",
        "turn",
        "after",
        "messages",
        "purpose",
        "model",
        "chosen_model",
        "summarise",
        "limit",
        "depth",
        "unchecked",
        "output_schema",
        "output_schema_digest",
        "session_id",
        "terms",
        "timeouts",
        "max_output_bytes",
    },
    "ResolveActionRequest": {"action_id", "digest", "resolution"},
    "ToolRequest": {
        "approval",
        "effect",
        "agent",
        "step",
        "turn",
        "call_id",
        "name",
        "arguments",
        "idempotency_key",
        "variables",
        "session_id",
    },
    "CancelRequest": {"reason", "mode", "by"},
    "BeginRequest": {"share"},
    "MessageRequest": {"text", "message_id", "files"},
    "RaiseLimitsRequest": {"limits"},
    "PauseRequest": {"reason"},
    "UnpauseRequest": set(),
    "RunPageRequest": {"after_step", "max_bytes"},
    "RunPage": {"run", "next_after_step"},
    "TranscriptPageRequest": {"start", "max_bytes"},
    "TranscriptPage": {"messages", "next_start"},
    "RunStatusReport": {
        "run_id",
        "status",
        "turn",
        "current_step",
        "total_tokens",
        "total_cost",
        "waiting_on",
    },
}

EVENT_TYPES = [
    "run.queued",
    "run.started",
    "run.step.started",
    "run.step.completed",
    "run.step.failed",
    "run.cancel_requested",
    "run.action.required",
    "run.action.resolved",
    "run.handed_off",
    "run.paused",
    "run.unpaused",
    "run.message.accepted",
    "run.pause_requested",
    "run.unpause_requested",
    "run.limits.raised",
    "run.resumed",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.timeout",
]

STATUSES = ["pending", "running", "completed", "failed", "cancelled", "timeout"]

STOP_REASONS = [
    "end_turn",
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_cost",
    "max_identical_calls",
    "max_output",
    "deadline",
    "queue_expired",
    "user_cancel",
    "superseded",
    "content_filter",
    "refusal",
    "error",
    "terminated",
]

ERROR_CODES = [
    "llm_auth",
    "llm_bad_response",
    "llm_timeout",
    "llm_unavailable",
    "stream_incomplete",
    "rate_limited",
    "quota_exhausted",
    "model_not_found",
    "invalid_request",
    "context_overflow",
    "unsupported_file",
    "content_filtered",
    "refused",
    "output_truncated",
    "tool_not_found",
    "tool_arguments_invalid",
    "tool_failed",
    "tool_timeout",
    "tool_result_not_serialisable",
    "result_too_large",
    "outcome_unknown",
    "action_rejected",
    "action_expired",
    "approval_missing",
    "agent_failed",
    "worker_busy",
    "mcp_connection_lost",
    "mcp_unavailable",
    "path_denied",
    "url_denied",
    "query_denied",
    "worker_lost",
    "cancelled",
    "storage_unavailable",
    "agent_not_found",
    "model_misbehaving",
    "guardrail",
    "output_invalid",
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_cost",
    "max_identical_calls",
    "max_output",
    "run_timeout",
    "queue_expired",
    "terminated",
    "internal",
    "unsupported_parameter",
    "payload_too_large",
    "run_not_found",
    "call_not_found",
    "action_not_found",
    "action_already_resolved",
    "run_already_exists",
    "run_already_terminal",
    "run_not_resumable",
    "session_not_found",
    "session_busy",
    "session_waiting_for_action",
    "session_limit",
    "queue_full",
    "idempotency_conflict",
    "engine_unavailable",
    "no_worker",
    "configuration",
    "illegal_event",
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "unsupported_media_type",
    "events_expired",
]


def models() -> dict[str, type[BaseModel]]:
    """Return the request and reply models that the contract defines."""
    return {
        name: value
        for name, value in vars(contract).items()
        if isinstance(value, type)
        and issubclass(value, BaseModel)
        and value.__module__ == contract.__name__
    }


def test_names_on_the_wire_are_frozen() -> None:
    found = {k: v for k, v in vars(contract).items() if k.isupper() and isinstance(v, str)}
    assert found == NAMES


@pytest.mark.parametrize(
    ("enum", "frozen"),
    [(RunStatus, STATUSES), (StopReason, STOP_REASONS), (ErrorCode, ERROR_CODES)],
)
def test_statuses_stop_reasons_and_codes_are_frozen(enum: type[StrEnum], frozen: list[str]) -> None:
    assert [member.value for member in enum] == frozen


def test_event_types_are_frozen() -> None:
    union, _ = typing.get_args(events.Event)
    kinds: list[type[BaseModel]] = list(typing.get_args(union))
    assert [kind.model_fields["type"].default for kind in kinds] == EVENT_TYPES


def test_what_stops_a_run_and_how_is_frozen() -> None:
    assert typing.get_args(events.CancelMode) == ("now", "after_step", "rollback")
    assert typing.get_args(events.StoppedBy) == ("user", "deadline", "queue", "session")


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (start.SessionShare, {"context", "budget", "context_window"}),
        (start.ContextBundle, {"messages", "variables"}),
        (events.RunStarted, {"run_id", "sequence_number", "at", "type", "share"}),
    ],
)
def test_what_a_session_gives_a_run_is_frozen(model: type[BaseModel], fields: set[str]) -> None:
    assert set(model.model_fields) == fields


def test_statuses_of_steps_and_calls_and_what_a_run_waits_for_are_frozen() -> None:
    assert typing.get_args(steps.StepStatus) == ("running", "completed", "failed", "cancelled")
    assert typing.get_args(steps.CallStatus) == (
        "requested",
        "running",
        "completed",
        "failed",
        "rejected",
        "cancelled",
    )
    assert typing.get_args(policy.Effect) == ("read", "keyed", "unsafe")
    assert typing.get_args(WaitingOn.model_fields["type"].annotation) == (
        "approval",
        "input",
        *("retry", "queue", "pause", "child", "limit", "worker"),
    )


def test_no_field_of_a_message_is_renamed_or_lost() -> None:
    assert {name: set(model.model_fields) for name, model in models().items()} == FIELDS


@pytest.mark.parametrize("name", list(FIELDS))
def test_fields_of_a_newer_version_are_passed_over(name: str) -> None:
    assert models()[name].model_config["extra"] == "ignore"
    assert models()[name].model_config["frozen"] is True
