"""The catalogue: this desktop's index of the data root. It takes and returns records.

The files in the data root are the truth; the catalogue can always be rebuilt from them. It never
overwrites an existing file: a file that cannot be opened is refused with an error and stays
unchanged until the user moves it (`set_aside`).

A connection is used inside one method, so every method may be called from any thread.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    NullPool,
    QueuePool,
    create_engine,
    delete,
    event,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.catalogue.location import make_private, make_private_folder
from backend.catalogue.rows import (
    LINE_COLUMNS,
    item_to_row,
    job_to_row,
    row_to_item,
    row_to_job,
    row_to_line,
    searched,
)
from backend.catalogue.tables import FORMAT, ITEMS, JOBS, METADATA
from backend.node.system.mounts import MOUNTS, network_mount
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind, LibraryItem

T = TypeVar("T")

PATIENCE_S = 10.0
CACHE_KIB = 256
"""Page cache of each connection. SQLite would take 2 MB each as the jobs grow in number. The lists
are in memory, and the system caches what is read of the file."""
_MAGIC = b"SQLite format 3\0"
_BATCH = 500
_ITEM_KEY = ("kind", "name", "version")
_ORDERS = {
    "created": JOBS.c.created,
    "started": JOBS.c.started,
    "ended": JOBS.c.ended,
    "name": JOBS.c.name,
    "state": JOBS.c.state,
    "best": JOBS.c.best_value,
}


class CatalogueError(BackendError):
    """The catalogue cannot be used. ``is_damaged``: moving it away and rescanning fixes it."""

    def __init__(self, message: str, remedy: str, *, is_damaged: bool = False) -> None:
        super().__init__(message, remedy)
        self.is_damaged = is_damaged


class Catalogue:
    """An open catalogue; see `open_catalogue`."""

    def __init__(self, path: Path, engine: Engine, *, is_new: bool) -> None:
        self._path = path
        self._engine = engine
        self.is_new = is_new
        """Just created or rebuilt: a rescan fills it."""
        self.items_changed: Callable[[Kind], object] = lambda _kind: None
        """Called after each write of datasets, models or loaders, on the thread that wrote."""

    @property
    def path(self) -> Path:
        return self._path

    def close(self) -> None:
        self._engine.dispose()

    # Datasets, models, loaders.

    def put_item(self, item: LibraryItem, fingerprint: str = "") -> None:
        """Add or replace one version.

        ``fingerprint``: see `trusted_fingerprint`; "" keeps the stored fingerprint.
        """
        row = {**item_to_row(item), **({"trusted": fingerprint} if fingerprint else {})}
        query = select(ITEMS).where(*_is_item(item.kind, item.name, item.version))
        with self._reading() as connection:
            stored_row = connection.execute(query).mappings().one_or_none()
        if stored_row is None or any(stored_row[key] != value for key, value in row.items()):
            with self._writing() as connection:
                _put_item(connection, item, fingerprint)
            self.items_changed(item.kind)

    def items(self, kind: Kind) -> tuple[LibraryItem, ...]:
        """Return every version, by name, newest first."""
        query = (
            select(ITEMS)
            .where(ITEMS.c.kind == kind.value)
            .order_by(ITEMS.c.name, ITEMS.c.version.desc())
        )
        with self._reading() as connection:
            return tuple(row_to_item(row) for row in connection.execute(query).mappings())

    def remove_item(self, kind: Kind, name: str, version: int) -> None:
        with self._writing() as connection:
            connection.execute(delete(ITEMS).where(*_is_item(kind, name, version)))
        self.items_changed(kind)

    def trusted_fingerprint(self, kind: Kind, name: str, version: int) -> str:
        """Return the fingerprint of the files when their hash was last verified, or ""."""
        query = select(ITEMS.c.trusted).where(*_is_item(kind, name, version))
        with self._reading() as connection:
            return connection.scalar(query) or ""

    def sync_items(
        self, kind: Kind, items: Iterable[LibraryItem], removed_keys: Iterable[tuple[str, int]]
    ) -> None:
        """Add what was found in the data root and remove what is gone, in one transaction."""
        removed_keys = list(removed_keys)
        with self._writing() as connection:
            for item in items:
                _put_item(connection, item, "")
            for batch in _batches(removed_keys):
                connection.execute(
                    delete(ITEMS).where(
                        ITEMS.c.kind == kind.value,
                        tuple_(ITEMS.c.name, ITEMS.c.version).in_(batch),
                    )
                )
        self.items_changed(kind)

    # Jobs.

    def put_job(self, view: JobView) -> None:
        """Add or replace a job. Writes nothing if nothing changed, because the window polls."""
        row = job_to_row(view)
        query = select(JOBS).where(JOBS.c.id == view.id)
        with self._reading() as connection:
            stored_row = connection.execute(query).mappings().one_or_none()
        if stored_row is None or dict(stored_row) != row:
            with self._writing() as connection:
                _put_jobs(connection, [row])

    def put_jobs(self, views: Iterable[JobView]) -> None:
        """Add or replace several jobs in one transaction."""
        with self._writing() as connection:
            for batch in _batches([job_to_row(view) for view in views]):
                _put_jobs(connection, batch)

    def job(self, job_id: str) -> JobView | None:
        """Return the job as last seen, or None if the catalogue does not have it."""
        query = select(JOBS).where(JOBS.c.id == job_id)
        with self._reading() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else row_to_job(row)

    def jobs(
        self,
        text: str = "",
        states: Sequence[JobState] = (),
        order: str = "created",
        *,
        descending: bool = True,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[JobView, ...]:
        """Return jobs as last seen, by default newest first.

        Args:
            text: Each of its words must occur in the id, the name, the notes or the tags.
            states: Only jobs in these states; empty for all.
            order: One of "created", "started", "ended", "name", "state", "best".
            descending: Whether the last comes first.
            limit: The largest number of jobs; with ``offset`` a table shows its rows by page.
            offset: The number of jobs to skip.
        """
        column = _ORDERS[order]
        # A loss cannot be compared with an accuracy: jobs of one metric are kept together.
        metric = (JOBS.c.best_name.is_(None), JOBS.c.best_name) if order == "best" else ()
        sort_keys = (*metric, column.desc() if descending else column.asc(), JOBS.c.id.desc())
        conditions = _matches(text, states)
        query = select(JOBS).order_by(*sort_keys)
        with self._reading() as connection:
            if limit is None:
                query = query.where(*conditions).offset(offset)
            else:
                # Sorting whole rows of 100,000 jobs took 0.4 s, sorting their ids 0.07 s.
                ids = (
                    select(JOBS.c.id)
                    .where(*conditions)
                    .order_by(*sort_keys)
                    .limit(limit)
                    .offset(offset)
                )
                query = query.where(JOBS.c.id.in_(connection.scalars(ids).all()))
            rows = connection.execute(query).mappings().all()
        return tuple(view for row in rows if (view := row_to_job(row)) is not None)

    def job_lines(self) -> Iterator[JobSummary]:
        """Yield a summary of every job, in no order; rows are read as they are requested."""
        query = select(*(JOBS.c[name] for name in LINE_COLUMNS))
        with self._reading() as connection:
            for row in connection.execute(query.execution_options(yield_per=_BATCH)).mappings():
                yield row_to_line(row)

    def count_jobs(self, text: str = "", states: Sequence[JobState] = ()) -> int:
        query = select(func.count()).select_from(JOBS).where(*_matches(text, states))
        with self._reading() as connection:
            return connection.scalar(query) or 0

    def job_ids(self) -> frozenset[str]:
        with self._reading() as connection:
            return frozenset(connection.scalars(select(JOBS.c.id)))

    def remove_job(self, job_id: str) -> None:
        self.remove_jobs([job_id])

    def remove_jobs(self, job_ids: Iterable[str]) -> None:
        with self._writing() as connection:
            for batch in _batches(list(job_ids)):
                connection.execute(delete(JOBS).where(JOBS.c.id.in_(batch)))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _explained(self._path), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        # SQLite refuses at once a transaction that reads first and writes after another one wrote
        # in between, whatever its timeout. One that begins as a writer waits.
        engine = self._engine.execution_options(ringmaster_begin="BEGIN IMMEDIATE")
        with _explained(self._path), engine.begin() as connection:
            yield connection


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
            is_new = _rebuild(path)
        engine = _engine(path)
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1 FROM job LIMIT 1")
    return Catalogue(path, engine, is_new=is_new)


def set_aside(path: Path) -> Path:
    """Rename a catalogue that cannot be used, so that a new one can be built; nothing is lost."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    renamed = path.with_name(f"{path.name}.damaged-{stamp}-{token_hex(2)}")
    try:
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{renamed}{suffix}")
        os.rename(path, renamed)
    except OSError as error:
        raise CatalogueError(
            f"The catalogue {path} cannot be renamed: {error.strerror or error}.",
            "Choose another file: --catalogue FILE.",
        ) from error
    return renamed


