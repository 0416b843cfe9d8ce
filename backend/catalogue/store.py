"""The catalogue: this desktop's index of the data root. It takes and returns records.

The files in the data root are the truth; the catalogue can always be rebuilt from them. It never
overwrites an existing file: a file that cannot be opened is refused with an error and stays
unchanged until the user moves it (`set_aside`).

A connection is used inside one method, so every method may be called from any thread. Reads use
`sqlite3` alone: importing SQLAlchemy, which `tables` does for the writes, takes four fifths of the
processor time of a command such as ``job list``.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.catalogue.rows import (
    LINE_COLUMNS,
    item_to_row,
    job_to_row,
    row_to_item,
    row_to_job,
    row_to_line,
    searched,
)
from backend.node.system.mounts import MOUNTS, network_mount
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind, LibraryItem

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from backend.catalogue.tables import CatalogueWriter

T = TypeVar("T")

FORMAT = 6
"""SQLite's ``user_version`` of the file. A file of an older format is rebuilt."""
PATIENCE_S = 10.0
CACHE_KIB = 256
"""Page cache of each connection. SQLite would take 2 MB each as the jobs grow in number. The lists
are in memory, and the system caches what is read of the file."""
_MAGIC = b"SQLite format 3\0"
_BATCH = 500
_ITEM_QUERY = (
    "SELECT * FROM library_item WHERE kind = :kind AND name = :name AND version = :version"
)


class CatalogueError(BackendError):
    """The catalogue cannot be used. ``is_damaged``: moving it away and rescanning fixes it."""

    def __init__(self, message: str, remedy: str, *, is_damaged: bool = False) -> None:
        super().__init__(message, remedy)
        self.is_damaged = is_damaged


