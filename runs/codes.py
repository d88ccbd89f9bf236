"""The codes of errors. `meanings` says what each means."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Stable codes of errors; never rename one."""

    # What a model Step can end with.
    LLM_AUTH = "llm_auth"
    LLM_BAD_RESPONSE = "llm_bad_response"
    LLM_TIMEOUT = "llm_timeout"
    LLM_UNAVAILABLE = "llm_unavailable"
    STREAM_INCOMPLETE = "stream_incomplete"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    MODEL_NOT_FOUND = "model_not_found"
    PROVIDER_REFUSED_REQUEST = "invalid_request"
    CONTEXT_OVERFLOW = "context_overflow"
    UNSUPPORTED_FILE = "unsupported_file"
    CONTENT_FILTERED = "content_filtered"
    REFUSED = "refused"
    OUTPUT_TRUNCATED = "output_truncated"
    # What a tool call can end with; the model is told, and the Run goes on.
    TOOL_NOT_FOUND = "tool_not_found"
    TOOL_ARGUMENTS_INVALID = "tool_arguments_invalid"
    TOOL_FAILED = "tool_failed"
    TOOL_TIMEOUT = "tool_timeout"
    RESULT_NOT_SERIALISABLE = "tool_result_not_serialisable"
    RESULT_TOO_LARGE = "result_too_large"
    OUTCOME_UNKNOWN = "outcome_unknown"
    ACTION_REJECTED = "action_rejected"
    ACTION_EXPIRED = "action_expired"
    APPROVAL_MISSING = "approval_missing"
    AGENT_FAILED = "agent_failed"
    WORKER_BUSY = "worker_busy"
    MCP_CONNECTION_LOST = "mcp_connection_lost"
    # What a tool call, or a model Step that needs the tools, can end with.
    MCP_UNAVAILABLE = "mcp_unavailable"
    PATH_DENIED = "path_denied"
    URL_DENIED = "url_denied"
    QUERY_DENIED = "query_denied"
    # What any Step can end with.
    WORKER_LOST = "worker_lost"
    CANCELLED = "cancelled"
    # What any Step, any Run and any caller can meet.
    STORAGE_UNAVAILABLE = "storage_unavailable"
    # What a Run can end with.
    AGENT_NOT_FOUND = "agent_not_found"
    MODEL_MISBEHAVING = "model_misbehaving"
    GUARDRAIL = "guardrail"
    OUTPUT_INVALID = "output_invalid"
    MAX_TURNS = "max_turns"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    MAX_IDENTICAL_CALLS = "max_identical_calls"
    MAX_OUTPUT = "max_output"
    RUN_TIMEOUT = "run_timeout"
    QUEUE_EXPIRED = "queue_expired"
    TERMINATED = "terminated"
    INTERNAL = "internal"
    # What a caller can be told.
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    RUN_NOT_FOUND = "run_not_found"
    CALL_NOT_FOUND = "call_not_found"
    ACTION_NOT_FOUND = "action_not_found"
    ACTION_ALREADY_RESOLVED = "action_already_resolved"
    RUN_ALREADY_EXISTS = "run_already_exists"
    RUN_ALREADY_TERMINAL = "run_already_terminal"
    RUN_NOT_RESUMABLE = "run_not_resumable"
    SESSION_NOT_FOUND = "session_not_found"
    SESSION_BUSY = "session_busy"
    SESSION_WAITING_FOR_ACTION = "session_waiting_for_action"
    SESSION_LIMIT = "session_limit"
    QUEUE_FULL = "queue_full"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    NO_WORKER = "no_worker"
    CONFIGURATION = "configuration"
    ILLEGAL_EVENT = "illegal_event"
    # The same, over HTTP only.
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    EVENTS_EXPIRED = "events_expired"


UNKNOWN_USAGE = (
    ErrorCode.LLM_BAD_RESPONSE,
    ErrorCode.LLM_TIMEOUT,
    ErrorCode.STREAM_INCOMPLETE,
    ErrorCode.WORKER_LOST,
)
"""Ends of a model Step after which the provider may have counted tokens we never heard of."""
