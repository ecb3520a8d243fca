"""TLS: a certificate of one's own on first start, and clients that know it by its fingerprint.

A coordinator in a hospital's cellar has no public name and no authority to sign for it. So it makes its certificate
itself, tokens carry the certificate's SHA-256, and clients accept that one certificate and no other, whoever signed it.
Where there is a real authority, clients check against that instead. TLS 1.3 only. Must not import torch or a web
framework.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import ipaddress
import os
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stayput.deploy.identity import read_secret, write_secret
from stayput.errors import CertificateMismatch, DeploymentError
from stayput.runs.durable_files import sync_folder

VALID_DAYS = 3650
NAME = "tls.pem"


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A file with a certificate and its private key, in PEM."""

    path: Path
    fingerprint: str
    """SHA-256 of the certificate, as 64 hex digits: what clients know it by."""


def ensure_certificate(folder: Path, hosts: Sequence[str]) -> ServerCertificate:
    """The certificate in a folder, made there on first start. Two processes that start at once get the same one."""
    path = folder / NAME
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Key and certificate in one file, linked into place: nobody ever sees the one without the other.
        working = folder / f".{NAME}.{secrets.token_hex(8)}.tmp"
        write_secret(working, _self_signed(hosts))
        try:
            os.link(working, path)
        except FileExistsError:
            pass  # another process was first: its certificate is the coordinator's
        finally:
            working.unlink()
        sync_folder(folder)
    return ServerCertificate(path, _fingerprint_in(path))


_NO_AUTHORITIES = "{}: must hold certificates of authorities in PEM ({})"


def fingerprint_of(der: bytes) -> str:
    """The SHA-256 of a certificate, as hex."""
    return hashlib.sha256(der).hexdigest()


def server_context(path: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.3 with a certificate; with `client_ca`, only for clients with a certificate of that authority (mTLS)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Tickets would be kept for each of thousands of clients that hold one connection for hours.
    context.num_tickets = 0
    _load(context, path)
    if client_ca is not None:
        ask_for_certificates(context, client_ca)
    return context


def ask_for_certificates(context: ssl.SSLContext, client_ca: Path) -> None:
    """Let in only clients with a certificate of that authority (mTLS)."""
    _trust(context, client_ca)
    context.verify_mode = ssl.CERT_REQUIRED


def client_context(
    *, pinned: bool = False, ca_file: Path | None = None, identity: Path | None = None
) -> ssl.SSLContext:
    """TLS 1.3 to a coordinator: by an authority, or `pinned`, where `check_fingerprint` decides after the handshake.

    `identity` is a file with a certificate and its key for a coordinator that asks for one (mTLS).
    """
    if pinned and ca_file is not None:
        raise DeploymentError("a pinned fingerprint and an authority's file: must be one of the two")
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # SSLError is one
        raise DeploymentError(_NO_AUTHORITIES.format(ca_file, error)) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if pinned:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the fingerprint is what is verified, before anything is sent
    if identity is not None:
        _load(context, identity)
    return context


def check_fingerprint(certificate: bytes | None, fingerprint: str) -> None:
    """Refuse a coordinator whose certificate (DER) is not the pinned one."""
    found = fingerprint_of(certificate) if certificate else "none"
    if not hmac.compare_digest(found, fingerprint.lower()):
        raise CertificateMismatch(
            f"certificate {found}: must be {fingerprint.lower()}, the one that was pinned; either this is not the "
            "coordinator, or its operator gave it a new certificate (then join again with a new token)"
        )


def _trust(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(cafile=authorities)
    except OSError as error:  # SSLError is one
        raise DeploymentError(_NO_AUTHORITIES.format(authorities, error)) from None


def _load(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        raise DeploymentError(f"{path}: must hold a certificate and its key in PEM ({error})") from None


def _fingerprint_in(path: Path) -> str:
    try:
        certificate = x509.load_pem_x509_certificate(read_secret(path))
    except ValueError as error:
        raise DeploymentError(f"{path}: must hold a certificate in PEM ({error})") from None
    return fingerprint_of(certificate.public_bytes(Encoding.DER))


def _self_signed(hosts: Sequence[str]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stayput coordinator")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))  # clients' clocks may be behind
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([_host_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
