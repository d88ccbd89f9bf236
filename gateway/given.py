"""What may stand in any body: limits, files, messages; nothing that is not known.

Content of files comes along in base64. Nothing here can name an object in a storage.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from perdure.runs.errors import InvalidRequest
from perdure.runs.given_file import File
from perdure.runs.limits import Limits, Timeouts
from perdure.runs.messages import AssistantMessage, Message, MessageCall, ToolMessage, UserMessage
from perdure.runs.start import ContextBundle
from perdure.sessions.parts import SessionSettings


def _usable(moment: datetime) -> datetime:
    if not 1970 <= moment.year < 9999:
        raise ValueError("the year is to be between 1970 and 9998")
    return moment.astimezone(UTC)


def _written(given: object) -> object:
    if isinstance(given, str) and given.count("-") < 2:
        raise ValueError("write it as 2026-11-30T12:00:00Z")
    return given


Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_usable)]
"""A time with its offset from UTC, between 1970 and 9998."""


class Given(BaseModel):
    """Something that is sent: an unknown field of it is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class GivenLimits(Limits):
    """How much a Run may use; what is not given is as the agent has it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class GivenTimeouts(Timeouts):
    """How long things may take, in seconds; what is not given is as the agent has it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class GivenSettings(SessionSettings):
    """How much a Session may use, and how long it lives; what is not given stays."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def limits(given: GivenLimits | None) -> Limits:
    """Return limits as Runs have them."""
    return Limits() if given is None else Limits(**given.model_dump())


def timeouts(given: GivenTimeouts | None) -> Timeouts:
    """Return timeouts as Runs have them."""
    return Timeouts() if given is None else Timeouts(**given.model_dump())


class GivenFile(Given):
    """A file, with its content; or the URL of an image that the model's provider fetches."""

    name: str = ""
    media_type: str = ""
    """Found out from content and name when not given."""
    data: str | None = None
    """The content, in base64."""
    url: str | None = None
    """An http or https URL, in place of `data`."""

    def read(self) -> File:
        """Return the file.

        Raises:
            InvalidRequest: When it has no content, or two, or is unusable.
        """
        if (self.data is None) is (self.url is None):
            raise InvalidRequest(f"The file {self.name!r} needs either `data` or `url`.")
        if self.url is not None:
            return File.from_url(self.url, self.name)
        try:
            content = base64.b64decode(self.data or "", validate=True)
        except (binascii.Error, ValueError) as exc:
            raise InvalidRequest(f"`data` of the file {self.name!r} is no base64.") from exc
        return File.from_bytes(content, self.media_type, self.name or "file")


def read_files(given: tuple[GivenFile, ...]) -> tuple[File, ...]:
    """Return files with their content."""
    return tuple(each.read() for each in given)


class GivenUserMessage(Given):
    """Something a person said."""

    role: Literal["user"]
    content: str

    def read(self) -> Message:
        """Return the message as Runs have it."""
        return UserMessage(content=self.content)


class GivenCall(Given):
    """A tool call in an assistant message."""

    id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    arguments: str
    """The text of a JSON object."""


class GivenAssistantMessage(Given):
    """What a model answered."""

    role: Literal["assistant"]
    content: str | None = None
    tool_calls: tuple[GivenCall, ...] = ()

    def read(self) -> Message:
        """Return the message as Runs have it."""
        calls = tuple(MessageCall(**each.model_dump()) for each in self.tool_calls)
        return AssistantMessage(content=self.content, tool_calls=calls)


class GivenToolMessage(Given):
    """The result of a tool call."""

    role: Literal["tool"]
    tool_call_id: str
    content: str

    def read(self) -> Message:
        """Return the message as Runs have it."""
        return ToolMessage(tool_call_id=self.tool_call_id, content=self.content)


GivenMessage = Annotated[
    GivenUserMessage | GivenAssistantMessage | GivenToolMessage, Field(discriminator="role")
]


class GivenContext(Given):
    """What a Run starts from, besides its input."""

    messages: tuple[GivenMessage, ...] = ()
    """The conversation so far, oldest first; not in a Session, which has its own."""
    variables: dict[str, Any] = Field(default_factory=dict)

    def read(self) -> ContextBundle:
        """Return the context as Runs have it."""
        said = tuple(each.read() for each in self.messages)
        return ContextBundle(messages=said, variables=self.variables)
