"""What stayput calls itself: the public names are pinned, and importing it is light."""

from __future__ import annotations

import subprocess
import sys

import stayput


def test_the_public_names():
    assert sorted(stayput.__all__) == [
        "CentralSgd",
        "Client",
        "FedAdagrad",
        "FedAdam",
        "FedAvg",
        "FedAvgM",
        "FedNova",
        "FedProx",
        "FedSgd",
        "FedYogi",
        "Metric",
        "MimeLite",
        "OneShotAveraging",
        "Run",
        "Scaffold",
        "Sweep",
        "Task",
        "__version__",
        "data",
        "errors",
        "load_model",
        "losses",
        "metrics",
        "partitions",
        "sweep",
        "train",
    ]
    assert all(getattr(stayput, name) is not None for name in stayput.__all__)
    assert set(stayput.__all__) <= set(dir(stayput))


def test_importing_stayput_imports_nothing_heavy():
    heavy = "torch numpy matplotlib pyarrow datasets pandas tensorboard mlflow wandb"
    script = f"import sys, stayput; sys.exit(sum(name in sys.modules for name in '{heavy}'.split()))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(stayput, "FedAverage")
