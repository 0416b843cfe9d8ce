"""Secrets in the desktop's keyring: passphrases of SSH keys, if the user chose that, and passwords
of mail servers.

Only a store that is protected by the login or a password of its own is used. A backend that writes
plain text, or obfuscates it with a secret stored next to it, is refused, whatever `keyring` has
been set to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base.account import expand_home

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "Ringmaster, SSH key"
_LEAST_PRIORITY = 1
"""`keyring` recommends no backend below it: those are its placeholders and its plain files."""
_UNGUARDED = ("keyrings.alt", "keyring.backends.fail", "keyring.backends.null")


MAIL_SERVICE = "Ringmaster, mail"


class SystemKeyring:
    """A service in the keyring. Every call may wait for the user to unlock it: not on a GUI thread.

    ``service`` is the name of the entries, ``what`` the word for one of them. A passphrase is
    stored by the absolute path of its key file.
    """

    def __init__(self, service: str = SERVICE, kind: str = "passphrase") -> None:
        self._service = service
        self._kind = kind

    def unavailable_reason(self) -> str:
        """Return why nothing can be stored, in one sentence; "" if it can."""
        try:
            _backend()
        except BackendError as error:
            return error.message
        return ""

    def read(self, identity: str) -> str:
        """Return the passphrase of a key file, "" if there is none or the keyring stays locked."""
        from keyring.errors import KeyringError

        try:
            return _backend().get_password(self._service, self._name(identity)) or ""
        except (BackendError, KeyringError) as error:
            swallowed(error)
            return ""

    def store(self, identity: str, passphrase: str) -> None:
        """Store a passphrase.

        Raises:
            BackendError: There is no keyring, or it stays locked.
        """
        from keyring.errors import KeyringError

        backend = _backend()
        try:
            backend.set_password(self._service, self._name(identity), passphrase)
        except KeyringError as error:
            raise BackendError(
                f"The system keyring could not store the {self._kind} of {identity}.",
                f"Unlock the keyring, or enter the {self._kind} again at each start.",
            ) from error

    def delete(self, identity: str) -> bool:
        """Remove a passphrase; return whether there was one.

        Raises:
            BackendError: The keyring has it and cannot remove it.
        """
        from keyring.errors import KeyringError

        try:
            backend = _backend()
        except BackendError as error:
            swallowed(error)
            return False
        try:
            if backend.get_password(self._service, self._name(identity)) is None:
                return False
            backend.delete_password(self._service, self._name(identity))
        except KeyringError as error:
            raise BackendError(
                f"The system keyring could not remove the {self._kind} of {identity}.",
                f"Unlock the keyring and try again; its entry is called “{self._service}”.",
            ) from error
        return True

    def _name(self, identity: str) -> str:
        if self._service != SERVICE:
            return identity
        return str(expand_home(identity).absolute())


def _backend() -> KeyringBackend:
    """Return the first protected store of the available ones.

    Raises:
        BackendError: There is none.
    """
    # Imported late: it queries the session bus, which listing jobs does not need.
    import keyring

    configured_keyring = keyring.get_keyring()
    backends: tuple[KeyringBackend, ...] = (
        *getattr(configured_keyring, "backends", ()),
        configured_keyring,
    )
    guarded_backend = next((element for element in backends if _is_guarded(element)), None)
    if guarded_backend is None:
        raise BackendError(
            "This computer has no system keyring to store it (on Linux: GNOME Keyring, "
            "KWallet or another Secret Service)."
        )
    return guarded_backend


def _is_guarded(backend: KeyringBackend) -> bool:
    module = type(backend).__module__
    is_chain = hasattr(backend, "backends")
    return (
        not is_chain
        and not any(module == prefix or module.startswith(f"{prefix}.") for prefix in _UNGUARDED)
        and float(backend.priority) >= _LEAST_PRIORITY
    )
