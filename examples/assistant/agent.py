"""The assistant of the README: arithmetic, the time, and the files of one folder."""

import os
from pathlib import Path

from perdure import Agent
from perdure.tools import calculate, current_time, search_tool

FOLDER = Path(os.environ.get("ASSISTANT_FOLDER", "."))
"""What `search_files` may read: this folder and nothing outside it."""

assistant = Agent(
    name="assistant",
    instructions=(
        "You answer questions. Use the tools for arithmetic, the time and the user's files; "
        "answer from their results."
    ),
    tools=[calculate, current_time, search_tool(FOLDER)],
)
