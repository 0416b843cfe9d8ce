"""Messages after "NCCL WARN", from the checks in NCCL's sources, and CUDA calls quoted there."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, RANK, Rule, Weight, Where, message

_NCCL = "https://github.com/NVIDIA/nccl/tree/master/src"
_CUDART = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_SAID = r"(?:\bWARN |Last error:\s*)"
"""Before NCCL 2.3 a warning did not begin with "NCCL"."""

RULES = (
    Rule(
        "shm_denied",
        message(
            _SAID + r"(?:[^\n]*(?:shm_open|/dev/shm)[^\n]*Permission denied"
            r"|[^\n]*shared memory segment[^\n]*Permission denied)"
        ),
        "The user who runs jobs may not write to the node's shared memory (/dev/shm).",
        "Have write access given to all users (chmod 1777 /dev/shm).",
        "https://github.com/NVIDIA/nccl/issues/328",
    ),
    Rule(
        "nccl_connect",
        message(
            _SAID
            + r"[^\n]*(?:socket(?:Start|Poll|Finalize|Progress)\w*: exceeded (?:retries|error)"
            r"|Call to (?:connect|bind|listen)[^\n]*(?:returned|failed ?:) "
            r"(?:No route|Connection (?:refused|timed)|Network is|Cannot assign|Invalid argument)"
            r"|Connect to [^\n]* failed ?:|[Tt]imeout waiting for (?:connection|RX|TX)"
            r"|Unable to find a (?:socket|network) interface)"
        ),
        "NCCL could not connect the GPUs of the nodes.",
        "Check that firewalls allow all ports between the job's nodes, and that the nodes share "
        "a subnet. NCCL_SOCKET_IFNAME in the job's environment names the network card to use.",
        _NCCL + "/misc/socket.cc",
    ),
    Rule(
        "nccl_infiniband",
        message(
            _SAID + r"[^\n]*(?:ibv_(?!open_device|get_|query_|modify_|poll_|post_)\w+ failed"
            r"(?![^\n]*Cannot allocate memory))"
        ),
        "NCCL could not use the InfiniBand card of a node.",
        "Check the card and its driver, or set NCCL_IB_DISABLE=1 in the job's environment to do "
        "without InfiniBand.",
        _NCCL + "/transport/net_ib",
    ),
    Rule(
        "nccl_call",
        message(
            _SAID + r"(?P<what>\w+ : (?:invalid (?:root|reduction operation|type|count|argument)"
            r"|\w+ \w* ?is not a valid pointer|\w+ argument is NULL"
            r"|\w+ allocated on device \d+)[^\n]*)"
        ),
        "Invalid NCCL call in the code: {what}",
        "Fix the call, import the code as a new version, then clone this job with that version.",
        _NCCL + "/misc/argcheck.cc",
    ),
    Rule(
        "driver_mismatch",
        message(_SAID + r"[^\n]*nvml\w+\(\)? failed: Driver/library version mismatch"),
        "The NVIDIA driver was replaced while the old one was still loaded.",
        "Restart the node, then resume.",
        _NCCL + "/misc/nvmlwrap.cc",
    ),
    Rule(
        "gpu_memory",
        message(r"\b(?:cuda|cu|hip)[A-Z]\w+ failed(?: with error)?: ?(?:out of memory|OUT_OF_MEM)"),
        "Out of GPU memory.",
        "Choose a smaller batch size, or end other processes on the GPU.",
        "https://github.com/horovod/horovod/tree/master/horovod/common/ops",
        where=RANK,
    ),
    Rule(
        "gpu_memory",
        message(r"NVML_SUCCESS == r INTERNAL ASSERT FAILED at [^\n]*CUDACachingAllocator"),
        "The GPU's memory was almost full when PyTorch queried the driver.",
        "Choose a smaller batch size, or end other processes on the GPU. If its memory was not "
        "full, run “nvidia-smi” to check the driver.",
        "https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "gpu_none",
        message(r"CUDA driver is a stub library|cudaErrorStubLibrary|CUDA_ERROR_STUB_LIBRARY"),
        "CUDA found only the driver's stub library, which is meant for building programs.",
        "Remove folders named stubs from LD_LIBRARY_PATH on the node.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_lost",
        message(
            r"GPU requires reset|device requires reset|CUDA error: [^\n]*requires? (?:a )?reset"
        ),
        "The GPU has failed and must be reset.",
        "Restart the node. If it happens again, have the administrator check this GPU.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "library_mismatch",
        message(r"PTX JIT compiler library not found|JIT compiler library was not found"),
        "A library of the NVIDIA driver (the PTX compiler) is missing on the node.",
        "Have the node's driver installed completely. If the node is a container, give it all "
        "of the driver's libraries.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_p2p",
        message(r"peer access is not supported between these two devices"),
        "Peer access was requested between two GPUs of the node that cannot reach each other's "
        "memory.",
        "Set NCCL_P2P_DISABLE=1 in the job's environment.",
        _CUDART,
        where=RANK,
    ),
    Rule(
        "gpu_start",
        message(
            r"(?:CUDA (?:driver )?error|CUDA runtime error[^\n:]*|Cuda failure[^\n']*"
            r"|cuda\w+ failed)"
            r"[:\s']{1,4}initialization error"
        ),
        "CUDA could not start in this process.",
        "Usually a loader worker uses the GPU, or the program used it before it forked: keep "
        "the loader on the CPU. Otherwise run “nvidia-smi” on the node to check its driver.",
        _CUDART,
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "nccl_missing",
        message(
            r"Cannot find NCCL library|libnccl\S* not found|NCCL (?:library )?is not (?:found|av)"
        ),
        "The NCCL library was not found on the node.",
        "Set the node up again.",
        _NCCL,
        where=(Where.RAISED,),
    ),
)

ANY_WARNING_RULES = (
    Rule(
        "nccl",
        message(
            r"NCCL WARN (?!Failed to open lib|[^\n]*(?:falling back|[Pp]roxy"
            r"|NET/IB : Unable to open|libnccl-net|plugin|retrying"
            r"|performance|deprecated|ignor|Could not find real path|set by environment"
            r"|Connection (?:closed|reset)))"
            r"(?P<what>[^\n]{1,300})(?=(?:.|\n){0,3000}?(?:NCCL (?:[Ee]rror|failure)|nccl\w+Error"
            r"|unhandled \w+ error))"
        ),
        "NCCL reports: {what}.",
        "Fix what NCCL names in this line. NCCL_DEBUG=INFO in the job's environment adds "
        "details to the log.",
        _NCCL,
        where=LINES,
        weight=Weight.VAGUE,
    ),
)
