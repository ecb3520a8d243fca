"""The documentation, held to the code: its Python runs, its commands parse, its tables, links and paths are right.

A page says what the code does because something here reads both. Measured figures are the one thing not looked at:
`docs/results.md` and `docs/paper.md` are generated.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from torch import nn

from stayput import errors
from stayput.cli.main import EXIT_CODES, app
from stayput.cli.settings import SETTINGS, from_file, request
from stayput.core.history import RoundReport
from stayput.runs.spec import RunSpec
from stayput.testing import ToyNet, toy_clients, toy_examples, toy_task

ROOT = Path(__file__).parents[3]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
}
COMMAND_LINE = PAGES["docs/command-line.md"]
GENERATED = {"docs/results.md", "docs/paper.md"}
"""Pages with figures, written by a script; their links and paths are checked all the same."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def blocks(page, language):
    return [body for name, body in FENCE.findall(PAGES[page]) if name == language]


def prose(page):
    """A page without its blocks of code, of which only the line ends stay."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), PAGES[page])


def section(page, heading):
    """What stands under a heading of the second level."""
    _, _, rest = PAGES[page].partition(f"\n## {heading}\n")
    assert rest, f"{page} has no section {heading!r}"
    return rest.partition("\n## ")[0]


def rows(text):
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    assert set(lines[1]) <= set("|- "), "a table begins with its head"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# Python


def stand_ins():
    """What the pages leave to the reader: arrays x, y, x_test, y_test and a model."""
    train, test = toy_examples(200, seed=0), toy_examples(60, seed=1)
    return {
        "__name__": "documentation",
        "MyNet": ToyNet,
        "x": train.inputs,
        "y": train.targets,
        "x_test": test.inputs,
        "y_test": test.targets,
    }


def blank_up_to(page, position):
    """Blank lines, so that an error in a block names its line in the page."""
    return "\n" * PAGES[page].count("\n", 0, position)


def run_python(page):
    """Run a page's Python from top to bottom in the current folder, and return the names that it leaves."""
    namespace = stand_ins()
    for match in FENCE.finditer(PAGES[page]):
        if match[1] == "python":
            source = blank_up_to(page, match.start(2)) + match[2]
            exec(compile(source, page, "exec", dont_inherit=True), namespace)  # noqa: S102 - that is the test
    return namespace


WITH_PYTHON = {page for page in PAGES if blocks(page, "python")}


@pytest.mark.parametrize("page", sorted(WITH_PYTHON - {"README.md"}))
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python(page)


def test_the_pages_that_should_have_python_do():
    assert {"docs/tutorial.md", "docs/extending.md", "docs/reproducibility.md", "docs/files.md"} <= WITH_PYTHON


def test_the_example_of_the_readme_runs_and_gives_what_the_text_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_python("README.md")["run"]
    assert run.history.last_round == 100
    assert isinstance(run.model, nn.Module)
    assert not run.model.training
    assert run.plot().is_file()
    assert run.rounds_to(0.5) < 100
    assert run.rounds_to(1.01) is None


# Commands


def commands(group, path="stayput"):
    """Every command of the app by its full name, the app itself included."""
    found = {path: group}
    for name, command in getattr(group, "commands", {}).items():
        found |= commands(command, f"{path} {name}")
    return found


COMMANDS = commands(typer.main.get_command(app))
LEAVES = {name: command for name, command in COMMANDS.items() if not hasattr(command, "commands")}
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def command_lines(page):
    """Whole commands, from the console blocks of a page."""
    joined = "".join(blocks(page, "console")).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.split("\n") if line.startswith("$ ")]


def mentions(page):
    """Commands in running text, with what they are given there: `stayput resume RUN`, `make demo`."""
    return [span for span in CODE_SPAN.findall(prose(page)) if re.match(r"(stayput|make)(\s|$)", span)]


def parse(line):
    """Let typer read a command line, as far as running it."""
    words = shlex.split(line)[1:]
    name, command = "stayput", COMMANDS["stayput"]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = f"{name} {words.pop(0)}"
        assert name in COMMANDS, f"{line}: there is no command {name}"
        command = COMMANDS[name]
    assert not hasattr(command, "commands") or words, f"{line}: a command is missing"
    return name, command.make_context(name, words).params


EVERY_LINE = [(page, line) for page in sorted(PAGES) for line in command_lines(page)]


@pytest.mark.parametrize(("page", "line"), EVERY_LINE)
def test_every_command_line_parses(page, line):
    if line.startswith("make "):
        assert set(line.split()[1:]) <= MAKE_TARGETS
    elif line.startswith("stayput "):
        parse(line)
    else:
        assert line.startswith("pip "), f"{page}: what is {line!r}?"


