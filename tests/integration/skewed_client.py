"""`stayput join` on a machine whose clock is wrong: skewed_client.py SECONDS_OFF join ARGUMENTS."""

from __future__ import annotations

import sys
import time

from stayput.cli.main import main

if __name__ == "__main__":
    right, off = time.time, float(sys.argv[1])
    time.time = lambda: right() + off
    main(sys.argv[2:])
