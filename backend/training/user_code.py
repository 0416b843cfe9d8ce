"""The user's model and loader: loading them, building them, calling them, saying what is wrong.

User files import each other in two ways, ``from .layers import Block`` and ``from layers import
Block``, and a model's ``utils.py`` must never be taken for a loader's. So each source folder
becomes a private package (``_ringmaster_user_1``), and the modules in it get an ``__import__`` of
their own that looks in that package first. ``utils`` itself never stands in ``sys.modules``: two
folders cannot collide, an installed package never sees a user's file, and an ``import`` inside a
function still works long after loading. The private modules stay, so that classes can be pickled
for the workers of a data loader.

Everything a user's code raises comes out as a `UserCodeError`: a sentence, a way out, and the
traceback without our own frames. Running out of memory is not the user's bug and flies as it is.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.abc
import itertools
import operator
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from backend.errors import BackendError

if TYPE_CHECKING:
    import torch

MODEL_FILE = "bks_model.py"
LOADER_FILE = "bks_dataset.py"
_PREFIX = "_ringmaster_user_"


class UserCodeError(BackendError):
    """The user's code cannot be used as it is.

    ``traceback`` begins in the user's file; "" when there is nothing more to see. ``index`` is the
    item of the dataset at which it happened, where it is known.
    """

    def __init__(
        self, sentence: str, remedy: str = "", traceback: str = "", index: int | None = None
    ) -> None:
        super().__init__(sentence, remedy)
        self.traceback = traceback
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return UserCodeError, (self.sentence, self.remedy, self.traceback, self.index)


# --- source folders as private packages -------------------------------------------------------


class Source:
    """One source folder. Pickling it and unpickling it elsewhere makes its classes known there."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._owned: dict[str, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _register, (self.folder, self.name)

    def owns(self, top: str) -> bool:
        """Whether ``import top`` in a file of this folder means a file or package of it."""
        # Remembered, because an import may stand in __getitem__ and run for every item.
        known = self._owned.get(top)
        if known is None:
            known = self._owned[top] = self._look_for(top)
        return known

    def _look_for(self, top: str) -> bool:
        spec = PathFinder.find_spec(top, [str(self.folder)])
        if spec is None:
            return False
        if spec.loader is not None:
            return True
        # A bare directory is a package to Python, but an installed one goes before it.
        elsewhere = [place for place in sys.path if place != str(self.folder)]
        installed = PathFinder.find_spec(top, elsewhere)
        return installed is None or installed.loader is None

    def import_for_user(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """``__import__`` as the modules of this folder see it."""
        top = name.partition(".")[0]
        if level or not self.owns(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        private = f"{self.name}.{name}"
        leaf = builtins.__import__(private, globals, locals, fromlist or (), 0)
        return leaf if fromlist else sys.modules[f"{self.name}.{top}"]

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """On ``sys.path``, for what is imported by name (``importlib.import_module``)."""
        known = set(sys.modules)
        path = str(self.folder)
        no_bytecode = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        # At the end: our own files are found by `import_for_user`, and a user's queue.py must not
        # be taken for the standard library's by a package that loads meanwhile.
        sys.path.append(path)
        try:
            yield
        finally:
            sys.dont_write_bytecode = no_bytecode
            if path in sys.path:
                sys.path.remove(path)
            for name in set(sys.modules) - known:
                if not name.startswith(_PREFIX) and self._holds(sys.modules[name]):
                    del sys.modules[name]

    def _holds(self, module: ModuleType) -> bool:
        # Not getattr: modules such as torch.classes answer to every name.
        known = vars(module)
        places = [known.get("__file__"), *known.get("__path__", ())]
        inside = f"{self.folder}{os.sep}"
        return any(isinstance(place, str) and place.startswith(inside) for place in places)

    def forget(self) -> None:
        """Drop what was loaded, after a loading that broke off."""
        for name in [n for n in sys.modules if n == self.name or n.startswith(f"{self.name}.")]:
            del sys.modules[name]
        _sources.pop(self.name, None)


class _UserFile(SourceFileLoader):
    """Reads no ``.pyc`` and writes none: the folder is the user's."""

    def __init__(self, fullname: str, path: str, source: Source) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {
            **vars(builtins),
            "__import__": self._source.import_for_user,
        }
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the private packages and nothing else, so it may stay for the life of the process."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        source = _sources.get(fullname.partition(".")[0])
        if source is None:
            return None
        if fullname == source.name:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(source.folder)]
            return spec
        spec_found = PathFinder.find_spec(fullname, path)
        if spec_found is not None and isinstance(spec_found.loader, SourceFileLoader):
            spec_found.loader = _UserFile(fullname, spec_found.loader.path, source)
            spec_found.cached = None
        return spec_found


_sources: dict[str, Source] = {}
_numbers = itertools.count(1)
_lock = threading.RLock()


def _register(folder: Path, name: str) -> Source:
    """Make the folder importable as the package ``name``; also what a spawned worker runs."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
    return _sources.setdefault(name, Source(folder, name))


def _load(folder: Path, entry: str, kind: str) -> tuple[Source, ModuleType]:
    """Import ``entry`` of ``folder``; ``kind`` is the word for it in sentences."""
    folder = folder.resolve()
    if not (folder / entry).is_file():
        elsewhere = next((p for p in sorted(folder.glob(f"*/{entry}")) if p.is_file()), None)
        raise UserCodeError(
            f"The {kind} has no {entry} at the top of its files.",
            f"Import the folder “{elsewhere.parent.name}”, which has one."
            if elsewhere
            else f"Add a file {entry}; the gallery's digits example shows one.",
        )
    # A Keras 3 model is a torch module only on this backend, which is chosen when Keras loads.
    os.environ.setdefault("KERAS_BACKEND", "torch")
    with _lock:
        source = _register(folder, f"{_PREFIX}{next(_numbers)}")
        try:
            with source.loading(), calling(f"{entry}, while it was imported,", source):
                module = importlib.import_module(f"{source.name}.{entry.removesuffix('.py')}")
        except BaseException:
            source.forget()
            raise
    return source, module


# --- the model --------------------------------------------------------------------------------


def load_model(folder: Path) -> torch.nn.Module:
    """The user's model, built and on the processor. Seed before: weights are drawn here.

    Its parameters may not exist before the first batch; see `needs_first_batch`.

    Raises:
        UserCodeError: It cannot be loaded or built, or is not what a model must be.
    """
    import torch

    source, module = _load(folder, MODEL_FILE, "model")
    made_by = getattr(module, "UserModel", None)
    if made_by is None:
        raise UserCodeError(
            f"{MODEL_FILE} defines no UserModel.",
            "Name the model's class UserModel: class UserModel(torch.nn.Module).",
        )
    if not (isinstance(made_by, type) and issubclass(made_by, torch.nn.Module)):
        keras = isinstance(made_by, type) and any(
            base.__module__.partition(".")[0] == "keras" for base in made_by.__mro__
        )
        raise UserCodeError(
            f"UserModel in {MODEL_FILE} is no torch.nn.Module.",
            "Keras runs on another backend here; start with KERAS_BACKEND=torch."
            if keras
            else "Write class UserModel(torch.nn.Module).",
        )
    with source.loading(), calling("UserModel()", source):
        model = made_by()
    if not isinstance(model, torch.nn.Module):
        raise UserCodeError(f"UserModel() makes a {type(model).__name__}, no torch.nn.Module.")
    _loss_of(model)
    return model


def _loss_of(model: torch.nn.Module) -> Callable[[Any, Any], Any]:
    """The model's ``loss``: a method, or a module that its ``__init__`` put there."""
    loss: Any = getattr(model, "loss", None)
    made_by: Any = type(model)
    if loss is None and callable(getattr(made_by, "loss", None)):
        # Keras sets an attribute of this name to None in __init__, over the user's method.
        loss = functools.partial(made_by.loss, model)
    if not callable(loss):
        raise UserCodeError(
            "UserModel has no method loss.",
            "Add def loss(self, output, target) and return one number as a tensor.",
        )
    return cast("Callable[[Any, Any], Any]", loss)


def needs_first_batch(model: torch.nn.Module) -> bool:
    """Whether parameters come into being with the first forward: Keras, and torch's lazy layers."""
    from torch.nn.parameter import is_lazy

    if getattr(model, "built", True) is False:
        return True
    return any(is_lazy(value) for value in itertools.chain(model.parameters(), model.buffers()))


def materialize(model: torch.nn.Module, data: Any) -> None:
    """One forward that leaves statistics and random states alone, for `needs_first_batch`."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(), calling("The model's forward"):
            model(data)
    finally:
        model.train(training)
    # Keras makes a layer's container of parameters when they are asked for, and with it new keys
    # of the state; asked for here, the keys are the same in every process.
    for module in list(model.modules()):
        list(module.parameters(recurse=False))


def compute_output(model: torch.nn.Module, data: Any) -> Any:
    with calling("The model's forward"):
        return model(data)


def compute_loss(model: torch.nn.Module, output: Any, target: Any) -> torch.Tensor:
    """``model.loss(output, target)``, proved to be one number that can be trained on."""
    import torch

    loss_of = _loss_of(model)
    with calling("The model's loss"):
        loss = loss_of(output, target)
    if not isinstance(loss, torch.Tensor):
        raise UserCodeError(
            f"The model's loss returns {a(type(loss).__name__)}, no tensor.",
            "Return the tensor itself, not its .item().",
        )
    if loss.numel() != 1:
        raise UserCodeError(
            f"The model's loss returns {tuple(loss.shape)} numbers; one is needed.",
            "Take the mean: return loss.mean().",
        )
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise UserCodeError(
            "The model's loss does not depend on any parameter that is trained.",
            "Compute it from the output without .item(), .detach() or torch.no_grad().",
        )
    return loss.reshape(())


def compute_metrics(model: torch.nn.Module, output: Any, target: Any) -> dict[str, float]:
    """What the model's ``metrics`` gives, as numbers; empty when it has none."""
    import torch

    metrics_of = getattr(model, "metrics", None)
    # Keras has a property of this name, a list.
    if not callable(metrics_of):
        return {}
    with torch.no_grad(), calling("The model's metrics"):
        metrics = metrics_of(output, target)
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise UserCodeError(
            f"The model's metrics returns {a(type(metrics).__name__)}, no dict.",
            'Return a dict of numbers: {"accuracy": accuracy}.',
        )
    return {str(name): _number(str(name), value) for name, value in metrics.items()}


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UserCodeError(
            f"The metric “{name}” is {a(type(value).__name__)} and not one number.",
            "Return a float or a tensor of one element.",
        ) from error


# --- the loader -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ItemFailure:
    """What a worker hands on in the place of a batch. `split_batch` raises it.

    An exception that crosses from a worker of torch's DataLoader arrives as one long text.
    """

    error: UserCodeError


class UserData:
    """A dataset through its loader, to be given to torch's DataLoader with its `collate`.

    ``user_dataset`` is what the user's class made.
    """

    def __init__(self, source: Source, class_name: str, user_dataset: Any) -> None:
        # First, so that a spawned worker knows the source before it meets the user's classes.
        self.source = source
        self.class_name = class_name
        self.user_dataset = user_dataset
        self._length: int | None = None

    def __len__(self) -> int:
        """The user's ``__len__``, asked once: others count steps by it."""
        if self._length is None:
            self._length = self._ask_length()
        return self._length

    def _ask_length(self) -> int:
        with calling(f"{self.class_name}.__len__", self.source):
            length = self.user_dataset.__len__()
        try:
            length = operator.index(length)
        except TypeError as error:
            raise UserCodeError(
                f"{self.class_name}.__len__ returns {a(type(length).__name__)}, no whole number."
            ) from error
        if length <= 0:
            raise UserCodeError(
                f"{self.class_name} has no items: its __len__ is {length}.",
                "Check that the dataset holds the files this loader looks for.",
            )
        if length > sys.maxsize:
            raise UserCodeError(f"{self.class_name}.__len__ is {length}, more than can be counted.")
        return length

    def item(self, index: int) -> Any:
        """One item.

        Raises:
            UserCodeError: The user's code raised; ``index`` says at which item.
        """
        try:
            with calling(f"{self.class_name}, item {index:,},", self.source):
                return self.user_dataset[index]
        except UserCodeError as error:
            error.index = index
            raise

    def __getitem__(self, index: int) -> Any:
        try:
            return self.item(index)
        except UserCodeError as error:
            return ItemFailure(error)

    def collate(self, items: list[Any]) -> Any:
        """Items to a batch: the user's ``collate`` or torch's own way."""
        for item in items:
            if isinstance(item, ItemFailure):
                return item
        own = getattr(self.user_dataset, "collate", None)
        try:
            if callable(own):
                with calling(f"{self.class_name}.collate", self.source):
                    return own(items)
            return _collate(items, self.class_name)
        except UserCodeError as error:
            return ItemFailure(error)


def _collate(items: list[Any], class_name: str) -> Any:
    from torch.utils.data import default_collate

    try:
        return default_collate(items)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        shapes = sorted({shape_of(item) for item in items})
        if len(shapes) > 1:
            raise UserCodeError(
                f"Items of {class_name} have different shapes, so they make no batch: "
                f"{shapes[0]} and {shapes[1]}.",
                f"Bring them to one shape, or give {class_name} a method collate(self, items).",
                clean_traceback(error),
            ) from error
        raise UserCodeError(
            f"Items of {class_name} make no batch: {describe(error)}.",
            f"Return tensors, arrays or numbers, or give {class_name} a method "
            "collate(self, items).",
            clean_traceback(error),
        ) from error


def shape_of(value: Any) -> str:
    """Shapes and types of something nested, in one line: ``([1, 8, 8] float32, int)``."""
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype"):
        return f"{list(shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shape_of(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        if len(value) > 8:
            return f"{type(value).__name__} of {len(value)}"
        return "(" + ", ".join(shape_of(part) for part in value) + ")"
    return type(value).__name__


class UserLoader:
    """The user's ``bks_dataset.py``, loaded."""

    def __init__(self, source: Source, module: ModuleType) -> None:
        self._source = source
        self._module = module

    @property
    def has_validation(self) -> bool:
        return getattr(self._module, "UserValDataset", None) is not None

    def training(self, files: Path) -> UserData:
        """``UserDataset`` over the dataset's folder."""
        return self._open("UserDataset", files)

    def validation(self, files: Path) -> UserData:
        """``UserValDataset`` over the dataset's folder."""
        return self._open("UserValDataset", files)

    def _open(self, class_name: str, files: Path) -> UserData:
        made_by = getattr(self._module, class_name, None)
        if made_by is None:
            raise UserCodeError(
                f"{LOADER_FILE} defines no {class_name}.",
                f"Name the loader's class {class_name}: "
                f"class {class_name}(torch.utils.data.Dataset).",
            )
        if not isinstance(made_by, type):
            raise UserCodeError(
                f"{class_name} in {LOADER_FILE} is {a(type(made_by).__name__)}, no class.",
                f"Write class {class_name}(torch.utils.data.Dataset).",
            )
        import torch

        if issubclass(made_by, torch.utils.data.IterableDataset):
            raise UserCodeError(
                f"{class_name} is an IterableDataset, which cannot be shared out among processes.",
                "Give it the methods __getitem__ and __len__ of a torch.utils.data.Dataset.",
            )
        for method, does in (("__getitem__", "gives one item"), ("__len__", "counts them")):
            if not callable(getattr(made_by, method, None)):
                raise UserCodeError(
                    f"{class_name} has no method {method}, which {does}.",
                    f"Add {method} to {class_name}; a dataset without an end cannot be "
                    "shared out among processes.",
                )
        make: Any = made_by
        with self._source.loading(), calling(f"{class_name}()", self._source):
            dataset = make(str(files))
        return UserData(self._source, class_name, dataset)


def load_loader(folder: Path) -> UserLoader:
    """The user's loader.

    Raises:
        UserCodeError: It cannot be loaded.
    """
    return UserLoader(*_load(folder, LOADER_FILE, "loader"))


def open_data(
    loader: Path,
    dataset: Path,
    validation_loader: Path | None = None,
    validation_dataset: Path | None = None,
) -> tuple[UserData, UserData | None]:
    """Training and validation data of a job.

    Where the job names neither a validation loader nor a validation dataset, the loader's
    ``UserValDataset`` is used, if it has one. Where it names one, that data is for validation
    whichever class reads it.
    """
    training_loader = load_loader(loader)
    training = training_loader.training(dataset)
    own = validation_loader is not None and validation_loader != loader
    reader = load_loader(validation_loader) if own and validation_loader else training_loader
    files = validation_dataset or dataset
    if reader.has_validation:
        return training, reader.validation(files)
    if own or (validation_dataset is not None and validation_dataset != dataset):
        return training, reader.training(files)
    return training, None


def split_batch(batch: Any) -> tuple[Any, Any]:
    """``(data, target)`` of a batch; raises what a worker met on the way to it."""
    if isinstance(batch, ItemFailure):
        raise batch.error
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    found = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else a(type(batch).__name__)
    raise UserCodeError(
        f"The loader makes batches of {found}; a batch is a pair (data, target).",
        "Return two things from __getitem__ (each may be a tuple or dict), or from collate.",
    )


def to_device(value: Any, device: torch.device | str) -> Any:
    """A batch with every tensor in it on ``device``; what is no tensor stays as it is."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        packed: Any = value  # a named tuple of which one part must stay on the processor
        return packed.to(device)
    if isinstance(value, Mapping):
        return {key: to_device(part, device) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_device(part, device) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(to_device(part, device) for part in value)
    return value


def batch_size(value: Any) -> int:
    """How many items a batch holds: the length of the first tensor in it, 1 when there is none."""
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.ndim else 1
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, (tuple, list)) or isinstance(value, Mapping):
        for part in parts:
            if isinstance(part, (torch.Tensor, Mapping, tuple, list)):
                return batch_size(part)
    return 1


# --- what went wrong, in words ----------------------------------------------------------------


@contextlib.contextmanager
def calling(what: str, source: Source | None = None) -> Iterator[None]:
    """``with calling("The model's loss"):`` whatever the user's code raises becomes a sentence."""
    try:
        yield
    except (BackendError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise
        raise explain(error, what, source) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the computer or of a GPU was too small."""
    import torch

    return isinstance(
        error, (MemoryError, torch.OutOfMemoryError)
    ) or "DefaultCPUAllocator" in _text(error)


_PIP_NAMES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


def explain(error: BaseException, what: str, source: Source | None = None) -> UserCodeError:
    """An exception of the user's code as a sentence. ``what`` begins it: "The model's loss"."""
    trace = clean_traceback(error)
    if isinstance(error, SystemExit):
        return UserCodeError(
            f"{what} ended the program (sys.exit({'' if error.code is None else error.code!r})).",
            'Put what should run on its own under if __name__ == "__main__":.',
            trace,
        )
    if isinstance(error, SyntaxError) and error.filename:
        file = _place(error.filename, source)
        return UserCodeError(
            f"{file}, line {error.lineno or 1}: {error.msg}.",
            f"Correct {file} and import it again.",
            trace,
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = _public(error.name)
        top = missing.partition(".")[0]
        return UserCodeError(
            f"{_where(error, source) or what} needs the module “{missing}”, "
            "which is not installed here.",
            f"Install it with {sys.executable} -m pip install {_PIP_NAMES.get(top, top)}, "
            f"or put {top}.py among the files.",
            trace,
        )
    place = _where(error, source)
    told = f" ({place})" if place else ""
    return UserCodeError(f"{what} raised {describe(error)}{told}.", "", trace)


def describe(error: BaseException, limit: int = 300) -> str:
    """``ValueError: the message``, on one line and without a full stop."""
    text = " ".join(_public(_text(error)).split()).rstrip(".")
    name = type(error).__name__
    return name if not text else f"{name}: {text if len(text) < limit else text[:limit] + '…'}"


def _text(error: BaseException) -> str:
    # A user's exception may have a __str__ that raises.
    with contextlib.suppress(Exception):
        return str(error)
    return ""


def _public(text: str) -> str:
    """``text`` with module names as the user wrote them."""
    for name in sorted(_sources, key=len, reverse=True):
        text = text.replace(f"{name}.", "")
    return text


def _place(filename: str, source: Source | None) -> str:
    for known in [source] if source else _sources.values():
        with contextlib.suppress(ValueError):
            return Path(filename).relative_to(known.folder).as_posix()
    return Path(filename).name


def _is_users(filename: str) -> bool:
    return any(filename.startswith(f"{source.folder}{os.sep}") for source in _sources.values())


def _where(error: BaseException, source: Source | None) -> str:
    """The last line of the user's own code that the error came through, or ""."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    return f"{_place(frames[-1].filename, source)}, line {frames[-1].lineno}" if frames else ""


def clean_traceback(error: BaseException, limit: int = 20_000) -> str:
    """The traceback from the user's first line on, without the import machinery."""
    told = traceback.TracebackException.from_exception(error, limit=-200)
    frames = [f for f in told.stack if not f.filename.startswith("<frozen importlib")]
    first = next((n for n, f in enumerate(frames) if _is_users(f.filename)), None)
    if first is not None:
        frames = frames[first:]
    told.stack = traceback.StackSummary.from_list(
        [f for f in frames if Path(f.filename) != Path(__file__)]
    )
    text = "".join(told.format(chain=False))
    return text if len(text) <= limit else f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"


def a(name: str) -> str:
    """The name with its article."""
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
