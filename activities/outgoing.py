"""Messages to a model, as its profile wants them written.

Transcripts are kept as bytes in the one canonical form of `runs.messages.wire`, and go out as
they are. What a profile changes is changed here, at the last step before the wire, and only by
how that form begins and ends: no message is parsed for a usual model.
"""

import json

from perdure.agents.profile import ModelProfile
from perdure.runs.messages import canonical_json
from perdure.runs.providers import DEFAULT_PROVIDER

ORIGIN = "perdure_provider"
"""Beside what a model wants back: which provider it is of, where that is not the default one."""

_ASSISTANT = b'{"role":"assistant",'
_EXTRA = _ASSISTANT + b'"extra":'
_NULL = _ASSISTANT + b'"content":null'
_EMPTY = _ASSISTANT + b'"content":""'


def outgoing(
    wired: bytes,
    profile: ModelProfile,
    provider: str = DEFAULT_PROVIDER,
    *,
    at_home: bool = True,
) -> bytes:
    """Return a message of the transcript as it is sent.

    Fields that came from one model go to no other: only those that the profile names, and only
    to the provider that they came from.

    Args:
        wired: The message.
        profile: Of the agent.
        provider: Who gets it.
        at_home: Whether the agent's own model is there: only that one is sent empty fields where
            a message has none.
    """
    if not wired.startswith(_ASSISTANT):
        return wired
    extra: dict[str, str] = {}
    if wired.startswith(_EXTRA):
        body = json.loads(wired)
        extra = body.pop("extra")
        wired = canonical_json(body)
    if extra.get(ORIGIN, DEFAULT_PROVIDER) != provider:
        extra = {}
    if not profile.null_content and wired.startswith(_NULL):
        wired = _EMPTY + wired.removeprefix(_NULL)
    if profile.echo_fields:
        names = [name for name in profile.echo_fields if at_home or name in extra]
        echoed = {name: extra.get(name, "") for name in names}
        wired = wired[:-1] + b"," + canonical_json(echoed)[1:] if echoed else wired
    return wired
