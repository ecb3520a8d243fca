from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stayput.deploy.identity import (
    SigningKey,
    StoredToken,
    check_token,
    new_token,
    parse_token,
    public_key_id,
    signature_holds,
)
from stayput.errors import AccessDenied, DeploymentError


def test_a_key_is_the_same_after_it_was_saved(tmp_path):
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem")
    again = SigningKey.load(tmp_path / "key.pem")
    assert (again.key_id, again.public_bytes) == (key.key_id, key.public_bytes)
    assert signature_holds(key.public_bytes, again.sign(b"hello"), b"hello")
    assert key.key_id == public_key_id(key.public_bytes)


def test_keys_are_new_each_time():
    assert len({SigningKey.generate().key_id for _ in range(20)}) == 20


def test_a_key_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "key.pem"
    before = os.umask(0)
    try:
        SigningKey.generate().save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    for mode in (0o640, 0o604, 0o622, 0o610):
        path.chmod(mode)
        with pytest.raises(DeploymentError, match=r"chmod 600"):
            SigningKey.load(path)


def test_a_key_is_never_written_over(tmp_path):
    SigningKey.generate().save(tmp_path / "key.pem")
    before = (tmp_path / "key.pem").read_bytes()
    with pytest.raises(FileExistsError):
        SigningKey.generate().save(tmp_path / "key.pem")
    assert (tmp_path / "key.pem").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not a key", b"\xff" * 100])
def test_a_file_that_is_no_key_is_refused_without_its_content(tmp_path, content):
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(DeploymentError, match="must hold an Ed25519 private key"):
        SigningKey.load(path)
    with pytest.raises(DeploymentError, match="cannot be read"):
        SigningKey.load(tmp_path / "nowhere.pem")


def test_a_key_of_another_kind_is_refused(tmp_path):
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(other)
    (tmp_path / "key.pem").chmod(0o600)
    with pytest.raises(DeploymentError, match="must hold an Ed25519 private key"):
        SigningKey.load(tmp_path / "key.pem")


def test_no_secret_is_in_a_repr(tmp_path):
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem")
    text, stored = new_token()
    secret = parse_token(text).secret
    assert repr(key) == f"SigningKey(key_id={key.key_id!r})"
    for shown in (repr(stored), repr(parse_token(text)), str(stored)):
        assert secret not in shown
        assert stored.digest.hex() not in shown
        assert repr(stored.digest) not in shown


def test_a_signature_holds_for_its_message_and_key_alone():
    key, other = SigningKey.generate(), SigningKey.generate()
    signature = key.sign(b"hello")
    assert signature_holds(key.public_bytes, signature, b"hello")
    assert not signature_holds(key.public_bytes, signature, b"hello ")
    assert not signature_holds(other.public_bytes, signature, b"hello")
    for altered in (signature[:-1], signature + b"\0", bytes(64), b"", bytes([signature[0] ^ 1]) + signature[1:]):
        assert not signature_holds(key.public_bytes, altered, b"hello")
    for no_key in (b"", bytes(31), bytes(33), b"\xff" * 32):
        assert not signature_holds(no_key, signature, b"hello")


@pytest.mark.parametrize("fingerprint", [None, "ab" * 32])
def test_a_token_is_recognised_by_what_is_kept_of_it(fingerprint):
    text, stored = new_token(fingerprint=fingerprint, expires_at=100.0)
    token = parse_token(f" {text}\n")
    assert (token.token_id, token.fingerprint) == (stored.token_id, fingerprint)
    check_token(token, stored, now=99.0)
    assert parse_token(text).secret.encode() not in stored.digest


def denied(*arguments, **named):
    with pytest.raises(AccessDenied) as refusal:
        check_token(*arguments, **named)
    return refusal.value.code


def test_a_token_that_is_not_the_stored_one_is_refused():
    (text, stored), (_, other) = new_token(expires_at=100.0), new_token()
    token = parse_token(text)
    assert denied(token, None, now=1.0) == "bad-token"
    assert denied(token, other, now=1.0) == "bad-token"
    assert denied(token, StoredToken(stored.token_id, other.digest), now=1.0) == "bad-token"
    assert denied(token, StoredToken(other.token_id, stored.digest), now=1.0) == "bad-token"
    assert denied(token, stored, now=100.0) == "expired-token"


@pytest.mark.parametrize("text", ["", "stayput", "stayput.1.2", "x" * 10_000, "stayput.{0}.{1}", "\u0661" * 20])
def test_text_that_is_no_token_is_refused_and_not_repeated(text):
    with pytest.raises(AccessDenied) as refusal:
        parse_token(text)
    assert refusal.value.code == "bad-token"
    assert len(str(refusal.value)) < 200
