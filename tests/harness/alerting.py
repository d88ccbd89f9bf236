"""The alert rules and the dashboard, as files: what they use."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "perdure.json"
NAMED = re.compile(r"\b(?:perdure|temporal|gen_ai_client|http_server)_\w+")


def rules() -> list[dict[str, Any]]:
    """Return every alert rule."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return every panel of the dashboard that shows something."""
    found = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> list[str]:
    """Return every expression of both."""
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + shown


def used_names() -> set[str]:
    """Return the names of all metrics that they use."""
    return {name for each in expressions() for name in NAMED.findall(each)}
