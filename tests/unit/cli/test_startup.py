from __future__ import annotations

import subprocess
import sys

import pytest

from stayput.cli.main import main

HEAVY = (
    "torch",
    "numpy",
    "matplotlib",
    "pyarrow",
    "datasets",
    "pandas",
    "safetensors",
    "rich",
    "tensorboard",
    "mlflow",
    "wandb",
)

PROGRAM = """
import sys
from stayput.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(*sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["resume", "--help"],
        ["show", "--help"],
        ["compare", "--help"],
        ["report", "--help"],
        ["data", "--help"],
        ["data", "fetch", "--help"],
        ["doctor", "--help"],
        ["tasks", "--help"],
    ],
    ids=" ".join,
)
def test_help_and_version_import_nothing_heavy(arguments):
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    assert ended.stdout.strip()
    imported = set(ended.stderr.split())
    assert "stayput" in imported
    assert not imported & set(HEAVY)


def test_help_lists_flags_and_commands_in_their_sections(capsys):
    def page(*arguments):
        with pytest.raises(SystemExit):
            main(arguments)
        return capsys.readouterr().out

    top, run = page("--help"), page("run", "--help")
    assert top.index("Options:") < top.index("Runs:") < top.index("  sweep ") < top.index("This machine:")
    assert "  130  interrupted by Ctrl-C" in top.splitlines()[-2]
    assert run.index("Arguments:") < run.index("Algorithm:") < run.index("--local-epochs") < run.index("Output:")
    assert run.index("Output:") < run.index("Options:") < run.index("--help")


def test_completion_imports_nothing_heavy(monkeypatch):
    monkeypatch.setenv("_STAYPUT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "stayput r")
    monkeypatch.setenv("COMP_CWORD", "1")
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert {"run", "resume", "report"} <= set(ended.stdout.split())
    assert not set(ended.stderr.split()) & set(HEAVY)
