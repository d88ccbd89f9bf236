"""`ask_user`: how an agent asks a person something, and waits for the answer."""

from typing import Annotated

from pydantic import Field

from perdure.agents.tool import Tool
from perdure.runs.errors import ConfigurationError
from perdure.runs.policy import ToolPolicy


def _ask_user(
    question: Annotated[str, Field(min_length=1, max_length=4000)],
    choices: Annotated[list[str], Field(max_length=20)] | None = None,
) -> str:
    """Ask the user something that you need to know and can't find out otherwise.

    The answer may take days. Ask for one thing at a time.

    Args:
        question: What you want to know, so that it can be understood without the conversation.
        choices: The possible answers; leave it out to let the user answer freely.
    """
    raise ConfigurationError(
        "A question is answered by a person.", hint="`perdure answer` does, in a Run."
    )


ask_user = Tool(_ask_user, "ask_user", ToolPolicy(effect="read", kind="question"))
"""The tool with which a model asks a person."""
