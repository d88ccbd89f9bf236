"""The Session, and what happens to it: immutable, decided from recorded data only.

Its Runs are workflows of their own from the moment they are accepted; the Session knows which
one has its turn, which ones wait for theirs, and what was said. A Run counts as going on until
its end was seen here, never until it was only asked to stop: that is why there are never two.
"""

from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from perdure.runs.errors import IllegalEvent, RunNotResumable, SessionBusy, SessionNotFound
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits
from perdure.runs.messages import Message, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, SessionShare
from perdure.runs.usage import Usage
from perdure.sessions.outcome import RunOutcome
from perdure.sessions.parts import (
    DEFAULT_IDLE_S,
    Active,
    Interrupter,
    Key,
    Latest,
    SessionSettings,
    Steering,
    Waiting,
)


class Session(Frozen):
    """A conversation."""

    session_id: str
    created_at: datetime
    last_active_at: datetime
    settings: SessionSettings = SessionSettings()
    active: Active | None = None
    interrupters: tuple[Interrupter, ...] = ()
    """Since the active Run began, in the order in which they came; the last one has its turn."""
    queue: tuple[Waiting, ...] = ()
    keys: tuple[Key, ...] = ()
    """Used within the last day."""
    latest: Latest | None = None
    messages: tuple[Message, ...] = ()
    """The conversation so far, valid as the beginning of any request to a model."""
    variables: dict[str, Any] = Field(default_factory=dict)
    context_window: int | None = None
    """Tokens that the latest Run's model could read."""
    usage: Usage = Usage()
    runs: int = 0
    """Runs that had their turn."""
    forked_from: str | None = None
    closing: bool = False

    @property
    def turns(self) -> tuple[str, ...]:
        """The Runs that will have their turn, the next one first."""
        last = tuple(each.run_id for each in self.interrupters[-1:] if not each.is_over)
        return last + tuple(each.run_id for each in self.queue)

    @property
    def busy_with(self) -> str | None:
        """The Run that goes on, or has its turn next."""
        following = self.turns[0] if self.turns else None
        return following if self.active is None else self.active.run_id

    @property
    def open_runs(self) -> tuple[str, ...]:
        """The Runs whose workflows have not ended, as far as is known here."""
        active = () if self.active is None else (self.active.run_id,)
        taking = tuple(each.run_id for each in self.interrupters if not each.is_over)
        return active + taking + tuple(each.run_id for each in self.queue if each.start is None)

    @property
    def expires_at(self) -> datetime:
        """When the Session ends, if no Run is started in it until then."""
        return self.last_active_at + timedelta(seconds=self.settings.idle_s or DEFAULT_IDLE_S)

    @property
    def budget(self) -> Limits:
        """What is left for a Run; at least something, for one that was accepted before."""
        resumed = self.active.resumes if self.active is not None else None
        used = self.usage if resumed is None else resumed.usage
        tokens, cost = self.settings.max_tokens, self.settings.max_cost
        return Limits(
            max_tokens=None if tokens is None else max(1, tokens - used.total_tokens),
            max_cost=None if cost is None else max(1e-9, cost - used.cost),
        )

    @property
    def share(self) -> SessionShare:
        """What the Run gets that has its turn now."""
        return SessionShare(
            context=ContextBundle(messages=self.messages, variables=self.variables),
            budget=self.budget,
            context_window=self.context_window,
        )

    def knows(self, run_id: str) -> bool:
        """Tell whether a Run of this id was asked for, as far as is remembered."""
        known = {*self.turns, *(each.run_id for each in self.interrupters)}
        known |= {each.own_id for each in self.keys}
        if self.active is not None:
            known |= {self.active.run_id, *(each.run_id for each in self.active.steering)}
        if self.latest is not None:
            known.add(self.latest.run_id)
        return run_id in known

    def begun(self, run_id: str, at: datetime) -> "Session":
        """Return the Session in which it is this Run's turn.

        Raises:
            IllegalEvent: When another one is going on.
        """
        if self.active is not None:
            raise IllegalEvent(f"Session {self.session_id!r} has an active Run.")
        return self.model_copy(
            update={
                **self._words_said(before=run_id),
                "active": Active(run_id=run_id, since=at),
                "queue": tuple(each for each in self.queue if each.run_id != run_id),
                "runs": self.runs + 1,
                "last_active_at": at,
            }
        )

    def resuming(self, run: Run, at: datetime) -> "Session":
        """Return the Session in which its latest Run goes on.

        Raises:
            SessionNotFound: When the Session is being deleted.
            SessionBusy: When a Run is going on, or waits.
            RunNotResumable: When another Run has followed.
        """
        self.require_open()
        self.require_idle()
        if self.latest is None or self.latest.run_id != run.run_id:
            raise RunNotResumable(
                f"The conversation has gone on since Run {run.run_id!r}.",
                hint=f"Fork it: `perdure fork {run.run_id}`.",
            )
        active = Active(run_id=run.run_id, since=at, resumes=self.latest)
        return self.model_copy(update={"active": active, "last_active_at": at})

    def adopting(self, run_ids: tuple[str, ...], at: datetime) -> "Session":
        """Return the Session with Runs that an earlier one of its name has left."""
        left = tuple(Waiting(run_id=run_id, since=at) for run_id in run_ids)
        return self.model_copy(update={"queue": self.queue + left})

    def ended(self, outcome: RunOutcome, at: datetime) -> "Session":
        """Return the Session after one of its Runs has ended, whether it had its turn or not."""
        active = self.active
        if active is None or active.run_id != outcome.run_id:
            return self._without(outcome.run_id)._settled()
        forgets = any(each.forgets for each in self.interrupters)
        taken = outcome.taken if outcome.began else ()
        late = () if forgets else tuple(e for e in active.steering if e.run_id not in taken)
        if not outcome.began:
            return self._inactive()._saying(late, at)._settled()
        before = active.resumes or Latest(
            run_id=outcome.run_id, messages=len(self.messages), usage=self.usage
        )
        messages = self.messages[: before.messages]
        if not (forgets or outcome.rolled_back):
            messages = outcome.messages if outcome.replaces else messages + outcome.messages
            if outcome.replaces:
                before = before.model_copy(update={"messages": len(messages)})
        after = self.model_copy(
            update={
                "active": None,
                "messages": messages,
                "usage": before.usage.plus_run(outcome.usage),
                "context_window": outcome.context_window or self.context_window,
                "latest": before,
                "last_active_at": at,
            }
        )
        return after._saying(late, at)._settled()

    def _saying(self, late: tuple[Steering, ...], at: datetime) -> "Session":
        """Return the Session with what was said to a Run too late for it.

        It is said at the beginning of the Run that takes that one's place; without one, each
        becomes a Run of its own.
        """
        if self.closing:
            return self
        taking = {each.run_id: each.run_id for each in late}
        changes: dict[str, Any] = {}
        if self.interrupters and not self.interrupters[-1].is_over:
            taking = dict.fromkeys(taking, self.interrupters[-1].run_id)
            said = tuple(
                Interrupter.of(each.run_id, each.start, at).model_copy(update={"is_over": True})
                for each in late
            )
            changes["interrupters"] = said + self.interrupters
        else:
            own = tuple(Waiting(run_id=each.run_id, since=at, start=each.start) for each in late)
            changes["queue"] = own + self.queue
        changes["keys"] = tuple(
            key.model_copy(update={"run_id": taking.get(key.own_id, key.run_id)})
            for key in self.keys
        )
        return self.model_copy(update=changes)

    def _without(self, run_id: str) -> "Session":
        """Return the Session without a Run that ended before its turn.

        It leaves nothing, unless its place was taken: then it did not end by itself.
        """
        last = self.interrupters[-1].run_id if self.interrupters else None
        over = {"is_over": True} | ({"said": "", "files": ()} if run_id == last else {})
        return self.model_copy(
            update={
                "queue": tuple(each for each in self.queue if each.run_id != run_id),
                "interrupters": tuple(
                    each.model_copy(update=over) if each.run_id == run_id else each
                    for each in self.interrupters
                ),
            }
        )

    def _inactive(self) -> "Session":
        """Return the Session as if the active Run had not begun, or not gone on."""
        is_new = self.active is not None and self.active.resumes is None
        return self.model_copy(update={"active": None, "runs": self.runs - is_new})

    def _settled(self) -> "Session":
        """Return the Session with what no Run is left to answer as part of the conversation."""
        return self if self.busy_with is not None else self.model_copy(update=self._words_said())

    def _words_said(self, before: str = "") -> dict[str, Any]:
        """Return what changes when all is said whose Runs do not have their turn."""
        words: tuple[Message, ...] = ()
        for each in self.interrupters:
            words = () if each.forgets else words
            if (each.said or each.files) and each.run_id != before:
                words += (UserMessage(content=each.said, files=each.files),)
        changes = {"interrupters": (), "messages": self.messages + words}
        return changes | ({"latest": None} if words else {})

    def unknown(self, run_id: str) -> "Session":
        """Return the Session as if this Run had not been asked for: it can't be started."""
        active = self.active
        if active is not None and active.run_id == run_id:
            after = self._inactive()._saying(active.steering, active.since)
        else:
            after = self
        is_new = active is None or active.run_id != run_id or active.resumes is None
        return after.model_copy(
            update={
                "queue": tuple(each for each in after.queue if each.run_id != run_id),
                "interrupters": tuple(e for e in after.interrupters if e.run_id != run_id),
                "keys": tuple(e for e in after.keys if e.own_id != run_id or not is_new),
            }
        )._settled()

    def closed(self) -> "Session":
        """Return the Session that takes no more Runs; those not started yet never are."""
        queue = tuple(each for each in self.queue if each.start is None)
        return self.model_copy(update={"closing": True, "queue": queue})

    def cleared(self) -> "Session":
        """Return the Session with nothing said; totals, settings and variables stay.

        Raises:
            SessionBusy: When a Run is going on, or waits.
        """
        self.require_idle()
        return self.model_copy(update={"messages": (), "latest": None})

    def require_open(self) -> None:
        """Refuse what can't be done any more.

        Raises:
            SessionNotFound: When the Session is being deleted.
        """
        if self.closing:
            raise SessionNotFound(f"Session {self.session_id!r} is being deleted.")

    def require_idle(self) -> None:
        """Refuse what can't be done while a Run is going on.

        Raises:
            SessionBusy: When one is, or waits.
        """
        if self.busy_with is not None:
            raise SessionBusy(
                f"Session {self.session_id!r} is busy with Run {self.busy_with!r}.",
                active_run_id=self.busy_with,
                hint="Wait for it, or cancel it.",
            )
