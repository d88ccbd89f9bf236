"""The alert rules and the dashboard, by Prometheus' own tool.

That their metrics exist is tested in `tests/e2e/test_metrics.py`, on what real processes serve.
"""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from perdure.runs.metrics import METRICS
from tests.harness.alerting import ALERTS, DASHBOARD, expressions, panels, rules, used_names

UNIT_TESTS = Path(__file__).with_name("alerts_test.yml")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool, of the Debian package prometheus")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - promtool
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_rules(promtool: str) -> None:
    _run(promtool, "check", "rules", "--lint-fatal", str(ALERTS))


def test_each_alert_fires_where_it_is_to_and_nowhere_else(promtool: str) -> None:
    _run(promtool, "test", "rules", str(UNIT_TESTS))


def test_each_alert_is_tested_to_fire_and_to_be_silent() -> None:
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for case in yaml.safe_load(UNIT_TESTS.read_text())["tests"]:
        for each in case["alert_rule_test"]:
            outcomes[each["alertname"]].add(bool(each["exp_alerts"]))
    assert outcomes == {rule["alert"]: {True, False} for rule in rules()}


def test_each_alert_says_what_is_wrong_and_where_the_way_out_stands() -> None:
    runbook = Path("docs/operations.md").read_text().splitlines()
    for rule in rules():
        anchor = rule["alert"].lower()
        assert f"### {rule['alert']}" in runbook
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{anchor}"
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_every_expression_of_the_dashboard_can_be_read(promtool: str, tmp_path: Path) -> None:
    exprs = [each.replace("$__rate_interval", "1m") for each in expressions()]
    recording = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(exprs)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recording}]}))
    _run(promtool, "check", "rules", str(path))


def test_the_dashboard_shows_all_that_is_measured() -> None:
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used_names()}
    assert {each.exported for each in METRICS} <= shown
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["targets"] and panel["title"] for panel in panels())
