"""Two engines side by side, for the contract tests."""

from __future__ import annotations

from stayput.core.round import begin_round, end_round


def trained(engine, clients, experiments, rounds=3):
    """Experiments, each an algorithm with a seed, trained together."""
    states = [algorithm.init(engine.initial_model(seed)) for algorithm, seed in experiments]
    for t in range(1, rounds + 1):
        works = [
            begin_round(state, t, algorithm=algorithm, num_clients=clients.num_clients, seed=seed)
            for state, (algorithm, seed) in zip(states, experiments, strict=True)
        ]
        results = engine.run(works)
        states = [
            end_round(state, work, result, algorithm=algorithm)[0]
            for state, work, result, (algorithm, _) in zip(states, works, results, experiments, strict=True)
        ]
    return states


def largest_difference(ours, theirs):
    """Of any weight, relative to the largest of its tensor; weights that should be 0 must be."""
    return max(
        float((ours["weights"][name].cpu() - expected.cpu()).abs().max() / expected.cpu().abs().max().clamp(min=1e-3))
        for name, expected in theirs["weights"].items()
    )
