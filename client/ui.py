"""Where else a Run is shown: the Temporal UI, and whatever shows its Trace."""

from urllib.parse import quote

from perdure.engine.connect import Address
from perdure.engine.dev_server import UI_PORT_OFFSET
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from perdure.runs.run import Run

CLOUD_UI = "https://cloud.temporal.io"
CLOUD_HOSTS = (".tmprl.cloud", ".temporal.io")


def run_url(settings: Settings, namespace: str, run_id: str | None) -> str:
    """Return the UI's address of a Run, or of all Runs.

    Raises:
        ConfigurationError: When it is not known where the UI is.
    """
    page = f"{_base(settings)}/namespaces/{quote(namespace, safe='')}/workflows"
    return page if run_id is None else f"{page}/{quote(run_id, safe='')}"


def trace_url(settings: Settings, run: Run) -> str | None:
    """Return where the Trace of a Run is shown; none where that is not set."""
    if settings.trace_url is None:
        return None
    placed = settings.trace_url.replace("{run_id}", quote(run.run_id, safe=""))
    return placed.replace("{trace_id}", run.trace_id)


def _base(settings: Settings) -> str:
    if settings.ui_url:
        return settings.ui_url.rstrip("/")
    address = Address.configured()
    if address.host.endswith(CLOUD_HOSTS):
        return CLOUD_UI
    if address.is_local:
        return f"http://{address.host}:{address.port + UI_PORT_OFFSET}"
    raise ConfigurationError(
        f"It is not known where the UI of {address} is.", hint="Set PERDURE_UI_URL."
    )
