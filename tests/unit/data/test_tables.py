import subprocess
import sys

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stayput.data import from_table
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting, UnknownName

ROWS = {
    "hospital": ["b", "a", "b", "c"],
    "age": [1.0, 2.0, 3.0, 4.0],
    "weight": [10, 20, 30, 40],
    "scan": [[1, 2], [3, 4], [5, 6], [7, 8]],
    "ill": [True, False, True, True],
}


def check(population):
    """Sorted clients a, b, c; rows in their order."""
    assert list(population.assignment.client_ids) == ["a", "b", "c"]
    assert population.client_sizes.tolist() == [1, 2, 1]
    assert population.examples.inputs[population.rows(1)].tolist() == [[1, 2], [5, 6]]
    assert population.examples.targets[population.rows(1)].tolist() == [1, 1]


def parquet_file(folder):
    pq.write_table(pa.table(ROWS), folder / "rows.parquet", row_group_size=2)
    return folder / "rows.parquet"


@pytest.mark.parametrize(
    "make",
    [
        parquet_file,
        lambda folder: str(parquet_file(folder)),
        lambda folder: parquet_file(folder).parent,
        lambda folder: pa.table(ROWS),
        lambda folder: pa.concat_tables([pa.table(ROWS).slice(0, 1), pa.table(ROWS).slice(1)]),
        lambda folder: pd.DataFrame(ROWS, index=[5, 6, 7, 9]),
        lambda folder: pd.DataFrame(ROWS).assign(hospital=lambda table: table["hospital"].astype("category")),
        lambda folder: datasets.Dataset.from_dict(ROWS),
    ],
    ids=["parquet", "text path", "folder", "arrow", "chunks", "pandas", "categories", "hugging face"],
)
def test_tables_of_every_kind_give_the_same_clients(tmp_path, make):
    check(from_table(make(tmp_path), client="hospital", inputs="scan", targets="ill"))


def test_the_order_and_selection_of_a_hugging_face_dataset_holds():
    rows = datasets.Dataset.from_dict(ROWS).select([3, 1])
    population = from_table(rows, client="hospital", inputs="age", targets="weight")
    assert list(population.assignment.client_ids) == ["a", "c"]
    assert population.examples.inputs.tolist() == [4.0, 2.0]


def test_columns_are_put_side_by_side():
    population = from_table(pa.table(ROWS), client="hospital", inputs=["age", "weight"], targets=["ill"])
    assert population.examples.inputs.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert population.examples.targets.shape == (4, 1)


def test_plain_numbers_are_not_copied():
    numbers = np.arange(4.0)
    table = pa.table({"c": [1, 1, 2, 2], "x": pa.array(numbers), "y": [0, 1, 0, 1]})
    assert np.shares_memory(from_table(table, client="c", inputs="x", targets="y").examples.inputs, numbers)


def test_clients_with_numbers_for_ids_are_in_numeric_order():
    table = pa.table({"c": [10, 9, 10], "x": [0, 1, 2]})
    assert list(from_table(table, client="c", inputs="x", targets="x").assignment.client_ids) == ["9", "10"]


@pytest.mark.parametrize(
    ("column", "shape"),
    [
        (pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), (2, 2, 2)),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)), (2, 2)),
        (pa.array([[1, 2], [3, 4]], pa.large_list(pa.int8())), (2, 2)),
        (pa.array([[0], [1, 2], [3, 4]], pa.list_(pa.int8())).slice(1), (2, 2)),
        (pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8.0).reshape(2, 2, 2)), (2, 2, 2)),
        (pa.array([1.5, 2.5]).dictionary_encode(), (2,)),
    ],
    ids=["nested", "fixed", "large", "slice", "tensor", "dictionary"],
)
def test_lists_become_dimensions(column, shape):
    table = pa.table({"c": ["p", "q"], "x": column})
    population = from_table(table, client="c", inputs="x", targets="x")
    assert population.examples.inputs.shape == shape
    flat = np.ravel(np.array(column.to_pylist())) if "tensor" not in str(column.type) else np.arange(8.0)
    assert np.ravel(population.examples.inputs).tolist() == flat.tolist()


