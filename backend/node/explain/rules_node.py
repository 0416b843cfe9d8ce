"""Messages of the system, of Python and of PyTorch about memory, disks, files and libraries."""

from __future__ import annotations

from backend.node.explain.rule import ANYWHERE, LINES, RANK, Rule, Weight, Where, message

_ISSUES = "https://github.com/"
_SETUP = "Set the node up again: that builds Horovod for the libraries that are there."

RULES = (
    Rule(
        "shm_full",
        message(
            r"insufficient shared memory \(shm\)|workers are out of shared memory"
            r"|DataLoader worker \(pid [\d, ]+\) is killed by signal: Bus error"
            r"|NCCL WARN [^\n]*(?:posix_fallocate failed|shared memory segment|extend /dev/shm)"
            r"|unable to (?:write|resize|mmap)[^\n]*(?:/torch_|/dev/shm|shared memory)"
            r"|not enough space for \S+\s+\(the shared-memory backing"
            r"|No space left on device[^\n]*/dev/shm|/dev/shm[^\n]*No space left on device"
        ),
        "The shared memory of the node (/dev/shm) is full or too small.",
        "Have /dev/shm made larger, remove what others left in it, or use fewer loader workers.",
        _ISSUES + "NVIDIA/nccl/issues/290",
    ),
    Rule(
        "disk_quota",
        message(r"Disk quota exceeded|Errno 122|EDQUOT"),
        "The disk quota of this user is used up.",
        "Remove what is no longer needed or have the quota raised, then resume.",
        _ISSUES + "open-mmlab/mmdetection/issues/12069",
        at_end=True,
    ),
    Rule(
        "disk_full",
        message(r"No space left on device(?:: '(?P<file>[^'\n]+)')?|StorageFull|\[Errno 28\]"),
        "The disk that holds {file} is full.",
        "Make room, then resume.",
        _ISSUES + "databrickslabs/dolly/issues/139",
        otherwise="A disk that the run writes to is full.",
        at_end=True,
    ),
    Rule(
        "read_only",
        message(r"Read-only file system(?:: '(?P<file>[^'\n]+)')?"),
        "{file} lies on a file system that cannot be written.",
        "Check how the share is mounted on the node; a disk with faults turns read-only too.",
        _ISSUES + "d-eniz/jupymd/issues/11",
        otherwise="A file system that the run writes to cannot be written.",
        at_end=True,
    ),
    Rule(
        "share_stale",
        message(r"Stale (?:NFS )?file handle|\[Errno 116\]|Transport endpoint is not connected"),
        "A share was away: files that were open there are gone.",
        "Check that the node sees the share, then resume.",
        _ISSUES + "BrightcoveOS/Diamond/issues/626",
        at_end=True,
    ),
    Rule(
        "disk_fault",
        message(
            r"\[Errno (?:5|121|103|110|112)\] (?:Input/output error|Remote I/O error"
            r"|Software caused connection abort|Connection timed out|Host is down)"
            r"(?:: '(?P<file>[^'\n]+)')?"
        ),
        "A disk or share could not be read or written: {file}.",
        "Check the disk and the share of the node, then resume.",
        "https://man7.org/linux/man-pages/man3/errno.3.html",
        otherwise="A disk or share could not be read or written.",
        where=RANK,
        at_end=True,
    ),
    Rule(
        "file_denied",
        message(r"PermissionError: \[Errno (?:13|1)\] [^\n:]*: '(?P<file>[^'\n]+)'"),
        "The user who runs jobs may not use {file}.",
        "Give the user on the node the rights to it, or write to the job's own folder.",
        "https://docs.python.org/3/library/exceptions.html#PermissionError",
        where=(Where.RAISED,),
    ),
    Rule(
        "open_files",
        message(r"Too many open files"),
        "The process reached its limit of open files.",
        "Use fewer loader workers, close files in the loader, or have the node's limit raised "
        "(ulimit -n).",
        _ISSUES + "pytorch/pytorch/issues/11201",
        at_end=True,
    ),
    Rule(
        "open_files",
        message(r"unable to open shared memory object"),
        "The loader's workers could not hand over a batch: shared memory could not be opened.",
        "The limit of open files is mostly reached then (ulimit -n): use fewer loader workers, or "
        "have it raised.",
        _ISSUES + "pytorch/pytorch/issues/14768",
        where=(Where.RAISED,),
        weight=Weight.VAGUE,
    ),
    Rule(
        "processes",
        message(
            r"Resource temporarily unavailable[^\n]*(?:fork|thread)|can't start new thread"
            r"|(?:fork|pthread_create)[^\n]*Resource temporarily unavailable"
        ),
        "The user reached the limit of processes or threads on the node.",
        "Use fewer processes or loader workers, or have the node's limit raised (ulimit -u).",
        "https://man7.org/linux/man-pages/man2/fork.2.html",
        at_end=True,
    ),
    Rule(
        "node_memory",
        message(
            r"MemoryError(?:: Unable to allocate (?P<wanted>[\d.]+ [KMGT]?i?B))?"
            r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)"
            r"|\[Errno 12\] Cannot allocate memory|std::bad_alloc"
            r"|Out of memory: Kill(?:ed)? process|oom[-_]kill(?:er)?\b|Memory cgroup out of memory"
            r"|OOM Killed|Exceeded (?:job|step) memory limit"
        ),
        "The memory of the node is full: {wanted} more was wanted.",
        "Choose a smaller batch size, fewer processes on the node or fewer loader workers.",
        _ISSUES + "numpy/numpy/pull/13306",
        otherwise="The memory of the node is full.",
        at_end=True,
    ),
    Rule(
        "library_mismatch",
        message(
            r"(?:ImportError|OSError|NotFoundError): [^\n]*(?:undefined symbol: (?P<symbol>\S+)"
            r"|cannot open shared object file|version `(?P<version>[^']+)' not found)"
            r"|error while loading shared libraries: (?P<library>[^\s:]+)"
            r"|symbol lookup error: [^\n]*undefined symbol"
            r"|module compiled against (?:API version|ABI version)"
            r"|A module that was compiled using NumPy 1\.x cannot be run in"
            r"|numpy\.(?:core|_core)\.multiarray failed to import|numpy\.dtype size changed"
        ),
        "A compiled library does not fit the others that are installed.",
        _SETUP,
        _ISSUES + "horovod/horovod/issues/1301",
        at_end=True,
    ),
    Rule(
        "module_missing",
        message(r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)'?"),
        "The Python module {module} is not installed on the node.",
        "Bring the module along with the model or the loader, or do without it.",
        "https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
        where=(Where.RAISED,),
    ),
    Rule(
        "weights_mismatch",
        message(
            r"Error\(s\) in loading state_dict for (?P<model>\w+)"
            r"|loaded state dict (?:has a different number of parameter groups"
            r"|contains a parameter group that doesn't match)"
        ),
        "The saved weights do not fit the model {model}: it was changed since they were saved.",
        "Go back to the version of the model that made the weights, or start without them.",
        _ISSUES + "Helias/Car-Model-Recognition/issues/2",
        where=(Where.RAISED,),
        otherwise="The saved weights do not fit the model or its optimizer.",
    ),
    Rule(
        "file_broken",
        message(
            r"PytorchStreamReader failed|unexpected EOF, expected \d+ more bytes"
            r"|Ran out of input|zipfile\.BadZipFile"
            r"|cannot identify image file(?: u?'(?P<file>[^'\n]+))?"
            r"|image file is truncated|invalid load key"
        ),
        "A file is damaged or of another kind than expected: {file}.",
        "Verify the dataset and the checkpoint; import the dataset again when files are damaged.",
        "https://docs.pytorch.org/docs/stable/generated/torch.load.html",
        where=(Where.RAISED,),
        otherwise="A file is damaged or of another kind than expected.",
    ),
    Rule(
        "port_taken",
        message(r"Address already in use|EADDRINUSE"),
        "A network port that the program wants is taken by another one.",
        "Wait a minute, or end what is left of earlier runs on the node, then resume.",
        "https://man7.org/linux/man-pages/man2/bind.2.html",
        at_end=True,
    ),
    Rule(
        "pickle",
        message(r"Can't pickle|cannot pickle '|Can't get (?:local )?attribute"),
        "The loader's workers cannot be started: the loader holds something that cannot be sent "
        "to another process.",
        "Make lambdas and inner functions of the loader module-level functions, or use no workers.",
        "https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
        where=(Where.RAISED,),
    ),
    Rule(
        "worker_killed",
        message(r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: Killed"),
        "A worker process of the loader was killed from outside; the log does not say by whom.",
        "The kernel does this when memory runs out: “dmesg” on the node tells. Use fewer loader "
        "workers or a smaller batch size.",
        _ISSUES + "Abe404/root_painter/issues/174",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "worker_gone",
        message(r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:exited unexpectedly|is killed)"),
        "A worker process of the loader died.",
        "Use no loader workers once: then the fault shows itself in the rank.",
        "https://docs.pytorch.org/docs/stable/data.html",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(
            r"Signal: (?P<signal>Segmentation fault|Bus error|Floating point exception"
            r"|Illegal instruction)|exited on\s+signal (?:11|7|8|4) \((?P<mpi>[^)]+)\)"
            r"|Fatal Python error: (?P<python>Segmentation fault|Bus error)"
            r"|Caught signal \d+ \((?P<ucx>Segmentation fault|Bus error|Illegal instruction)"
            r"|(?:malloc_consolidate|malloc|free|realloc|munmap_chunk)\(\): (?P<heap>[^\n]+)"
            r"|double free or corruption|corrupted (?:size vs|double-linked)"
            r"|stack smashing detected|LLVM ERROR|^(?P<bare>Segmentation fault|Bus error)\b"
        ),
        "Compiled code crashed ({signal}).",
        "Look for extensions in compiled code in the model and the loader; when there are none, "
        "set the node up again.",
        _ISSUES + "horovod/horovod/issues/107",
        where=ANYWHERE,
        weight=Weight.VAGUE,
        otherwise="Compiled code crashed.",
    ),
    Rule(
        "killed",
        message(
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on\s+"
            r"signal 9 \(Killed\)"
        ),
        "Rank {rank} on {node} was killed from outside (signal 9); its log does not say by whom.",
        "The kernel does this when memory runs out: “dmesg” on the node tells. Else somebody "
        "ended it.",
        _ISSUES + "open-mpi/ompi/issues/2661",
        where=LINES,
        weight=Weight.VAGUE,
    ),
)
