"""A certificate for 127.0.0.1 and the authority that vouches for it, both for an hour."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make(folder: Path) -> tuple[Path, Path, Path]:
    """The files of the authority, the certificate and its key."""

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: str, key: ec.EllipticCurvePrivateKey, is_authority: bool) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("kforge tests"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )

    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    authority = builder("kforge tests", authority_key, is_authority=True).sign(authority_key, hashes.SHA256())
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = builder("server", key, is_authority=False).add_extension(address, critical=False)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = {
        "authority.pem": authority.public_bytes(pem),
        "certificate.pem": leaf.sign(authority_key, hashes.SHA256()).public_bytes(pem),
        "key.pem": secret,
    }
    for file, content in files.items():
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o600)
    return folder / "authority.pem", folder / "certificate.pem", folder / "key.pem"
