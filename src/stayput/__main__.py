"""`python -m stayput`: the same as the `stayput` command."""

from __future__ import annotations

from stayput.cli.main import main

if __name__ == "__main__":
    main()
