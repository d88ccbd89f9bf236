"""All settings, typed, from the environment (and a `.env` file).

How Temporal is reached is not among them: that is Temporal's own `TEMPORAL_*` variables and
profiles, read by `temporalio.envconfig`.
"""

from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from perdure.runs.contract import DEFAULT_TASK_QUEUE
from perdure.runs.usage import Price

EXAMPLE_AGENTS = "perdure.examples.assistant.agent"
"""What a worker serves when nothing is named: the agent of the README."""


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
    ui_url: str | None = None
    """Where the Temporal UI is; known by itself for a local server and for Temporal Cloud."""
    data_dir: Path = Field(default_factory=lambda: platformdirs.user_data_path("perdure"))
    """Where `perdure dev` keeps Temporal's database."""
    storage_dir: Path | None = None
    """Where payloads that are too large for Temporal are kept, `storage` in PERDURE_DATA_DIR by
    default. Clients and workers on several machines must share it, or use S3."""
    storage_s3_bucket: str | None = None
    """Keep them in this S3 bucket instead; needs the extra `s3`."""

    @property
    def storage_folder(self) -> Path:
        """The directory of large payloads."""
        return self.storage_dir or self.data_dir / "storage"

    @field_validator("agents", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator(
        "openai_api_key",
        "openai_base_url",
        "model",
        "storage_dir",
        "storage_s3_bucket",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if value == "" else value
