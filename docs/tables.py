"""The generated parts of the docs: each function prints one, cog puts it between its marks.

`make docs` writes them, `make check` fails when one is stale.
"""

import ast
import inspect
import textwrap
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import click
import typer.main
import yaml
from pydantic import BaseModel

from perdure.client.cli.app import app
from perdure.client.cli.doctor import SOMETHING_FAILS
from perdure.client.cli.session import (
    EXIT_OF_CODE,
    EXIT_OF_STATUS,
    INTERRUPTED,
    NOT_NOW,
    USAGE,
)
from perdure.engine.log_lines import FIELDS, LIBRARIES
from perdure.engine.settings import Settings
from perdure.gateway.problems import STATUS
from perdure.runs.deltas import Delta, Reset
from perdure.runs.errors import MEANINGS
from perdure.runs.events import Event
from perdure.runs.limits import DEFAULT_TERMS, DEFAULT_TOOL_S, Limits, Timeouts
from perdure.runs.metrics import METRICS
from perdure.runs.retries import RETRIES
from perdure.runs.spans import ATTRIBUTES
from perdure.runs.status import TRANSITIONS

ALERTS = Path(__file__).parents[1] / "deploy/prometheus/alerts.yml"


def errors() -> None:
    """Every error code."""
    print("| code | meaning | retried | what to do |\n|---|---|---|---|")
    for code, (meaning, retried, way_out) in MEANINGS.items():
        print(f"| `{code}` | {meaning} | {retried} | {way_out} |")


def statuses() -> None:
    """The HTTP status of every error code that a caller can be told."""
    print("| status | codes |\n|---|---|")
    found: dict[int, list[str]] = {400: ["`invalid_request`, where the body is no JSON"]}
    for code, status in STATUS.items():
        found.setdefault(status, []).append(f"`{code}`")
    found[431] = ["`payload_too_large`, of the headers"]
    found[500] = ["`internal`"]
    for status, codes in sorted(found.items()):
        print(f"| {status} | {', '.join(codes)} |")


def spans() -> None:
    """Every attribute of a span."""
    print("| attribute | on | meaning |\n|---|---|---|")
    for name, meaning in ATTRIBUTES.items():
        on = ", ".join(f"`{each}`" for each in meaning.spans)
        print(f"| `{name}` | {on} | {meaning.text}{'; *content*' * meaning.is_content} |")


def transitions() -> None:
    """The statuses of a Run and what may follow which, as a Mermaid diagram."""
    print("```mermaid\nstateDiagram-v2\n    [*] --> pending")
    for status, following in TRANSITIONS.items():
        for after in following:
            print(f"    {status} --> {after}")
        if not following:
            print(f"    {status} --> [*]")
    print("```")


def events() -> None:
    """Every Event with its fields."""
    _types(get_args(get_args(Event)[0]), ("type", "run_id", "sequence_number", "at"))


def deltas() -> None:
    """Everything else that a follower gets, with its fields."""
    union: UnionType = get_args(Delta)[0]
    shared = ("type", "run_id", "after", "step", "attempt", "offset", "delta")
    _types((*get_args(union), Reset), shared)


def _types(models: tuple[type[BaseModel], ...], shared: tuple[str, ...]) -> None:
    print("| type | meaning | fields |\n|---|---|---|")
    for model in models:
        own = [name for name in model.model_fields if name not in shared]
        fields = ", ".join(f"`{name}`" for name in own)
        first = (inspect.getdoc(model) or "").splitlines()[0]
        print(f"| `{model.model_fields['type'].default}` | {first} | {fields} |")


def commands() -> None:
    """The help of every command, as it is printed."""
    root = typer.main.get_command(app)
    context = click.Context(root, info_name="perdure")  # type: ignore[arg-type]
    _help_of(root, context)


def _help_of(group: Any, context: click.Context) -> None:
    for name, command in group.commands.items():
        inner = click.Context(command, info_name=name, parent=context, terminal_width=90)
        if hasattr(command, "commands"):
            _help_of(command, inner)
            continue
        help_text = command.get_help(inner).rstrip()
        print(f"## {inner.command_path}\n\n```\n{help_text}\n```\n")


