"""The planner: it knows nothing itself, and asks the researcher and the analyst.

Each call is a Run of its own; those of one turn run side by side, within what the planner's own
limits have left. A worker serves every agent that a module holds: the two that are imported here,
or in the package, come along.
"""

from perdure import Agent, Limits
from perdure.examples.analyst import analyst
from perdure.examples.researcher import researcher

planner = Agent(
    name="planner",
    instructions=(
        "You answer questions about a shop with the help of two agents, who do not see this "
        "conversation: the researcher knows the rules, the analyst the orders. Give each its part "
        "of the question in full, and ask both in the same turn unless one needs the other's "
        "answer. Answer from what they say, and keep the researcher's citations."
    ),
    tools=[researcher.as_tool(), analyst.as_tool()],
    # For all three together: what a called agent uses counts here, too.
    limits=Limits(max_turns=10, max_tokens=200_000),
)