def _make(path: Path) -> None:
    """Create an empty catalogue in one step: other processes see none, or a usable one."""
    make_private_folder(path.parent)
    new_path = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(4)}.new")
    make_private(new_path)
    try:
        with _explained(path):
            engine = _engine(new_path, is_shared=False)
            with engine.begin() as connection:
                _create_tables(connection)
            engine.dispose()
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
    if not tables >= {ITEMS.name, JOBS.name}:
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


def _create_tables(connection: Connection) -> None:
    METADATA.create_all(connection)
    connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")


def _rebuild(path: Path) -> bool:
    """Recreate the tables of an older catalogue in one transaction; a rescan fills in the jobs.

    What it knows of datasets, models and loaders stays: their hashes took long to compute.
    """
    engine = _engine(path, is_shared=False).execution_options(ringmaster_begin="BEGIN IMMEDIATE")
    try:
        with engine.begin() as connection:
            # Another window may have done it while this one waited for the lock.
            if connection.exec_driver_sql("PRAGMA user_version").scalar() == FORMAT:
                return False
            rows = connection.exec_driver_sql(f"SELECT * FROM {ITEMS.name}").mappings().all()
            # Earlier formats were numbered by Alembic.
            connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
            METADATA.drop_all(connection)
            _create_tables(connection)
            if rows:
                connection.execute(insert(ITEMS), [dict(row) for row in rows])
    finally:
        engine.dispose()
    return True


