"""Secrets in the keyring of the desktop: passphrases of SSH keys, for who asked for that, and
passwords of mail servers.

Only a store that a login or a password of its own guards will do: what writes plain text, or
scrambles it with a secret that lies beside it, is none, whatever `keyring` has been set to.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "Ringmaster, SSH key"
_LEAST_PRIORITY = 1
"""`keyring` recommends no backend below: those are its stand-ins and its plain files."""
_UNGUARDED = ("keyrings.alt", "keyring.backends.fail", "keyring.backends.null")


MAIL_SERVICE = "Ringmaster, mail"


class SystemKeyring:
    """Every call may wait for a person to unlock the keyring, so none belongs on a GUI thread.

    ``service`` is the name under which it keeps things, ``what`` the word for one of them. What a
    passphrase opens is a file, known by its absolute path.
    """

    def __init__(self, service: str = SERVICE, what: str = "passphrase") -> None:
        self._service = service
        self._what = what

    def fault(self) -> str:
        """Why nothing can be kept there, in one sentence; "" when it can."""
        try:
            _backend()
        except BackendError as error:
            return error.sentence
        return ""

    def read(self, identity: str) -> str:
        """The passphrase of a key file, "" when none is kept or the keyring stays locked."""
        from keyring.errors import KeyringError

        try:
            return _backend().get_password(self._service, self._name(identity)) or ""
        except (BackendError, KeyringError):
            return ""

    def keep(self, identity: str, passphrase: str) -> None:
        """Keep a passphrase from now on.

        Raises:
            BackendError: There is no keyring, or it stays locked.
        """
        from keyring.errors import KeyringError

        backend = _backend()
        try:
            backend.set_password(self._service, self._name(identity), passphrase)
        except KeyringError as error:
            raise BackendError(
                f"The system keyring did not take the {self._what} of {identity}.",
                f"Unlock the keyring, or give the {self._what} anew with each start.",
            ) from error

    def delete(self, identity: str) -> bool:
        """Keep it no longer; whether there was one.

        Raises:
            BackendError: It is there and the keyring does not let go of it.
        """
        from keyring.errors import KeyringError

        try:
            backend = _backend()
        except BackendError:
            return False
        try:
            if backend.get_password(self._service, self._name(identity)) is None:
                return False
            backend.delete_password(self._service, self._name(identity))
        except KeyringError as error:
            raise BackendError(
                f"The system keyring did not let go of the {self._what} of {identity}.",
                f"Unlock the keyring and try again; there it is called “{self._service}”.",
            ) from error
        return True

    def _name(self, identity: str) -> str:
        if self._service != SERVICE:
            return identity
        return str(Path(identity).expanduser().absolute())


def _backend() -> KeyringBackend:
    """The first guarded store of those that are set up.

    Raises:
        BackendError: There is none.
    """
    # Late: it asks the bus of the session what is there, which who lists jobs need not wait for.
    import keyring

    found = keyring.get_keyring()
    offered: tuple[KeyringBackend, ...] = (*getattr(found, "backends", ()), found)
    guarded = next((one for one in offered if _is_guarded(one)), None)
    if guarded is None:
        raise BackendError(
            "This computer has no system keyring that could keep it (on Linux: GNOME Keyring, "
            "KWallet or another Secret Service)."
        )
    return guarded


def _is_guarded(backend: KeyringBackend) -> bool:
    module = type(backend).__module__
    is_chain = hasattr(backend, "backends")
    return (
        not is_chain
        and not any(module == one or module.startswith(f"{one}.") for one in _UNGUARDED)
        and float(backend.priority) >= _LEAST_PRIORITY
    )
