"""Whom a worker asks, in the words of the semantic conventions: known by the address alone."""

from dataclasses import dataclass

NAMES = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.cohere.com": "cohere",
}
"""By the end of the host's name."""
SPOKEN = "openai"
"""Of all others we know only whose protocol they speak."""


@dataclass(frozen=True)
class Server:
    """Where models are.

    Attributes:
        host: Its name or address.
        port: Its port.
    """

    host: str
    port: int | None

    @property
    def name(self) -> str:
        """As `gen_ai.provider.name` has it."""
        ends = (name for end, name in NAMES.items() if self.host.endswith(end))
        return next(ends, SPOKEN)
