"""Every code explains itself, and every exception has one."""

from typing import Any

import pytest

from perdure.runs import errors
from perdure.runs.decide import STOP_REASONS
from perdure.runs.errors import MEANINGS, ErrorCode, PerdureError, RunError, error

CODES: dict[type[PerdureError], ErrorCode] = {
    errors.InvalidRequest: ErrorCode.PROVIDER_REFUSED_REQUEST,
    errors.RunNotFound: ErrorCode.RUN_NOT_FOUND,
    errors.EventsExpired: ErrorCode.EVENTS_EXPIRED,
    errors.CallNotFound: ErrorCode.CALL_NOT_FOUND,
    errors.ActionNotFound: ErrorCode.ACTION_NOT_FOUND,
    errors.ActionAlreadyResolved: ErrorCode.ACTION_ALREADY_RESOLVED,
    errors.RunAlreadyExists: ErrorCode.RUN_ALREADY_EXISTS,
    errors.RunAlreadyTerminal: ErrorCode.RUN_ALREADY_TERMINAL,
    errors.RunNotResumable: ErrorCode.RUN_NOT_RESUMABLE,
    errors.SessionNotFound: ErrorCode.SESSION_NOT_FOUND,
    errors.SessionBusy: ErrorCode.SESSION_BUSY,
    errors.SessionLimitReached: ErrorCode.SESSION_LIMIT,
    errors.QueueFull: ErrorCode.QUEUE_FULL,
    errors.IdempotencyConflict: ErrorCode.IDEMPOTENCY_CONFLICT,
    errors.EngineUnavailable: ErrorCode.ENGINE_UNAVAILABLE,
    errors.NoWorker: ErrorCode.NO_WORKER,
    errors.ToolRefused: ErrorCode.TOOL_FAILED,
    errors.OutputInvalid: ErrorCode.OUTPUT_INVALID,
    errors.StorageUnavailable: ErrorCode.STORAGE_UNAVAILABLE,
    errors.ConfigurationError: ErrorCode.CONFIGURATION,
    errors.IllegalEvent: ErrorCode.ILLEGAL_EVENT,
}


MORE: dict[type[PerdureError], dict[str, Any]] = {
    errors.SessionBusy: {"active_run_id": "r1"},
    errors.EventsExpired: {"last_event": 7},
}


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_meaning_and_a_way_out(code: ErrorCode) -> None:
    meaning, retried, way_out = MEANINGS[code]
    assert meaning.endswith(".")
    assert way_out.endswith(".")
    assert retried in ("by us", "no")


def test_meanings_explain_nothing_that_is_no_code() -> None:
    assert set(MEANINGS) == set(ErrorCode)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_an_error_is_made_with_the_words_of_its_code(code: ErrorCode) -> None:
    made = error(code)
    assert (made.message, made.hint) == (MEANINGS[code][0], MEANINGS[code][2])
    assert str(made) == f"{made.message} {made.hint}"
    assert RunError.model_validate_json(made.model_dump_json()) == made


def test_what_is_said_of_one_error_wins_over_the_words_of_its_code() -> None:
    made = error(ErrorCode.MAX_TURNS, "It had 3 turns.", hint="", step=4)
    assert made == RunError(code=ErrorCode.MAX_TURNS, message="It had 3 turns.", step=4)
    assert str(made) == "It had 3 turns."


def test_each_exception_has_a_code_of_its_own() -> None:
    kinds = [kind for kind in PerdureError.__subclasses__() if kind.__module__ == errors.__name__]
    assert {kind: kind.code for kind in kinds} == CODES
    assert len(set(CODES.values())) == len(CODES)
    assert PerdureError("Oh.").code is ErrorCode.INTERNAL


@pytest.mark.parametrize("kind", list(CODES))
def test_an_exception_says_what_and_the_way_out(kind: type[PerdureError]) -> None:
    # Two of them say more, to programs.
    more = MORE.get(kind, {})
    raised = kind("There is none.", hint="Look elsewhere.", **more)
    assert str(raised) == "There is none. Look elsewhere."
    assert (raised.message, raised.hint, raised.code) == (
        "There is none.",
        "Look elsewhere.",
        CODES[kind],
    )
    if not more:
        assert kind("Oh.", code=ErrorCode.PAYLOAD_TOO_LARGE).code is ErrorCode.PAYLOAD_TOO_LARGE
    assert kind.code is CODES[kind]


def test_that_a_session_is_busy_says_with_which_run() -> None:
    assert errors.SessionBusy("It is.", active_run_id="r1").active_run_id == "r1"


def test_the_drawn_tree_shows_every_exception() -> None:
    drawn = errors.__doc__ or ""
    assert all(f"── {kind.__name__} " in drawn for kind in CODES)


def test_stop_reasons_are_named_as_their_codes_where_both_exist() -> None:
    renamed = {ErrorCode.CONTENT_FILTERED: "content_filter", ErrorCode.REFUSED: "refusal"}
    assert {code: reason.value for code, reason in STOP_REASONS.items()} == {
        code: renamed.get(code, code.value) for code in STOP_REASONS
    }
