"""Make and open private keys; the one module that imports cryptography."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make() -> tuple[bytes, str]:
    """Make a private key file; return it and its public part in one line."""
    key = Ed25519PrivateKey.generate()
    private_key = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    return private_key, _public(key)


def public_part(private_key: bytes) -> str:
    """Return the public part of a private key file, type and key in one line.

    Raises:
        ValueError: It is not an unlocked ed25519 key.
    """
    try:
        parsed_key = serialization.load_ssh_private_key(private_key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"it is not a usable key: {error}") from error
    if not isinstance(parsed_key, Ed25519PrivateKey):
        raise ValueError("not an ed25519 key")
    return _public(parsed_key)


def unlocked(private_key: bytes, passphrase: str = "") -> tuple[str, str] | None:
    """Return kind and unlocked text, in OpenSSH's format, of a private key; None if locked.

    paramiko reads fewer formats and ciphers than cryptography does.

    Raises:
        Exception: It cannot be read; cryptography has no common class for that.
    """
    key: Any
    try:
        key = _loaded(private_key, None)
    except TypeError:
        # cryptography raises TypeError for a locked key, and ValueError for an invalid one.
        if not passphrase:
            return None
        try:
            key = _loaded(private_key, passphrase.encode())
        except (ValueError, InvalidTag):  # the passphrase is wrong
            return None
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    text = key.private_bytes(*form, serialization.NoEncryption()).decode("ascii")
    return _public(key).split()[0], text


def _loaded(private_key: bytes, passphrase: bytes | None) -> Any:
    try:
        return serialization.load_ssh_private_key(private_key, passphrase)
    except ValueError:  # it is not in the format of OpenSSH
        return serialization.load_pem_private_key(private_key, passphrase)


def _public(key: Any) -> str:
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return str(key.public_key().public_bytes(*form), "ascii")
