"""Playing a case: its script on the model server, its Run on the engine."""

import base64
import itertools
import re
from collections import deque
from dataclasses import dataclass, field

from perdure.runs.run import Run
from perdure.runs.start import ContextBundle
from tests.bugbank.agents import executed
from tests.bugbank.case import Case
from tests.harness.engine import Engine
from tests.harness.scripted_openai import RecordedRequest, Reply, status

REFUSAL = {"error": {"message": "Scripted refusal.", "type": "invalid_request_error"}}

_numbers = itertools.count(1)


@dataclass
class Asked:
    """A Run, the requests that it made and the tools that it executed."""

    run: Run
    requests: list[RecordedRequest]
    executed: list[str]
    histories: list[str]


@dataclass
class Script:
    """What is answered to one Run, and what it asked."""

    case: Case
    replies: deque[Reply]
    requests: list[RecordedRequest] = field(default_factory=list)


class Stage:
    """Plays many cases at once: a request finds its script by a number in the input."""

    def __init__(self, bank: Engine) -> None:
        self._bank = bank
        self._scripts: dict[str, Script] = {}
        bank.model.respond_with(self._answer)

    async def play(self, case: Case) -> Asked:
        """Execute the Run of a case."""
        model = f"model-{next(_numbers)}"
        number = f"(case {model})"
        script = self._scripts[number] = Script(case, deque(case.replies))
        run = await self._bank.run(
            case.agent,
            f"{case.input} {number}",
            context=ContextBundle(messages=case.context),
            model=model,  # a queue of its own: a case may be told to wait for a day
        )
        histories: list[str] = []
        if case.secret or case.history_holds:
            histories = [readable(text) for text in await self._bank.histories(run.run_id)]
        return Asked(run, script.requests, sorted(executed(run.run_id)), histories)

    def _answer(self, request: RecordedRequest) -> Reply:
        told = next(m["content"] for m in reversed(request.messages) if m["role"] == "user")
        script = self._scripts[told[told.rindex("(") :]]
        script.requests.append(request)
        if script.case.refused_if is not None and script.case.refused_if(request):
            return status(400, REFUSAL)
        return script.replies.popleft()


def readable(history: str) -> str:
    """Return a history with what its payloads hold in plain."""
    assert "binary/zlib" not in history, "too large for this test: compressed"
    return re.sub(r'"data": "([^"]*)"', lambda m: base64.b64decode(m[1]).decode(), history)
