from __future__ import annotations

from stayput.tracking.secrets import without_secrets


def test_passwords_of_addresses_and_secrets_of_the_environment_are_left_out(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("SHORT_KEY", "e")
    said = without_secrets("cannot reach https://me:pa:ss@host:5000/api with 0123456789abcdef or hunter2hunter2")
    assert said == "cannot reach https://***@host:5000/api with *** or ***"


def test_other_text_stays_as_it_is():
    text = "HTTPConnectionPool(host='127.0.0.1', port=5000): me@example.org, https://host/path"
    assert without_secrets(text) == text
