"""`stayput run`: train, watch, and put the outcome beside the paper's."""

from __future__ import annotations

import time

from stayput.cli import flags
from stayput.cli.closing import tell
from stayput.cli.cluster import connect_if_asked
from stayput.cli.interruption import resumable
from stayput.cli.progress import watcher
from stayput.cli.run_names import folder_for
from stayput.cli.settings import Request, merged, request
from stayput.cli.settings_file import task_or_file


def run(
    task_or_toml: flags.Task,
    *,
    algorithm: flags.Algorithm = None,
    client_fraction: flags.ClientFraction = None,
    local_epochs: flags.LocalEpochs = None,
    batch_size: flags.BatchSize = None,
    learning_rate: flags.LearningRate = None,
    learning_rate_decay: flags.LearningRateDecay = None,
    updates_per_round: flags.UpdatesPerRound = None,
    server_learning_rate: flags.ServerLearningRate = None,
    momentum: flags.Momentum = None,
    beta1: flags.Beta1 = None,
    beta2: flags.Beta2 = None,
    tau: flags.Tau = None,
    mu: flags.Mu = None,
    partition: flags.Partition = None,
    num_clients: flags.NumClients = None,
    shards_per_client: flags.ShardsPerClient = None,
    alpha: flags.Alpha = None,
    key: flags.Key = None,
    unbalanced: flags.Unbalanced = None,
    spread: flags.Spread = None,
    partition_seed: flags.PartitionSeed = None,
    population: flags.Population = None,
    availability: flags.Availability = None,
    zone_correlation: flags.ZoneCorrelation = None,
    over_selection: flags.OverSelection = None,
    minimum_share: flags.MinimumShare = None,
    round_deadline: flags.RoundDeadline = None,
    dropout: flags.Dropout = None,
    seconds_per_step: flags.SecondsPerStep = None,
    speed_spread: flags.SpeedSpread = None,
    uplink: flags.Uplink = None,
    downlink: flags.Downlink = None,
    buffer_size: flags.BufferSize = None,
    rounds: flags.Rounds = None,
    target: flags.Target = None,
    stop_at_target: flags.StopAtTarget = None,
    seed: flags.Seed = None,
    evaluate_every: flags.EvaluateEvery = None,
    checkpoint_every: flags.CheckpointEvery = None,
    keep_checkpoints: flags.KeepCheckpoints = None,
    engine: flags.Engine = None,
    ray_address: flags.RayAddress = None,
    ray_workers: flags.RayWorkers = None,
    device: flags.Device = None,
    threads: flags.Threads = None,
    precision: flags.Precision = None,
    data_dir: flags.DataDir = None,
    folder: flags.Folder = None,
    track: flags.Track = None,
    report: flags.Report = None,
    require_target: flags.RequireTarget = None,
    json: flags.Json = None,
    quiet: flags.Quiet = None,
) -> None:
    """Train a model on clients' data, in simulation.

    TASK is a named task. FILE.toml holds settings instead, one key for each flag (client_fraction = 0.1), and
    task = "..."; flags win over the file. The run is written to its folder as it goes: end it with Ctrl-C and
    `stayput resume` goes on to the same model, bit for bit.

    Example: stayput run mnist-2nn --batch-size 10 --learning-rate 0.1 --rounds 200 --target 0.97
    """
    given = {name: value for name, value in locals().items() if name != "task_or_toml"}
    train_and_tell(request(merged(given, task_or_file(task_or_toml))))


def train_and_tell(asked: Request) -> None:
    """Train what was asked for and print the outcome."""
    from stayput.experiments.build import build
    from stayput.experiments.training import train_spec
    from stayput.virtual_fleet.training import train_under_clock

    started = time.monotonic()
    spec = asked.spec
    connect_if_asked(asked)
    with folder_for(spec.task, asked.folder) as folder, resumable(folder):
        with watcher(spec, folder, quiet=asked.quiet) as watching:
            parts = build(spec, data_dir=asked.data_dir, on_download=watching.on_download)
            if parts.algorithm.pools_clients and spec.partition["name"] != "iid":
                watching.on_note(f"{parts.algorithm.name} pools all clients' data: the partition has no effect")
            train = train_under_clock if spec.fleet else train_spec
            train(spec, parts, folder=folder, on_round=watching.on_round, on_note=watching.on_note)
        tell(folder, asked, started)
