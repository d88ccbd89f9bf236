"""What each error code means: the table that docs/errors.md is made from."""

from perdure.runs.codes import ErrorCode
from perdure.runs.meanings_of_calls import OF_TOOL_CALLS, Retried

MEANINGS: dict[ErrorCode, tuple[str, Retried, str]] = {
    ErrorCode.LLM_AUTH: (
        "The provider refused the credentials.",
        "no",
        "Set a valid OPENAI_API_KEY for the worker.",
    ),
    ErrorCode.LLM_BAD_RESPONSE: (
        "The provider answered with something that is not a chat completion.",
        "by us",
        "Check OPENAI_BASE_URL; see the error's details for what came back.",
    ),
    ErrorCode.LLM_TIMEOUT: (
        "The provider sent nothing, or too little, within the time limits of a model call.",
        "by us",
        "Raise the model timeouts of the agent, or use a faster model.",
    ),
    ErrorCode.LLM_UNAVAILABLE: (
        "The provider could not be reached or answered with a server error.",
        "by us",
        "Check the provider's status and OPENAI_BASE_URL.",
    ),
    ErrorCode.STREAM_INCOMPLETE: (
        "The provider's stream ended before the answer did.",
        "by us",
        "Check proxies and their time limits between the worker and the provider.",
    ),
    ErrorCode.RATE_LIMITED: (
        "The provider asked us to slow down.",
        "by us",
        "Lower the number of concurrent Runs, or ask the provider for a higher limit.",
    ),
    ErrorCode.QUOTA_EXHAUSTED: (
        "The provider account has no quota left.",
        "no",
        "Top up the account.",
    ),
    ErrorCode.MODEL_NOT_FOUND: (
        "The provider does not know the model.",
        "no",
        "Set PERDURE_MODEL, or the agent's model, to one the provider lists.",
    ),
    ErrorCode.PROVIDER_REFUSED_REQUEST: (
        "The request was refused as invalid.",
        "no",
        "The message says which part; change it.",
    ),
    ErrorCode.CONTEXT_OVERFLOW: (
        "The conversation is longer than the model's context window.",
        "no",
        "Use a model with a larger window, or start with less.",
    ),
    ErrorCode.UNSUPPORTED_FILE: (
        "The Run was started with a file that the agent's model can't read.",
        "no",
        "Use an agent whose model can, or give the content as text.",
    ),
    ErrorCode.CONTENT_FILTERED: (
        "The provider's content filter stopped the answer.",
        "no",
        "Change the input.",
    ),
    ErrorCode.REFUSED: (
        "The model refused; its words are the Run's output.",
        "no",
        "Change the input.",
    ),
    ErrorCode.OUTPUT_TRUNCATED: (
        "The answer hit the output limit and was cut; the part is the Run's output.",
        "no",
        "Raise the agent's max_output_tokens.",
    ),
    **OF_TOOL_CALLS,
    ErrorCode.WORKER_LOST: (
        "The worker died during the Step, as often as it was tried.",
        "by us",
        "Look at the worker's logs and memory.",
    ),
    ErrorCode.CANCELLED: (
        "The Step was stopped because the Run was cancelled.",
        "no",
        "Nothing.",
    ),
    ErrorCode.STORAGE_UNAVAILABLE: (
        "A payload too large for Temporal is not where this process looks for it.",
        "by us",
        "Let clients and workers share PERDURE_STORAGE_DIR, or use S3; see docs/data.md.",
    ),
    ErrorCode.AGENT_NOT_FOUND: (
        "The worker has no agent of that name.",
        "no",
        "Start the worker with --agents naming the module that declares it.",
    ),
    ErrorCode.MODEL_MISBEHAVING: (
        "Several turns in a row, every tool call of the model was unusable.",
        "no",
        "Use a model that handles tools better, or simplify the tools.",
    ),
    ErrorCode.GUARDRAIL: (
        "A check of the agent, or a person it asked, refused the input or the output.",
        "no",
        "The message says which check, and why.",
    ),
    ErrorCode.OUTPUT_INVALID: (
        "Several answers in a row did not fit the output's schema.",
        "no",
        "Use a model that follows schemas better, or simplify the schema.",
    ),
    ErrorCode.MAX_TURNS: (
        "The Run reached its limit of model turns.",
        "no",
        "Raise limits.max_turns.",
    ),
    ErrorCode.MAX_TOOL_CALLS: (
        "The Run reached its limit of tool calls.",
        "no",
        "Raise limits.max_tool_calls.",
    ),
    ErrorCode.MAX_TOKENS: (
        "The Run reached its limit of tokens.",
        "no",
        "Raise limits.max_tokens.",
    ),
    ErrorCode.MAX_COST: ("The Run reached its limit of cost.", "no", "Raise limits.max_cost."),
    ErrorCode.MAX_IDENTICAL_CALLS: (
        "The model repeated the same tool call, and got the same result, again and again.",
        "no",
        "Tell the model what else to do, or raise limits.max_identical_calls.",
    ),
    ErrorCode.MAX_OUTPUT: (
        "The model's answer was longer than allowed; it was stopped, and what it said is kept.",
        "no",
        "Raise limits.max_output_bytes, or ask for less.",
    ),
    ErrorCode.RUN_TIMEOUT: (
        "The Run took longer than its time limit.",
        "no",
        "Raise timeouts.run_s.",
    ),
    ErrorCode.QUEUE_EXPIRED: (
        "The Run waited in its Session's queue for longer than it may.",
        "no",
        "Raise timeouts.queue_s, or start it again.",
    ),
    ErrorCode.TERMINATED: ("An operator terminated the Run in Temporal.", "no", "Start it again."),
    ErrorCode.INTERNAL: (
        "A fault in the engine.",
        "no",
        "Report it, with the Run's history.",
    ),
    ErrorCode.PAYLOAD_TOO_LARGE: (
        "What was given is larger than is allowed.",
        "no",
        "Pass large data by reference, through a tool.",
    ),
    ErrorCode.RUN_NOT_FOUND: (
        "No Run has that id in this namespace, or its history has expired.",
        "no",
        "Check the id with `perdure list`.",
    ),
    ErrorCode.EVENTS_EXPIRED: (
        "Temporal has deleted the part of the Run's history that holds the Events asked for.",
        "no",
        "Read the Run itself, and its Events from the number that the error names.",
    ),
    ErrorCode.CALL_NOT_FOUND: (
        "The Run has no tool call of that id, and none in a Step of that number.",
        "no",
        "Look at the Run's Steps with `perdure get`.",
    ),
    ErrorCode.ACTION_NOT_FOUND: (
        "The Run asks nobody for such a decision.",
        "no",
        "`perdure approvals` lists what waits for a person.",
    ),
    ErrorCode.ACTION_ALREADY_RESOLVED: (
        "The action has been decided before, or has expired.",
        "no",
        "`perdure get` shows how; a decision is taken once.",
    ),
    ErrorCode.RUN_ALREADY_EXISTS: (
        "A Run of that id was started before.",
        "no",
        "Choose another id, or follow the Run there is.",
    ),
    ErrorCode.RUN_ALREADY_TERMINAL: (
        "The Run has ended, or is about to, so this can't be done to it any more.",
        "no",
        "Resume it, or fork it.",
    ),
    ErrorCode.RUN_NOT_RESUMABLE: (
        "The Run can't go on from where it stands.",
        "no",
        "The message says what is missing; a fork can always go another way.",
    ),
    ErrorCode.SESSION_NOT_FOUND: (
        "No Session has that id in this namespace, or it has expired.",
        "no",
        "Check the id with `perdure sessions list`; a Run started in it begins a new one.",
    ),
    ErrorCode.SESSION_BUSY: (
        "The Session has a Run that is going on, and has at most one at a time.",
        "no",
        "Wait for it, cancel it, or say with on_busy what is to happen.",
    ),
    ErrorCode.SESSION_LIMIT: (
        "The Session has used what it may use.",
        "no",
        "Raise the Session's limits.",
    ),
    ErrorCode.QUEUE_FULL: (
        "As many Runs wait in the Session's queue as are allowed.",
        "no",
        "Wait until one has begun, or raise the Session's max_queued.",
    ),
    ErrorCode.IDEMPOTENCY_CONFLICT: (
        "The idempotency key was used before, with another request.",
        "no",
        "Use a new key for a new request.",
    ),
    ErrorCode.ENGINE_UNAVAILABLE: (
        "Temporal does not answer at the configured address.",
        "by us",
        "Start it with `perdure dev`, or set TEMPORAL_ADDRESS.",
    ),
    ErrorCode.NO_WORKER: (
        "No worker polls the task queue.",
        "no",
        "Start one with `perdure worker` or `perdure dev`.",
    ),
    ErrorCode.CONFIGURATION: (
        "What was configured can't work.",
        "no",
        "The message says which setting; change it.",
    ),
    ErrorCode.ILLEGAL_EVENT: (
        "A Run's history does not make sense to this version.",
        "no",
        "Use the version that wrote it, or report it.",
    ),
}
"""Each code: meaning, retried or not, what the user does. docs/errors.md is made from it."""
