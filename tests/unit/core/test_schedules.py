from __future__ import annotations

import pytest

from stayput.core.schedules import at_round, parse_schedule, values_of
from stayput.errors import InvalidSetting


def test_a_plain_value_holds_for_ever():
    assert [at_round(5, t) for t in (1, 2, 1000)] == [5, 5, 5]
    assert at_round("all", 3) == "all"


def test_each_value_holds_from_its_round_on():
    schedule = {1: 20, 50: 5, 100: 1}
    assert [at_round(schedule, t) for t in (1, 49, 50, 99, 100, 5000)] == [20, 20, 5, 5, 1, 1]


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("20", 20),
        ("all", "all"),
        ("20,50:5,100:1", {1: 20, 50: 5, 100: 1}),
        ("1:20, 50:5", {1: 20, 50: 5}),
        ("50,10:all", {1: 50, 10: "all"}),
    ],
)
def test_the_command_lines_form(text, schedule):
    assert parse_schedule("local_epochs", text) == schedule


@pytest.mark.parametrize("text", ["", "a", "5,6", "5,x:6", "5,3:", "1.5"])
def test_an_unreadable_schedule_is_refused(text):
    with pytest.raises(InvalidSetting, match=r"local_epochs=.*20,50:5,100:1"):
        parse_schedule("local_epochs", text)


@pytest.mark.parametrize("schedule", [{}, {2: 5}, {0: 5, 1: 5}, {1: 2, "3": 4}])
def test_a_schedule_must_say_what_holds_from_round_1(schedule):
    with pytest.raises(InvalidSetting, match="begin with round 1"):
        values_of("local_epochs", schedule)