class Catalogue:
    """An open catalogue; see `open_catalogue`."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        self.path = path
        self.is_new = is_new
        """Just created or rebuilt: a rescan fills it."""
        self.items_changed: Callable[[Kind], object] = lambda _kind: None
        """Called after each write of datasets, models or loaders, on the thread that wrote."""
        self._idle_connections: list[sqlite3.Connection] = []
        self._engine_lock = threading.Lock()
        self._write_engine: Engine | None = None

    def close(self) -> None:
        if self._write_engine is not None:
            self._write_engine.dispose()
        while self._idle_connections:
            self._idle_connections.pop().close()

    # Datasets, models, loaders.

    def put_item(self, item: LibraryItem, fingerprint: str = "") -> None:
        """Add or replace one version.

        ``fingerprint``: see `trusted_fingerprint`; "" keeps the stored fingerprint.
        """
        row = item_to_row(item)
        if fingerprint:
            row["trusted"] = fingerprint
        with self._reading() as connection:
            stored_row = connection.execute(_ITEM_QUERY, row).fetchone()
        if stored_row is None or any(stored_row[key] != value for key, value in row.items()):
            with self._writing() as writer:
                writer.put_item(row)
            self.items_changed(item.kind)

    def items(self, kind: Kind) -> tuple[LibraryItem, ...]:
        """Return every version, by name, newest first."""
        query = "SELECT * FROM library_item WHERE kind = ? ORDER BY name, version DESC"
        with self._reading() as connection:
            return tuple(map(row_to_item, connection.execute(query, (kind.value,))))

    def remove_item(self, kind: Kind, name: str, version: int) -> None:
        self.sync_items(kind, (), [(name, version)])

    def trusted_fingerprint(self, kind: Kind, name: str, version: int) -> str:
        """Return the fingerprint of the files when their hash was last verified, or ""."""
        key = {"kind": kind.value, "name": name, "version": version}
        with self._reading() as connection:
            row = connection.execute(_ITEM_QUERY, key).fetchone()
        return "" if row is None else str(row["trusted"])

    def sync_items(
        self, kind: Kind, items: Iterable[LibraryItem], removed_keys: Iterable[tuple[str, int]]
    ) -> None:
        """Add what was found in the data root and remove what is gone, in one transaction."""
        with self._writing() as writer:
            for item in items:
                writer.put_item(item_to_row(item))
            for batch in _batches(list(removed_keys)):
                writer.remove_items(kind.value, batch)
        self.items_changed(kind)

    # Jobs.

    def put_job(self, view: JobView) -> None:
        """Add or replace a job. Writes nothing if nothing changed, because the window polls."""
        row = job_to_row(view)
        with self._reading() as connection:
            query = "SELECT * FROM job WHERE id = ?"
            stored_row = connection.execute(query, (view.id,)).fetchone()
        if stored_row is None or dict(stored_row) != row:
            with self._writing() as writer:
                writer.put_jobs([row])

    def put_jobs(self, views: Iterable[JobView]) -> None:
        """Add or replace several jobs in one transaction."""
        with self._writing() as writer:
            for batch in _batches([job_to_row(view) for view in views]):
                writer.put_jobs(batch)

    def jobs(self, text: str = "", limit: int = -1) -> tuple[JobView, ...]:
        """Return jobs as last seen, newest first.

        Args:
            text: Each of its words must occur in the id, the name, the notes or the tags.
            limit: The largest number of jobs; negative for all.
        """
        tokens = searched(text).split()
        conditions = " AND ".join(["instr(search, ?)"] * len(tokens)) or "TRUE"
        order = "ORDER BY created DESC, id DESC"
        # Sorting whole rows of 100,000 jobs took 0.4 s, sorting their ids 0.07 s.
        ids = f"SELECT id FROM job WHERE {conditions} {order} LIMIT ?"
        query = f"SELECT * FROM job WHERE id IN ({ids}) {order}"
        with self._reading() as connection:
            rows = connection.execute(query, (*tokens, limit)).fetchall()
        return tuple(view for row in rows if (view := row_to_job(row)) is not None)

    def job_lines(self) -> Iterator[JobSummary]:
        """Yield a summary of every job, in no order; rows are read as they are requested."""
        with self._reading() as connection:
            yield from map(
                row_to_line, connection.execute(f"SELECT {', '.join(LINE_COLUMNS)} FROM job")
            )

    def job_ids(self) -> frozenset[str]:
        with self._reading() as connection:
            return frozenset(row["id"] for row in connection.execute("SELECT id FROM job"))

    def remove_jobs(self, job_ids: Iterable[str]) -> None:
        with self._writing() as writer:
            for batch in _batches(list(job_ids)):
                writer.remove_jobs(batch)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            try:
                connection = self._idle_connections.pop()
            except IndexError:  # every connection is in use
                connection = _connect(self.path)
            try:
                yield connection
            finally:
                self._idle_connections.append(connection)

    @contextmanager
    def _writing(self) -> Iterator[CatalogueWriter]:
        from backend.catalogue.tables import transaction

        with _explained(self.path), transaction(self._engine()) as writer:
            yield writer

    def _engine(self) -> Engine:
        from backend.catalogue.tables import make_engine

        with self._engine_lock:
            if self._write_engine is None:
                self._write_engine = make_engine(partial(_connect, self.path))
            return self._write_engine


def open_catalogue(path: Path, mounts: Path = MOUNTS) -> Catalogue:
    """Open the catalogue; create it if it is missing, rebuild it if it is older.

    Raises:
        CatalogueError: It lies on a network share, is damaged, belongs to a newer Ringmaster or
            another program, or is locked. The file was not changed.
    """
    kind, _ = network_mount(path, mounts)
    if kind:
        raise CatalogueError(
            f"The catalogue {path} is on a network share ({kind}), where two desktops would "
            "damage it.",
            "Choose a file on a local disk: --catalogue FILE.",
        )
    try:
        is_new = not path.exists()
        if is_new:
            _make(path)
        elif path.is_dir():
            raise CatalogueError(
                f"The catalogue {path} is a folder.", "Choose a file: --catalogue FILE."
            )
        else:
            with path.open("rb") as file:
                head = file.read(len(_MAGIC))
            _refuse_garbage(path, head)
            with suppress(PermissionError):
                path.chmod(0o600)
    except OSError as error:
        raise CatalogueError(
            f"The catalogue {path} cannot be opened: {error.strerror or error}.",
            "Choose a file that you may write: --catalogue FILE.",
        ) from error
    with _explained(path):
        if _format(path) != FORMAT:
            from backend.catalogue.tables import single_transaction

            with single_transaction(partial(_connect, path, is_shared=False)) as writer:
                is_new = writer.rebuild_tables(FORMAT)
    catalogue = Catalogue(path, is_new=is_new)
    with catalogue._reading() as connection:
        connection.execute("SELECT 1 FROM job LIMIT 1")
    return catalogue


def set_aside(path: Path) -> Path:
    """Rename a catalogue that cannot be used, so that a new one can be built; nothing is lost."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    damaged_path = path.with_name(f"{path.name}.damaged-{stamp}-{token_hex(2)}")
    try:
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{damaged_path}{suffix}")
        os.rename(path, damaged_path)
    except OSError as error:
        raise CatalogueError(
            f"The catalogue {path} cannot be renamed: {error.strerror or error}.",
            "Choose another file: --catalogue FILE.",
        ) from error
    return damaged_path


