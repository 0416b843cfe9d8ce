"""An Ed25519 pair in OpenSSH's form; the one module that imports cryptography."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make() -> tuple[bytes, str]:
    """A new private key file, and the public part in one line."""
    made = Ed25519PrivateKey.generate()
    private = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    return private, _public(made)


def public_part(private: bytes) -> str:
    """The public part of a private key file, type and key in one line.

    Raises:
        ValueError: It is no open ed25519 key.
    """
    try:
        parsed = serialization.load_ssh_private_key(private, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"no key that can be used: {error}") from error
    if not isinstance(parsed, Ed25519PrivateKey):
        raise ValueError("not an ed25519 key")
    return _public(parsed)


def _public(key: Ed25519PrivateKey) -> str:
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*form).decode("ascii")
