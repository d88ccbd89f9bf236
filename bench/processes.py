"""What the machine is, and what processes use of it. Where there is no /proc: unknown."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KIB = 1024


async def machine(client: Client) -> list[str]:
    """Return what a result is worthless without."""
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    load = os.getloadavg()[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / KIB**3
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load average {load:.1f} before our own load",
        f"{_cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
        f"Python {platform.python_version()}, temporalio {version('temporalio')}, "
        f"openai {version('openai')}, Temporal server {info.server_version} (dev, SQLite file)",
    ]


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far; NaN when unknown."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


def memory_mib(pid: int, what: str) -> float:
    """Return a process's memory; NaN when unknown.

    Args:
        pid: Which process.
        what: `VmRSS` for now, `VmHWM` for the peak since its start.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return float("nan")
    for line in status.splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / KIB
    return float("nan")
