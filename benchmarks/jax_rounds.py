"""Rounds of FedJAX, and of a sketch in plain JAX, on the benchmarks' workloads; `peers.py` runs it where they are.

Not part of stayput and importing nothing of it. FedJAX is used as its own examples use it: a haiku model, its SGD,
`federated_averaging`, the clients one after another in its compiled loop (`for_each_client`). The sketch is what one
would write by hand: the clients of a round under `vmap`, their steps under `scan`, one compiled function a round, with
all images on the device. Both are given random images and as many threads as XLA takes. Prints the seconds of each
round but the first two, which compile, as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import haiku
import jax
import numpy as np
from jax import numpy as jnp

EXAMPLES, COHORT, STEPS, BATCH, RATE = 600, 10, 60, 10, 0.1


def network(workload: str) -> Callable[[jax.Array], jax.Array]:
    """The paper's MNIST models."""

    def two_layer_net(images: jax.Array) -> jax.Array:
        return haiku.nets.MLP([200, 200, 10])(images.reshape(len(images), -1))

    def cnn(images: jax.Array) -> jax.Array:
        hidden = images[..., None]
        for channels in (32, 64):
            hidden = jax.nn.relu(haiku.Conv2D(channels, 5)(hidden))
            hidden = haiku.max_pool(hidden, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return haiku.nets.MLP([512, 10])(hidden.reshape(len(images), -1))

    return two_layer_net if workload == "W2" else cnn


def losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross-entropy, one for each example."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]


def fedjax_rounds(workload: str, images: np.ndarray, labels: np.ndarray, rounds: int) -> list[float]:
    """FedJAX's own federated averaging."""
    import fedjax

    model = fedjax.create_model_from_haiku(
        haiku.transform(lambda batch: network(workload)(batch["x"])),
        {"x": images[:1], "y": labels[:1]},
        lambda batch, logits: losses(logits, batch["y"]),
    )
    data = fedjax.InMemoryFederatedData(
        {user: {"x": images[user * EXAMPLES :][:EXAMPLES], "y": labels[user * EXAMPLES :][:EXAMPLES]}
         for user in range(100)}
    )  # fmt: skip
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        fedjax.model_grad(model),
        fedjax.optimizers.sgd(RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, COHORT, seed=0)
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))
    times = []
    for number in range(rounds + 2):
        sampler.set_round_num(number)
        started = time.perf_counter()
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        times.append(time.perf_counter() - started)
    return times[2:]


def sketch_rounds(workload: str, images: np.ndarray, labels: np.ndarray, rounds: int) -> list[float]:
    """`vmap` over clients, `scan` over steps."""
    model = haiku.without_apply_rng(haiku.transform(network(workload)))
    weights = model.init(jax.random.PRNGKey(0), images[:1])
    x, y = jnp.asarray(images), jnp.asarray(labels)

    def step(weights, rows):  # noqa: ANN001, ANN202 - trees of arrays
        gradient = jax.grad(lambda w: losses(model.apply(w, x[rows]), y[rows]).mean())(weights)
        return jax.tree.map(lambda weight, part: weight - RATE * part, weights, gradient), None

    @jax.jit
    def one_round(weights, rows):  # noqa: ANN001, ANN202
        trained = jax.vmap(lambda of_client: jax.lax.scan(step, weights, of_client)[0])(rows)
        return jax.tree.map(lambda stacked: stacked.mean(axis=0), trained)

    draw = np.random.default_rng(0)
    times = []
    for _ in range(rounds + 2):
        started = time.perf_counter()
        cohort = draw.choice(100, COHORT, replace=False)
        rows = np.stack([draw.permutation(EXAMPLES) + client * EXAMPLES for client in cohort])
        weights = one_round(weights, rows.reshape(COHORT, STEPS, BATCH))
        jax.block_until_ready(weights)
        times.append(time.perf_counter() - started)
    return times[2:]


def main() -> None:
    """Train, and print the seconds of each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=("fedjax", "sketch"))
    parser.add_argument("workload", choices=("W1", "W2"))
    parser.add_argument("rounds", type=int)
    arguments = parser.parse_args()
    draw = np.random.default_rng(0)
    images, labels = draw.random((60_000, 28, 28), dtype=np.float32), draw.integers(10, size=60_000, dtype=np.int32)
    rounds = fedjax_rounds if arguments.who == "fedjax" else sketch_rounds
    print(json.dumps(rounds(arguments.workload, images, labels, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
