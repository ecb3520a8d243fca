from __future__ import annotations

import pytest

from stayput.deploy.app import SMALL_BODY, BodyBudget
from stayput.deploy.uploads import UploadsFull


def test_large_bodies_share_a_budget_and_give_it_back():
    budget = BodyBudget(3 << 20)
    with budget.place(1 << 20), budget.place(2 << 20):
        with pytest.raises(UploadsFull), budget.place(SMALL_BODY + 1):
            pass
        assert budget.taken == 3 << 20
    assert budget.taken == 0
    with pytest.raises(RuntimeError), budget.place(3 << 20):
        raise RuntimeError
    with budget.place(3 << 20):
        pass


def test_small_bodies_pass_however_full_it_is():
    budget = BodyBudget(1 << 20)
    with budget.place(1 << 20), budget.place(SMALL_BODY):
        assert budget.taken == (1 << 20) + SMALL_BODY
