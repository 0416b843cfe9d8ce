"""Messages of the system, of Python and of PyTorch about memory, disks, files and libraries."""

from __future__ import annotations

from backend.node.diagnosis.rule import ANYWHERE, LINES, RANK, Rule, Weight, Where, message

_ISSUES = "https://github.com/"
_SETUP = "Set the node up again: this builds Horovod for its libraries."

SHARED_MEMORY_RULES = (
    Rule(
        "shm_full",
        message(
            r"insufficient shared memory \(shm\)|workers are out of shared memory"
            r"|DataLoader worker \(pid [\d, ]+\) is killed by signal: Bus\s+error"
            r"|check that /dev/shm [^\n]*has more available memory"
            r"|(?:NCCL WARN|Last error:\s)[^\n]*(?:posix_fallocate failed|extend /dev/shm"
            r"|shared memory segment)"
            r"|^(?:RuntimeError: |`)?Error while creating shared memory segment(?![^\n]*denied)"
            r"|unable to (?:write|resize|mmap|allocate)[^\n]*(?:/torch_|/dev/shm|shared memory)"
            r"(?![^\n]*Cannot allocate)"
            r"|No space left on device[^\n]*/dev/shm|/dev/shm[^\n]*No space left on device"
        ),
        "The node's shared memory (/dev/shm) is full or too small.",
        "Use fewer loader workers, or enlarge /dev/shm on the node, as root: mount -o "
        "remount,size=50% /dev/shm (a container: --shm-size).",
        _ISSUES + "NVIDIA/nccl/issues/290",
    ),
    Rule(
        "shm_full",
        message(r"not enough space for (?P<file>\S+)\s+\(the shared-memory backing"),
        "There is no space for {file}, which the MPI processes of a node use to share memory.",
        "Free space in that folder, have it enlarged, or set TMPDIR on the node to another folder.",
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/shared-memory.html",
    ),
)

