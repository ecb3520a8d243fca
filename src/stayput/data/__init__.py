"""Data: examples, who holds them, and where they come from.

    examples = from_arrays(x, y)                       your own arrays as examples
    clients = examples.partition(Shards(), seed=0)     spread over clients
    clients = from_clients({"a": (x, y), ...})         or clients with data of their own
    split = mnist.load()                               or a known data set, fetched when it is not here
    build_population("rows.parquet", "clients", ...)   or more clients than fit into memory, on the disk

Importing this imports neither pyarrow nor datasets nor pandas: `from_table` asks for them when it is called.
Must not import tasks, engines or runs.
"""

from __future__ import annotations

from stayput.data import cifar10, mnist, partitions, posts, shakespeare
from stayput.data.building import build_population
from stayput.data.columns import from_arrays, from_clients, from_datasets
from stayput.data.data_set import DataSet, Location, Split
from stayput.data.federated_data import Assignment, Examples, FederatedData, Partition
from stayput.data.populations import Population, open_population, save_population
from stayput.data.tables import from_table

DATA_SETS: dict[str, DataSet] = {
    data_set.name: data_set for data_set in (mnist.MNIST, shakespeare.SHAKESPEARE, cifar10.CIFAR10, posts.POSTS)
}
"""Every data set that stayput knows, by its name."""

__all__ = [
    "DATA_SETS",
    "Assignment",
    "DataSet",
    "Examples",
    "FederatedData",
    "Location",
    "Partition",
    "Population",
    "Split",
    "build_population",
    "cifar10",
    "from_arrays",
    "from_clients",
    "from_datasets",
    "from_table",
    "mnist",
    "open_population",
    "partitions",
    "posts",
    "save_population",
    "shakespeare",
]
