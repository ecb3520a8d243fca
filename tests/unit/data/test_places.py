import sys
from pathlib import Path

import pytest

from stayput.data.places import cache_folder, data_folder, find_file
from stayput.errors import InvalidSetting


def test_the_argument_comes_before_the_environment(tmp_path, monkeypatch):
    assert data_folder() is None
    monkeypatch.setenv("STAYPUT_DATA", "")
    assert data_folder() is None
    (tmp_path / "a").mkdir()
    monkeypatch.setenv("STAYPUT_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder(tmp_path / "a") == tmp_path / "a"


def test_a_folder_that_is_not_there_is_refused_by_whoever_named_it(monkeypatch):
    with pytest.raises(InvalidSetting, match=r"data_dir='/no/such': must be an existing folder \(leave it out"):
        data_folder("/no/such")
    monkeypatch.setenv("STAYPUT_DATA", "/no/other")
    with pytest.raises(InvalidSetting, match=r"STAYPUT_DATA='/no/other': must be an existing folder"):
        data_folder()


def test_the_cache_is_the_users_unless_told_otherwise(cache, monkeypatch):
    assert cache_folder() == cache
    monkeypatch.delenv("STAYPUT_CACHE")
    assert cache_folder().name == "stayput"


def test_the_cache_does_without_platformdirs(monkeypatch):
    monkeypatch.delenv("STAYPUT_CACHE")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert cache_folder() == Path.home() / ".cache" / "stayput"


def test_files_are_found_folder_by_folder(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.gz").touch()
    assert find_file(("x", "x.gz"), (tmp_path, tmp_path / "b")) == tmp_path / "b" / "x.gz"
    assert find_file(("y",), (tmp_path, tmp_path / "b")) is None