def test_the_arrays_of_a_hugging_face_dataset_keep_their_shape():
    images = np.arange(12).reshape(3, 2, 2).tolist()
    features = datasets.Features(
        {"c": datasets.Value("string"), "x": datasets.Array2D((2, 2), "int32"), "y": datasets.Value("int64")}
    )
    rows = datasets.Dataset.from_dict({"c": ["p", "q", "p"], "x": images, "y": [0, 1, 0]}, features=features)
    population = from_table(rows, client="c", inputs="x", targets="y")
    assert population.examples.inputs.tolist() == images


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hospital": ["a", None, "b", "b"]},
            r"column 'hospital' has 1 empty cells: each row must name its client",
        ),
        ({"scan": [[1], [1, 2], [1], [1]]}, r"column 'scan' has lists of different lengths: .* \(pad or cut"),
        ({"scan": [[1], [None], [1], [1]]}, r"column 'scan' has 1 empty cells"),
        ({"scan": [[1], None, [1], [1]]}, r"column 'scan' has 1 empty cells: must hold a value in each row"),
        (
            {"scan": ["p", "q", "r", "s"]},
            r"column 'scan' of type string: must hold numbers or lists of numbers",
        ),
    ],
)
def test_cells_that_are_no_numbers_are_refused(change, message):
    with pytest.raises(InvalidSetting, match=message):
        from_table(pa.table({**ROWS, **change}), client="hospital", inputs="scan", targets="ill")


def test_lists_that_differ_between_chunks_are_refused():
    table = pa.concat_tables([pa.table({"c": [1], "x": [[1]]}), pa.table({"c": [1], "x": [[1, 2]]})])
    with pytest.raises(InvalidSetting, match="column 'x' has lists of different lengths"):
        from_table(table, client="c", inputs="x", targets="c")


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, datasets.Dataset.from_dict])
def test_unknown_columns_list_the_known_ones(make):
    with pytest.raises(UnknownName, match=r"column='wieght': unknown; did you mean 'weight'\? known: age, hospital"):
        from_table(make(ROWS), client="hospital", inputs="wieght", targets="ill")


def test_unknown_columns_of_a_file_list_the_known_ones(tmp_path):
    with pytest.raises(UnknownName, match="column='clinic': unknown"):
        from_table(parquet_file(tmp_path), client="clinic", inputs="scan", targets="ill")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["age", "scan"], r"column 'scan' has cells of shape \(2,\): .* \(name it alone\)"),
        ([], r"columns=\[\]: must name at least one column"),
    ],
)
def test_columns_that_cannot_be_put_side_by_side_are_refused(inputs, message):
    with pytest.raises(InvalidSetting, match=message):
        from_table(pa.table(ROWS), client="hospital", inputs=inputs, targets="ill")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1, 2], r"table=list: must be the path of a parquet file, a pyarrow Table"),
        (pa.table(ROWS).slice(0, 0), r"table has 0 rows: must hold at least one example"),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict(ROWS)}),
            r"must be one split .*\['train'\]",
        ),
        (
            datasets.Dataset.from_dict(ROWS).to_iterable_dataset(),
            r"streamed .* \(load it without streaming=True\)",
        ),
    ],
    ids=["list", "empty", "splits", "streamed"],
)
def test_what_is_no_table_is_refused(table, message):
    with pytest.raises(InvalidSetting, match=message):
        from_table(table, client="hospital", inputs="scan", targets="ill")


def test_files_that_are_missing_or_broken_are_named(tmp_path):
    columns = {"client": "hospital", "inputs": "scan", "targets": "ill"}
    with pytest.raises(DataUnavailable, match=r"gone.parquet': must be an existing parquet file"):
        from_table(tmp_path / "gone.parquet", **columns)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(CorruptData, match=r"broken.parquet': cannot be read as parquet"):
        from_table(tmp_path / "broken.parquet", **columns)


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataUnavailable, match=r"needs pyarrow to be read \(pip install 'stayput\[data\]'\)"):
        from_table("rows.parquet", client="c", inputs="x", targets="y")


def test_importing_data_imports_none_of_the_table_libraries():
    program = "import sys, stayput.data; print([m for m in ('pyarrow', 'datasets', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
