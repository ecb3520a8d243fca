"""Who computes a round. `sequential` is the oracle that every other engine must agree with."""

from __future__ import annotations

from stayput.engines.cluster.engine import RayEngine
from stayput.engines.lane_workers import LaneWorkersEngine
from stayput.engines.lanes.engine import LanesEngine
from stayput.engines.sequential import SequentialEngine
from stayput.engines.training_engine import EngineFactory, TrainingEngine
from stayput.engines.workers import WorkersEngine

ENGINES: dict[str, EngineFactory] = {
    "sequential": SequentialEngine,
    "workers": WorkersEngine,
    "lanes": LanesEngine,
    "lane_workers": LaneWorkersEngine,
    "ray": RayEngine,
}
"""Engines by the name that the command line and specs use."""

__all__ = [
    "ENGINES",
    "EngineFactory",
    "LaneWorkersEngine",
    "LanesEngine",
    "RayEngine",
    "SequentialEngine",
    "TrainingEngine",
    "WorkersEngine",
]
