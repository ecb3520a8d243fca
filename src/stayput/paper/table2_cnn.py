"""Table 2, first half: the MNIST CNN to 99% at C=0.1, by E and B."""

from __future__ import annotations

from stayput.paper.local_computation import mnist_table

TABLE = mnist_table(
    "table2-cnn",
    "Table 2, CNN: rounds to 99% at C=0.1",
    task="mnist-cnn",
    trained="mnist-cnn",
    target=0.99,
    most_rounds={"iid": 1500, "shards": 2000},
    centres={"all": -3, 50: -4, 10: -5},
)