def _engine(path: Path, *, is_shared: bool = True) -> Engine:
    """Open ``path``. Not ``is_shared``: for one transaction that leaves no other file behind."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": PATIENCE_S, "check_same_thread": False},
        poolclass=QueuePool if is_shared else NullPool,
        **({"pool_size": 4, "max_overflow": -1} if is_shared else {}),
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # By default the driver begins transactions itself, and only before some statements.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE_S * 1000)}")
        if is_shared:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        # NORMAL would lose the last commits in a power cut.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        statement = connection.get_execution_options().get("ringmaster_begin", "BEGIN")
        connection.exec_driver_sql(statement)

    return engine


def _put_item(connection: Connection, item: LibraryItem, fingerprint: str) -> None:
    row = item_to_row(item)
    if fingerprint:
        row["trusted"] = fingerprint
    statement = insert(ITEMS).values(**row)
    changes = {key: statement.excluded[key] for key in row if key not in _ITEM_KEY}
    connection.execute(
        statement.on_conflict_do_update(index_elements=list(_ITEM_KEY), set_=changes)
    )


def _put_jobs(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    statement = insert(JOBS)
    changes = {key: statement.excluded[key] for key in rows[0] if key != "id"}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_=changes), list(rows)
    )


def _is_item(kind: Kind, name: str, version: int) -> tuple[Any, ...]:
    return (
        ITEMS.c.kind == kind.value,
        ITEMS.c.name == name,
        ITEMS.c.version == version,
    )


def _matches(text: str, states: Sequence[JobState]) -> list[Any]:
    conditions = [JOBS.c.search.contains(word, autoescape=True) for word in searched(text).split()]
    if states:
        conditions.append(JOBS.c.state.in_([state.value for state in states]))
    return conditions


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split ``values``: SQLite limits the number of variables in a statement."""
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file into `CatalogueError`; errors in a query stay."""
    try:
        yield
    except DBAPIError as error:
        refusal = _refusal(path, error.orig)
        if refusal is None:
            raise
        raise refusal from error
    except sqlite3.DatabaseError as error:
        refusal = _refusal(path, error)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(path: Path, error: BaseException | None) -> CatalogueError | None:
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
