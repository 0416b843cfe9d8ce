"""Write a bundle, and read one that may have been changed.

Reading trusts nothing: `open_bundle` returns after every byte was compared with the manifest and
the seal, and nothing is written before. See `records.bundles.job_archive` for the format.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

from backend.base.errors import BackendError, exists_error
from backend.base.progress import ByteCount, Progress
from backend.datastore.access.hashes import CHUNK_BYTES, files_text
from backend.datastore.access.hashes import manifest as listing_of
from backend.datastore.library.ignore_rules import path_fault
from backend.datastore.library.sources import SourceFile
from backend.datastore.library.zip_source import ZipSource, scan_entries
from backend.records.base.access_modes import create
from backend.records.base.account import expand_home
from backend.records.base.program_name import COMMAND
from backend.records.bundles.job_archive import (
    FORMAT,
    MANIFEST,
    BundledFile,
    BundledVersion,
    Manifest,
)

_SEAL = b"ringmaster sha256 "
_DIGITS = 64
_DATE = (1980, 1, 1, 0, 0, 0)
_MANIFEST_BYTES = 200_000_000
_START = b"PK\x03\x04"
_REMEDY = "Nothing was imported; request the file again."


@dataclass(frozen=True)
class ArchiveMember:
    """A file to be added to a bundle; ``source`` is a path, or the bytes themselves."""

    path: str
    sha256: str
    size_bytes: int
    source: Path | bytes
    is_executable: bool = False

    @classmethod
    def from_bytes(cls, path: str, content: bytes) -> ArchiveMember:
        return cls(path, hashlib.sha256(content).hexdigest(), len(content), content)


def write_bundle(
    target: Path,
    manifest: Manifest,
    parts: Sequence[ArchiveMember],
    progress: Progress,
    *,
    overwrite: bool = False,
) -> Path:
    """Write the bundle next to ``target`` and put it there in one step.

    Set ``overwrite`` only if the user agreed to replace this file.

    Raises:
        BackendError: The file exists, or a part does not match its hash.
        Cancelled: The user cancelled; nothing was written.
    """
    target = expand_home(target).absolute()
    if target.exists() and not overwrite:
        raise exists_error(target)
    parts = sorted(parts, key=lambda part: part.path)
    files = {part.path: BundledFile(part.sha256, part.size_bytes) for part in parts}
    full_manifest = replace(manifest, files=files)
    text = json.dumps(full_manifest.to_dict(), indent=1, sort_keys=True, allow_nan=False)
    manifest_part = ArchiveMember.from_bytes(MANIFEST, text.encode())
    partial_file = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with zipfile.ZipFile(partial_file, "x", zipfile.ZIP_STORED) as archive:
            on_bytes = ByteCount(
                progress, sum(part.size_bytes for part in parts), "Writing the bundle"
            )
            for part in (manifest_part, *parts):
                _write_part(archive, part, on_bytes)
            archive.comment = _SEAL + b"0" * _DIGITS
        _seal(partial_file)
        _put_in_place(partial_file, target, overwrite)
    except OSError as error:
        raise BackendError(
            f"The bundle cannot be written to {target.parent}: {error.strerror or error}.",
            f"Free some space in {target.parent}, or choose another folder.",
        ) from error
    finally:
        partial_file.unlink(missing_ok=True)
    return target


def _write_part(archive: zipfile.ZipFile, part: ArchiveMember, on_bytes: ByteCount) -> None:
    entry = zipfile.ZipInfo(part.path, _DATE)
    entry.create_system = 3
    mode = 0o755 if part.is_executable else 0o644
    entry.external_attr = (stat.S_IFREG | mode) << 16
    entry.file_size = part.size_bytes
    digest = hashlib.sha256()
    with archive.open(entry, "w") as entry_file, _open_source(part.source) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            entry_file.write(chunk)
            on_bytes(len(chunk))
    if digest.hexdigest() != part.sha256:
        raise BackendError(
            f"{files_text(part.path)} does not match its record: its contents have changed.",
            "Restore the file; no bundle was written.",
        )


@contextlib.contextmanager
def _open_source(source: Path | bytes) -> Iterator[IO[bytes]]:
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        yield file


def _seal(path: Path) -> None:
    with path.open("r+b") as file:
        digest = _digest_but_seal(file)
        file.seek(-_DIGITS, os.SEEK_END)
        file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())


def _digest_but_seal(file: IO[bytes], on_bytes: ByteCount | None = None) -> str:
    """Return the SHA-256 of everything except the digits at the end."""
    remaining_bytes = file.seek(0, os.SEEK_END) - _DIGITS
    file.seek(0)
    digest = hashlib.sha256()
    while remaining_bytes > 0 and (chunk := file.read(min(CHUNK_BYTES, remaining_bytes))):
        digest.update(chunk)
        remaining_bytes -= len(chunk)
        if on_bytes is not None:
            on_bytes(len(chunk))
    return digest.hexdigest()


def _put_in_place(partial_file: Path, target: Path, overwrite: bool) -> None:
    partial_file.chmod(0o644)
    if overwrite:
        os.replace(partial_file, target)
        return
    try:
        os.link(partial_file, target)
    except FileExistsError as error:
        raise exists_error(target) from error
    except OSError:
        # Not every file system supports links.
        if target.exists():
            raise exists_error(target) from None
        partial_file.rename(target)


class VerifiedArchive:
    """A bundle that was verified completely."""

    def __init__(self, path: Path, manifest: Manifest, entries: dict[str, zipfile.ZipInfo]) -> None:
        self.path = path
        self.manifest = manifest
        self._entries = entries

    def contains(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(self._entries[name])

    def copy_out(self, name: str, target: Path, progress: Progress) -> None:
        """Write one file, which must still be the verified one."""
        record = self.manifest.files[name]
        digest = hashlib.sha256()
        on_bytes = ByteCount(progress, record.bytes, f"Copying {PurePosixPath(name).name}")
        with (
            zipfile.ZipFile(self.path) as archive,
            archive.open(self._entries[name]) as entry,
            open(create(target), "wb") as target_file,
        ):
            while chunk := entry.read(CHUNK_BYTES):
                digest.update(chunk)
                target_file.write(chunk)
                on_bytes(len(chunk))
            target_file.flush()
            os.fsync(target_file.fileno())
        if digest.hexdigest() != record.sha256:
            raise _changed(self.path, name)

    def source(self, item: BundledVersion) -> ZipSource:
        """Return the files of a version, to be imported."""
        prefix = f"{item.folder}/"
        files = [
            SourceFile(
                name.removeprefix(prefix),
                entry.file_size,
                entry,
                bool(entry.external_attr >> 16 & stat.S_IXUSR),
            )
            for name, entry in self._entries.items()
            if name.startswith(prefix)
        ]
        folders = set(item.empty_folders) | {file.path for file in files}
        parents = {str(parent) for path in folders for parent in PurePosixPath(path).parents} | set(
            item.empty_folders
        )
        return ZipSource(self.path, files, parents - {"."})


def open_bundle(path: Path, progress: Progress) -> VerifiedArchive:
    """Verify every byte of a bundle.

    Raises:
        BackendError: It is not a bundle, or was changed; the difference is named.
        Cancelled: The user cancelled.
    """
    path = expand_home(path).absolute()
    with _archive_errors(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(len(_START)) != _START:
                raise BackendError(
                    f"{path.name} is not a Ringmaster bundle.",
                    f"Make a bundle with “Bundle…” or {COMMAND} job bundle.",
                )
        entries = _entries(path, progress)
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(path, archive, entries)
            _compare_names(path, entries, manifest)
            on_bytes = ByteCount(progress, 2 * size, "Verifying the bundle")
            for name, record in manifest.files.items():
                if _digest(path, archive, entries[name], on_bytes) != record.sha256:
                    raise _changed(path, name)
        _compare_seal(path, on_bytes)
        _compare_items(path, manifest)
    return VerifiedArchive(path, manifest, entries)


def _entries(path: Path, progress: Progress) -> dict[str, zipfile.ZipInfo]:
    try:
        folders, entries, _ = scan_entries(path, progress)
    except BackendError as error:
        raise BackendError(str(error), _REMEDY) from error
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise _refusal(path, f"{files_text(name)} is compressed, which a bundle never is")
    parents = {str(parent) for name in entries for parent in PurePosixPath(name).parents}
    if folders - parents:
        raise _refusal(path, f"the folder {files_text(min(folders - parents))} was added to it")
    return entries


def _manifest(
    path: Path, archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo]
) -> Manifest:
    entry = entries.get(MANIFEST)
    if entry is None:
        raise _refusal(path, f"it contains no {MANIFEST}")
    if entry.file_size > _MANIFEST_BYTES:
        raise _refusal(path, f"its {MANIFEST} is larger than {_MANIFEST_BYTES // 1_000_000} MB")
    try:
        raw = json.loads(archive.read(entry))
        version = int(raw["format"])
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _changed(path, MANIFEST) from error
    if version > FORMAT:
        raise BackendError(
            f"{path.name} was made by a newer Ringmaster (format {version}; this one reads up to "
            f"{FORMAT}).",
            "Update Ringmaster on this computer; nothing was imported.",
        )
    try:
        return Manifest.from_dict(raw)
    except ValueError as error:
        raise _refusal(path, f"its {MANIFEST} cannot be used ({error})") from error


def _compare_names(path: Path, entries: dict[str, zipfile.ZipInfo], manifest: Manifest) -> None:
    present_names, listed_names = entries.keys() - {MANIFEST}, manifest.files.keys()
    for template, names in (
        ("{} is missing from it", listed_names - present_names),
        ("{} was added to it", present_names - listed_names),
    ):
        if names:
            raise _refusal(path, template.format(files_text(min(names), len(names))))
    for name in sorted(listed_names):
        if entries[name].file_size != manifest.files[name].bytes:
            raise _changed(path, name)


def _digest(
    path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, on_bytes: ByteCount
) -> str:
    digest = hashlib.sha256()
    try:
        with archive.open(entry) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                on_bytes(len(chunk))
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError) as error:
        raise _changed(path, entry.filename) from error
    return digest.hexdigest()


def _compare_seal(path: Path, on_bytes: ByteCount) -> None:
    with path.open("rb") as file:
        digest = _digest_but_seal(file, on_bytes)
        file.seek(-_DIGITS - len(_SEAL), os.SEEK_END)
        seal = file.read()
    if seal != _SEAL + digest.encode():
        raise _refusal(path, "its seal, or the bytes between its files, were changed")


def _compare_items(path: Path, manifest: Manifest) -> None:
    """Check that a version's own hash is that of its listed files."""
    for item in manifest.versions.values():
        if not item.folder:
            continue
        for empty_folder in item.empty_folders:
            if (
                path_fault(empty_folder)
                or "\\" in empty_folder
                or {"", ".", ".."} & set(empty_folder.split("/"))
            ):
                raise _refusal(path, f"the folder {files_text(empty_folder)} is outside it")
        prefix = f"{item.folder}/"
        entry = prefix + item.kind.entry_file
        if item.kind.entry_file and entry not in manifest.files:
            raise _refusal(path, f"{files_text(entry)} is missing from it")
        listing = listing_of(
            {
                name.removeprefix(prefix): file.sha256
                for name, file in manifest.files.items()
                if name.startswith(prefix)
            }
        )
        if hashlib.sha256(listing).hexdigest() != item.sha256:
            raise _refusal(path, f"the files of the {item.text} do not match its hash")


@contextlib.contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendError(f"{path} cannot be read: {error.strerror or error}.", "") from error
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise _refusal(path, "its list of files was changed") from error


def _changed(path: Path, name: str) -> BackendError:
    return _refusal(path, f"{files_text(name)} was changed after the bundle was made")


def _refusal(path: Path, reason: str) -> BackendError:
    return BackendError(f"{path.name} cannot be imported: {reason}.", _REMEDY)
