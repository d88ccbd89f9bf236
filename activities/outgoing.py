"""Messages to a model, as its profile wants them written.

Transcripts are kept as bytes in the one canonical form of `runs.messages.wire`, and go out as
they are. What a profile changes is changed here, at the last step before the wire, and only by
how that form begins and ends: no message is parsed for a usual model.
"""

import json

from perdure.agents.profile import ModelProfile
from perdure.runs.messages import canonical_json

_ASSISTANT = b'{"role":"assistant",'
_EXTRA = _ASSISTANT + b'"extra":'
_NULL = _ASSISTANT + b'"content":null'
_EMPTY = _ASSISTANT + b'"content":""'


def outgoing(wired: bytes, profile: ModelProfile) -> bytes:
    """Return a message of the transcript as it is sent.

    Fields that came from one model go to no other: only those that the profile names.
    """
    if not wired.startswith(_ASSISTANT):
        return wired
    extra: dict[str, str] = {}
    if wired.startswith(_EXTRA):
        body = json.loads(wired)
        extra = body.pop("extra")
        wired = canonical_json(body)
    if not profile.null_content and wired.startswith(_NULL):
        wired = _EMPTY + wired.removeprefix(_NULL)
    if profile.echo_fields:
        echoed = {name: extra.get(name, "") for name in profile.echo_fields}
        wired = wired[:-1] + b"," + canonical_json(echoed)[1:]
    return wired
