"""Answers that have to fit a schema: how a model is told, and how its answer is read.

Whatever a provider promises, what it sends is checked here. What does not fit is told to the
model, which answers again (`unfit`); where it is to conclude, it ends the Step instead.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.activities.failure import failed
from perdure.activities.openai_chat import Answer
from perdure.agents.agent import Agent
from perdure.agents.output import BadSchema, OutputShape, Unfit, shape_of_schema
from perdure.agents.profile import Structured
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ErrorCode, error
from perdure.runs.limits import MAX_DEPTH, MAX_REPLY_BYTES
from perdure.runs.messages import canonical_json, without_lone_surrogates
from perdure.runs.model_json import parsed
from perdure.runs.steps import ModelReply, RequestedCall
from perdure.runs.strict_json import is_deeper

FINAL_TOOL = "final_answer"
"""The tool whose call is the answer, for models without a better way."""
SHOWN_SCHEMA_BYTES = 2_000
"""Of a schema that is told again with what is wrong with an answer."""

AS_TEXT = """\
Your final answer must be JSON and nothing else, no words or marks around it. It must fit this \
JSON schema:
{schema}"""
AS_CALL = "Give your final answer by calling the tool {tool!r}, and no other tool beside it."
TOO_EARLY = "The other tools of this turn have no results yet. Call {tool!r} alone, later."
WRONG = "The answer does not fit: {why}. {how}"
AGAIN = {
    "native": "Answer again, in JSON that fits this schema, and nothing else: {schema}",
    "tool": "Call {tool!r} again, with what fits.",
    "prompt": "Answer again, in JSON that fits the schema, and nothing else.",
}

_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*)```", re.DOTALL)


@dataclass(frozen=True)
class WantedOutput:
    """What the answer to one request has to be, and how its model is told.

    Attributes:
        shape: What it has to be.
        way: How the model is told.
        tool: Name of the tool whose call is the answer, where that is the way.
    """

    shape: OutputShape
    way: Structured
    tool: str

    @property
    def head(self) -> dict[str, Any]:
        """What the request says of it, besides messages and tools."""
        if self.way != "native":
            return {}
        named = {"name": "output", "strict": self.shape.is_strict, "schema": self.shape.schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tools that the request offers besides the agent's."""
        if self.way != "tool":
            return []
        about = "Give the final answer. Call it once, at the end, and no other tool beside it."
        function = {"name": self.tool, "description": about, "parameters": self.shape.schema}
        return [{"type": "function", "function": function}]

    @property
    def instructions(self) -> str:
        """What the system message says of it; empty when nothing."""
        if self.way == "native":
            return ""
        if self.way == "tool":
            return AS_CALL.format(tool=self.tool)
        return AS_TEXT.format(schema=canonical_json(self.shape.schema).decode())

    def given(self, answer: Answer) -> list[str]:
        """Return the final answers that were given by calls, when there are no other calls."""
        if self.way != "tool" or any(call.name != self.tool for call in answer.calls):
            return []
        return list(dict.fromkeys(call.arguments for call in answer.calls))

    def without_early(self, calls: Iterable[RequestedCall]) -> tuple[RequestedCall, ...]:
        """Return calls with those rejected that give an answer beside other calls."""
        if self.way != "tool":
            return tuple(calls)
        early = error(ErrorCode.OUTPUT_INVALID, TOO_EARLY.format(tool=self.tool), hint="")
        return tuple(
            call.model_copy(update={"rejection": early}) if call.name == self.tool else call
            for call in calls
        )

    def checked(self, reply: ModelReply, given: list[str], *, concludes: bool) -> ModelReply:
        """Return a final answer as its Run keeps it: in canonical JSON; or why it does not fit.

        Args:
            reply: The answer.
            given: What was given by calls.
            concludes: Whether there is no turn after it.
        """
        try:
            if len(given) > 1:
                raise Unfit(f"there are {len(given)} final answers; one is wanted")
            value = self.read(reply.text or "")
        except Unfit as exc:
            how = AGAIN[self.way].format(tool=self.tool, schema=self._shown_schema())
            why = error(ErrorCode.OUTPUT_INVALID, WRONG.format(why=exc, how=how))
            if concludes:
                why = error(ErrorCode.OUTPUT_INVALID, WRONG.format(why=exc, how="").strip())
            return reply.model_copy(update={"error" if concludes else "unfit": why})
        return reply.model_copy(update={"text": value, "structured": True})

    def read(self, text: str) -> str:
        """Return the output in a text as canonical JSON.

        Raises:
            Unfit: When there is none in it, or one that does not fit.
        """
        value = _value(unfenced(without_lone_surrogates(text)))
        try:
            return self.kept(value)
        except Unfit:
            if not isinstance(value, str):
                raise
            # Some models encode twice; one layer is undone, if it fits then.
            return self.kept(_value(value))

    def kept(self, value: Any) -> str:
        """Return a value that fits as canonical JSON.

        Raises:
            Unfit: When it does not.
        """
        if is_deeper(value, MAX_DEPTH):
            raise Unfit(f"it has more than {MAX_DEPTH} levels")
        try:
            text = without_lone_surrogates(canonical_text(self.shape.fitting(value)))
        except (TypeError, ValueError, RecursionError) as exc:
            raise Unfit(f"it is no JSON ({exc})") from exc
        if len(text.encode()) > MAX_REPLY_BYTES:
            raise Unfit(f"it is larger than {MAX_REPLY_BYTES:,} bytes")
        return text

    def _shown_schema(self) -> str:
        schema = canonical_json(self.shape.schema)
        return schema.decode() if len(schema) <= SHOWN_SCHEMA_BYTES else "the one you were given"


def wanted_output(agent: Agent, request: ModelRequest, names: Iterable[str]) -> WantedOutput | None:
    """Return what the answer to a request has to be: as the caller says, else the agent; or none.

    Args:
        agent: Whose turn it is.
        request: What the call is for.
        names: Of the agent's tools.

    Raises:
        ApplicationError: `invalid_request`, when the caller's schema can't be used.
    """
    if request.purpose == "compact":
        return None
    shape = agent.output
    if request.output_schema is not None:
        shape = _shape(request.output_schema)
    if shape is None:
        return None
    way = agent.profile.structured
    if way == "tool" and request.purpose == "conclude":
        way = "prompt"  # There are no tools any more.
    tool, taken = FINAL_TOOL, set(names)
    while tool in taken:
        tool += "_"
    return WantedOutput(shape, way, tool)


def unfenced(text: str) -> str:
    """Return a text without the marks of Markdown around it, if it has any."""
    text = text.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.fullmatch(text)
    return fenced.group(1).strip() if fenced else text


def canonical_text(value: Any) -> str:
    """Return strict, compact JSON; halves of surrogate pairs stay as they are in Python.

    Raises:
        ValueError: For NaN or an infinity.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _value(text: str) -> Any:
    try:
        value = parsed(text)
        written = canonical_text(value)
    except (ValueError, RecursionError) as exc:
        raise Unfit(f"it is not valid JSON ({exc})") from exc
    clean = without_lone_surrogates(written)
    return value if clean == written else json.loads(clean)


def _shape(schema: Mapping[str, Any]) -> OutputShape:
    try:
        return shape_of_schema(dict(schema))
    except BadSchema as exc:
        why = f"The Run's output_schema can't be used: {exc}."
        hint = "Start it again with a valid JSON schema."
        raise failed(error(ErrorCode.PROVIDER_REFUSED_REQUEST, why, hint=hint)) from None
