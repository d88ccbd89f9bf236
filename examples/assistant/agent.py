"""The assistant of the README: arithmetic, the time, and the files of one folder."""

import os
from pathlib import Path

from perdure import Agent, tool
from perdure.examples.assistant.calculator import calculate
from perdure.examples.assistant.clock import current_time
from perdure.examples.assistant.files import search_files_in

FOLDER = Path(os.environ.get("ASSISTANT_FOLDER", "."))
"""What `search_files` may read: this folder and nothing outside it."""

assistant = Agent(
    name="assistant",
    instructions=(
        "You answer questions. Use the tools for arithmetic, the time and the user's files; "
        "answer from their results."
    ),
    tools=[
        tool(effect="read")(calculate),
        tool(effect="read")(current_time),
        tool(effect="read")(search_files_in(FOLDER)),
    ],
)
