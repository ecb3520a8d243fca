"""Where everything of a fleet lies that survives: its folder, database, blobs, certificate. Must not import torch."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from stayput.deploy.blobs import Blobs
from stayput.deploy.certificates import ServerCertificate, ask_for_certificates, ensure_certificate, server_context
from stayput.deploy.database import sqlite_url
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.store import Store
from stayput.errors import InvalidSetting


@dataclass(frozen=True)
class FleetState:
    """Where a fleet's state lies."""

    folder: Path
    settings: FleetSettings

    @property
    def database_url(self) -> str:
        """The URL of its database."""
        return self.settings.database or sqlite_url(self.folder / "fleet.db")

    def open_store(self) -> Store:
        """Its database, made if there is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Store(self.database_url)

    def open_blobs(self) -> Blobs:
        """Its models and updates."""
        return Blobs(self.folder / "blobs", self.settings.blobs)

    def certificate(self) -> ServerCertificate | None:
        """The self-made certificate, made if there is none; None where the operator has given one."""
        if self.settings.certificate is not None:
            return None
        return ensure_certificate(self.folder, self.settings.names)

    def tls(self) -> ssl.SSLContext:
        """TLS with the fleet's certificate."""
        client_ca = None if self.settings.client_ca is None else Path(self.settings.client_ca)
        own = self.certificate()
        if own is not None:
            return server_context(own.path, client_ca=client_ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(str(self.settings.certificate), self.settings.private_key)
        except OSError as error:
            raise InvalidSetting(
                f"certificate={self.settings.certificate!r}: must be a PEM file with the chain ({error})"
            ) from error
        if client_ca is not None:
            ask_for_certificates(context, client_ca)
        return context
