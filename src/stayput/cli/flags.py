"""The flags of `stayput run` (and of commands that share one), each with its type and its help text.

Every flag defaults to None, "not given", so that a settings file can fill in what the command line leaves
out. The defaults that the help names are those of the settings classes; a test holds them to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ALGORITHM = "Algorithm"
CLIENTS = "Clients and their data"
TRAINING = "Rounds and evaluation"
COMPUTE = "What computes it"
OUTPUT = "Output"

Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK|FILE.toml",
        help="A task (see `stayput tasks`) or a file of settings.",
        show_default=False,
    ),
]

Algorithm = Annotated[
    str | None,
    typer.Option(
        help="How the model is trained, see `stayput algorithms` (default fed_avg).",
        rich_help_panel=ALGORITHM,
    ),
]
ClientFraction = Annotated[
    float | None,
    typer.Option(
        help="C, the share of clients in a round; 0 selects one client (default 0.1).",
        rich_help_panel=ALGORITHM,
    ),
]
LocalEpochs = Annotated[
    str | None,
    typer.Option(
        metavar="E",
        help="E, passes over a client's data in a round; 20,50:5 is 20 at first and 5 from round 50 on "
        "(default 1; one_shot: 20).",
        rich_help_panel=ALGORITHM,
    ),
]
BatchSize = Annotated[
    str | None,
    typer.Option(
        metavar="B",
        help='B, the local minibatch size, or "all", the paper\'s ∞; may change over rounds as E may '
        "(default 10; one_shot: 50, central_sgd: 100).",
        rich_help_panel=ALGORITHM,
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(help="η, of the clients' SGD in round 1 (default 0.1).", rich_help_panel=ALGORITHM),
]
LearningRateDecay = Annotated[
    float | None,
    typer.Option(help="η is multiplied with this after every round (default 1.0).", rich_help_panel=ALGORITHM),
]
UpdatesPerRound = Annotated[
    int | None,
    typer.Option(help="central_sgd only: minibatch updates in a round (default 1).", rich_help_panel=ALGORITHM),
]
ServerLearningRate = Annotated[
    float | None,
    typer.Option(
        help="η of the server's step: fed_avg_m, scaffold, and the adaptive fed_adagrad, fed_adam, fed_yogi "
        "(default 1.0; fed_adagrad: 0.01, fed_adam: 0.01, fed_yogi: 0.01).",
        rich_help_panel=ALGORITHM,
    ),
]
Momentum = Annotated[
    float | None,
    typer.Option(
        help="β: the server's in fed_avg_m, the one every client steps with in mime_lite (default 0.9).",
        rich_help_panel=ALGORITHM,
    ),
]
Beta1 = Annotated[
    float | None,
    typer.Option(
        help="β1 of the adaptive algorithms, the share of the mean direction that is kept "
        "(default 0.9; fed_adagrad: 0.0).",
        rich_help_panel=ALGORITHM,
    ),
]
Beta2 = Annotated[
    float | None,
    typer.Option(
        help="β2 of fed_adam and fed_yogi, the share of the squared moves that is kept (default 0.99).",
        rich_help_panel=ALGORITHM,
    ),
]
Tau = Annotated[
    float | None,
    typer.Option(
        help="τ of the adaptive algorithms: the smaller, the more adaptive (default 0.001).", rich_help_panel=ALGORITHM
    ),
]
Mu = Annotated[
    float | None,
    typer.Option(
        help="fed_prox only: μ, the pull towards the server's model (default 0.01).", rich_help_panel=ALGORITHM
    ),
]

Partition = Annotated[
    str | None,
    typer.Option(
        help="How examples are spread over clients, see `stayput partitions` (default iid).",
        rich_help_panel=CLIENTS,
    ),
]
NumClients = Annotated[
    int | None,
    typer.Option(help="K, the clients that hold data (default 100).", rich_help_panel=CLIENTS),
]
ShardsPerClient = Annotated[
    int | None,
    typer.Option(help="shards: how many each client gets; the paper's is 2 (default 2).", rich_help_panel=CLIENTS),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="dirichlet: 100 is nearly IID, 0.1 leaves most clients with one or two labels (default 0.5).",
        rich_help_panel=CLIENTS,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="by_key: what tells clients apart, such as the writer of a digit (default writer).",
        rich_help_panel=CLIENTS,
    ),
]
Unbalanced = Annotated[
    str | None,
    typer.Option(
        metavar="log_normal|power_law",
        help="Cut the partition anew, into clients whose sizes follow this distribution.",
        rich_help_panel=CLIENTS,
    ),
]
Spread = Annotated[
    float | None,
    typer.Option(
        help="With --unbalanced: standard deviation of the logarithm of sizes (default 1.0).",
        rich_help_panel=CLIENTS,
    ),
]
PartitionSeed = Annotated[
    int | None,
    typer.Option(
        help="The partition's own seed: runs that differ in --seed share their clients (default 0).",
        rich_help_panel=CLIENTS,
    ),
]
Population = Annotated[
    Path | None,
    typer.Option(
        help="A folder of clients with data of their own, see `stayput data build`; instead of a partition.",
        rich_help_panel=CLIENTS,
    ),
]

FLEET = "A virtual clock, if any of these is given"
Availability = Annotated[
    str | None,
    typer.Option(
        metavar="always|diurnal|TRACE.csv",
        help="When clients are there: at night where they are, or as a file of client,begin,end says (default always).",
        rich_help_panel=FLEET,
    ),
]
ZoneCorrelation = Annotated[
    float | None,
    typer.Option(
        help="diurnal: the share of clients whose time zone follows from their data (default 1.0).",
        rich_help_panel=FLEET,
    ),
]
OverSelection = Annotated[
    float | None,
    typer.Option(
        help="Clients that are asked, as a multiple of the reports a round is after (default 1.0).",
        rich_help_panel=FLEET,
    ),
]
MinimumShare = Annotated[
    float | None,
    typer.Option(
        help="Of these reports, the share a round needs at its deadline (default 0.5).", rich_help_panel=FLEET
    ),
]
RoundDeadline = Annotated[
    float | None,
    typer.Option(help="Simulated seconds after which a round ends (default 3600.0).", rich_help_panel=FLEET),
]
Dropout = Annotated[
    float | None,
    typer.Option(
        help="The chance that a device vanishes in the middle of a task (default 0.0).", rich_help_panel=FLEET
    ),
]
SecondsPerStep = Annotated[
    float | None,
    typer.Option(help="Of a device of middling speed, for a local step (default 0.1).", rich_help_panel=FLEET),
]
SpeedSpread = Annotated[
    float | None,
    typer.Option(help="Standard deviation of the logarithm of devices' speeds (default 0.0).", rich_help_panel=FLEET),
]
Uplink = Annotated[
    float | None, typer.Option(help="MB/s from a device; the paper's is 1 (default 1.0).", rich_help_panel=FLEET)
]
Downlink = Annotated[float | None, typer.Option(help="MB/s to a device (default 10.0).", rich_help_panel=FLEET)]
BufferSize = Annotated[
    int | None,
    typer.Option(
        help="FedBuff: no rounds that wait, the server steps with every so many updates (default none).",
        rich_help_panel=FLEET,
    ),
]

Rounds = Annotated[
    int | None,
    typer.Option(help="The last round (default 100; one_shot: 1).", rich_help_panel=TRAINING),
]
Target = Annotated[
    float | None,
    typer.Option(help="The accuracy to reach on the test examples, such as 0.97.", rich_help_panel=TRAINING),
]
StopAtTarget = Annotated[
    bool | None,
    typer.Option(
        "--stop-at-target/--keep-going",
        help="What to do once the target is reached (default stop).",
        rich_help_panel=TRAINING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Cohorts, shuffles and initial weights follow from it (default 0).",
        rich_help_panel=TRAINING,
    ),
]
EvaluateEvery = Annotated[
    int | None,
    typer.Option(help="Rounds between two evaluations (default 1).", rich_help_panel=TRAINING),
]
CheckpointEvery = Annotated[
    int | None,
    typer.Option(help="Rounds between two checkpoints (default 10).", rich_help_panel=TRAINING),
]
KeepCheckpoints = Annotated[
    int | None,
    typer.Option(help="How many of the latest stay, beside the best (default 2).", rich_help_panel=TRAINING),
]

Engine = Annotated[str | None, typer.Option(help="Who computes a round (default sequential).", rich_help_panel=COMPUTE)]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: the cluster's address (default $RAY_ADDRESS, then this machine alone).",
        rich_help_panel=COMPUTE,
    ),
]
RayWorkers = Annotated[
    int | None,
    typer.Option(
        help="With --engine ray: how many workers (default one for each core or GPU of the cluster).",
        rich_help_panel=COMPUTE,
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda (default cpu).", rich_help_panel=COMPUTE)]
Threads = Annotated[
    int | None,
    typer.Option(
        help="CPU threads of torch; the last bits of a model depend on them (default torch's choice).",
        rich_help_panel=COMPUTE,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="float32, or tf32 for faster and coarser products on a GPU (default float32).", rich_help_panel=COMPUTE
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="A folder with your own copies of data sets (default $STAYPUT_DATA, then the cache).",
        rich_help_panel=COMPUTE,
    ),
]

Folder = Annotated[
    Path | None,
    typer.Option(
        help="The run's folder, which must not hold a run yet (default runs/<task>-<number>).",
        rich_help_panel=OUTPUT,
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER",
        help="Tell a tracker of the run: tensorboard, mlflow or wandb; may be repeated, or a list with commas.",
        rich_help_panel=OUTPUT,
    ),
]
Report = Annotated[
    bool | None,
    typer.Option(
        "--report/--no-report",
        help="Write curve.png, curve.svg and report.html into the run's folder (default report).",
        rich_help_panel=OUTPUT,
    ),
]
RequireTarget = Annotated[
    bool | None,
    typer.Option("--require-target", help="End with exit code 6 if the target is missed.", rich_help_panel=OUTPUT),
]
Json = Annotated[
    bool | None,
    typer.Option("--json", help="Print one line of JSON on stdout, and nothing else there.", rich_help_panel=OUTPUT),
]
Quiet = Annotated[bool | None, typer.Option("--quiet", "-q", help="No progress on stderr.", rich_help_panel=OUTPUT)]

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or its name in runs/.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON instead.")]
Metric = Annotated[str | None, typer.Option(help="What the curve shows (default the task's first metric).")]
