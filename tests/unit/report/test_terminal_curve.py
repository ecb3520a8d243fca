import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.report.terminal_curve import crossing_text, curve_in_terminal, sparklines

LINE = Curve(np.array([0, 100]), np.array([0.0, 1.0]))
EMPTY = Curve(np.array([], dtype=np.int64), np.array([]))


def test_the_target_is_marked_where_the_curve_crosses_it():
    text = curve_in_terminal(LINE, metric="accuracy", target=0.5, width=60, height=9)
    rows = text.splitlines()
    (row,) = [row for row in rows if "●" in row]
    assert row.startswith("target 50%")
    plot = row.split("┤")[1]
    assert plot.index("●") == pytest.approx((60 - len("target 50%") - 2) / 2, abs=1)
    assert "╌" in plot
    assert len(rows) == 11
    assert max(map(len, rows)) <= 60
    assert rows[-1].endswith("round 100")


def test_a_target_out_of_reach_is_a_line_without_a_dot():
    text = curve_in_terminal(Curve(np.arange(3), np.array([0.1, 0.2, 0.3])), metric="accuracy", target=0.9)
    assert "target 90%" in text
    assert "●" not in text


def test_the_curve_goes_from_the_lower_left_to_the_upper_right():
    rows = [row.split("┤")[1] for row in curve_in_terminal(LINE, metric="f1", width=40, height=6).splitlines()[:6]]
    left = [len(row) - len(row.lstrip()) for row in rows]
    assert left == sorted(left, reverse=True)
    assert left[0] > left[-1]


@pytest.mark.parametrize(
    ("values", "text"), [([], "no evaluations yet"), ([np.nan, np.inf], "no evaluation had a finite value")]
)
def test_a_curve_of_nothing_says_so(values, text):
    curve = Curve(np.arange(len(values)), np.array(values, dtype=np.float64))
    assert curve_in_terminal(curve, metric="accuracy", target=0.9) == text


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5], [np.nan, 0.5, np.nan], [1.0, 1.0], [0.0], [-5.0, 1e9]])
@pytest.mark.parametrize("target", [None, 0.97])
def test_any_curve_has_something_to_see(values, target):
    curve = Curve(np.arange(len(values)), np.array(values))
    text = curve_in_terminal(curve, metric="accuracy", target=target, width=10, height=1)
    assert any(0x2800 < ord(character) < 0x2900 for character in text)


def test_a_falling_loss_reaches_its_target():
    curve = Curve(np.array([0, 10]), np.array([2.0, 1.0]), higher_is_better=False)
    assert "●" in curve_in_terminal(curve, metric="loss", target=1.5)
    assert crossing_text(curve, metric="loss", target=1.5) == "● reaches 1.5 after 5 rounds"


def test_the_line_under_a_curve_says_how_near_it_came():
    assert crossing_text(LINE, metric="accuracy", target=0.25) == "● reaches 25% after 25 rounds"
    short = Curve(np.array([0, 1]), np.array([0.1, 0.3]))
    assert crossing_text(short, metric="accuracy", target=0.9) == "has not reached 90%; best so far 30%"
    assert crossing_text(EMPTY, metric="accuracy", target=0.9) == "has not reached 90%"


def test_sparklines_share_their_scale():
    half = Curve(np.array([0, 50]), np.array([0.0, 0.5]))
    first, second, third = sparklines([LINE, half, EMPTY], width=21)
    assert (first[0], first[-1], len(first)) == ("▁", "█", 21)
    assert second == first[:11] + " " * 10  # the same slope, to half the rounds
    assert third == " " * 21
    assert sparklines([]) == []
