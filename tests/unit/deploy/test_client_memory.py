"""What a client keeps changes if and only if the update that changes it counts."""

from __future__ import annotations

from stayput.deploy.client_memory import ClientMemory

SHA256 = "ab" * 32


def test_what_was_prepared_becomes_current_when_its_update_counts(tmp_path):
    memory = ClientMemory(tmp_path)
    memory.prepare("r1-c0-1", SHA256, b"after round 1")
    assert not memory.current.exists()
    assert ClientMemory(tmp_path).undecided() == [("r1-c0-1", SHA256)], "another process of the client finds it"
    for _ in range(2):
        memory.decide("r1-c0-1", SHA256, counts=True)
        assert memory.current.read_bytes() == b"after round 1"
        assert memory.undecided() == []


def test_what_was_prepared_is_gone_when_its_update_does_not_count(tmp_path):
    memory = ClientMemory(tmp_path)
    memory.current.write_bytes(b"before")
    memory.prepare("r2.c0-1", SHA256, b"after round 2")
    assert memory.undecided() == [("r2.c0-1", SHA256)], "a task's name may hold a dot"
    for _ in range(2):
        memory.decide("r2.c0-1", SHA256, counts=False)
    assert memory.current.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["memory.safetensors"]


def test_an_update_without_memory_changes_nothing(tmp_path):
    ClientMemory(tmp_path).decide("r1-c0-1", SHA256, counts=True)
    assert list(tmp_path.iterdir()) == []
