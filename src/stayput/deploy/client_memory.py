"""What a client keeps from round to round (SCAFFOLD's control variate), on its disk and nowhere else.

It belongs to an update, and changes if and only if the update counts. A client may die, or lose the answer, between
the two; so what an update would change it to is durable under the update's name before the coordinator is asked to
count it, and becomes current when the coordinator says that it counts, in this process's life or in a later one's.
Must not import torch.
"""

from __future__ import annotations

from pathlib import Path

from stayput.runs.durable_files import sync_folder, write_whole

UNDECIDED = "memory-after."
"""What the files begin with whose update has no receipt yet: memory-after.<task>.<sha256 of the update>."""


class ClientMemory:
    """A client's memory, and what it would be after updates of which nobody knows yet whether they count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.current = folder / "memory.safetensors"

    def prepare(self, task: str, sha256: str, content: bytes) -> None:
        """See to the disk what the memory is once this update counts."""
        write_whole(self._after(task, sha256), content)

    def undecided(self) -> list[tuple[str, str]]:
        """(task, sha256) of the updates that were prepared for and not decided."""
        names = sorted(path.name.removeprefix(UNDECIDED) for path in self._folder.glob(f"{UNDECIDED}*"))
        return [(task, sha256) for task, _, sha256 in (name.rpartition(".") for name in names)]

    def decide(self, task: str, sha256: str, *, counts: bool) -> None:
        """The coordinator has said whether an update counts. To say it twice changes nothing."""
        after = self._after(task, sha256)
        if not after.exists():
            return  # decided already, or an algorithm that has clients keep nothing
        if counts:
            after.replace(self.current)
        else:
            after.unlink()
        sync_folder(self._folder)

    def _after(self, task: str, sha256: str) -> Path:
        return self._folder / f"{UNDECIDED}{task}.{sha256}"
