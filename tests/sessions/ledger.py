"""Where everything must be that users said to a Session: written down as it happens.

Nothing of it is taken from what the Session says of itself.
"""

from dataclasses import dataclass, field
from datetime import datetime

from perdure.sessions.admission import Admission
from perdure.sessions.outcome import RunOutcome
from tests.sessions.world import World


@dataclass
class Asked:
    """Something that a user said, and what came of it."""

    text: str
    on_busy: str
    number: int
    at: datetime
    how: str = ""
    to: str = ""
    """The Run that it was said to, where it steers."""
    turn: float | None = None
    """When it is said, in the order of turns."""
    is_said: bool | None = None
    """Whether it must be in the conversation; None: it need not, and may."""


@dataclass
class Ledger:
    """What was asked for, and where it must be."""

    world: World
    asked: dict[str, Asked] = field(default_factory=dict)
    keys: dict[str, tuple[str, set[str], datetime]] = field(default_factory=dict)
    """Of each key: the text, the ids that may be answered, and since when."""
    used: dict[str, int] = field(default_factory=dict)
    """Tokens of Runs whose ends were noticed."""
    compacted: set[str] = field(default_factory=set)
    taking: list[str] = field(default_factory=list)
    """Runs that were to take the active one's place, and were not refused."""
    over: set[str] = field(default_factory=set)
    """Those of them that ended before another one was to take it: nobody stopped them."""
    turns: int = 0

    def accepted(self, run_id: str, asked: Asked, key: str, admission: Admission) -> None:
        """Write down that something was asked for, and not refused."""
        self.asked[run_id] = asked
        asked.how = admission.how
        if admission.how == "steered":
            asked.to = admission.run_id
        if admission.how == "queued" and asked.on_busy in ("interrupt", "rollback"):
            self.taking.append(run_id)
        if key:
            self.keys[key] = (asked.text, {admission.run_id, run_id}, asked.at)

    def cleared(self) -> None:
        """Write down that the conversation was cleared."""
        for each in self.asked.values():
            if each.is_said is not False and each.turn is not None:
                each.is_said = False

    def write_begun(self) -> None:
        """Write down which Runs have had their turn since."""
        for run_id in self.world.begun[self.turns :]:
            self._say_words(run_id)
            self.turns += 1

    def notice(self, run_id: str) -> None:
        """Have the Session see that a Run has ended, and write down what that means."""
        active, run = self.world.session.active, self.world.run(run_id)
        self.write_begun()
        forgotten = any(self.asked[each].on_busy == "rollback" for each in self.taking)
        left = self.world.notice(run_id)
        if active is not None and active.run_id == run_id:
            self._ended(left, forgotten or left.rolled_back, forgotten)
            if run.started_at is not None:
                self.used[run_id] = run.usage.total_tokens
        elif run_id in self.taking and run_id == self.taking[-1]:
            self.over.add(run_id)
        self.write_begun()
        if self.world.session.busy_with is None:
            self._say_words(None)

    def _say_words(self, winner: str | None) -> None:
        """Write down that all is said which those said who lost their turn."""
        for index, run_id in enumerate(self.taking):
            later = self.taking[index + 1 :]
            forgotten = any(self.asked[each].on_busy == "rollback" for each in later)
            if run_id != winner:
                self.asked[run_id].is_said = run_id not in self.over and not forgotten
                self.asked[run_id].turn = self.turns + 1
        self.taking, self.over = [], set()

    def _ended(self, left: RunOutcome, forgotten: bool, all_forgotten: bool) -> None:
        """Write down where everything is that was said to a Run that had its turn."""
        asked = self.asked
        if left.replaces and not forgotten:
            self.compacted.add(left.run_id)
            for each in asked.values():
                if each.is_said:
                    each.is_said = None
        is_vague = left.run_id in self.compacted
        steered = [each for each in asked.items() if each[1].to == left.run_id]
        turn = self.turns
        for run_id, each in steered:
            if left.began and run_id in left.taken:
                each.turn, each.is_said = turn, None if is_vague else not forgotten
            elif all_forgotten:
                each.is_said = False
            else:
                self._late(run_id, each)
        own = asked[left.run_id]
        if left.began:
            own.turn, own.is_said = turn, None if is_vague else not forgotten
        else:
            own.is_said = False

    def _late(self, run_id: str, each: Asked) -> None:
        """Write down that something was said too late: then another Run answers it."""
        each.to = ""
        live = self.taking and self.taking[-1] not in self.over
        if self.world.session.closing:
            each.is_said = False
        elif live:
            each.turn, each.is_said = self.turns + 1, True
        for text, ids, _ in self.keys.values():
            if text == each.text:
                ids |= {run_id, *self.taking}
