from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stayput.deploy.chunks import MAX_CHUNKS, MIB, Manifest, Transfer, chunk_size_for
from stayput.deploy.partial_blobs import PartialBlob
from stayput.errors import MalformedMessage, TransferFailed

BLOB = bytes(range(256)) * 4096 * 3 + b"the end"  # three chunks of 1 MiB and a short one


def chunk(index, blob=BLOB):
    return blob[index * MIB : (index + 1) * MIB]


@pytest.mark.parametrize("size", [1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_a_manifest_names_every_byte(size, tmp_path):
    blob = (BLOB * 2)[:size]
    (tmp_path / "blob").write_bytes(blob)
    manifest = Manifest.of(blob)
    assert manifest == Manifest.of_file(tmp_path / "blob")
    assert manifest.sha256 == hashlib.sha256(blob).hexdigest()
    assert [manifest.length_of(i) for i in range(len(manifest.chunks))] == [
        len(chunk(i, blob)) for i in range(-(-size // MIB))
    ]
    for index in range(len(manifest.chunks)):
        manifest.check_chunk(index, chunk(index, blob))
    manifest.check(max_size=size)


def test_chunks_grow_where_their_hashes_would_not_fit_into_a_message():
    assert chunk_size_for(MIB * MAX_CHUNKS) == MIB
    assert chunk_size_for(MIB * MAX_CHUNKS + 1) == 2 * MIB
    assert chunk_size_for(4 * MIB * MAX_CHUNKS) == 4 * MIB
    with pytest.raises(TransferFailed, match="at most"):
        chunk_size_for(4 * MIB * MAX_CHUNKS + 1)


def test_a_manifest_that_does_not_add_up_is_refused():
    good = Manifest.of(BLOB)
    with pytest.raises(MalformedMessage, match="at most 100"):
        good.check(max_size=100)
    for chunks in (good.chunks[:-1], (*good.chunks, "0" * 64), ()):
        with pytest.raises(MalformedMessage, match="must be 4"):
            Manifest(good.sha256, good.size, good.chunk_size, chunks).check(max_size=good.size)


@pytest.mark.parametrize(
    ("index", "content"),
    [
        (0, chunk(0)[:-1]),
        (0, chunk(0) + b"x"),
        (0, b"x" + chunk(0)[1:]),
        (3, chunk(0)),
        (0, b""),
        (-1, chunk(3)),
        (4, b""),
    ],
)
def test_bytes_that_are_not_the_chunk_are_refused(tmp_path, index, content):
    with PartialBlob(tmp_path / "partial", Manifest.of(BLOB)) as partial:
        with pytest.raises(TransferFailed):
            partial.put(index, content)
        assert partial.missing == (0, 1, 2, 3)


def test_a_blob_is_nowhere_to_be_seen_before_it_is_whole_and_right(tmp_path):
    (tmp_path / "blobs").mkdir()
    with PartialBlob(tmp_path / "partial", Manifest.of(BLOB)) as partial:
        for index in (2, 0, 3):
            assert partial.put(index, chunk(index))
        with pytest.raises(TransferFailed, match="chunk 1 has not come"):
            partial.finish(tmp_path / "blobs")
        assert not list((tmp_path / "blobs").iterdir())
        assert partial.put(1, chunk(1))
        assert not partial.put(1, chunk(1)), "it was there"
        path = partial.finish(tmp_path / "blobs")
    assert path.name == hashlib.sha256(BLOB).hexdigest()
    assert path.read_bytes() == BLOB
    assert not (tmp_path / "partial").exists()


def test_a_manifest_that_contradicts_itself_makes_no_blob(tmp_path):
    good = Manifest.of(BLOB)
    liar = Manifest("0" * 64, good.size, good.chunk_size, good.chunks)
    with PartialBlob(tmp_path / "partial", liar) as partial:
        for index in range(4):
            partial.put(index, chunk(index))
        with pytest.raises(TransferFailed, match="contradicts itself"):
            partial.finish(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["partial"]


def test_only_its_owner_may_read_what_arrives(tmp_path):
    with PartialBlob(tmp_path / "partial", Manifest.of(BLOB)) as partial:
        assert partial.path.stat().st_mode & 0o777 == 0o600
        partial.discard()
    assert not list(tmp_path.iterdir())


def test_a_transfer_asks_for_what_the_other_side_lacks():
    transfer = Transfer(Manifest.of(BLOB), missing=(1, 3))
    assert transfer.next() == 1
    transfer.arrived(1)
    assert transfer.next() == 3
    transfer.arrived(3)
    assert transfer.done
    assert transfer.next() is None
    with pytest.raises(MalformedMessage, match=r"must be in \[0, 3\]"):
        transfer.resume((4,))


class TransfersThatAreCut(RuleBasedStateMachine):
    """A client, a coordinator, and a connection that is cut before a chunk, in it, or before its answer; and kills that
    leave any garbage in the chunk that was being written."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.manifest = Manifest.of(BLOB)
        self.partial = PartialBlob(self.path / "partial", self.manifest)
        self.transfer = Transfer(self.manifest)
        self.sent = self.cuts = 0

    @precondition(lambda self: not self.transfer.done)
    @rule(fate=st.sampled_from(["arrives", "arrives", "cut on the way", "answer lost"]))
    def send(self, fate):
        index = self.transfer.next()
        self.sent += 1
        if fate == "cut on the way":
            with pytest.raises(TransferFailed):
                self.partial.put(index, chunk(index)[:-1])
        else:
            assert self.partial.put(index, chunk(index)), "a chunk was sent that was there already"
        if fate == "arrives":
            self.transfer.arrived(index)
        else:
            self.cuts += 1
            self.transfer.resume(self.partial.missing)

    @rule(index=st.integers(0, 3), torn=st.binary(min_size=1, max_size=9))
    def kill(self, index, torn):
        was_missing = self.partial.missing
        self.partial.close()
        if index in was_missing:
            with (self.path / "partial").open("r+b") as file:
                file.seek(index * MIB)
                file.write(torn)
        self.partial = PartialBlob(self.path / "partial", self.manifest)
        assert self.partial.missing == was_missing
        self.cuts += 1
        self.transfer.resume(self.partial.missing)

    @precondition(lambda self: self.transfer.done)
    @rule()
    def finish_and_begin_again(self):
        assert self.partial.finish(self.path).read_bytes() == BLOB
        self.partial = PartialBlob(self.path / "partial", self.manifest)
        self.transfer = Transfer(self.manifest)
        self.sent = self.cuts = 0

    @invariant()
    def at_most_one_chunk_is_sent_again_for_each_cut(self):
        if hasattr(self, "manifest"):
            assert self.sent <= len(self.manifest.chunks) + self.cuts

    def teardown(self):
        if hasattr(self, "partial"):
            self.partial.close()
            self.folder.cleanup()


TestTransfersThatAreCut = TransfersThatAreCut.TestCase
TestTransfersThatAreCut.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
