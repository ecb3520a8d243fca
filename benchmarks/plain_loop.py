"""FedAvg as one would write it by hand in PyTorch, without stayput: the loop that engines are measured against.

Written to be fast the plain way: the data is one float tensor, no DataLoader, one module whose weights are loaded
for each client, SGD from torch.optim.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class PlainFedAvg:
    """The loop, with its data at hand."""

    def __init__(self, model: nn.Module, images: Tensor, labels: Tensor, clients: list[Tensor]) -> None:
        self.model, self.images, self.labels, self.clients = model, images, labels, clients

    def round(self, cohort: list[int], *, local_epochs: int, batch_size: int, learning_rate: float) -> None:
        """One round over a cohort, in place."""
        start = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        total = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        num_examples = sum(len(self.clients[client]) for client in cohort)
        for client in cohort:
            self.model.load_state_dict(start)
            sgd = torch.optim.SGD(self.model.parameters(), lr=learning_rate)
            rows = self.clients[client]
            for _ in range(local_epochs):
                order = rows[torch.randperm(len(rows))]
                for first in range(0, len(order), batch_size):
                    batch = order[first : first + batch_size]
                    sgd.zero_grad()
                    cross_entropy(self.model(self.images[batch]), self.labels[batch]).backward()
                    sgd.step()
            for name, tensor in self.model.state_dict().items():
                total[name] += tensor * (len(rows) / num_examples)
        self.model.load_state_dict(total)
