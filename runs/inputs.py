"""What is said to a Run, and not shown to its agent's checks yet: its input, and messages.

A check may change what the model is told of them; the words themselves stay in the Run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from perdure.runs.start import FollowUp
from perdure.runs.steps import Step
from perdure.runs.transcript import last_answer, task

if TYPE_CHECKING:
    from perdure.runs.run import Run


@dataclass(frozen=True)
class Unchecked:
    """The input, if it is among them, and positions of messages in `run.follow_ups`."""

    input: bool
    follow_ups: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many they are."""
        return self.input + len(self.follow_ups)


def unchecked(run: "Run") -> Unchecked:
    """Return what the model Step that runs has to check: the last messages of its transcript."""
    now = run.steps[-1].number
    since = max(_answered(run), _checked(run))
    found = [index for index, each in enumerate(run.follow_ups) if since <= each.after_step < now]
    return Unchecked(input=since == 0, follow_ups=tuple(found))


def inputs_changed(run: "Run", told: tuple[str, ...]) -> tuple[dict[str, Any], int]:
    """Return what changes when the checks of the Step that runs changed what is said to the Run.

    Returns:
        The fields that change, and by how many characters the transcript grows.
    """
    if not told:
        return {}, 0
    found = unchecked(run)
    texts = list(told)
    changes: dict[str, Any] = {}
    grown = 0
    if found.input:
        changes["told_input"] = texts.pop(0)
        grown = len(changes["told_input"]) - len(task(run))
    follow_ups = list(run.follow_ups)
    for index, text in zip(found.follow_ups, texts, strict=True):
        grown += len(text) - len(follow_ups[index].text)
        follow_ups[index] = follow_ups[index].model_copy(update={"told": text})
    return changes | {"follow_ups": tuple(follow_ups)}, grown


def changes_inputs(step: Step) -> bool:
    """Tell whether the checks of a Step changed what is said to the Run."""
    return step.checked is not None and bool(step.checked.inputs)


def as_told(said: FollowUp, steps: Iterable[Step]) -> FollowUp:
    """Return a message as it stood after these Steps: changed, if a check of theirs changed it."""
    if any(step.number > said.after_step for step in steps if changes_inputs(step)):
        return said
    return said.model_copy(update={"told": None})


def _answered(run: "Run") -> int:
    answer = last_answer(run)
    return 0 if answer is None else answer.number


def _checked(run: "Run") -> int:
    """Return the latest Step of this turn whose checks need not be repeated.

    One that made room, one that changed what it was shown, one that a person let through.
    """
    for step in takewhile(lambda step: step.turn == run.turn, reversed(run.steps)):
        is_approved = step.action is not None and step.action.is_approved
        made_room = step.purpose == "compact" and step.status == "completed"
        if step.kind == "model" and (is_approved or made_room or changes_inputs(step)):
            return step.number
    return 0