def _make(path: Path) -> None:
    """Create an empty catalogue in one step: other processes see none, or a usable one.

    Only its owner can read it, and a folder that is made for it.
    """
    from backend.catalogue.tables import single_transaction

    if not path.parent.is_dir():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
    new_path = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(4)}.new")
    os.close(os.open(new_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with (
            _explained(path),
            single_transaction(partial(_connect, new_path, is_shared=False)) as writer,
        ):
            writer.create_tables(FORMAT)
        try:
            os.link(new_path, path)
        except FileExistsError:
            return
        except OSError:
            # This file system has no hard links: the last of two writers wins, with the same file.
            os.replace(new_path, path)
    finally:
        new_path.unlink(missing_ok=True)


def _refuse_garbage(path: Path, head: bytes) -> None:
    remedy = (
        f"The file is kept: rename {path.name}, or choose another file with --catalogue FILE; "
        "then “rescan” builds a new one from the data root."
    )
    if not head:
        raise CatalogueError(
            f"The catalogue {path} is empty (0 bytes); its content was lost.",
            remedy,
            is_damaged=True,
        )
    if head != _MAGIC:
        raise CatalogueError(f"{path} is not a Ringmaster catalogue.", remedy, is_damaged=True)


def _format(path: Path) -> int:
    """Return the format of a catalogue; those before 5 have none and are 0."""
    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        number = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if not tables >= {"library_item", "job"}:
            raise CatalogueError(
                f"{path} is a database of another program.",
                "Choose another file: --catalogue FILE.",
            )
    if number > FORMAT:
        raise CatalogueError(
            f"The catalogue {path} was made by a newer Ringmaster (its format is {number}; "
            f"this one reads up to {FORMAT}).",
            "Update Ringmaster, or let this one build its own from the data root: "
            "rescan --catalogue ANOTHER-FILE.",
        )
    return number


def _connect(path: Path, *, is_shared: bool = True) -> sqlite3.Connection:
    """Open ``path``. Not ``is_shared``: for one transaction that leaves no other file behind."""
    # By default the driver begins transactions itself, and only before some statements.
    connection = sqlite3.connect(
        path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    if is_shared:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # NORMAL would lose the last commits in a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split ``values``: SQLite limits the number of variables in a statement."""
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file into `CatalogueError`; errors in a query stay."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        refusal = _refusal(path, error)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(path: Path, error: sqlite3.DatabaseError) -> CatalogueError | None:
    # The lowest byte of an extended code is the kind of error.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return CatalogueError(
            f"The catalogue {path} is locked by another program.",
            "Close the program that has it open (a database browser, a backup), then try again.",
        )
    if code == sqlite3.SQLITE_FULL:
        return CatalogueError(
            f"The disk that holds the catalogue {path} is full.",
            "Free some space on it; everything stored already is kept.",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CatalogueError(
            f"The catalogue {path} is damaged: {error}.",
            f"The file is kept: rename {path.name}, or choose another file with --catalogue "
            "FILE; then “rescan” builds a new one from the data root.",
            is_damaged=True,
        )
    if code in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
    ):
        return CatalogueError(
            f"The catalogue {path} cannot be used: {error}.",
            "Check the disk and your write permission, or choose another file: --catalogue FILE.",
        )
    return None
