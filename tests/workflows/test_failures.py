"""What Temporal says of a failed activity, read as the error of a Step."""

import pytest
from temporalio.exceptions import ApplicationError

from perdure.engine.storage import ObjectUnavailable
from perdure.runs.errors import ErrorCode
from perdure.runs.policy import ToolPolicy
from perdure.workflows.failures import WORKER_SHUTDOWN, step_error


def wrapped(cause: BaseException) -> ApplicationError:
    """Return what the SDK makes of an exception while it reads an activity's input."""
    outer = ApplicationError("Failed decoding arguments")
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize("for_good", [False, True])
def test_an_input_that_a_worker_can_not_read_has_its_own_code(for_good: bool) -> None:
    lost = ObjectUnavailable("It is not there.", "Share it.", for_good=for_good)
    for exc in (lost, wrapped(lost), wrapped(wrapped(lost))):
        why = step_error(exc, None)
        assert why.code is ErrorCode.STORAGE_UNAVAILABLE
        assert (why.message, why.hint) == ("It is not there.", "Share it.")
        assert why.retryable is not for_good


def test_an_exception_of_nobody_s_making_is_a_fault_of_the_engine() -> None:
    why = step_error(wrapped(ApplicationError("Oh.", type="KeyError")), None)
    assert (why.code, why.message) == (ErrorCode.INTERNAL, "KeyError: Oh.")


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (None, ErrorCode.WORKER_LOST),
        (ToolPolicy(effect="read"), ErrorCode.WORKER_LOST),
        (ToolPolicy(effect="unsafe"), ErrorCode.OUTCOME_UNKNOWN),
    ],
)
def test_a_step_cut_short_by_its_workers_end_is_lost_or_of_unknown_outcome(
    policy: ToolPolicy | None, code: ErrorCode
) -> None:
    cut_short = ApplicationError("Worker is shutting down", type=WORKER_SHUTDOWN)
    assert step_error(cut_short, policy).code is code
