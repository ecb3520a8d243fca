"""To a Ray cluster, or to one of this machine alone, which is started where none is named.

    connect("10.0.0.1:6379", num_workers=16)     once in a process, before engines are made
    disconnect()

Without a call of `connect`, the first engine connects to the address in RAY_ADDRESS, or starts Ray on this machine.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from stayput.core.rules import require_count
from stayput.engines.workers import usable_cores
from stayput.errors import InvalidSetting

ADDRESS_VARIABLE = "RAY_ADDRESS"
HERE = "local"
"""Ray's own name for a cluster that is started on this machine."""

_asked_workers: int | None = None


def imported_ray() -> Any:  # noqa: ANN401 - a module, which is not needed before it is asked for
    """Ray, or the sentence that says how to have it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library does not decide that its users report home
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray has its workers give way to everything else (nice 15); here they are what the machine is for.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError as error:
        raise InvalidSetting("engine='ray': needs Ray, which is not installed (pip install 'stayput[ray]')") from error
    return ray


def connect(address: str | None = None, *, num_workers: int | None = None) -> None:
    """Connect this process; a connection that is there already is used."""
    global _asked_workers  # noqa: PLW0603 - Ray's connection is the process's, and so is what is asked of it
    if num_workers is not None:
        require_count("ray_workers", num_workers, "or none, for one per GPU or core of the cluster")
    _asked_workers = num_workers
    ray = imported_ray()
    if ray.is_initialized():
        if address is not None and address not in (HERE, ray.get_runtime_context().gcs_address):
            raise InvalidSetting(
                f"ray_address={address!r}: this process is connected to {ray.get_runtime_context().gcs_address} "
                f"already (disconnect first, with stayput.engines.cluster.connection.disconnect())"
            )
        return
    address = address or os.environ.get(ADDRESS_VARIABLE) or HERE
    settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    if address == HERE:
        settings |= {"include_dashboard": False, "num_cpus": max(usable_cores(), num_workers or 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, about versions to come
        try:
            ray.init(address=address, **settings)
        except (ConnectionError, ValueError) as error:
            raise InvalidSetting(
                f"ray_address={address!r}: no Ray cluster answers there (start one with `ray start --head`, which "
                f"prints its address): {_first_line(error)}"
            ) from error
        except RuntimeError as error:
            if "ersion mismatch" not in str(error):
                raise
            raise InvalidSetting(
                f"ray_address={address!r}: must run the same versions of Ray and Python as this machine, Ray "
                f"{ray.__version__}: {' '.join(str(error).split())}"
            ) from error


def disconnect() -> None:
    """Let go of the cluster; one that was started here ends."""
    from stayput.engines.cluster.pool import forget_pools

    forget_pools()
    imported_ray().shutdown()


def workers_for(device_type: str) -> int:
    """How many workers there should be: as many as were asked for, else one for each GPU or core of the cluster."""
    kind, name = ("GPU", "GPUs") if device_type == "cuda" else ("CPU", "cores")
    there = int(imported_ray().cluster_resources().get(kind, 0))
    wanted = there if _asked_workers is None else _asked_workers
    if wanted > there or not there:
        raise InvalidSetting(
            f"ray_workers={wanted}: the cluster has {there} {name}: must be at most as many, one for each worker (ask "
            f"for fewer, or add machines with `ray start --address=...`)"
        )
    return wanted


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
