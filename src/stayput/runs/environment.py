"""What a run is computed with: versions and the machine, for its folder and for every measured figure."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from stayput._version import __version__


def versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    found = {"stayput": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def machine(device: str) -> dict[str, Any]:
    """What computes: processor, cores, and the accelerator if the device is one."""
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    if device.startswith("cuda"):
        import torch

        facts["accelerator"] = torch.cuda.get_device_name(torch.device(device))
    return facts


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - a device file, not a path of ours
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: the general answer has to do
    return platform.processor() or "unknown"