def test_command_lines_are_found_and_wrong_ones_are_refused():
    assert len(EVERY_LINE) >= 15
    for wrong in ("stayput walk", "stayput run mnist-2nn --roundz 3", "stayput run mnist-2nn --rounds many"):
        with pytest.raises((AssertionError, typer.TyperException)):
            parse(wrong)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_commands_in_running_text_exist_with_their_flags(page):
    for mention in mentions(page):
        words = mention.split()
        if words[0] == "make":
            assert set(words[1:]) <= MAKE_TARGETS, mention
            continue
        flags = {word for word in words if word.startswith("-")}
        names = [word for word in words if re.fullmatch(r"[a-z]+", word)]
        named = [" ".join(names[:length]) for length in (1, 2, 3)]
        command = COMMANDS[max((name for name in named if name in COMMANDS), key=len)]
        assert len(names) == 1 or command is not COMMANDS["stayput"] or "COMMAND" in words, mention
        assert flags <= flags_of(command) | {"--help", "-h"}, mention


def flags_of(command):
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts) if flag[0] == "-"} - {
        "--help",
        "-h",
    }


@pytest.mark.parametrize("name", [name for name in COMMANDS if flags_of(COMMANDS[name]) or name in LEAVES])
def test_each_command_is_documented_with_all_its_flags_and_no_others(name):
    table = rows(section("docs/command-line.md", name))
    documented = {flag for row in table for flag in CODE_SPAN.findall(row[0])}
    assert documented == flags_of(COMMANDS[name])


def test_no_command_is_documented_that_there_is_not():
    headings = re.findall(r"^## (stayput.*)$", COMMAND_LINE, re.MULTILINE)
    assert set(headings) == {*LEAVES, "stayput"}


def test_each_setting_of_a_run_is_documented_with_its_key_and_default():
    defaults = {}
    for option in COMMANDS["stayput run"].params:
        said = re.search(r"\(default ([^)]*)\)", getattr(option, "help", None) or "")
        defaults[option.name] = said[1].replace("<", "&lt;").replace(">", "&gt;") if said else ""
    keys = {}
    for flags, key, default, _ in rows(section("docs/command-line.md", "stayput run")):
        (name,) = CODE_SPAN.findall(key)
        keys[name] = default
        if name != "task":
            assert f"--{name.replace('_', '-')}" in CODE_SPAN.findall(flags)
            assert default == defaults[name], name
    assert set(keys) == set(SETTINGS)


@pytest.mark.parametrize("page", sorted(page for page in PAGES if blocks(page, "toml")))
def test_every_settings_file_on_a_page_asks_for_a_run(page):
    for body in blocks(page, "toml"):
        settings = tomllib.loads(body)
        if "task" in settings.get("fleet", {}):  # a task of the reader's own, in place of a named one
            settings.setdefault("task", "mnist-2nn")
        assert request(from_file(settings, source=page)).spec.task


def test_every_environment_variable_is_documented():
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    documented = {
        CODE_SPAN.findall(row[0])[0] for row in rows(section("docs/command-line.md", "Environment variables"))
    }
    assert set(re.findall(r"\bSTAYPUT_[A-Z_]+\b", sources)) == {n for n in documented if n.startswith("STAYPUT_")}


def test_each_exit_code_is_documented_with_its_meaning_and_its_errors():
    table = {}
    for code, meaning, names in rows(section("docs/command-line.md", "Exit codes")):
        table[int(code)] = meaning.replace("`--require-target`", "--require-target"), set(CODE_SPAN.findall(names))
    tree = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, Exception)]
    assert {code: meaning for code, (meaning, _) in table.items()} == EXIT_CODES
    for code, (_, names) in table.items():
        assert names == {error.__name__ for error in tree if error.exit_code == code}, code


def test_the_tree_of_errors_in_the_architecture_is_the_one_in_the_code():
    (_, drawn), *_ = FENCE.findall(section("ARCHITECTURE.md", "Errors and exit codes"))
    drawn = {re.search(r"[A-Z]\w+", line)[0] for line in drawn.strip("\n").split("\n")}
    tree = {name for name, error in vars(errors).items() if isinstance(error, type) and issubclass(error, Exception)}
    assert drawn == tree


# Files of a run


