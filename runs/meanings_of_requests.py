"""What the error codes mean that a caller can be told."""

from perdure.runs.codes import ErrorCode
from perdure.runs.meanings_of_calls import Retried

OF_REQUESTS: dict[ErrorCode, tuple[str, Retried, str]] = {
    ErrorCode.UNSUPPORTED_PARAMETER: (
        "The request has a field that there is not, or not yet.",
        "no",
        "Leave it out; the message names it.",
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
    ErrorCode.SESSION_WAITING_FOR_ACTION: (
        "The Session has a Run that waits for a person to decide something.",
        "no",
        "Decide it, cancel the Run, or say with on_busy what is to happen.",
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
        "No worker polls the task queue, or none of a tool's own took a call in ten minutes.",
        "no",
        "Start one with `perdure worker` or `perdure dev`; for a tool's, add `--tool-queue`.",
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
    ErrorCode.UNAUTHORIZED: (
        "Over HTTP: no API key was given, or one that is not valid.",
        "no",
        "Send a valid key: `Authorization: Bearer …`.",
    ),
    ErrorCode.FORBIDDEN: (
        "Over HTTP: the API key, or the page that asks, may not do this.",
        "no",
        "Use a key with the scope that the message names.",
    ),
    ErrorCode.NOT_FOUND: (
        "Over HTTP: nothing is served at that path.",
        "no",
        "`GET /openapi.json` describes what is.",
    ),
    ErrorCode.METHOD_NOT_ALLOWED: (
        "Over HTTP: the path is served, but not with that method.",
        "no",
        "The header `Allow` names the methods there are.",
    ),
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: (
        "The body is of a type that is not read.",
        "no",
        "Send `Content-Type: application/json`.",
    ),
    ErrorCode.EVENTS_EXPIRED: (
        "Temporal has deleted the part of the Run's history that holds the Events asked for.",
        "no",
        "Read the Run itself, and its Events after the number that the message names.",
    ),
}
