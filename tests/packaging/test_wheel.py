"""What is installed is whole, and a user's own folders of the same names do not disturb it."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECOYS = ("runs", "workflows", "activities", "agents", "engine", "tools", "client", "worker")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, in an environment without this checkout."""
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"
    # What git has: nothing that lies about in the checkout may get into the wheel.
    run("git", "-C", str(ROOT), "checkout-index", "--all", f"--prefix={source}/")
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)
    )
    (wheel,) = folder.glob("perdure-*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True, system_site_packages=False)
    # Third-party packages are those of this environment; only ours is the wheel's.
    site = next(environment.glob("lib/python*/site-packages"))
    for path in sys.path:
        if path.endswith("site-packages"):
            for entry in Path(path).iterdir():
                if "perdure" not in entry.name and not (site / entry.name).exists():
                    (site / entry.name).symlink_to(entry)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(environment / "bin/python"),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    )
    return environment / "bin/python"


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_module_and_works_beside_folders_of_the_same_names(
    installed: Path, tmp_path: Path
) -> None:
    for name in DECOYS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    listed = run(
        str(installed),
        "-c",
        "import perdure, perdure.worker, perdure.client.cli.app, perdure.engine.stack;"
        "print(perdure.__file__, perdure.worker.__file__)",
        cwd=tmp_path,
    )
    assert "site-packages" in listed
    assert str(ROOT) not in listed
    assert "Durable agent Runs" in run(str(installed), "-m", "perdure", "--help", cwd=tmp_path)


def test_the_type_marker_is_shipped(installed: Path, tmp_path: Path) -> None:
    code = "import importlib.resources as r; print((r.files('perdure') / 'py.typed').is_file())"
    assert run(str(installed), "-c", code, cwd=tmp_path) == "True\n"


def test_a_checkout_works_without_being_installed() -> None:
    assert "Durable agent Runs" in run(sys.executable, "-m", "client", "--help", cwd=ROOT)
    assert "Serve agents" in run(sys.executable, "worker.py", "--help", cwd=ROOT)
