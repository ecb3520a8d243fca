"""ClientUpdate(k, w) of the paper's Algorithm 1: plain SGD on the client's own data.

    for each local epoch, for each batch b:   w <- w - η ∇ℓ(w; b)

The client returns how far it moved, w^k - w, rather than w^k: the weighted mean is the same, it is more exact in
floating point, and it is what can be clipped, compressed and summed in secret.
"""

from __future__ import annotations

from stayput.core.algorithm import ClientFacts, ClientProgram, GradientAt
from stayput.core.tensors import WEIGHTS, Groups, descend, difference


def start(sent: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - the signature every program shares
    """Begin at the server's model."""
    return dict(sent)


def step(local: Groups, gradient_at: GradientAt, facts: ClientFacts) -> Groups:
    """w <- w - η ∇ℓ(w; b)."""
    weights = local[WEIGHTS]
    return {**local, WEIGHTS: descend(weights, gradient_at(weights), facts.learning_rate)}


def finish(sent: Groups, local: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - shared signature
    """Return the way from the server's model to the client's."""
    return difference(local, sent)


LOCAL_SGD = ClientProgram(start, step, finish)
