"""Every metric of ours, as data: `docs/metrics.md` is made of this, and so are the instruments.

Names of what OpenTelemetry names are OpenTelemetry's, written as Prometheus has it: of generative
AI https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/, of HTTP
https://opentelemetry.io/docs/specs/semconv/http/http-metrics/.
"""

from perdure.runs.metering import Metric

SHORT_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CALL_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 600.0)
LONG_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
TOKENS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0)
"""A part of those that the convention advises."""
USD = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
TURNS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)


RUNS_STARTED = Metric("perdure_runs_started", "counter", "Runs that began to work.")
RUNS_RESUMED = Metric("perdure_runs_resumed", "counter", "Ended Runs that went on.")
RUNS_ENDED = Metric(
    "perdure_runs_ended",
    "counter",
    "Runs that ended; a Run that is resumed ends again. `agent` is `unknown` where no worker "
    "has said that it has the agent.",
    ("agent", "status", "stop_reason"),
)
RUN_DURATION = Metric(
    "perdure_run_duration",
    "histogram",
    "From a Run's start, or its resumption, to its end.",
    ("agent", "status"),
    "seconds",
    LONG_S,
)
RUN_TURNS = Metric(
    "perdure_run_turns",
    "histogram",
    "Turns of a Run, those before it was resumed or forked not counted.",
    ("agent",),
    buckets=TURNS,
)
RUN_QUEUE = Metric(
    "perdure_run_queue",
    "histogram",
    "How long a Run waited for its turn in its Session, before it began.",
    (),
    "seconds",
    LONG_S,
)
STEPS = Metric(
    "perdure_steps",
    "counter",
    "Steps that ended; `error_type` is the error code, absent where there is none.",
    ("kind", "status", "error_type"),
)
STEP_RETRIES = Metric(
    "perdure_step_retries",
    "counter",
    "Attempts of Steps beyond the first, whyever, a worker's death included.",
    ("kind",),
)
TOKEN_USAGE = Metric(
    "gen_ai_client_token_usage",
    "histogram",
    "Tokens of a model call, judges included; the sum of `input` and `output` is what Runs say.",
    (
        "gen_ai_operation_name",
        "gen_ai_provider_name",
        "gen_ai_agent_name",
        "gen_ai_response_model",
        "gen_ai_token_type",
    ),
    buckets=TOKENS,
)
CACHED_TOKENS = Metric(
    "perdure_cached_tokens",
    "counter",
    "The part of the input tokens that came out of the provider's cache.",
    ("agent", "model"),
)
REASONING_TOKENS = Metric(
    "perdure_reasoning_tokens",
    "counter",
    "The part of the output tokens that was spent on reasoning.",
    ("agent", "model"),
)
COST = Metric(
    "perdure_cost",
    "histogram",
    "What a model call cost; its `_sum` is what was spent.",
    ("agent", "model"),
    "usd",
    USD,
)
UNPRICED = Metric(
    "perdure_unpriced_calls",
    "counter",
    "Model calls of no known price: they are in no sum of costs.",
    ("agent", "model"),
)
OPERATION = Metric(
    "gen_ai_client_operation_duration",
    "histogram",
    "One request to the provider, to the end of its answer; `error_type` is the error code, "
    "absent where there is none.",
    (
        "gen_ai_operation_name",
        "gen_ai_provider_name",
        "gen_ai_agent_name",
        "gen_ai_request_model",
        "error_type",
    ),
    "seconds",
    CALL_S,
    "activity",
)
FIRST_CHUNK = Metric(
    "gen_ai_client_operation_time_to_first_chunk",
    "histogram",
    "From a request to the first piece of its answer: the time to the first token.",
    (
        "gen_ai_operation_name",
        "gen_ai_provider_name",
        "gen_ai_agent_name",
        "gen_ai_request_model",
    ),
    "seconds",
    SHORT_S,
    "activity",
)
PACE = Metric(
    "perdure_pace_wait",
    "histogram",
    "How long a request waited in the worker for the model's rate limit.",
    ("model",),
    "seconds",
    SHORT_S,
    "activity",
)
ATTEMPTS_RETRIED = Metric(
    "perdure_attempts_retried",
    "counter",
    "Attempts of Steps that failed with this code and are tried again.",
    ("kind", "code"),
    place="activity",
)
TOOL_DURATION = Metric(
    "perdure_tool_duration",
    "histogram",
    "One attempt of a tool call, of MCP servers' as well; `error_type` is the error code, absent "
    "where there is none.",
    ("tool", "error_type"),
    "seconds",
    CALL_S,
    "activity",
)
TRANSCRIPT_LOADS = Metric(
    "perdure_transcript_loads",
    "counter",
    "Model calls that continue a conversation: it was in the worker's memory (`hit`), or had to "
    "be read out of the workflow (`miss`).",
    ("result",),
    place="activity",
)
TRANSCRIPT_BYTES = Metric(
    "perdure_transcript_cache",
    "gauge",
    "Memory of a worker that recent conversations and results take.",
    (),
    "bytes",
    place="activity",
)
HTTP_DURATION = Metric(
    "http_server_request_duration",
    "histogram",
    "One request to the gateway, to the end of its answer: a stream's ends with its reader. "
    "`http_route` is a template; empty where the gateway refused before it looked, or has none.",
    ("http_request_method", "http_route", "http_response_status_code"),
    "seconds",
    SHORT_S,
    "gateway",
)
WATCHES = Metric(
    "perdure_gateway_watches",
    "gauge",
    "Runs that a gateway watches for its followers.",
    place="gateway",
)
FOLLOWERS = Metric(
    "perdure_gateway_followers",
    "gauge",
    "Open streams, and callers that wait for a Run.",
    place="gateway",
)
OPEN_RUNS = Metric(
    "perdure_open_runs", "gauge", "Open Runs, by status.", ("status",), place="gateway"
)
WAITING_RUNS = Metric(
    "perdure_waiting_runs",
    "gauge",
    "Open Runs that wait for a person, by what for.",
    ("waiting_on",),
    place="gateway",
)
OLD_RUNS = Metric(
    "perdure_old_runs",
    "gauge",
    "Open Runs that wait for no person and are older than `than`.",
    ("than",),
    place="gateway",
)
STUCK_RUNS = Metric(
    "perdure_stuck_runs",
    "gauge",
    "Open Runs and Sessions whose workflow tasks fail again and again.",
    place="gateway",
)
POLLERS = Metric(
    "perdure_task_queue_pollers",
    "gauge",
    "Workers that polled the task queue in the last five minutes.",
    ("task_type",),
    place="gateway",
)
BACKLOG = Metric(
    "perdure_task_queue_backlog",
    "gauge",
    "Tasks that wait for a worker, about.",
    ("task_type",),
    place="gateway",
)
BACKLOG_AGE = Metric(
    "perdure_task_queue_backlog_age",
    "gauge",
    "How long the oldest of them has waited.",
    ("task_type",),
    "seconds",
    place="gateway",
)
CENSUS = Metric(
    "perdure_census_timestamp",
    "gauge",
    "When the gateway last could count all that; 0 when it never could.",
    (),
    "seconds",
    place="gateway",
)

METRICS: tuple[Metric, ...] = tuple(each for each in vars().values() if isinstance(each, Metric))
"""All of them, in this order."""
