import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.errors import InvalidSetting
from stayput.report.curves import LabelledCurve, Mark, curve_figure, draw_curves

RISING = Curve(np.array([0, 10, 20]), np.array([0.5, 0.9, 0.98]))
EMPTY = Curve(np.array([], dtype=np.int64), np.array([]))


def texts(path):
    # What the drawing library wrote a moment ago, not a stranger's file.
    root = ET.fromstring(path.read_text())  # noqa: S314
    return [element.text for element in root.iter() if element.text and element.text.strip()]


def ids(path):
    return {element.get("id") for element in ET.fromstring(path.read_text()).iter()}  # noqa: S314


def test_a_png_is_a_png(tmp_path):
    path = draw_curves([LabelledCurve("a", RISING)], str(tmp_path / "new" / "c.png"), metric="accuracy")
    assert path == tmp_path / "new" / "c.png"
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_legend_says_where_the_target_is_crossed_and_a_dot_marks_it(tmp_path):
    late = Curve(np.array([0, 10]), np.array([0.5, 0.6]))
    curves = [LabelledCurve("fast", RISING), LabelledCurve("slow", late)]
    path = draw_curves(curves, tmp_path / "c.svg", metric="accuracy", target=0.94)
    assert {"fast: 94% after 15", "slow: 94% not reached", "target 94%"} <= set(texts(path))
    assert "crossing-0" in ids(path)
    assert "crossing-1" not in ids(path)


def test_the_dot_stands_where_the_monotone_curve_crosses():
    figure = curve_figure([LabelledCurve("a", RISING)], metric="accuracy", target=0.94)
    dots = [line for line in figure.axes[0].lines if line.get_gid() == "crossing-0"]
    assert (dots[0].get_xdata()[0], dots[0].get_ydata()[0]) == (pytest.approx(15), 0.94)


def test_the_line_is_monotone_and_the_evaluations_lie_beneath_it():
    curve = Curve(np.array([0, 1, 2]), np.array([0.5, 0.9, 0.7]))
    lines = curve_figure([LabelledCurve("a", curve)], metric="accuracy").axes[0].lines
    drawn = [list(line.get_ydata()) for line in lines]
    assert [0.5, 0.9, 0.9] in drawn
    assert [0.5, 0.9, 0.7] in drawn


def test_a_loss_is_drawn_as_it_is():
    curve = Curve(np.array([0, 1, 2]), np.array([3.0, 1.0, 2.0]), higher_is_better=False)
    lines = curve_figure([LabelledCurve("a", curve)], metric="loss", monotone=False).axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[3.0, 1.0, 2.0]]


@pytest.mark.parametrize("curves", [[], [LabelledCurve("none", EMPTY)]])
def test_no_evaluations_are_a_note_in_the_picture(tmp_path, curves):
    path = draw_curves(curves, tmp_path / "c.svg", metric="accuracy", target=0.9)
    assert "no evaluations yet" in texts(path)


def test_an_empty_curve_is_named_among_others(tmp_path):
    curves = [LabelledCurve("a", RISING), LabelledCurve("b", EMPTY)]
    shown = texts(draw_curves(curves, tmp_path / "c.svg", metric="accuracy"))
    assert "b: no evaluations yet" in shown
    assert "no evaluations yet" not in shown


@pytest.mark.parametrize("values", [[np.nan, 0.5, np.nan], [np.nan] * 3, [np.inf, 0.9, -np.inf], [0.0, 0.0, 0.0]])
def test_values_that_are_not_finite_are_left_out(tmp_path, values):
    curve = Curve(np.arange(3), np.array(values))
    for suffix in ("png", "svg"):
        draw_curves([LabelledCurve("a", curve)], tmp_path / f"c.{suffix}", metric="accuracy", target=0.97)


def test_twenty_curves_are_told_apart():
    figure = curve_figure([LabelledCurve(f"run {n}", RISING) for n in range(20)], metric="accuracy", target=0.9)
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.9]
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == 20
    assert len(figure.legends[0].get_texts()) == 20


@pytest.mark.parametrize("label", ["$x", "$\\frac{$", "_hidden", "<b>&", "", "two\nlines\x00", "w" * 500, "模型 🙂"])
def test_any_name_can_be_drawn(tmp_path, label):
    for suffix in ("png", "svg"):
        path = tmp_path / f"c.{suffix}"
        draw_curves([LabelledCurve(label, RISING)] * 7, path, metric=label, target=0.9, title=label)
    assert texts(tmp_path / "c.svg")


def test_a_mark_far_out_does_not_squeeze_the_curve():
    def right_edge(rounds):
        marks = [Mark(rounds, 0.9, "paper")]
        return curve_figure([LabelledCurve("a", RISING)], metric="accuracy", marks=marks).axes[0].get_xlim()[1]

    assert right_edge(30) > 30
    assert right_edge(5000) < 30


@pytest.mark.parametrize("name", ["c.jpeg", "c", "c.html"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path, name):
    with pytest.raises(InvalidSetting, match=r"must end in \.png or \.svg"):
        draw_curves([], tmp_path / name, metric="accuracy")
    assert not list(tmp_path.iterdir())


def test_the_same_curves_give_the_same_bytes(tmp_path):
    paths = [draw_curves([LabelledCurve("a", RISING)], tmp_path / f"{n}.svg", metric="accuracy") for n in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_drawing_leaves_no_state_behind_and_importing_is_light(tmp_path):
    program = (
        "import sys, stayput.report.curves, stayput.report.html, stayput.report.partition_picture as p\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib\n"
        "settings = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = settings()\n"
        "p.draw_partition([[1, 2]], sys.argv[1])\n"
        "assert settings() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "p.svg")], check=True)
