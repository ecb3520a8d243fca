"""Updates on their way in: which are under way, what has come of each, and how many there may be at a time.

What a client sends is bounded before it is read: so many uploads at a time, each of the size that its manifest said and
the schema allows, a chunk in memory while it is written. An upload that falls silent gives its slot back; what has come
of it stays on disk and need not come again. Must not import torch or a web framework.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stayput.deploy.blobs import Blobs
from stayput.deploy.chunks import Manifest
from stayput.deploy.claims import Claim
from stayput.deploy.partial_blobs import PartialBlob
from stayput.deploy.records import TaskId, Update
from stayput.deploy.update_checks import OwnedTask, UpdateRules, UpdateSchema, check_update
from stayput.errors import TransferFailed

INCOMING = "incoming"
"""Where the updates lie that are on their way, as <task>-<sha256>."""


class UploadsFull(Exception):
    """So many uploads are under way that this one has to wait."""


@dataclass(slots=True)
class Upload:
    """An update on its way in."""

    claim: Claim
    manifest: Manifest
    partial: PartialBlob
    heard_at: float = field(default=0.0)


class Uploads:
    """The updates that are on their way in."""

    def __init__(
        self, blobs: Blobs, slots: int, *, silence: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._blobs, self._slots, self._silence, self._monotonic = blobs, slots, silence, monotonic
        self._under_way: dict[TaskId, Upload] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def open(self, claim: Claim, manifest: Manifest) -> Upload:
        """Begin an upload, or go on with it; `UploadsFull` where there are too many."""
        self._drop_silent()
        known = self._under_way.get(claim.task_id)
        if known is not None and known.claim.sha256 == claim.sha256:
            known.claim, known.heard_at = claim, self._monotonic()
            return known
        if known is not None:
            self.discard(claim.task_id)
        if len(self._under_way) >= self._slots:
            raise UploadsFull
        path = self._blobs.place(f"{INCOMING}/{claim.task_id}-{claim.sha256}")
        upload = Upload(claim, manifest, PartialBlob(path, manifest), self._monotonic())
        self._under_way[claim.task_id] = upload
        return upload

    def find(self, task: TaskId) -> Upload | None:
        """The upload for a task, heard from now."""
        upload = self._under_way.get(task)
        if upload is not None:
            upload.heard_at = self._monotonic()
        return upload

    def finish(self, task: TaskId) -> None:
        """All has come: put it durably where updates lie."""
        upload = self._under_way.pop(task, None)
        if upload is None:
            raise TransferFailed(f"task {task}: has no upload under way (offer the update first)")
        key = f"updates/{task}/{upload.claim.sha256}"
        try:
            upload.partial.finish(self._blobs.place(key).parent)
        except TransferFailed:
            upload.partial.discard()  # each chunk is the one that was promised, and they make another blob
            raise
        finally:
            upload.partial.close()
        self._blobs.keep(key)

    def discard(self, task: TaskId) -> None:
        """Forget an upload and what has come of it."""
        upload = self._under_way.pop(task, None)
        if upload is not None:
            upload.partial.discard()

    def sweep(self, is_open: Callable[[TaskId], bool]) -> None:
        """Remove what has come of updates that nobody waits for any more, also from before a restart."""
        for task in [task for task in self._under_way if not is_open(task)]:
            self.discard(task)
        folder = self._blobs.folder / INCOMING
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            if not is_open(path.name.rpartition("-")[0]):
                path.unlink(missing_ok=True)

    def _drop_silent(self) -> None:
        limit = self._monotonic() - self._silence
        for task in [task for task, upload in self._under_way.items() if upload.heard_at < limit]:
            self._under_way.pop(task).partial.close()


def checked(
    blobs: Blobs, claim: Claim, public_bytes: bytes, task: OwnedTask, schema: UpdateSchema, rules: UpdateRules
) -> Update:
    """The update by reference, or `UpdateRefused`. Reads the file through a map: its memory is the system's to take."""
    path = blobs.fetch(f"updates/{claim.task_id}/{claim.sha256}")
    with path.open("rb") as file:
        # Never closed by hand: views into it live on in a refusal's traceback. It goes with the last of them.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    scale = check_update(claim, public_bytes, task, schema, rules, memoryview(content)).scale
    return Update(
        claim.sha256, claim.num_examples, claim.num_steps, claim.train_loss, scale, claim.size, claim.signature
    )
