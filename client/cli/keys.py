"""The commands `perdure keys …`: who may use the gateway."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table

from perdure.client.cli.session import err, leave_with, out, settings
from perdure.engine.api_keys import ApiKey, KeyFile
from perdure.runs.errors import ConfigurationError, InvalidRequest

app = typer.Typer(
    help="API keys of the gateway, in the file that PERDURE_API_KEYS names.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SECONDS = {"m": 60, "h": 3600, "d": 86_400}
MAX_DAYS = 3650


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Of who uses it; the audit log has it.")],
    scope: Annotated[
        list[str],
        typer.Option(
            help="What it allows: read; write, which includes read; approve, which includes "
            "read; admin, which is everything. May be repeated."
        ),
    ],
    tenant: Annotated[
        str | None, typer.Option(help="Only ids of this tenant; all ids without.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="After so long, such as 90d, 12h or 30m; never without.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an API key, and print it: this once, it is kept nowhere."""

    def done() -> int:
        key, made = _file().create(name, scope, tenant=tenant, expires_at=_expiry(expires))
        if as_json:
            _print_json({"key": key, **_told(made)})
            return 0
        sys.stdout.write(f"{key}\n")
        err.print(f"API key {made.id} of {made.name}. It is not shown again.")
        return 0

    leave_with(done, as_json=as_json)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the API keys, the oldest first; not the keys themselves."""

    def done() -> int:
        file = _file()
        keys = file.keys() if file.path.exists() else ()
        if as_json:
            for key in keys:
                _print_json(_told(key))
        else:
            out.print(_table(keys))
        return 0

    leave_with(done, as_json=as_json)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of an API key, as `list` shows it.")],
    as_json: Json = False,
) -> None:
    """Let an API key not be used any more, from now on."""

    def done() -> int:
        gone = _file().revoke(key_id)
        if as_json:
            _print_json(_told(gone))
        else:
            out.print(f"API key {gone.id} of {gone.name} is revoked.")
        return 0

    leave_with(done, as_json=as_json)


def _file() -> KeyFile:
    path = settings().api_keys
    if path is None:
        raise ConfigurationError(
            "PERDURE_API_KEYS is not set.",
            hint="Set it, for the gateway too, to the file that is to hold the API keys.",
        )
    return KeyFile(path)


def _expiry(given: str | None) -> datetime | None:
    if given is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", given)
    after = timedelta(seconds=int(found[1]) * SECONDS[found[2]]) if found else None
    if after is None or after > timedelta(days=MAX_DAYS):
        raise InvalidRequest(
            f"{given[:20]!r} is no time for a key to live.",
            hint=f"Give minutes, hours or days, such as 30m, 12h or 90d; at most {MAX_DAYS}d.",
        )
    return datetime.now(UTC) + after


def _told(key: ApiKey) -> dict[str, object]:
    return {
        **key.model_dump(mode="json", exclude={"sha256"}),
        "expired": key.is_expired(datetime.now(UTC)),
    }


def _table(keys: tuple[ApiKey, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("ID", "NAME", "TENANT", "SCOPES", "CREATED", "EXPIRES"):
        table.add_column(title, no_wrap=True)
    now = datetime.now(UTC)
    for key in keys:
        expires = "never" if key.expires_at is None else _day(key.expires_at)
        table.add_row(
            key.id,
            key.name,
            key.tenant or "all",
            " ".join(key.scopes),
            _day(key.created_at),
            f"{expires} (expired)" if key.is_expired(now) else expires,
        )
    return table


def _day(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _print_json(told: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
