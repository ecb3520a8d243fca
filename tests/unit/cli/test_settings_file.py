from __future__ import annotations

import pytest

from stayput.cli.settings_file import task_or_file
from stayput.errors import InvalidSetting


def test_a_task_is_a_task():
    assert task_or_file("mnist-2nn") == {"task": "mnist-2nn"}


def test_a_file_is_read(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('task = "mnist-cnn"\nlocal-epochs = {1 = 20, 50 = 5}\nlearning_rate = 1\n', encoding="utf-8")
    assert task_or_file(str(path)) == {
        "task": "mnist-cnn",
        "local_epochs": {"1": 20, "50": 5},
        "learning_rate": 1.0,
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("rounds = 3\n", 'has no task .add a line such as task = "mnist-2nn"'),
        ("task = mnist\n", "is not TOML: .* at line 1"),
        (b"task = '\xff'\n", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, content, sentence):
    path = tmp_path / "my.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidSetting, match=sentence):
        task_or_file(str(path))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(InvalidSetting, match=r"my\.toml: cannot be read \(No such file or directory"):
        task_or_file(str(tmp_path / "my.toml"))
