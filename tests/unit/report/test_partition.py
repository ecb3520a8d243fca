import xml.etree.ElementTree as ET

import numpy as np
import pytest

from stayput.errors import InvalidSetting
from stayput.report.partition_picture import draw_partition, label_shares, partition_figure, sorted_clients
from stayput.report.partition_text import partition_in_terminal

TWO_LABELS = np.array([[0, 3, 3], [3, 3, 0], [6, 0, 0], [0, 0, 6]])


@pytest.mark.parametrize("shape", [(1, 1), (1, 10), (100, 10), (539, 80), (5000, 10), (3, 2000)])
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_any_number_of_clients_and_labels_is_drawn(tmp_path, shape, suffix):
    counts = np.random.default_rng(0).integers(0, 9, shape)
    path = draw_partition(counts, tmp_path / f"p.{suffix}", title="$a")
    if suffix == "png":
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    else:
        assert ET.fromstring(path.read_text()).tag.endswith("svg")  # noqa: S314 - written just now
    assert path.stat().st_size < 600_000


def test_the_heat_map_shows_each_clients_shares():
    image = partition_figure([[3, 1], [0, 4]]).axes[1].images[0].get_array()
    # Rows are labels and columns clients, each many pixels wide; the root of a share is how opaque it is.
    opaque = image[:: image.shape[0] // 2, :: image.shape[1] // 2, 3]
    np.testing.assert_allclose(opaque, np.sqrt([[0.75, 0.0], [0.25, 1.0]]))


def test_clients_are_sorted_by_label_where_they_differ():
    order, by = sorted_clients(TWO_LABELS)
    assert (order.tolist(), by) == ([2, 1, 0, 3], "label")


def test_clients_alike_are_sorted_by_size():
    order, by = sorted_clients(np.array([[10, 10], [30, 30], [20, 20]]))
    assert (order.tolist(), by) == ([1, 2, 0], "size")


def test_a_client_without_examples_has_no_shares(tmp_path):
    assert label_shares(np.array([[0, 0], [1, 3]])).tolist() == [[0, 0], [0.25, 0.75]]
    draw_partition([[0, 0], [0, 0]], tmp_path / "p.png")


@pytest.mark.parametrize("counts", [[], [[]], [[1, 2], [3]], [[1, -2]], [["a"]], [1, 2], [[10**30]]])
def test_what_is_not_a_table_of_counts_is_refused(tmp_path, counts):
    with pytest.raises(InvalidSetting, match="label_counts"):
        draw_partition(counts, tmp_path / "p.png")
    with pytest.raises(InvalidSetting, match="label_counts"):
        partition_in_terminal(counts)


def test_the_terminal_says_the_numbers_and_shows_every_client_of_a_few():
    assert partition_in_terminal(TWO_LABELS, 60).splitlines() == [
        "4 clients, 24 examples, 3 labels",
        "examples per client: 6 each",
        "labels per client:   least 1, median 1.5, most 2",
        "",
        "client  examples  0   1   2",
        "     2         6  ███ ··· ···",
        "     1         6  ▆▆▆ ▆▆▆ ···",
        "     0         6  ··· ▆▆▆ ▆▆▆",
        "     3         6  ··· ··· ███",
        "",
        "every client, sorted by label",
        "· none of a label, ▁ little, █ all of the client's examples",
    ]


@pytest.mark.parametrize("shape", [(1, 1), (100, 10), (5000, 10), (539, 80), (2, 3000)])
@pytest.mark.parametrize("width", [70, 120])
def test_the_terminals_lines_fit(shape, width):
    text = partition_in_terminal(np.random.default_rng(0).integers(0, 9, shape), width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 20
