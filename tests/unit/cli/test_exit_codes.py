from __future__ import annotations

import pytest

import stayput.cli.main
from stayput import errors
from stayput.cli.interruption import Terminated, exit_code_of
from stayput.cli.main import EPILOG, EXIT_CODES

CLASSES = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.StayputError)
]

SENTENCE = "value=1: must be 2"
ARGUMENTS = {
    errors.UnknownName: ("task", "x", ["y"]),
    errors.AccessDenied: ("bad-token", SENTENCE),
    errors.UpdateRefused: ("size", SENTENCE),
}
"""What errors are made from that take more than their sentence."""


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_class_has_its_exit_code_in_the_help(error):
    assert error.exit_code in EXIT_CODES


def test_no_code_is_documented_that_nothing_ends_with():
    signals = {exit_code_of(KeyboardInterrupt()), exit_code_of(Terminated())}
    assert signals == {130, 143}
    assert set(EXIT_CODES) == {0} | {error.exit_code for error in CLASSES} | signals


def test_the_help_shows_every_code(command):
    ended = command("--help")
    assert ended.code == 0
    for code, meaning in EXIT_CODES.items():
        assert f"{code:>3}  {meaning}" in EPILOG
        assert f"{code:>3}  {meaning[:40]}" in ended.out


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_one_sentence_and_its_exit_code(error, command, monkeypatch):
    raised = error(*ARGUMENTS.get(error, (SENTENCE,)))
    monkeypatch.setattr(stayput.cli.main, "app", lambda *arguments, **options: (_ for _ in ()).throw(raised))
    ended = command("tasks")
    assert ended.code == error.exit_code
    assert ended.err == f"error: {raised}\n"
    assert not ended.out


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_an_interruption_outside_of_a_run_is_a_word(raised, code, command, monkeypatch):
    monkeypatch.setattr(stayput.cli.main, "app", lambda *arguments, **options: (_ for _ in ()).throw(raised))
    ended = command("tasks")
    assert (ended.code, ended.err) == (code, "interrupted\n")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(stayput.cli.main, "raise_on_sigterm", lambda: None)
    monkeypatch.setattr(stayput.cli.main, "app", lambda *arguments, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stayput.cli.main.main([])
