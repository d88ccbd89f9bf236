"""Names that cross a process are frozen: the histories of Sessions that live on hold them.

A test that fails here is not to be mended by changing the list, unless a name was *added*.
"""

import typing

import pytest
from pydantic import BaseModel

from perdure.runs.ids import is_valid_id
from perdure.sessions import admission, contract, outcome, parts, session
from tests.runs.building import START

NAMES = {
    "SESSION_WORKFLOW": "Session",
    "START_RUN_UPDATE": "start_run",
    "RESUME_RUN_UPDATE": "resume_run",
    "CONFIGURE_UPDATE": "configure",
    "CLEAR_UPDATE": "clear",
    "CLOSE_UPDATE": "close",
    "SESSION_QUERY": "session",
    "CONVERSATION_QUERY": "conversation",
    "RUN_OUTCOME": "run_outcome",
    "GOES_ON": "goes_on",
    "OPEN_RUNS": "open_runs",
    "REPORT_MEMO": "perdure_session",
}

MESSAGES: dict[str, set[str]] = {
    "SessionRequest": {
        "session_id",
        "settings",
        "messages",
        "variables",
        "forked_from",
        "carried",
    },
    "SessionResult": {"why", "runs", "usage"},
    "StartedRun": {"run_id", "how"},
    "ResumeRequest": {"request"},
    "ConfigureRequest": {"settings", "variables"},
    "OutcomeRequest": {"run_id"},
    "OpenRuns": {"run_ids"},
    "SessionReport": {
        "session_id",
        "created_at",
        "last_active_at",
        "expires_at",
        "active_run_id",
        "queue",
        "runs",
        "messages",
        "usage",
        "settings",
        "variables",
        "forked_from",
        "ended_at",
    },
    "StartRequest": {"run_id", "start", "on_busy", "key", "digest"},
    "RunOutcome": {
        "run_id",
        "status",
        "began",
        "messages",
        "replaces",
        "rolled_back",
        "taken",
        "usage",
        "context_window",
    },
}

STATE: dict[str, set[str]] = {
    "Session": {
        "session_id",
        "created_at",
        "last_active_at",
        "settings",
        "active",
        "interrupters",
        "queue",
        "keys",
        "latest",
        "messages",
        "variables",
        "context_window",
        "usage",
        "runs",
        "forked_from",
        "closing",
    },
    "SessionSettings": {"max_tokens", "max_cost", "max_queued", "idle_s"},
    "Key": {"key", "digest", "run_id", "own_id", "at"},
    "Steering": {"run_id", "start"},
    "Waiting": {"run_id", "since", "start"},
    "Interrupter": {"run_id", "since", "said", "files", "forgets", "is_over"},
    "Latest": {"run_id", "messages", "usage"},
    "Active": {"run_id", "since", "resumes", "steering"},
}
"""What is carried along when a Session's history is begun anew."""


def models(*modules: object) -> dict[str, type[BaseModel]]:
    """Return the models that these modules define."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseModel)
        and value.__module__ == module.__name__  # type: ignore[attr-defined]
    }


def test_names_on_the_wire_are_frozen() -> None:
    found = {k: v for k, v in vars(contract).items() if k.isupper() and isinstance(v, str)}
    assert found == NAMES


def test_no_field_of_a_message_is_renamed_or_lost() -> None:
    found = models(contract, admission, outcome)
    del found["Admission"]  # never leaves the workflow
    assert {name: set(model.model_fields) for name, model in found.items()} == MESSAGES


def test_no_field_that_is_carried_along_is_renamed_or_lost() -> None:
    found = models(parts, session)
    assert {name: set(model.model_fields) for name, model in found.items()} == STATE


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, id=name)
        for name, model in models(contract, admission, outcome, parts, session).items()
    ],
)
def test_fields_of_a_newer_version_are_passed_over(model: type[BaseModel]) -> None:
    assert model.model_config["extra"] == "ignore"
    assert model.model_config["frozen"] is True


def test_what_may_happen_while_a_run_is_going_on_is_frozen() -> None:
    ways = ("reject", "enqueue", "interrupt", "rollback", "steer")
    assert typing.get_args(admission.OnBusy) == ways


def test_no_run_has_the_workflow_id_of_a_session() -> None:
    assert contract.workflow_id("s1") == "session/s1"
    assert not is_valid_id(contract.workflow_id("s1"))


def test_a_report_says_which_runs_wait_and_in_which_order() -> None:
    begins = {"session_id": "s1", "created_at": START, "last_active_at": START}
    taking = [
        parts.Interrupter(run_id=run_id, since=START, said="Stop!", is_over=is_over)
        for run_id, is_over in [("r3", True), ("r4", False), ("r5", False)]
    ]
    waiting = [parts.Waiting(run_id=run_id, since=START) for run_id in ["r1", "r2"]]
    it = session.Session(
        **begins, variables={"n": 1}, interrupters=tuple(taking), queue=tuple(waiting)
    )
    told = contract.report(it)
    assert told.queue == ("r5", "r1", "r2")
    assert (told.active_run_id, told.variables) == (None, {})
    assert it.open_runs == ("r4", "r5", "r1", "r2")
