import errno
import json
import multiprocessing
import os
import resource

import numpy as np
import pytest

from stayput.data import store
from stayput.errors import CorruptData, DataUnavailable

COLUMNS = {"x": np.arange(200_000, dtype=np.uint8).reshape(-1, 100), "y": np.array([1.5, -2.0])}


def save(cache, columns=COLUMNS, name="set"):
    with store.working_folder(cache, name) as working:
        store.save_columns(columns, cache / name, working=working, origin="a test")
    return cache / name


def assert_stored(folder, columns=COLUMNS):
    store.verify_columns(folder)
    opened = store.open_columns(folder)
    assert list(opened) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(opened[name], column)


def test_columns_come_back_as_memory_maps_that_torch_may_have(cache):
    folder = save(cache)
    assert_stored(folder)
    column = store.open_columns(folder)["x"]
    assert isinstance(column, np.memmap)
    assert column.flags.writeable
    column[0] = 7  # stays in memory
    assert_stored(folder)
    assert store.stored_bytes(folder) == sum(path.stat().st_size for path in folder.glob("*.npy"))


def test_nothing_but_the_columns_is_left_in_the_cache(cache):
    folder = save(cache)
    assert [path.name for path in cache.iterdir()] == ["set"]
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "x.npy", "y.npy"]


def test_what_is_not_there_is_unavailable(cache):
    with pytest.raises(DataUnavailable, match=r"set: nothing is stored there"):
        store.open_columns(cache / "set")


def truncate(folder):
    os.truncate(folder / "x.npy", 1000)


def grow(folder):
    with (folder / "y.npy").open("ab") as file:
        file.write(b"more")


def remove(folder):
    (folder / "x.npy").unlink()


def cut_manifest(folder):
    os.truncate(folder / "manifest.json", 50)


def change_manifest(change):
    def damage(folder):
        manifest = json.loads((folder / "manifest.json").read_text())
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


def swap_dtype(manifest):
    manifest["columns"]["y"]["dtype"] = "<f4"


def no_header(folder):
    size = (folder / "y.npy").stat().st_size
    (folder / "y.npy").write_bytes(bytes(size))


DAMAGES = {
    "truncated": (truncate, r"x.npy: has 1000 bytes: must have 200128 \(fetch or build it again\)"),
    "grown": (grow, r"y.npy: has 148 bytes: must have 144"),
    "removed": (remove, r"x.npy: is missing \(fetch or build it again\)"),
    "manifest cut": (cut_manifest, r"manifest.json: cannot be read"),
    "other format": (change_manifest(lambda m: m.update(format=99)), r"is not a manifest of format 1"),
    "no columns": (change_manifest(lambda m: m.pop("columns")), r"is not a manifest of format 1"),
    "no size": (change_manifest(lambda m: m["columns"]["x"].pop("bytes")), r"is not a manifest of format 1"),
    "other dtype": (change_manifest(swap_dtype), r"y.npy: holds <f8 \(2,\), not what manifest.json says"),
    "no npy": (no_header, r"y.npy: cannot be opened"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_folder_is_not_opened_and_is_mended_by_storing_again(cache, damage, message):
    folder = save(cache)
    damage(folder)
    with pytest.raises(CorruptData, match=message):
        store.open_columns(folder)
    if damage is not DAMAGES["other dtype"][0]:  # its bytes are whole, so there is nothing to mend
        save(cache)
        assert_stored(folder)


def test_a_flipped_bit_is_found_by_verify_and_mended(cache):
    folder = save(cache)
    content = bytearray((folder / "x.npy").read_bytes())
    content[500] ^= 1
    (folder / "x.npy").write_bytes(content)
    store.open_columns(folder)  # reads no contents
    with pytest.raises(CorruptData, match=r"x.npy: has sha256 \w{64}: must have \w{64} \(fetch or build it again\)"):
        store.verify_columns(folder)
    save(cache)
    assert_stored(folder)


def test_a_manifest_cannot_name_files_elsewhere(cache, tmp_path):
    folder = save(cache)
    (tmp_path / "secret.npy").write_bytes((folder / "x.npy").read_bytes())
    change_manifest(lambda m: m["columns"]["x"].update(file="../../secret.npy"))(folder)
    with pytest.raises(CorruptData, match="is missing"):
        store.open_columns(folder)


def test_a_folder_that_somebody_put_other_files_into_is_kept(cache):
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "mine.txt").write_text("keep")
    assert_stored(save(cache))
    assert (cache / "set" / "mine.txt").read_text() == "keep"


def test_a_good_folder_is_left_alone(cache):
    folder = save(cache)
    before = (folder / "x.npy").stat().st_ino
    save(cache)
    assert (folder / "x.npy").stat().st_ino == before


def test_a_disk_that_fills_up_while_a_column_is_written_leaves_nothing(cache):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"requested and .* written|too large"):
            save(cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("fails_at", range(6))
def test_a_disk_that_fills_up_at_any_flush_leaves_nothing_that_is_trusted(cache, monkeypatch, fails_at):
    calls = []

    def flush(descriptor):
        calls.append(descriptor)
        if len(calls) == fails_at + 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_to_disk", flush)
    last = 4  # two columns, the manifest, the folder, and after the rename its parent
    if fails_at <= last:
        with pytest.raises(OSError, match="No space left"):
            save(cache)
    else:
        save(cache)
    assert (cache / "set").exists() == (fails_at >= last)
    assert not list(cache.glob(".*"))
    monkeypatch.undo()
    assert_stored(save(cache))


def test_an_interruption_before_the_rename_leaves_nothing(cache, monkeypatch):
    def interrupted(staged, destination):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(cache)
    assert list(cache.iterdir()) == []


def test_an_interruption_while_mending_leaves_a_folder_that_is_mended_later(cache, monkeypatch):
    folder = save(cache)
    truncate(folder)
    replace = type(folder).replace

    def interrupted(self, target):
        if self.name == "y.npy":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(type(folder), "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(cache)
    monkeypatch.undo()
    assert_stored(save(cache))


def test_a_destination_that_is_a_file_is_an_error_and_is_kept(cache):
    cache.mkdir()
    (cache / "set").write_text("mine")
    with pytest.raises(NotADirectoryError):
        save(cache)
    assert (cache / "set").read_text() == "mine"


def test_what_a_killed_process_left_is_removed_a_day_later_and_not_before(cache):
    for name, age in ((".set-old.part", 2 * 86400), (".set-new.part", 60), (".other-old.part", 2 * 86400)):
        (cache / name).mkdir(parents=True)
        (cache / name / "half").touch()
        then = (cache / name).stat().st_mtime - age
        os.utime(cache / name, (then, then))
    save(cache)
    assert sorted(path.name for path in cache.iterdir()) == [".other-old.part", ".set-new.part", "set"]


def _store_at_once(cache, barrier, damaged):
    with store.working_folder(cache, "set") as working:
        barrier.wait(60)
        store.save_columns(COLUMNS, cache / "set", working=working, origin="one of several")
    store.open_columns(cache / "set")


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_store_at_once_all_succeed(cache, damaged):
    if damaged:
        truncate(save(cache))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_store_at_once, args=(cache, barrier, damaged)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert_stored(cache / "set")
    assert [path.name for path in cache.iterdir()] == ["set"]
