"""The analyst: two tools that read one database, and a calculator."""

import os
from pathlib import Path

from platformdirs import user_data_path

from perdure import Agent
from perdure.examples.analyst.shop import made
from perdure.tools import calculate, sql_tools

DATABASE = Path(
    os.environ.get("ANALYST_DATABASE") or user_data_path("perdure") / "examples" / "shop.db"
)
"""What is read. It is made, with the orders of a kite shop, if there is no such file."""

analyst = Agent(
    name="analyst",
    description="Answers questions about the shop's orders with numbers from its database.",
    instructions=(
        "You answer questions about the orders of a shop. Look at the schema first. Let SQL count "
        "and add up, and the calculator do the rest; never calculate yourself. Say with every "
        "number what it counts. Amounts are in euros."
    ),
    tools=[*sql_tools(f"sqlite:///{made(DATABASE)}"), calculate],
)