def exit_codes() -> None:
    """Exit codes of the command line."""
    print("| code | meaning |\n|---|---|")
    ends: dict[int, list[str]] = {}
    for status, code in EXIT_OF_STATUS.items():
        ends.setdefault(code, []).append(f"the Run ended `{status}`")
    ends[0] = ["done; where a Run was waited for, it ended `completed`"]
    ends[SOMETHING_FAILS].append("`perdure doctor` found something that has to be mended")
    for error, code in EXIT_OF_CODE.items():
        ends.setdefault(code, []).append(f"`{error}`")
    ends[NOT_NOW] = [f"{', '.join(ends[NOT_NOW])}: not now; nothing was started, or done"]
    ends[USAGE] = ["bad input; nothing was started, or done"]
    ends[INTERRUPTED] = [
        "interrupted with Ctrl-C; the Run goes on, unless `chat` was told to cancel it"
    ]
    for code, meanings in sorted(ends.items()):
        print(f"| {code} | {', '.join(meanings)} |")


def limits() -> None:
    """Every limit, its default and the error code of reaching it."""
    print("| limit | default | meaning |\n|---|---|---|")
    meanings = _field_docs(Limits)
    for name in Limits.model_fields:
        default = getattr(DEFAULT_TERMS.limits, name)
        print(f"| `{name}` | {default or 'none'} | {meanings[name]} |")


def timeouts() -> None:
    """Every timeout and its default."""
    print("| timeout | default | meaning |\n|---|---|---|")
    meanings = _field_docs(Timeouts)
    for name in Timeouts.model_fields:
        default = getattr(DEFAULT_TERMS.timeouts, name)
        if name == "tool_s":
            default = DEFAULT_TOOL_S
        print(f"| `{name}` | {f'{default:g}' if default else 'none'} | {meanings[name]} |")


def retries() -> None:
    """Every code that is retried, how often and how soon."""
    print("| code | requests in all | waits between them |\n|---|---|---|")
    for code, rule in RETRIES.items():
        waits = [f"{rule.delay_s(n):g}" for n in range(1, rule.max_attempts)]
        print(f"| `{code}` | {rule.max_attempts} | {', '.join(waits)} s, up to 20 % more |")


def metrics() -> None:
    """Every metric of ours, by the process that has it."""
    print("| metric | kind | labels | meaning |\n|---|---|---|---|")
    for each in METRICS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        process = "gateway" if each.place == "gateway" else "worker"
        kind = f"{each.kind}, {process}"
        print(f"| `{each.exported}` | {kind} | {labels} | {each.meaning} |")


def alerts() -> None:
    """Every alert rule, as the file has it."""
    print("| alert | severity | fires |\n|---|---|---|")
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            name, says = rule["alert"], rule["annotations"]
            entry = f"[`{name}`]({says['runbook_url'].removeprefix('docs/')})"
            expr = " ".join(rule["expr"].split()).replace("|", "\\|")
            held = f", for {rule['for']}" if "for" in rule else ""
            print(f"| {entry} | {rule['labels']['severity']} | `{expr}`{held} |")


def settings() -> None:
    """Every setting, from the docstrings under the fields."""
    print("| variable | default | meaning |\n|---|---|---|")
    meanings = _field_docs(Settings)
    for name, field in Settings.model_fields.items():
        variable = field.alias or f"PERDURE_{name.upper()}"
        if name == "data_dir":
            default = "the user's data folder"
        elif name == "agents":
            default = f"`{field.get_default(call_default_factory=True)[0]}`"
        else:
            value = field.get_default(call_default_factory=True)
            default = f"`{value}`" if value not in (None, {}, []) else "not set"
        print(f"| `{variable}` | {default} | {meanings.get(name, '')} |")


def log_fields() -> None:
    """Every field of a line of log that we write."""
    print("| field | meaning |\n|---|---|")
    for name, meaning in FIELDS.items():
        print(f"| `{name}` | {meaning} |")


def quiet_loggers() -> None:
    """The libraries whose loggers stay at `warning`."""
    print(", ".join(f"`{name}`" for name in LIBRARIES) + ".")


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the string under each field of a class."""
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    docs: dict[str, str] = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        named = isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docs[before.target.id] = " ".join(str(after.value.value).split())
    return docs
