"""What importing brings along, and what the package offers by name."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import perdure

ROOT = Path(perdure.__file__).parent.parent


def imported_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has after one statement."""
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own words
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    return set(done.stdout.split())


def test_the_pure_core_brings_neither_temporal_nor_a_model_client_along() -> None:
    found = imported_by("import perdure.runs.run, perdure.runs.pages, perdure.runs.record")
    assert "perdure.runs.run" in found
    unwanted = {"temporalio", "openai", "httpx2", "perdure.client", "perdure.agents"}
    assert not unwanted & found


def test_importing_the_package_alone_loads_nothing_of_it() -> None:
    found = {name for name in imported_by("import perdure") if name.startswith("perdure")}
    assert found == {"perdure"}


def test_names_offered_by_a_client_need_no_model_client() -> None:
    assert "openai" not in imported_by("from perdure import RunManager")


def test_public_names_are_sorted_and_complete() -> None:
    assert list(perdure.__all__) == sorted(perdure.__all__)
    assert set(perdure.__all__) == set(perdure._HOMES)


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_can_be_imported_and_is_the_one_of_its_home(name: str) -> None:
    home = importlib.import_module(perdure._HOMES[name])
    assert getattr(perdure, name) is getattr(home, name)


def test_a_name_that_is_not_offered_is_missed_by_name() -> None:
    with pytest.raises(AttributeError, match="'perdure' has no attribute 'Runner'"):
        getattr(perdure, "Runner")  # noqa: B009 - a type checker would refuse it, as it should
