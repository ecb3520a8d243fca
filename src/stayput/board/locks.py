"""Whether a process is writing a run, found without touching its lock.

Asking for the lock, even for a moment, could turn away the process that comes to write. Linux lists all locks in a
file; other systems do not say, and there it has to be told from when the run was last written to.
"""

from __future__ import annotations

from pathlib import Path

_LIST = Path("/proc/locks")


def locked_inodes(path: Path = _LIST) -> frozenset[int] | None:
    """The inodes of files that a process of this system has locked; None where that cannot be known."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = set()
    for line in lines:  # such as "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[3] == "WRITE":
            inode = words[5].rpartition(":")[2]
            if inode.isdigit():
                found.add(int(inode))
    return frozenset(found)
