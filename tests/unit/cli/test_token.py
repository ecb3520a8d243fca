"""`stayput token` on the command line: what it refuses."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("hours", ["nan", "inf", "0", "-1", "1e9"])
def test_a_token_is_valid_for_some_hours(command, hours):
    ended = command("token", "new", "--name", "clinic-7", "--valid-for", hours)
    assert (ended.code, "valid_for=" in ended.err) == (2, True)
