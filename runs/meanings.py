"""What each error code means: the table that docs/errors.md is made from."""

from perdure.runs.codes import ErrorCode
from perdure.runs.meanings_of_calls import OF_TOOL_CALLS, Retried
from perdure.runs.meanings_of_requests import OF_REQUESTS

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
        "The provider, or the gateway, asks to slow down.",
        "by us",
        "Lower the number of concurrent Runs, or ask the provider for a higher limit; of the "
        "gateway, wait as long as Retry-After says.",
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
    **OF_REQUESTS,
}
"""Each code: meaning, retried or not, what the user does. docs/errors.md is made from it."""
