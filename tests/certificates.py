"""A private authority for certificates, and a server on this machine that it vouches for."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Certified:
    """A server's context with a certificate for 127.0.0.1, and the file of whoever vouches for it."""

    server: ssl.SSLContext
    ca: Path


def certified(folder: Path) -> Certified:
    """A new authority, its certificate in `folder`/ca.pem, and a server's context by it."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name("private authority")
    ca = _certificate(ca_key.public_key(), ca_name, ca_name, ca_key, is_ca=True)
    leaf = _certificate(key.public_key(), _name("server"), ca_name, ca_key, is_ca=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(leaf.public_bytes(pem))
    (folder / "server-key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
    return Certified(context, folder / "ca.pem")


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _certificate(
    key: ec.EllipticCurvePublicKey, name: x509.Name, issuer: x509.Name, by: ec.EllipticCurvePrivateKey, *, is_ca: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    uses = {"key_cert_sign": is_ca, "crl_sign": is_ca, "digital_signature": not is_ca}
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(**uses, **dict.fromkeys(others, False), encipher_only=False, decipher_only=False),
            critical=True,
        )
    )
    if not is_ca:
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    return builder.sign(by, hashes.SHA256())
