"""Table 4: the MNIST 2NN to 97% at C=0.1, by E and B."""

from __future__ import annotations

from stayput.paper.local_computation import mnist_table

TABLE = mnist_table(
    "table4",
    "Table 4, 2NN: rounds to 97% at C=0.1",
    task="mnist-2nn",
    trained="mnist-2nn-paper",
    target=0.97,
    most_rounds={"iid": 3000, "shards": 4000},
    centres={"all": -3, 50: -4, 10: -5},
)
