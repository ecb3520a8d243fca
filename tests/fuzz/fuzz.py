"""One target under atheris: python fuzz.py TARGET SECONDS FOLDER. Ends with 0 when nothing was found.

A crash, five seconds over one input or 512 MiB of memory end it with another code, and the input is kept in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["stayput.deploy", "targets", "json"]):
    sys.path.insert(0, str(Path(__file__).parent))
    from targets import TARGETS, everything, examples, planted


def main() -> None:
    name, seconds, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(examples()):
        (corpus / f"example-{number}").write_bytes(content)
    limits = ["-timeout=5", "-rss_limit_mb=512", "-max_len=4096", "-verbosity=0", "-print_final_stats=1"]
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={folder}/{name}-", *limits]
    atheris.Setup([sys.argv[0], *options, str(corpus)], {**TARGETS, "everything": everything, "planted": planted}[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
