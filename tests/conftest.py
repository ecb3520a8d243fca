"""What every test may use: the toy task, and the real data where it is at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# One thread for each process: two tests run at a time, and threads that wait for each other's cores are many times
# slower than one. Before torch, which reads it once; the processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
import torch

from stayput.engines.precision import use_precision

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

for _shared in ("contracts", "integration"):  # the second engine of the contract tests; readers of others' files
    sys.path.insert(0, str(Path(__file__).parent / _shared))


def _on_engine(item, *names):
    """Whether a test is one of an engine's promises, for an engine of one of these names."""
    params = getattr(getattr(item, "callspec", None), "params", {}).values()
    return any(
        (isinstance(value, str) and value in names)
        or (isinstance(value, tuple) and isinstance(first := next(iter(value), None), str) and first in names)
        for value in params
    )


def pytest_collection_modifyitems(items):
    """Engines that start processes take seconds to do it."""
    for item in items:
        if _on_engine(item, "ray", "workers", "lane_workers"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _functions_of_tests_reach_workers(request):
    """Ray's workers cannot import test modules, so what is defined there is sent to them as it is."""
    if _on_engine(request.node, "ray"):
        from ray import cloudpickle

        for name in {request.module.__name__, "side_by_side", "stacked_engine"} & set(sys.modules):
            cloudpickle.register_pickle_by_value(sys.modules[name])


@pytest.fixture
def device():
    """Where engines compute: the CPU, or what STAYPUT_TEST_DEVICE names (`make test-gpu`)."""
    use_precision("float32")
    return torch.device(os.environ.get("STAYPUT_TEST_DEVICE", "cpu"))
