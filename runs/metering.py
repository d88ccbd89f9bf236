"""What a metric is, and what records one: with the meters of Temporal's SDK, whoever has one.

The number of series is bounded here: a label whose values do not stand in our code has at most
`MOST_VALUES` of them in a process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Place = Literal["workflow", "activity", "gateway"]

MOST_VALUES = 100
"""Values of one label that a process tells apart; further ones are `other`. Callers may choose a
model, and servers name tools: neither is to fill anybody's Prometheus."""
OTHER = "other"
OPEN_LABELS = (
    *("agent", "model", "tool"),
    *("gen_ai_agent_name", "gen_ai_request_model", "gen_ai_response_model"),
)
"""Those whose values do not stand in our code."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: Without what its unit and kind append.
        kind: A gauge says how it is, a counter only grows, a histogram sorts what it is told.
        meaning: In one line; ends with a full stop.
        labels: In the order of the docs; one may be left out of a sample.
        unit: Appended to the name.
        buckets: Upper bounds, of a histogram.
        place: Which code measures it.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    place: Place = "workflow"

    @property
    def exported(self) -> str:
        """Its name in Prometheus; a histogram has `_bucket`, `_sum` and `_count` behind it."""
        name = f"{self.name}_{self.unit}" if self.unit else self.name
        return f"{name}_total" if self.kind == "counter" else name


@dataclass(frozen=True)
class Measurement:
    """One sample of a metric."""

    metric: Metric
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Meter(Protocol):
    """What makes instruments: a meter of Temporal's SDK, of a workflow, an activity, a process."""

    def create_counter(self, name: str, description: str, unit: str, /) -> Any:
        """Make a counter."""

    def create_histogram_float(self, name: str, description: str, unit: str, /) -> Any:
        """Make a histogram."""

    def create_gauge_float(self, name: str, description: str, unit: str, /) -> Any:
        """Make a gauge."""


class Instruments:
    """What records measurements; each instrument is made when it is first needed.

    Args:
        meter: Where they are recorded. A workflow's own keeps silent in a replay.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._made: dict[Metric, Any] = {}

    def record(self, metric: Metric, value: float, **labels: str) -> None:
        """Record one sample."""
        if metric not in self._made:
            self._made[metric] = self._create(metric)
        told = {name: _bounded(name, each) for name, each in labels.items()}
        if metric.kind == "counter":
            self._made[metric].add(int(value), told)
        elif metric.kind == "gauge":
            self._made[metric].set(value, told)
        else:
            self._made[metric].record(max(0.0, value), told)

    def _create(self, metric: Metric) -> Any:
        named = metric.name, metric.meaning, metric.unit
        if metric.kind == "counter":
            return self._meter.create_counter(*named)
        if metric.kind == "gauge":
            # The exporter appends units to all but gauges.
            return self._meter.create_gauge_float(metric.exported, metric.meaning, "")
        return self._meter.create_histogram_float(*named)


_told: dict[str, set[str]] = {name: set() for name in OPEN_LABELS}


def _bounded(label: str, value: str) -> str:
    known = _told.get(label)
    if known is None or value in known:
        return value
    if len(known) >= MOST_VALUES:
        return OTHER
    known.add(value)
    return value
