"""Populations built from tables: the same from a sorted and an unsorted table, with little and with much memory."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stayput.data import build_population, from_table, open_population
from stayput.data.building import bucket_firsts
from stayput.data.store import verify_columns
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting, UnknownName

PIXELS = 784
COLUMNS = {"client": "who", "inputs": "image", "targets": "digit"}


def table(sizes, order="shuffled", names="text", seed=0):
    """Rows whose first pixels are their own number, of clients of these sizes."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(len(sizes)), sizes)
    if order == "shuffled":
        draw.shuffle(who)
    rows = len(who)
    images = draw.integers(256, size=(rows, PIXELS), dtype=np.uint8)
    images[:, :4] = np.arange(rows, dtype="<u4").view(np.uint8).reshape(-1, 4)
    ids = pa.array([f"client {k:05d}" for k in who]) if names == "text" else pa.array(who * 7 - 3)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(images.reshape(-1)), PIXELS)
    return pa.table({"who": ids, "image": flat, "digit": pa.array(draw.integers(10, size=rows), pa.int64())})


def assert_the_same(population, rows):
    """As `from_table`, which holds everything in memory, has it."""
    plain = from_table(rows, **COLUMNS)
    assert population.clients.client_sizes.tolist() == plain.client_sizes.tolist()
    for client in range(plain.num_clients):
        mine, theirs = population.clients.rows(client), plain.rows(client)
        np.testing.assert_array_equal(population.clients.examples.inputs[mine], plain.examples.inputs[theirs])
        np.testing.assert_array_equal(population.clients.examples.targets[mine], plain.examples.targets[theirs])
        assert population.clients.assignment.client_name(client) == plain.assignment.client_name(client)


SIZES = [1, 12_000, 300, 15_000, 1, 7, 900, 4000, 11_000]
"""43,209 rows of 796 bytes: five buckets of the least memory, one of them of a client that is larger than a bucket."""


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("names", ["text", "numbers"])
def test_a_table_becomes_the_same_population_in_any_order_and_little_memory(tmp_path, order, names):
    rows = table(SIZES, order, names)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=9999)
    steps = []
    population = build_population(
        tmp_path / "rows.parquet", tmp_path / "clients", **COLUMNS, memory_bytes=2**26,
        progress=lambda step, done, total: steps.append((step, done, total)),
    )  # fmt: skip
    assert_the_same(population, rows)
    verify_columns(tmp_path / "clients")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clients", "rows.parquet"]
    named = {step for step, _, _ in steps}
    dealt = {"dealing rows out to buckets"} if order == "shuffled" else set()
    assert named == {"counting clients", "writing columns"} | dealt
    assert all(total is None or 0 < done <= total for _, done, total in steps)


def test_several_files_and_tables_in_memory_are_read_alike(tmp_path):
    rows = table([5, 1, 9, 30])
    (tmp_path / "parts").mkdir()
    for number, first in enumerate(range(0, 45, 20)):
        pq.write_table(rows.slice(first, 20), tmp_path / "parts" / f"part-{number}.parquet")
    assert_the_same(build_population(tmp_path / "parts", tmp_path / "a", **COLUMNS), rows)
    assert_the_same(build_population(rows, tmp_path / "b", **COLUMNS, test=table([4])), rows)
    assert open_population(tmp_path / "a").test is None
    assert len(open_population(tmp_path / "b").test) == 4


def test_many_clients_are_counted_across_batches(tmp_path):
    sizes = np.random.default_rng(1).integers(1, 4, size=30_000)
    who = np.repeat(np.arange(30_000), sizes)
    np.random.default_rng(2).shuffle(who)
    rows = pa.table({"who": who, "x": np.arange(len(who)), "y": who % 10})
    clients = build_population(rows, tmp_path / "many", client="who", inputs="x", targets="y").clients
    np.testing.assert_array_equal(clients.client_sizes, sizes)
    holder = np.repeat(np.arange(30_000), clients.client_sizes)
    np.testing.assert_array_equal(who[np.asarray(clients.examples.inputs)], holder)
    assert clients.examples.target_range == (0, 9)


