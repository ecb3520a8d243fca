from __future__ import annotations

import pytest

import stayput as sp
from stayput.testing import toy_clients, toy_examples, toy_task


@pytest.fixture
def train(tmp_path):
    """Trains the toy task, into a folder if one is named."""

    def train(task=None, *, folder=None, **settings):
        test = settings.pop("test", toy_examples(60, seed=1))
        path = None if folder is None else tmp_path / folder
        settings = {"rounds": 3, **settings}
        algorithm = sp.FedAvg(client_fraction=0.5, learning_rate=0.2)
        return sp.train(task or toy_task(), toy_clients((7, 3, 12, 5)), algorithm, test=test, folder=path, **settings)

    return train
