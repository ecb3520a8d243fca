"""Updates on their way in: what fails, falls silent or comes too late holds neither a file nor a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayput.deploy.blobs import Blobs
from stayput.deploy.chunks import MIB, Manifest
from stayput.deploy.claims import Claim
from stayput.deploy.uploads import Uploads
from stayput.errors import TransferFailed

CONTENT = bytes(range(256)) * 4096 + b"the last chunk is shorter"


@pytest.fixture
def uploads(tmp_path):
    uploads = Uploads(Blobs(tmp_path), 4, silence=60.0)
    yield uploads
    uploads.sweep(lambda task: False)


def offered(uploads, task, manifest):
    upload = uploads.open(Claim(task, manifest.sha256, manifest.size, 5, 1, 0.5, bytes(64)), manifest)
    for index in range(len(manifest.chunks)):
        upload.partial.put(index, CONTENT[index * MIB : (index + 1) * MIB])
    return upload


def open_files():
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


def test_an_update_that_came_lies_where_updates_lie(uploads, tmp_path):
    manifest = Manifest.of(CONTENT)
    offered(uploads, "task", manifest)
    uploads.finish("task")
    assert (tmp_path / "updates" / "task" / manifest.sha256).read_bytes() == CONTENT
    with pytest.raises(TransferFailed, match="no upload under way"):
        uploads.finish("task")  # the client asks twice at a time


def test_a_manifest_that_contradicts_itself_leaves_no_file_open_or_behind(uploads, tmp_path):
    sound, before = Manifest.of(CONTENT), open_files()
    for number in range(20):
        offered(uploads, "task", Manifest(f"{number:064x}", sound.size, sound.chunk_size, sound.chunks))
        with pytest.raises(TransferFailed, match="contradicts itself"):
            uploads.finish("task")
    assert (open_files(), list((tmp_path / "incoming").iterdir())) == (before, [])


def test_what_has_come_of_a_task_that_is_over_is_removed_also_after_a_restart(uploads, tmp_path):
    for task in ("over", "open-1"):
        offered(uploads, task, Manifest.of(CONTENT))
    uploads.sweep(lambda task: task == "open-1")
    assert [path.name.rpartition("-")[0] for path in (tmp_path / "incoming").iterdir()] == ["open-1"]
    assert (uploads.find("over"), len(uploads)) == (None, 1)
    Uploads(Blobs(tmp_path), 4, silence=60.0).sweep(lambda task: False)
    assert list((tmp_path / "incoming").iterdir()) == []
