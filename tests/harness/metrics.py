"""Reading metrics as Prometheus does."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families as parsed


class Scrape:
    """What an endpoint said at one moment.

    Args:
        text: In the text format of Prometheus.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [sample for family in parsed(text) for sample in family.samples]

    @property
    def names(self) -> set[str]:
        """Names of all samples."""
        return {sample.name for sample in self.samples}

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels; an empty one is to be absent."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name
            and all(sample.labels.get(label, "") == value for label, value in labels.items())
        )


async def scraped(port: int) -> Scrape:
    """Scrape a process of this machine."""
    async with httpx2.AsyncClient(timeout=30) as http:
        answer = await http.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    return Scrape(answer.text)
