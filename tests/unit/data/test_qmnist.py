import numpy as np
import pytest

from stayput.data import qmnist
from stayput.errors import CorruptData


def test_writers_are_those_of_the_first_rows(digits, put_writers, tmp_path):
    writers = qmnist.writers(put_writers(tmp_path), digits["train_labels"])
    assert writers.tolist() == [7, 8] * 6
    assert writers.dtype == np.int32


def test_a_file_about_other_digits_is_refused(digits, put_writers, tmp_path):
    other = digits["train_labels"].copy()
    other[4] = (other[4] + 1) % 10
    message = rf"says {other[4]} of digit number 4, which is {digits['train_labels'][4]} \(1 such rows\): must be in"
    with pytest.raises(CorruptData, match=message):
        qmnist.writers(put_writers(tmp_path, digits_say=other), digits["train_labels"])


@pytest.mark.parametrize("table", [np.zeros((3, 8), np.int32), np.zeros((12, 2), np.int32), np.zeros(12, np.int32)])
def test_a_table_of_another_shape_is_refused(digits, as_idx, tmp_path, table):
    (tmp_path / "labels").write_bytes(as_idx(table, 12))
    with pytest.raises(CorruptData, match=r"must have a row for each of 12 digits, with the writer in column 2"):
        qmnist.writers(tmp_path / "labels", digits["train_labels"])


def test_the_error_says_which_file_from_where_to_where(tmp_path):
    sentence = qmnist.how_to_get("train", tmp_path)
    for part in ("qmnist-train-labels-idx2-int.gz", "https://github.com/", str(tmp_path), "STAYPUT_DATA"):
        assert part in sentence