def test_buckets_hold_neighbouring_clients():
    offsets = np.array([0, 3, 4, 9, 30, 31, 33])
    assert bucket_firsts(offsets, 5).tolist() == [0, 2, 3, 4]
    assert bucket_firsts(offsets, 100).tolist() == [0]
    assert bucket_firsts(offsets, 1).tolist() == [0, 1, 2, 3, 4, 5]


BAD = {
    "no such file": ("nowhere.parquet", DataUnavailable, "must be an existing parquet file, or a folder of such"),
    "no parquet": (b"text", CorruptData, "cannot be read as parquet"),
    "no such column": (pa.table({"who": [1], "image": [1]}), UnknownName, "column='digit': unknown"),
    "no rows": (pa.table({"who": [], "image": [], "digit": []}), InvalidSetting, "table has 0 rows"),
    "nobody": (pa.table({"who": ["a", None], "image": [1, 2], "digit": [1, 2]}), InvalidSetting, "1 empty cells"),
    "other ids": (pa.table({"who": [0.5], "image": [1], "digit": [1]}), InvalidSetting, "as whole numbers or text"),
    "long ids": (pa.table({"who": ["a" * 257], "image": [1], "digit": [1]}), InvalidSetting, "at most 256"),
    "text": (pa.table({"who": [1], "image": ["a"], "digit": [1]}), InvalidSetting, "must hold numbers or lists"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_and_leave_nothing(tmp_path, case):
    made, error, sentence = BAD[case]
    if isinstance(made, bytes):
        (tmp_path / "rows.parquet").write_bytes(made)
        made = tmp_path / "rows.parquet"
    elif isinstance(made, str):
        made = tmp_path / made
    before = set(tmp_path.iterdir())
    with pytest.raises(error, match=sentence):
        build_population(made, tmp_path / "clients", **COLUMNS)
    assert set(tmp_path.iterdir()) == before


def test_lists_of_changing_lengths_are_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    for length in (200, 201):
        images = [[0] * length] * 50
        part = pa.table({"who": list(range(50)), "image": images, "digit": [1] * 50})
        pq.write_table(part, tmp_path / "parts" / f"{length}.parquet")
    with pytest.raises(CorruptData, match=r"rows of int64 \(201,\) follow rows of int64 \(200,\)"):
        build_population(tmp_path / "parts", tmp_path / "clients", **COLUMNS)
    assert not (tmp_path / "clients").exists()


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_that_is_trusted(tmp_path):
    pq.write_table(table(SIZES), tmp_path / "rows.parquet", row_group_size=2000)
    program = f"""
        import os, signal
        from stayput.data import build_population
        def progress(step, done, total):
            if step == "writing columns":
                os.kill(os.getpid(), signal.SIGKILL)
        build_population({str(tmp_path / "rows.parquet")!r}, {str(tmp_path / "clients")!r}, client="who",
                         inputs="image", targets="digit", memory_bytes=2**26, progress=progress)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    with pytest.raises(DataUnavailable, match="nothing is stored there"):
        open_population(tmp_path / "clients")
    population = build_population(tmp_path / "rows.parquet", tmp_path / "clients", **COLUMNS)
    assert population.clients.num_examples == sum(SIZES)


def test_clients_are_named_by_numbers_or_by_text_and_not_by_both(tmp_path):
    (tmp_path / "parts").mkdir()
    pq.write_table(table([2, 1], names="numbers"), tmp_path / "parts" / "a.parquet")
    pq.write_table(table([1, 2], names="text"), tmp_path / "parts" / "b.parquet")
    with pytest.raises(InvalidSetting, match="'who': large_string follows int64"):
        build_population(tmp_path / "parts", tmp_path / "clients", **COLUMNS)
    assert not (tmp_path / "clients").exists()
