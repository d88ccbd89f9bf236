"""Whatever is asked of a Session, in whatever order things happen: what must hold.

hypothesis drives a `World`, a `Ledger` is kept of it, and `invariants` are checked all the time.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.runs.contract import Resumption
from perdure.runs.decide import Finish, decide
from perdure.runs.errors import (
    ErrorCode,
    IdempotencyConflict,
    QueueFull,
    RunAlreadyExists,
    RunNotResumable,
    SessionBusy,
    SessionLimitReached,
    SessionNotFound,
)
from perdure.runs.record import resumed
from perdure.runs.status import RunStatus
from perdure.sessions.session import Session
from tests.sessions.invariants import ALWAYS
from tests.sessions.ledger import Asked, Ledger
from tests.sessions.world import World

ON_BUSY = st.sampled_from(["reject", "enqueue", "interrupt", "rollback", "steer"])
KEYS = st.sampled_from(["", "", "k1", "k2", "k3"])
ENDS = st.sampled_from([None, None, None, None, ErrorCode.REFUSED, ErrorCode.CONTEXT_OVERFLOW])
PICK = st.integers(0, 99)


class Sessions(RuleBasedStateMachine):
    """One Session."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World.new()
        self.ledger = Ledger(self.world)
        self.numbers = count(1)

    @initialize(max_queued=st.integers(0, 3))
    def begins(self, max_queued: int) -> None:
        self.world = World.new(max_queued=max_queued)
        self.ledger = Ledger(self.world)

    @property
    def session(self) -> Session:
        return self.world.session

    # What users do

    @rule(on_busy=ON_BUSY, key=KEYS, same=st.booleans())
    def starts(self, on_busy: str, key: str, same: bool) -> None:
        number = next(self.numbers)
        known = self.ledger.keys.get(key)
        if known is not None and self.world.now - known[2] >= timedelta(hours=25):
            known = None
        run_id, text = f"r{number}", f"u{number}"
        if known is None:
            self._start(run_id, text, on_busy, key)
        elif same:
            admission = self.world.ask(run_id, known[0], on_busy, key)
            assert admission.how == "replayed"
            assert admission.run_id in known[1]
            if len(known[1]) == 1:
                assert admission.run_id in known[1]
        else:
            with pytest.raises(IdempotencyConflict):
                self.world.ask(run_id, text, on_busy, key)

    def _start(self, run_id: str, text: str, on_busy: str, key: str) -> None:
        before, allowed = self.session, self.session.settings.max_queued or 0
        active = before.active
        is_steered = on_busy == "steer" and active is not None and not before.interrupters
        try:
            admission = self.world.ask(run_id, text, on_busy, key)
        except SessionNotFound:
            assert before.closing
        except SessionLimitReached:
            assert before.usage.total_tokens >= (before.settings.max_tokens or 0)
        except SessionBusy:
            assert on_busy == "reject"
            assert before.busy_with is not None
        except QueueFull:
            assert on_busy in ("enqueue", "steer")
            assert len(before.queue) >= allowed
        else:
            assert (admission.how == "begun") == (before.busy_with is None)
            assert (admission.how == "steered") == is_steered
            assert not before.closing
            asked = Asked(text, on_busy, int(run_id[1:]), self.world.now)
            self.ledger.accepted(run_id, asked, key, admission)
            return
        assert self.session.model_copy(update={"keys": ()}) == before.model_copy(
            update={"keys": ()}
        )

    @precondition(lambda self: self.world.acting)
    @rule(pick=PICK, on_busy=ON_BUSY, key=KEYS)
    def starts_one_whose_id_is_taken(self, pick: int, on_busy: str, key: str) -> None:
        """The caller has chosen the id of a Run that there is: nothing is to come of it."""
        run_id = sorted(self.world.acting)[pick % len(self.world.acting)]
        if key in self.ledger.keys or self.world.starting:
            return
        before, then = self.session, dict(self.world.then)
        text = f"u{next(self.numbers)}"
        try:
            admission = self.world.ask(run_id, text, on_busy, key)
        except (RunAlreadyExists, SessionBusy, QueueFull, SessionLimitReached, SessionNotFound):
            assert self.world.then == then
            return
        if admission.how == "steered":
            # Its id is that of a message; that it names no Run is seen too late for a refusal.
            self.world.signals.pop()
            self.world.session = before
            return
        if admission.how == "begun":
            self.world.begun.pop()
        signals = len(self.world.signals)
        self.world.launched(run_id)
        assert self.session == before.model_copy(
            update={"keys": self.session.keys, "last_active_at": self.session.last_active_at}
        )
        assert len(self.world.signals) == signals
        assert all(each.key != key or not key for each in self.session.keys)

    @rule(pick=PICK, mode=st.sampled_from(["now", "after_step", "rollback"]))
    def cancels(self, pick: int, mode: str) -> None:
        open_runs = self._open()
        if open_runs:
            self.world.acting[open_runs[pick % len(open_runs)]].cancel(mode)  # type: ignore[arg-type]

    @rule(pick=PICK)
    def terminates(self, pick: int) -> None:
        open_runs = self._open()
        if open_runs:
            self.world.acting[open_runs[pick % len(open_runs)]].terminate()

    @rule(pick=PICK)
    def resumes(self, pick: int) -> None:
        ended = [r for r, a in self.world.acting.items() if a.run.is_terminal]
        ended = [r for r in ended if self.world.run(r).status is not RunStatus.COMPLETED]
        if not ended:
            return
        latest = self.session.latest
        run_id = ended[pick % len(ended)]
        if latest is not None and pick % 2 and latest.run_id in ended:
            run_id = latest.run_id
        run = self.world.run(run_id)
        again = run.apply(resumed(run, self.world.now, Resumption(first_execution="e1")))
        if isinstance(decide(again), Finish):
            return
        try:
            self.world.resume(run_id)
        except SessionNotFound:
            assert self.session.closing
            return
        except SessionBusy:
            assert self.session.busy_with is not None
            return
        except RunNotResumable:
            assert latest is None or latest.run_id != run_id
            return
        had_turn = [r for r in self.world.begun if self.world.run(r).started_at is not None]
        assert run_id == had_turn[-1]

    @rule()
    def clears(self) -> None:
        try:
            self.world.session = self.session.cleared()
        except SessionBusy:
            assert self.session.busy_with is not None
        else:
            self.ledger.cleared()

    @rule(tokens=st.integers(6, 60))
    def limits(self, tokens: int) -> None:
        most = self.session.usage.total_tokens + tokens
        changed = self.session.settings.model_copy(update={"max_tokens": most})
        self.world.session = self.session.model_copy(update={"settings": changed})

    @precondition(lambda self: len(self.ledger.asked) > 4)
    @rule(really=st.integers(0, 4))
    def closes(self, really: int) -> None:
        if not really and not self.session.closing:
            self.world.close()

    # What happens meanwhile

    @rule(picks=st.lists(PICK, min_size=1, max_size=6))
    def goes_on(self, picks: list[int]) -> None:
        for pick in picks:
            self._go_on(pick)

    @rule(pick=PICK, calls=st.sampled_from([0, 1, 3]), code=ENDS)
    def works(self, pick: int, calls: int, code: ErrorCode | None) -> None:
        open_runs = self._open()
        if open_runs:
            acting = self.world.acting[open_runs[pick % len(open_runs)]]
            acting.work("a")
            acting.work("a", calls, code)

    @rule()
    def all_goes_on(self) -> None:
        """Nothing is on its way any more, and no Run begins that waits for a signal."""
        for run_id in sorted(self.world.starting):
            self.world.launched(run_id)
        for _ in list(self.world.signals):
            self.world.deliver()
        for run_id in self.world.unseen:
            self.ledger.notice(run_id)
        self.ledger.write_begun()

    @rule(code=ENDS)
    def the_active_one_ends(self, code: ErrorCode | None) -> None:
        self.all_goes_on()
        active = self.session.active
        if active is not None and active.run_id in self.world.acting:
            acting = self.world.acting[active.run_id]
            acting.work("a", code=code)
            acting.work("a", code=code)
            acting.work_to_the_end("a")
            self.all_goes_on()

    def _go_on(self, pick: int) -> None:
        """Have one thing happen of all that can happen next."""
        world = self.world
        can: list[Callable[[], object]] = [
            *[partial(world.launched, run_id) for run_id in sorted(world.starting)],
            *[partial(world.deliver, index) for index in range(len(world.signals))],
            *[partial(self.ledger.notice, run_id) for run_id in world.unseen],
            *[partial(world.acting[run_id].work, "a") for run_id in self._open()],
        ]
        if can:
            can[pick % len(can)]()
        self.ledger.write_begun()

    @rule(pick=PICK)
    def expires(self, pick: int) -> None:
        pending = [r for r in self._open() if self.world.run(r).status is RunStatus.PENDING]
        if pending:
            self.world.acting[pending[pick % len(pending)]].expire()

    @rule(hours=st.sampled_from([1, 20, 26]))
    def time_passes(self, hours: int) -> None:
        self.world.passes(hours=hours)

    @rule()
    def continues_as_new(self) -> None:
        carried = Session.model_validate_json(self.session.model_dump_json())
        assert carried == self.session
        self.world.session = carried

    def _open(self) -> list[str]:
        return self.world.open_runs

    @invariant()
    def holds(self) -> None:
        """Check everything, after whatever happened."""
        self.ledger.write_begun()
        for check in ALWAYS:
            check(self.world, self.ledger)

    def teardown(self) -> None:
        """Drive all to its end: every accepted Run ends, and the Session is idle."""
        for _ in range(400):
            for run_id in self._open():
                self.world.acting[run_id].work_to_the_end("a")
            self.all_goes_on()
            waits = self.world.starting or self.world.signals or self.session.busy_with
            if not (self._open() or waits):
                break
        self.ledger.write_begun()
        assert self._open() == []
        assert (self.session.busy_with, self.session.interrupters) == (None, ())
        for run_id, each in self.ledger.asked.items():
            has_ended = run_id in self.world.acting and self.world.run(run_id).is_terminal
            assert has_ended or each.is_said is not None or each.how == "steered"
            is_settled = each.turn is not None or each.is_said is False
            assert is_settled or each.how == "queued" or self.session.closing
        self.holds()


Sessions.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
test_sessions = Sessions.TestCase