RULES = (
    Rule(
        "disk_quota",
        message(r"(?i:disk quota exceeded)|Errno 122|EDQUOT"),
        "This user's disk quota is used up.",
        "Delete files that are no longer needed or have the quota raised, then resume.",
        _ISSUES + "open-mmlab/mmdetection/issues/12069",
    ),
    Rule(
        "disk_full",
        message(
            r"(?i:no space left on device)(?:: '(?P<file>[^'\n]+)')?"
            r"|StorageFull|\[Errno 28\](?! (?i:no space))|not enough space on the disk|ENOSPC"
            r"|database or disk is full"
        ),
        "The disk that holds {file} is full.",
        "Free space, or inodes if it still has space (df -i), then resume.",
        _ISSUES + "databrickslabs/dolly/issues/139",
        otherwise="A disk that the run writes to is full.",
    ),
    Rule(
        "read_only",
        message(r"Read-only file system(?:: '(?P<file>[^'\n]+)')?"),
        "{file} is on a read-only file system.",
        "Check the share's mount options on the node, and its disk: a faulty disk also becomes "
        "read-only.",
        _ISSUES + "d-eniz/jupymd/issues/11",
        otherwise="A file system that the run writes to is read-only.",
    ),
    Rule(
        "share_stale",
        message(r"Stale (?:NFS )?file handle|\[Errno 116\]|Transport endpoint is not connected"),
        "A share was unavailable: open files on it are lost.",
        "Check that the node sees the share, then resume.",
        _ISSUES + "BrightcoveOS/Diamond/issues/626",
    ),
    Rule(
        "disk_fault",
        message(
            r"errno = (?:5|121), error message|: (?P<file3>/[^\s;]+); Input/output error$"
            r"|\[Errno (?:5|121)\] (?:Input/output error|Remote I/O error): '(?P<file>[^'\n]+)'"
            r"|\[Errno (?:103|110|112)\] [^\n:']*: '(?P<file2>[^'\n]+)'"
        ),
        "A disk or share could not be read or written: {file}.",
        "Check the disk and the share of the node, then resume.",
        "https://man7.org/linux/man-pages/man3/errno.3.html",
        otherwise="A disk or share could not be read or written.",
        where=RANK,
    ),
    Rule(
        "disk_fault",
        message(r"\[Errno (?:5|121)\] (?:Input/output error|Remote I/O error)$"),
        "A disk, a share or the terminal that the program uses was disconnected.",
        "Check the node's disk and share. If the program was started from a terminal, start it "
        "detached.",
        _ISSUES + "open-mmlab/mmdetection/issues/6461",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "file_denied",
        message(r"PermissionError: \[Errno (?:13|1)\] [^\n:]*: '(?P<file>[^'\n]+)'"),
        "The user who runs jobs has no permission for {file}.",
        "Give the user on the node permission for it, or write to the job's own folder.",
        "https://docs.python.org/3/library/exceptions.html#PermissionError",
        where=(Where.RAISED,),
    ),
    Rule(
        "open_files",
        message(r"Too many open files|received \d+ items of ancdata"),
        "The process reached its limit of open files.",
        "Use fewer loader workers, close files in the loader, or raise nofile in "
        "/etc/security/limits.conf on the node (ulimit -n).",
        _ISSUES + "pytorch/pytorch/issues/11201",
    ),
    Rule(
        "open_files",
        message(r"unable to open shared memory object(?![^\n]*\(2\))"),
        "The loader's workers could not hand over a batch: shared memory could not be opened.",
        "Usually the limit of open files is reached (ulimit -n): use fewer loader workers, or "
        "have it raised.",
        _ISSUES + "pytorch/pytorch/issues/14768",
        where=(Where.RAISED,),
        weight=Weight.VAGUE,
    ),
    Rule(
        "shm_lost",
        message(r"unable to open shared memory object[^\n]*No such file or directory \(2\)"),
        "A batch in shared memory was deleted before it was read.",
        "Keep the sharing strategy of torch.multiprocessing at file_descriptor, and do not "
        "clean /dev/shm while jobs run.",
        _ISSUES + "KatherLab/MediSwarm/issues/574",
        where=RANK,
    ),
    Rule(
        "processes",
        message(
            r"Resource temporarily unavailable[^\n]*(?:fork|thread)|can't start new thread"
            r"|(?:fork|pthread_create|Thread creation)[^\n]*Resource temporarily unavailable"
            r"|BlockingIOError: \[Errno 11\] Resource temporarily unavailable"
            r"|std::system_error'?\s+what\(\): +Resource temporarily unavailable"
        ),
        "The user reached the node's limit of processes or threads.",
        "Use fewer processes or loader workers, or have the node's limit raised (ulimit -u).",
        "https://man7.org/linux/man-pages/man2/fork.2.html",
    ),
    Rule(
        "node_memory",
        message(
            r"(?<!OutOf)MemoryError(?:: Unable to allocate (?P<wanted>[\d.]+ [KMGT]?i?B))?"
            r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)"
            r"|\[Errno 12\] Cannot allocate memory|std::bad_alloc"
            r"|(?:fork|mmap)\b[^\n]*: Cannot allocate memory|Cannot allocate memory \(12\)"
            r"|not enough memory: you tried to allocate"
            r"|Out of memory: Kill(?:ed)? process|oom[-_]kill(?:er)?\b|Memory cgroup out of memory"
            r"|OOM ?Killed|(?:[Ee]xceeded|exceeds) (?:job |step )?memory limit|TERM_MEMLIMIT"
            r"|job killed: v?mem \w+ exceeded limit|the node running low on memory"
            r"|Killed process \d+ \([^\n]*total-vm|The node was low on resource: memory"
        ),
        "The node is out of memory: {wanted} more was requested.",
        "Choose a smaller batch size, fewer processes on the node or fewer loader workers.",
        _ISSUES + "numpy/numpy/pull/13306",
        otherwise="The node is out of memory.",
    ),
    Rule(
        "library_mismatch",
        message(
            r"(?P<library>lib[\w.+-]+\.so[\w.]*): cannot open shared object file"
            r"(?![^\n]*\(ignored\))|Error loading shared library (?P<library2>[\w.+-]+): No such"
        ),
        "The compiled library {library} was not found on the node.",
        _SETUP + " If it is not one of Ringmaster's, have it installed on the node.",
        _ISSUES + "horovod/horovod/issues/3476",
        where=(Where.RAISED,),
    ),
    Rule(
        "library_mismatch",
        message(
            r"(?:ImportError|OSError|NotFoundError): [^\n]*(?:undefined symbol: (?P<symbol>\S+)"
            r"|cannot open shared object file|version `(?P<version>[^']+)' not found)"
            r"|ImportError: [^\n]*(?:\.so[\w.]*: [a-z]|Error loading shared library|dlopen\()"
            r"|error while loading shared libraries: (?P<library>[^\s:]+)"
            r"|^(?:ImportError: )?\S*\.so[\w.]*: undefined symbol: \S+"
            r"|HorovodVersionMismatchError|symbol lookup error: [^\n]*undefined symbol"
            r"|module compiled against (?:API version|ABI version)"
            r"|A module that was compiled using NumPy 1\.x cannot be run in"
            r"|compiled with different CUDA versions|operator torchvision::nms does not exist"
            r"|_ARRAY_API not found|MKL_THREADING_LAYER=INTEL is incompatible with"
            r"|cannot load MPI library|Couldn't load custom C\+\+ ops|OMP: Error #15"
            r"|numpy\.(?:core|_core)\.multiarray failed to import"
            r"|numpy\.(?:dtype|ndarray|ufunc) size changed|RuntimeError: Numpy is not available"
            r"|Intel MKL FATAL ERROR|libgcc_s\.so\.1 must be installed"
        ),
        "A compiled library is incompatible with the other installed ones.",
        _SETUP,
        _ISSUES + "horovod/horovod/issues/1301",
    ),
    Rule(
        "module_missing",
        message(
            r"(?:ModuleNotFoundError|ImportError): No module named "
            r"'?(?!__torch__)(?P<module>[\w.]+)'?(?![^\n]*is not a package)"
            r"|requires the following packages that were not found in your environment: "
            r"(?P<module2>[\w, -]+)"
            r"|PackageNotFoundError: (?:No package metadata was found for )?(?P<module3>[\w.-]+)"
        ),
        "The Python module {module} is missing: it is not installed on the node and not "
        "included with the program.",
        "Include the module with the model or the loader, or remove its use.",
        "https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
        where=(Where.RAISED,),
    ),
    Rule(
        "weights_mismatch",
        message(
            r"Error\(s\) in loading state_dict for (?P<model>\w+)"
            r"|loaded state dict (?:has a different number of parameter groups"
            r"|contains a parameter group that doesn't match)|unexpected key \S+ in state_dict"
            r"|size mismatch for [\w.]+: copying a param|While copying the parameter named"
        ),
        "The saved weights do not fit the model {model}: it was changed after they were saved.",
        "Use the version of the model that saved the weights, or start without them.",
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
            r"|image file is truncated|invalid load key|BadZipFile|broken data stream"
            r"|pickle data was truncated|Compressed file ended before|Not a gzipped file"
            r"|zlib\.error: |tarfile\.ReadError: |not a (?:TIFF|zip|parquet|gzip)\b|LZMAError: "
            r"|(?:truncated file: eof|file signature not found)|Truncated File Read"
            r"|SafetensorError: |Failed to interpret file '(?P<file2>[^'\n]+)' as a pickle"
            r"|mmap length is greater than file size|broken PNG file|Parquet magic bytes not found"
            r"|unrecognized data stream contents|corrupt file\b|storage has wrong size: expected"
            r"|No module named '__torch__'|UnpicklingError: (?!Weights)"
            r"|pandas\.errors\.(?:EmptyData|Parser)Error|invalid hash value"
            r"|DataLossError|Unable to load weights from pytorch checkpoint file for '(?P<file3>[^'"
            r"\n]+)"
        ),
        "A file is damaged or has an unexpected format: {file}.",
        "Verify the dataset and the checkpoint; import the dataset again if files are damaged.",
        "https://docs.pytorch.org/docs/stable/generated/torch.load.html",
        where=(Where.RAISED,),
        otherwise="A file is damaged or has an unexpected format.",
    ),
    Rule(
        "port_taken",
        message(r"Address already in use|EADDRINUSE|no port available in the range"),
        "A network port that the program needs is in use.",
        "Wait a minute, or end left-over processes of earlier runs on the node, then resume.",
        "https://man7.org/linux/man-pages/man2/bind.2.html",
    ),
    Rule(
        "pickle",
        message(r"[Cc]an't pickle|cannot pickle '|Can't get local (?:attribute|object)"),
        "The loader's workers cannot be started: the loader holds an object that cannot be "
        "pickled.",
        "Make lambdas and inner functions of the loader module-level functions, or use no workers.",
        "https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
        where=(Where.RAISED,),
    ),
    Rule(
        "worker_killed",
        message(r"DataLoader worker (?:\(pid(?:\(s\))? [\d, ]+\) )?is killed by signal: Killed"),
        "A loader worker was killed: usually the node ran out of memory.",
        "Run “dmesg” on the node to see whether memory ran out. Use fewer loader workers or a "
        "smaller batch size.",
        _ISSUES + "Abe404/root_painter/issues/174",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "worker_gone",
        message(
            r"DataLoader worker (?:\(pid(?:\(s\))? [\d, ]+\) )?(?:exited unexpectedly|is killed)"
            r"|background workers are no longer alive|BrokenProcessPool"
            r"|A worker process managed by the executor was unexpectedly terminated"
            r"|A process in the process pool was terminated abruptly"
            r"|Pin memory thread exited unexpectedly"
        ),
        "A loader worker crashed.",
        "Use fewer loader workers. Run the job once with none: the error then appears in the "
        "rank's log.",
        "https://docs.pytorch.org/docs/stable/data.html",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(
            r"Signal: (?P<signal>Segmentation fault|Bus error|Floating point exception|Aborted)"
            r"(?:.|\n){0,1500}?\[ *\d+\] (?:[^\s(]*/)?"
            r"(?P<library>(?!libc[.-]|ld-|libpthread|libstdc|libgcc"
            r"|libpython)[\w.+-]{1,99}\.so[\w.]*)"
        ),
        "Compiled code crashed ({signal}) in {library}.",
        "If the library is part of the model or the loader, fix it. Otherwise set the node up "
        "again, or use another version of the library.",
        _ISSUES + "horovod/horovod/issues/585",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(
            r"Fatal Python error: (?P<signal>Segmentation fault|Bus error|Aborted"
            r"|Floating point exception)(?:.|\n){0,400}?\(most recent call first\):\s+"
            r"File \"(?:[^\"\n]*/)?(?P<file>[^\"\n/]+)\", line (?P<line>\d+)"
        ),
        "Compiled code crashed ({signal}), called by {file}, line {line}.",
        "Check the arguments that this line passes to the library. If they are right, set the "
        "node up again, or use another version of the library.",
        "https://docs.python.org/3/library/faulthandler.html",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(
            r"Signal: (?P<signal>Segmentation fault|Bus error|Floating point exception"
            r"|Illegal instruction)|exited on\s+signal (?:11|6|7|8|4) \((?P<signal2>[^)]+)\)"
            r"|Fatal Python error: (?P<signal4>Segmentation fault|Bus error|Aborted"
            r"|Illegal instruction|Floating point exception)"
            r"|Program received signal (?P<signal9>SIG(?:SEGV|BUS|FPE|ABRT))\b"
            r"|Signal (?:4|6|7|8|11) \((?P<signal5>SIG\w+)\) received by PID"
            r"|^\s*Exit code: +(?:132|134|135|136|139)$|exitcode\s*: -(?:4|6|7|8|11)\b"
            r"|(?P<signal6>Segmentation fault|Bus error|Illegal instruction|Aborted"
            r"|Floating point exception) +\(core dumped\)"
            r"|Caught signal \d+ \((?P<signal3>Segmentation fault|Bus error|Illegal instruction)"
            r"|(?:malloc_consolidate|malloc|free|realloc|munmap_chunk)\(\): (?P<signal7>[^\n:]+)"
            r"|double free or corruption|corrupted (?:size vs|double-linked)"
            r"|terminate called (?:without an active exception|recursively)"
            r"|pure virtual method called|invalid fastbin entry|free\(\): |munmap_chunk\(\)"
            r"|KILLED BY SIGNAL: (?:4|6|7|8|11) \(|EXIT STRING: (?:Segm|Abort|Bus|Illegal|Floating)"
            r"|stack smashing detected|LLVM ERROR|\b(?P<signal8>[Ss]egmentation fault|Bus error"
            r"|Floating point exception)\b"
        ),
        "Compiled code crashed ({signal}).",
        "Check compiled extensions of the model and the loader. If there are none, set the node "
        "up again.",
        _ISSUES + "horovod/horovod/issues/107",
        where=ANYWHERE,
        weight=Weight.VAGUE,
        otherwise="Compiled code crashed.",
    ),
    Rule(
        "crash",
        message(
            r"terminate called after throwing an instance of"
            r"(?: '[^'\n]+'\s+what\(\): +(?P<what>[^\n]+?)\.?$)?"
        ),
        "Compiled code stopped with “{what}”.",
        "Open the logs of the other ranks and read the lines before this one.",
        _ISSUES + "horovod/horovod/issues/107",
        weight=Weight.ECHO,
        otherwise="Compiled code crashed.",
    ),
    Rule(
        "killed",
        message(
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on\s+"
            r"signal 9 \(Killed\)"
            r"|Signal 9 \(SIGKILL\) received by PID|exitcode\s*: -9\b"
            r"|^(?:zsh: )?(?:[Kk]illed|已杀死)\b(?! by| process|:)|[\]\s]Killed$"
            r"|: line \d+: +\d+ Killed\b"
            r"|KILLED BY SIGNAL: 9 \(|EXIT STRING: Killed|^\s*Exit code: +137$"
            r"|\b(?:[Ee]xit(?:ed)?|returned?|status|code)\b[\w :=-]{0,20}\b137\b"
        ),
        "Rank {rank} on {node} was killed (signal 9): usually the node ran out of memory.",
        "Run “dmesg” on the node to see whether memory ran out. If not, a user or another "
        "program ended it.",
        _ISSUES + "open-mpi/ompi/issues/2661",
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="A process was killed (signal 9): usually the node ran out of memory.",
    ),
)
