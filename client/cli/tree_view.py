"""A Run and the Runs below it, for people."""

from rich.table import Table
from rich.text import Text

from perdure.client.cli.render import cost, elapsed, state, tokens
from perdure.client.tree import RunTree


def tree_view(tree: RunTree) -> Table:
    """Return the tree, one Run a row, each below the one that has called it."""
    table = Table(box=None, pad_edge=False)
    for title in ("RUN", "AGENT", "STATUS", "TOKENS", "COST", "TIME"):
        right = title in ("TOKENS", "COST", "TIME")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "STATUS")
    _add(table, tree, "", "")
    return table


def _add(table: Table, tree: RunTree, branch: str, indent: str) -> None:
    used = tokens(tree.usage), cost(tree.usage), elapsed(tree)
    table.add_row(branch + tree.run_id, tree.agent, state(tree), *used)
    lines = len(tree.children) + (tree.children_left_out > 0)
    for number, child in enumerate(tree.children, 1):
        is_last = number == lines
        _add(
            table, child, indent + ("└ " if is_last else "├ "), indent + ("  " if is_last else "│ ")
        )
    if tree.children_left_out:
        left_out = f"{indent}└ {tree.children_left_out:,} more Runs are not shown"
        table.add_row(Text(left_out, style="dim"))
