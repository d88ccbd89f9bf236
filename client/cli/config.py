"""The commands `perdure config …`: what is configured, and where."""

import sys
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perdure.client.cli.session import err, leave_with, out
from perdure.client.cli.words import escaped
from perdure.client.configuration import (
    ShownConfiguration,
    ShownSetting,
    in_words,
    shown_configuration,
)

app = typer.Typer(
    help="What is configured, and where.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def config() -> None:
    """What is configured, and where."""


@app.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show every setting, its value and where it comes from; secrets are masked."""

    def done() -> int:
        found = shown_configuration()
        if as_json:
            sys.stdout.write(found.model_dump_json() + "\n")
            return 0
        out.print(_table(found))
        for warning in found.warnings:
            err.print(Text(f"Warning: {escaped(warning)}", style="yellow"))
        return 0

    leave_with(done, as_json=as_json)


def _table(found: ShownConfiguration) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("SETTING", "VALUE", "FROM"):
        table.add_column(title, overflow="fold")
    for setting in found.settings:
        style = "dim" if setting.source == "default" else ""
        row = (setting.variable, _value(setting), setting.source)
        table.add_row(*(Text(escaped(cell), style=style) for cell in row))
    table.add_row("", "", "")
    temporal = found.temporal
    key = "set (not shown)" if temporal.api_key_is_set else "not set"
    told = {
        "address": temporal.address,
        "namespace": temporal.namespace,
        "profile": temporal.profile,
        "file of profiles": temporal.profile_file or "none",
        "TLS": temporal.tls,
        "API key": key,
    }
    for name, value in told.items():
        table.add_row(f"Temporal: {name}", Text(escaped(value)), "")
    return table


def _value(setting: ShownSetting) -> str:
    if not setting.secret or not setting.is_set:
        return in_words(setting.value)
    names = f": {', '.join(setting.value)}" if setting.value else ""
    return f"set (not shown){names}"
