"""What stands before a Temporal server that is not on the same machine: TLS, and API keys.

A real gRPC server with certificates of its own, which hands every call on to the dev server.
"""

import datetime
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Context = grpc.aio.ServicerContext
Handler = Callable[[bytes, Context], Awaitable[bytes]]
HOP_BY_HOP = ("user-agent", "grpc-", "content-type", "te", "authorization")


class Authority:
    """Someone who signs certificates, into a folder.

    Args:
        folder: Made when missing; `ca.pem` is in it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"CA {folder.name}")])
        self.ca = folder / "ca.pem"
        limits = x509.BasicConstraints(ca=True, path_length=None)
        self._sign(self.ca, self._name, self._key.public_key(), limits)

    def certificate(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate, for 127.0.0.1 and `name`, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        hosts = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._sign(certificate, subject, key.public_key(), x509.SubjectAlternativeName(hosts))
        return certificate, key_file

    def _sign(
        self,
        file: Path,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extension: x509.ExtensionType,
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file.write_bytes(signed.public_bytes(Encoding.PEM))


@dataclass
class Gate:
    """An open gate.

    Attributes:
        address: Where it listens.
        headers: Those of the calls so far.
    """

    address: str
    headers: list[dict[str, str]] = field(default_factory=list)


@asynccontextmanager
async def gate(
    target: str,
    certificate: tuple[Path, Path],
    *,
    clients_of: Path | None = None,
    api_key: str | None = None,
) -> AsyncIterator[Gate]:
    """Hand calls on to a Temporal server while the block runs.

    Args:
        target: Its address.
        certificate: The gate's own, with its key.
        clients_of: Who has to have signed the callers' certificates; they need none without.
        api_key: What they have to send; nothing without.
    """
    async with grpc.aio.insecure_channel(target) as channel:
        server = grpc.aio.server()
        opened = Gate("")
        server.add_generic_rpc_handlers((_Calls(channel, opened, api_key),))
        port = server.add_secure_port("127.0.0.1:0", _credentials(certificate, clients_of))
        opened.address = f"127.0.0.1:{port}"
        await server.start()
        try:
            yield opened
        finally:
            await server.stop(None)


def _credentials(certificate: tuple[Path, Path], clients_of: Path | None) -> Any:
    authority = clients_of.read_bytes() if clients_of else None
    pair = (certificate[1].read_bytes(), certificate[0].read_bytes())
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


class _Calls(grpc.GenericRpcHandler):
    """Every call there is: bytes in, bytes out."""

    def __init__(self, channel: grpc.aio.Channel, opened: Gate, api_key: str | None) -> None:
        self._channel = channel
        self._opened = opened
        self._api_key = api_key

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(self._handler(details.method))

    def _handler(self, method: str) -> Handler:
        async def handle(request: bytes, context: Context) -> bytes:
            headers = dict(context.invocation_metadata() or ())
            self._opened.headers.append(headers)
            if self._api_key and headers.get("authorization") != f"Bearer {self._api_key}":
                # As unwisely as a server may say it.
                told = f"Request unauthorized: {headers.get('authorization')}"
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, told)
            passed = [(k, v) for k, v in headers.items() if not k.startswith(HOP_BY_HOP)]
            call = self._channel.unary_unary(method)
            try:
                return await call(request, metadata=passed, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as exc:
                await context.abort(exc.code(), exc.details() or "", exc.trailing_metadata())

        return handle
