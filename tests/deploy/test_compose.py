"""The compose file, and every file that it mounts, say what they should."""

import json
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perdure.engine.dev_server import DYNAMIC_CONFIG, binary
from perdure.engine.settings import Settings
from tests.deploy.composed import COMPOSE, DEPLOY, NAMES, ROOT, SERVICES, env_file, read

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
ENDING = {
    name
    for service in SERVICES.values()
    for name, depends in service.get("depends_on", {}).items()
    if depends["condition"] == "service_completed_successfully"
}
"""Services that do something once."""
NOT_LOOKED_AT = {"otel-collector"}
"""Its image has no program that could look."""
SECRET = re.compile(r"PASSWORD|PWD|SECRET|TOKEN|API_KEY$")


def mounts(service: dict[str, Any]) -> list[list[str]]:
    return [volume.split(":") for volume in service.get("volumes", [])]


def is_bind(source: str) -> bool:
    return source.startswith((".", "/"))


def test_the_file_is_what_the_specification_says() -> None:
    package = metadata.distribution("check-jsonschema")
    file = package.locate_file("check_jsonschema/builtin_schemas/vendor/compose-spec.json")
    schema = json.loads(Path(str(file)).read_text())
    jsonschema.validate(COMPOSE, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(COMPOSE | {"services": {"one": {"imag": "x"}}}, schema)


@pytest.mark.parametrize("name", NAMES)
def test_every_image_has_an_exact_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?", image), image
    if "build" in SERVICES[name]:
        assert image == f"perdure:{VERSION}"


def test_temporal_is_the_one_that_the_tests_run() -> None:
    said = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    server, ui = re.findall(r"(?:Server|UI) ([\d.]+)", said.stdout)
    images = [SERVICES[name]["image"] for name in NAMES if name.startswith("temporal")]
    assert sorted(set(images)) == [
        f"temporalio/admin-tools:{server}",
        f"temporalio/server:{server}",
        f"temporalio/ui:{ui}",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_there_may_be_many_workers() -> None:
    assert not any("container_name" in service for service in SERVICES.values())
    assert "ports" not in SERVICES["worker"]


@pytest.mark.parametrize("name", NAMES)
def test_what_stays_up_is_looked_at_and_started_again(name: str) -> None:
    service = SERVICES[name]
    stays = name not in ENDING
    assert (service.get("restart") == "unless-stopped") is stays
    assert ("healthcheck" in service) is (stays and name not in NOT_LOOKED_AT)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_starts_before_what_it_needs_is_well(name: str) -> None:
    for needed, depends in SERVICES[name].get("depends_on", {}).items():
        ends = depends["condition"] == "service_completed_successfully"
        assert ends or depends["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[needed] or ends


def test_volumes_are_named_and_what_is_mounted_is_there_and_stays_as_it_is() -> None:
    used = set()
    for service in SERVICES.values():
        for source, _, *mode in mounts(service):
            if is_bind(source):
                assert (ROOT / source).exists(), source
                assert mode == ["ro"]
            else:
                used.add(source)
    assert used == COMPOSE["volumes"].keys()
    # Payloads that are too large for Temporal are read by both.
    for name in ("worker", "gateway"):
        assert ["storage", "/var/lib/perdure/storage"] in mounts(SERVICES[name])


def test_secrets_are_in_env_files_which_git_does_not_take() -> None:
    files = {file for service in SERVICES.values() for file in service.get("env_file", [])}
    examples = {f"deploy/{path.stem}" for path in DEPLOY.glob("*.env.example")}
    assert files == examples
    ignored = subprocess.run(  # noqa: S603
        ["git", "check-ignore", *sorted(files)],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ignored.stdout.split() == sorted(files)
    for service in SERVICES.values():
        assert not [name for name in service.get("environment", {}) if SECRET.search(name)]
    for path in DEPLOY.glob("*.env.example"):
        values = {value for name, value in env_file(path).items() if SECRET.search(name)}
        assert values <= {"", "CHANGE-ME"}


def test_only_workers_get_what_providers_and_tools_ask_for() -> None:
    has = [name for name in NAMES if "deploy/worker.env" in SERVICES[name].get("env_file", [])]
    assert has == ["worker"]


def test_every_setting_of_ours_that_is_named_exists() -> None:
    texts = [(ROOT / "docker-compose.yml").read_text()]
    texts += [path.read_text() for path in sorted(DEPLOY.glob("*.env.example"))]
    named = set(re.findall(r"\bPERDURE_(\w+)", "\n".join(texts)))
    known = {name.upper() for name in Settings.model_fields} | {"SECRET_GITHUB"}
    assert named <= known


def test_dynamic_configuration_is_the_one_that_the_tests_run_with() -> None:
    found = read("deploy/temporal/dynamic-config.yaml")
    values = {key: only["value"] for key, (only,) in found.items()}
    assert DYNAMIC_CONFIG.items() <= values.items()


def test_prometheus_asks_every_part_where_it_answers() -> None:
    config = read("deploy/prometheus/prometheus.yml")
    for rules in config["rule_files"]:
        assert (DEPLOY / "prometheus" / rules).exists()
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    for name, variable in (("worker", "METRICS_PORT"), ("gateway", "HTTP_METRICS_PORT")):
        (found,) = jobs[f"perdure-{name}"]["dns_sd_configs"]
        own = SERVICES[name]["environment"]
        assert (found["names"], found["type"]) == ([name], "A")
        assert str(found["port"]) == own[f"PERDURE_{variable}"]
        assert own["PERDURE_METRICS_HOST"] == "0.0.0.0"  # noqa: S104 - in its container
    for job in config["scrape_configs"]:
        for static in job.get("static_configs", []):
            (target,) = static["targets"]
            assert target.split(":")[0] in {*NAMES, "127.0.0.1"}
    (temporal,) = jobs["temporal"]["static_configs"]
    listens = SERVICES["temporal"]["environment"]["PROMETHEUS_ENDPOINT"]
    assert temporal["targets"] == [f"temporal:{listens.split(':')[1]}"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus) is missing")
def test_prometheus_itself_takes_its_configuration() -> None:
    config = DEPLOY / "prometheus" / "prometheus.yml"
    done = subprocess.run(  # noqa: S603
        ["promtool", "check", "config", str(config)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["otel-collector.yaml", "jaeger.yaml"])
def test_pipelines_are_made_of_what_is_there(file: str) -> None:
    config = read(f"deploy/{file}")
    assert set(config["service"]["extensions"]) == config["extensions"].keys()
    (pipeline,) = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert set(pipeline[kind]) == config[kind].keys()


def test_spans_find_their_way_from_a_worker_to_the_trace_ui() -> None:
    collector, jaeger = read("deploy/otel-collector.yaml"), read("deploy/jaeger.yaml")
    grpc = collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    for name in ("worker", "gateway"):
        own = SERVICES[name]["environment"]
        assert own["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://otel-collector:{port(grpc)}"
        assert own["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc"
    (exporter,) = collector["exporters"].values()
    takes = jaeger["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    assert exporter["endpoint"] == f"jaeger:{port(takes)}"
    processors = collector["service"]["pipelines"]["traces"]["processors"]
    assert processors == ["memory_limiter", "batch"]


def port(address: str) -> str:
    return address.rsplit(":", 1)[1]


def test_grafana_finds_its_sources_and_dashboards() -> None:
    provisioned = "deploy/grafana/provisioning"
    for source in read(f"{provisioned}/datasources/perdure.yaml")["datasources"]:
        host, at = re.fullmatch(r"http://([a-z]+):(\d+)", source["url"]).groups()
        assert any(address.endswith(f":{at}") for address in SERVICES[host]["ports"])
    (provider,) = read(f"{provisioned}/dashboards/perdure.yaml")["providers"]
    targets = {target: Path(source) for source, target, *_ in mounts(SERVICES["grafana"])}
    assert targets[provider["options"]["path"]] == Path("deploy/grafana/dashboards")
