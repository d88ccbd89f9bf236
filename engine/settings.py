"""All settings, typed, from the environment, a `.env` file and `perdure.toml`.

How Temporal is reached is not among them: that is Temporal's own `TEMPORAL_*` variables and
profiles, read by `temporalio.envconfig`.
"""

import json
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from perdure.engine.settings_sources import HINT, TomlSource, tool_secrets, unusable
from perdure.runs.contract import DEFAULT_TASK_QUEUE
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import RateLimit
from perdure.runs.usage import Price

EXAMPLE_AGENTS = "perdure.examples.assistant.agent"
"""What a worker serves when nothing is named: the agent of the README."""


Role = Literal["all", "workflows", "activities"]
"""Of a worker; `engine/roles.py` says what each does."""


class Settings(BaseSettings):
    """What can be set. Names are those of the environment, without the prefix `PERDURE_`."""

    model_config = SettingsConfigDict(
        env_prefix="PERDURE_", env_file=".env", extra="ignore", populate_by_name=True
    )

    task_queue: str = DEFAULT_TASK_QUEUE
    """Temporal task queue that workers poll and Runs are started on."""
    agents: Annotated[list[str], NoDecode] = Field(default_factory=lambda: [EXAMPLE_AGENTS])
    """Modules or files that declare agents, separated by commas."""
    model: str | None = None
    """Default model, for agents that name none."""
    openai_api_key: SecretStr | None = Field(None, alias="OPENAI_API_KEY")
    """Key of the model provider. Used by workers only, never written anywhere."""
    openai_base_url: str | None = Field(None, alias="OPENAI_BASE_URL")
    """Any endpoint of the same protocol: Ollama, vLLM, llama.cpp, a proxy."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Your own prices by model, in USD per million tokens, as JSON:
    `{"my-model": {"input": 1, "output": 4, "cached_input": 0.1}}`. Other models have those of
    `genai-prices`."""
    rate_limits: Annotated[dict[str, RateLimit] | None, NoDecode] = None
    """How much a worker sends to each model, as JSON: `{"gpt-5-mini": {"requests_per_minute": 500,
    "tokens_per_minute": 200000}}`; `*` names all other models."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict, alias="PERDURE_SECRET_<NAME>")
    """What tools may ask for by name: `context.secret("github")` is `PERDURE_SECRET_GITHUB`. Used
    by workers only, and masked in what tools return, raise or say."""
    grace_s: NonNegativeFloat = 10.0
    """Seconds that Steps get to end in when their worker is stopped."""
    heartbeat_s: float = Field(0.2, ge=0.05, le=3)
    """Seconds between two heartbeats of a Step at least: how long a cancel may be under way, and
    words without Redis. Each is a call, and on Temporal Cloud an action that is paid for."""
    give_up_s: PositiveFloat = 300.0
    """Seconds without Temporal after which a worker exits, so that something restarts it."""
    health_port: int | None = Field(None, ge=0, le=65535)
    """Where a worker serves `/healthz` and `/readyz`; nowhere when not set."""
    health_host: str = "127.0.0.1"
    """The address that this port is opened on; `0.0.0.0` lets other machines look."""
    worker_role: Role = "all"
    """What a worker does: `workflows` decides, `activities` calls models and tools; `all` does
    both, and serves the task queues that tools name."""
    tool_queue: str | None = None
    """Serve nothing but the tools that name this task queue."""
    max_steps: PositiveInt = 100
    """Steps that one worker executes at once."""
    tuner: Literal["fixed", "resources"] = "fixed"
    """How many Steps a worker takes: up to PERDURE_MAX_STEPS, or as many (within them) as memory
    and CPU of its machine allow."""
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Where a worker serves metrics for Prometheus, at `/metrics`; nowhere when not set."""
    http_metrics_port: int | None = Field(None, ge=0, le=65535)
    """Where the gateway does."""
    metrics_host: str = "127.0.0.1"
    """The address that these ports are opened on."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """How workers and the gateway log, on the standard error: `auto` is `text` on a terminal and
    `json` elsewhere."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that they log; docs/logs.md says what is logged at which."""
    http_host: str = "127.0.0.1"
    """The address that the gateway listens on (`perdure serve`)."""
    http_port: int = Field(8080, ge=0, le=65535)
    """Its port; 0 takes a free one."""
    deployment_name: str | None = None
    """Worker versioning: the deployment that a worker is part of. Needs a build id."""
    build_id: str | None = None
    """Worker versioning: the version of a worker; Runs stay on the one they started on."""
    ui_url: str | None = None
    """Where the Temporal UI is; known by itself for a local server and for Temporal Cloud."""
    trace_url: str | None = None
    """Where the Trace of a Run is shown, with `{trace_id}`, or `{run_id}`, where that belongs:
    `http://127.0.0.1:16686/trace/{trace_id}` for Jaeger. `perdure get` and the live page link to
    it; no link when not set."""
    data_dir: Path = Field(default_factory=lambda: platformdirs.user_data_path("perdure"))
    """Where `perdure dev` keeps Temporal's database."""
    storage_dir: Path | None = None
    """Where payloads that are too large for Temporal are kept, `storage` in PERDURE_DATA_DIR by
    default. Clients and workers on several machines must share it, or use S3."""
    storage_s3_bucket: str | None = None
    """Keep them in this S3 bucket instead; needs the extra `s3`."""
    redis_url: SecretStr | None = None
    """Where workers write what models say as they say it, and watchers read it, besides
    heartbeats: `redis://:password@host:6379/0`. Needs the extra `redis`."""

    api_keys: Path | None = None
    """The file of the gateway's API keys (`perdure keys create`). Without it, the gateway asks for
    no key, and listens on this machine only."""
    http_rate_per_minute: PositiveInt = 1200
    """Calls to one gateway with one API key; as many may come at once."""
    http_streams_per_key: PositiveInt = 250
    """Streams that one API key may hold open at one gateway."""
    http_max_body_bytes: PositiveInt = 48 * 1024 * 1024
    """One request to the gateway: as many files as a message may have, in base64."""
    cors_origins: Annotated[list[str], NoDecode] = Field(default_factory=list)
    """Whose pages may call the gateway besides its own, such as `https://app.example.com`,
    separated by commas; `*` for any, who then have to send a key of their own."""
    audit_log: Path | None = None
    """Where the gateway writes who changed what; when not set, the standard error, if it asks for
    API keys."""

    @property
    def storage_folder(self) -> Path:
        """The directory of large payloads."""
        return self.storage_dir or self.data_dir / "storage"

    @property
    def secret_values(self) -> dict[str, str]:
        """The secrets of tools, in the clear."""
        return {name: value.get_secret_value() for name, value in self.secrets.items()}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Add `perdure.toml` and the variables that begin with PERDURE_SECRET_, strongest first."""
        found = tool_secrets(dotenv_settings, env_settings)
        secrets = InitSettingsSource(settings_cls, {"secrets": found})
        return init_settings, env_settings, dotenv_settings, secrets, TomlSource(settings_cls)

    @field_validator("agents", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @classmethod
    def configured(cls) -> Self:
        """Return the settings of the environment and the files.

        Raises:
            ConfigurationError: When one is unusable; says which.
        """
        try:
            return cls()
        except ValidationError as exc:
            raise unusable(exc, cls) from None
        except SettingsError as exc:
            # Such as: error parsing value for field "prices" from source "EnvSettingsSource".
            name = str(exc).split('"')[1]
            raise ConfigurationError(
                f"PERDURE_{name.upper()}: it is not JSON.", hint=HINT
            ) from None

    @field_validator("rate_limits", mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError as exc:
            raise ValueError(f"it is not JSON: {exc}") from None

    @field_validator("trace_url")
    @classmethod
    def _names_a_run(cls, value: str | None) -> str | None:
        is_url = value is None or value.startswith(("http://", "https://"))
        if is_url and (value is None or "{trace_id}" in value or "{run_id}" in value):
            return value
        raise ValueError("it is no http or https URL with {trace_id} or {run_id} in it")

    @model_validator(mode="after")
    def _version_is_whole(self) -> Self:
        if (self.deployment_name is None) is not (self.build_id is None):
            raise ValueError(
                "PERDURE_DEPLOYMENT_NAME and PERDURE_BUILD_ID go together, and only one is set"
            )
        return self

    @field_validator(
        "openai_api_key",
        "openai_base_url",
        "model",
        "storage_dir",
        "storage_s3_bucket",
        "redis_url",
        "health_port",
        "metrics_port",
        "http_metrics_port",
        "tool_queue",
        "trace_url",
        "deployment_name",
        "build_id",
        "api_keys",
        "audit_log",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if value == "" else value
