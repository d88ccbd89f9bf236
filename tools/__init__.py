"""Tools to give to agents, and examples of how to write your own.

    from perdure import Agent
    from perdure.tools import calculate, fetch_url, file_tools

    agent = Agent(name="helper", tools=[calculate, fetch_url, *file_tools("notes")])

None is given to an agent that does not name it.
"""

from perdure.tools.calculator import calculate
from perdure.tools.clock import current_time
from perdure.tools.fetch import fetch_tool, fetch_url
from perdure.tools.files import file_tools
from perdure.tools.search import search_tool
from perdure.tools.shell import shell_tool
from perdure.tools.sql import sql_tools

__all__ = [
    "calculate",
    "current_time",
    "fetch_tool",
    "fetch_url",
    "file_tools",
    "search_tool",
    "shell_tool",
    "sql_tools",
]
