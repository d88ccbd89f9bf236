"""The researcher: three tools that read one folder, and instructions that ask for citations."""

import os
from pathlib import Path

from perdure import Agent
from perdure.tools import file_tools

FOLDER = Path(os.environ.get("RESEARCHER_FOLDER") or Path(__file__).parent / "documents")
"""What is read: this folder and nothing outside it. By default the handbook of a kite shop that
does not exist."""

researcher = Agent(
    name="researcher",
    description="Answers questions from the shop's documents: rules, prices of services, products.",
    instructions=(
        "You answer from documents only. Search them for one or two words of the question, and "
        "read around what you find. Behind every statement, cite the line that says it as "
        "[path:line], such as [returns.md:3]; search results begin with exactly that. Say so if "
        "the documents do not tell."
    ),
    # The assistant searches another folder: tools of one worker need names of their own.
    tools=file_tools(FOLDER, prefix="docs_"),
)
