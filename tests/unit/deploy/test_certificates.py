from __future__ import annotations

import contextlib
import datetime as dt
import multiprocessing
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stayput.deploy.certificates import check_fingerprint, client_context, ensure_certificate, server_context
from stayput.errors import CertificateMismatch, DeploymentError

HOSTS = ["localhost", "127.0.0.1", "::1"]


@contextlib.contextmanager
def answering(context):
    """A real TLS server on loopback that answers every client with one line."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                raw, _ = listening.accept()
                raw.settimeout(10)
                with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
                    connection.sendall(b"hello")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(20)


def ask(port, context, host="localhost"):
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname=host) as connection,
    ):
        return connection.version(), connection.getpeercert(binary_form=True), connection.recv(5)


def test_a_certificate_is_made_on_first_start_and_kept(tmp_path):
    first, again = ensure_certificate(tmp_path / "tls", HOSTS), ensure_certificate(tmp_path / "tls", ["elsewhere"])
    assert first == again
    assert first.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "tls").iterdir()] == ["tls.pem"]
    assert ensure_certificate(tmp_path / "other", HOSTS).fingerprint != first.fingerprint


def test_a_pinned_client_knows_the_one_certificate(tmp_path):
    ours, another = ensure_certificate(tmp_path / "a", HOSTS), ensure_certificate(tmp_path / "b", HOSTS)
    with answering(server_context(ours.path)) as port:
        version, certificate, answer = ask(port, client_context(pinned=True), host="whatever")
    assert (version, answer) == ("TLSv1.3", b"hello")
    check_fingerprint(certificate, ours.fingerprint)
    check_fingerprint(certificate, ours.fingerprint.upper())
    for wrong in (another.fingerprint, ours.fingerprint[:-1], ""):
        with pytest.raises(CertificateMismatch, match="the one that was pinned"):
            check_fingerprint(certificate, wrong)
    with pytest.raises(CertificateMismatch):
        check_fingerprint(None, ours.fingerprint)


def test_a_client_that_trusts_authorities_refuses_a_certificate_of_ones_own(tmp_path):
    ours = ensure_certificate(tmp_path, HOSTS)
    with answering(server_context(ours.path)) as port, pytest.raises(ssl.SSLCertVerificationError):
        ask(port, client_context())


def test_with_the_certificate_as_authority_the_host_is_checked(tmp_path):
    ours = ensure_certificate(tmp_path, HOSTS)
    with answering(server_context(ours.path)) as port:
        assert ask(port, client_context(ca_file=ours.path))[2] == b"hello"
        with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
            ask(port, client_context(ca_file=ours.path), host="elsewhere")


def test_nothing_older_than_tls_1_3_is_spoken(tmp_path):
    ours = ensure_certificate(tmp_path, HOSTS)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with answering(server_context(ours.path)) as port, pytest.raises(ssl.SSLError):
        ask(port, old)
    old_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old_server.load_cert_chain(ours.path)
    old_server.maximum_version = ssl.TLSVersion.TLSv1_2
    with answering(old_server) as port, pytest.raises(ssl.SSLError):
        ask(port, client_context(pinned=True))


def authority_and_client(folder):
    """An authority's certificate, and a client's that it signed."""
    now, keys = dt.datetime.now(dt.UTC), [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in ("authority", "clinic-7")]
    made = []
    for key, name, is_authority in ((keys[0], names[0], True), (keys[1], names[1], False)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        made.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / "authority.pem").write_bytes(made[0])
    private = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "client.pem").write_bytes(private + made[1])
    return folder / "authority.pem", folder / "client.pem"


def test_mutual_tls_lets_in_only_clients_of_the_authority(tmp_path):
    ours = ensure_certificate(tmp_path, HOSTS)
    authority, client = authority_and_client(tmp_path)
    with answering(server_context(ours.path, client_ca=authority)) as port:
        assert ask(port, client_context(pinned=True, identity=client))[2] == b"hello"
        for identity in (None, ours.path):  # none, and one that nobody signed
            with pytest.raises((ssl.SSLError, ConnectionError)):
                assert ask(port, client_context(pinned=True, identity=identity))[2] == b"hello"


def make_one(folder, results):
    results.put(ensure_certificate(folder, HOSTS).fingerprint)


@pytest.mark.slow
def test_processes_that_start_at_once_share_one_certificate(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=make_one, args=(tmp_path, results)) for _ in range(4)]
    for process in processes:
        process.start()
    found = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(60)
    assert len(found) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tls.pem"]


@pytest.mark.parametrize("content", [b"", b"junk"])
def test_a_file_that_is_no_certificate_is_refused(tmp_path, content):
    (tmp_path / "tls.pem").write_bytes(content)
    (tmp_path / "tls.pem").chmod(0o600)
    with pytest.raises(DeploymentError, match="must hold a certificate"):
        ensure_certificate(tmp_path, HOSTS)
    with pytest.raises(DeploymentError, match="must hold a certificate and its key"):
        server_context(tmp_path / "tls.pem")


def test_a_certificate_that_others_can_read_is_refused(tmp_path):
    ensure_certificate(tmp_path, HOSTS).path.chmod(0o644)
    with pytest.raises(DeploymentError, match="chmod 600"):
        ensure_certificate(tmp_path, HOSTS)


def test_pinning_and_an_authority_are_one_or_the_other(tmp_path):
    with pytest.raises(DeploymentError, match="one of the two"):
        client_context(pinned=True, ca_file=tmp_path / "ca.pem")