def test_the_fields_of_a_runs_files_are_all_documented(tmp_path):
    import stayput
    from stayput.runs.run_folder import RunFolder

    stayput.train(toy_task(), toy_clients(), stayput.FedAvg(), rounds=1, test=toy_examples(9), folder=tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    fields = {
        "spec.json": {field.name for field in dataclasses.fields(RunSpec)},
        "history.jsonl": {field.name for field in dataclasses.fields(RoundReport)},
        "environment.json": set(folder.environment),
        "result.json": set(folder.result),
    }
    for file, expected in fields.items():
        assert {CODE_SPAN.findall(row[0])[0] for row in rows(section("docs/files.md", file))} == expected, file
    page = PAGES["docs/files.md"]
    for path in (tmp_path / "run").rglob("*"):
        name = "round-000120.safetensors" if path.name.startswith("round-") else path.name
        assert path.is_dir() or name in page, path


# Links and paths

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PLACES = (ROOT, ROOT / "src" / "stayput", ROOT / "docs")
"""What a path in the text may be relative to, besides the page's own folder."""
TOPS = {path.name for place in (ROOT, ROOT / "src" / "stayput") for path in place.iterdir() if path.name != "runs"}
SUFFIXES = (".py", ".md", ".toml")


def anchors(page):
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.exists(), f"{page}: {target} is not there"
        if anchor:
            assert anchor in anchors(str(path.resolve().relative_to(ROOT))), f"{page}: {target} has no such heading"


def paths_in(text):
    """Code spans that name a file or folder of the repository."""
    for span in CODE_SPAN.findall(text):
        path = span.rstrip("/")
        if re.search(r"[\s*<>{}()=$~]", path) or path.startswith(("-", ".", "/", "runs/")):
            continue
        if path.endswith(SUFFIXES) or ("/" in path and path.partition("/")[0] in TOPS):
            yield path


def without_planned(page):
    """A page's text but for sections that say they are planned: only these may name what is not there."""
    parts = re.split(r"^(?=## )", prose(page), flags=re.MULTILINE)
    return "".join(part for part in parts if not part.startswith("## Planned"))


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_path_in_the_text_is_there(page):
    for path in paths_in(without_planned(page)):
        found = any((place / path).exists() for place in (*PLACES, (ROOT / page).parent))
        assert found or is_named_in_its_package(page, path), f"{page}: {path} is not there"


def is_named_in_its_package(page, path):
    """A bare file name, such as `cuts.py` beside the package it belongs to."""
    return "/" not in path and page == "ARCHITECTURE.md" and any((ROOT / "src").rglob(path))


def tree_lines(page):
    """The paths of an annotated tree: two spaces of indentation a level, then a name, then what it is."""
    for block in blocks(page, "text"):
        if not block.startswith("src/"):
            continue
        above = []
        for line in block.strip("\n").split("\n"):
            name = line.split()[0]
            level = (len(line) - len(line.lstrip())) // 2
            above = [*above[:level], name]
            yield "/".join(part.rstrip("/") for part in above), name.endswith("/")


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_the_annotated_tree_is_the_tree(page):
    drawn = dict(tree_lines(page))
    for path, is_folder in drawn.items():
        assert (ROOT / path).is_dir() if is_folder else (ROOT / path).is_file(), f"{page}: {path} is not there"
    packages = {f"src/stayput/{path.parent.name}" for path in (ROOT / "src" / "stayput").glob("*/__init__.py")}
    assert packages <= set(drawn)


def test_the_layers_are_those_that_are_enforced():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    assert "```text\n" + "\n".join(layers) + "\n```" in section("ARCHITECTURE.md", "Layers")


def test_every_page_is_linked_from_the_readme_or_an_index():
    index = LINK.findall(PAGES["README.md"])
    linked = {target.partition("#")[0] for target in index}
    for index in ("docs/decisions/README.md", "docs/reference/index.md"):
        linked |= {str(Path(index).parent / target) for target in LINK.findall(PAGES[index])}
    assert set(PAGES) - {"README.md"} <= linked


@pytest.mark.parametrize("page", sorted(set(PAGES) - GENERATED))
def test_lines_are_short_enough_to_read(page):
    for number, line in enumerate(prose(page).split("\n"), start=1):
        assert len(line) <= 120 or line.startswith("|"), f"{page}, line {number}: {len(line)} characters"


def test_the_version_is_in_the_changelog_and_the_readme():
    import stayput

    assert re.search(
        rf"^## \[{re.escape(stayput.__version__)}\] - \d{{4}}-\d\d-\d\d$", PAGES["CHANGELOG.md"], re.MULTILINE
    )
    assert f"Version {stayput.__version__}" in PAGES["README.md"]
