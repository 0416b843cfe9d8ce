"""Messages of PyTorch and Horovod themselves that no plain mistake in the code explains."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, RANK, Rule, Weight, Where, message

_TORCH = "https://github.com/pytorch/pytorch/tree/main/torch"
_HOROVOD = "https://github.com/horovod/horovod/tree/master/horovod"
_RAISED = (Where.RAISED,)
_SAME_MODEL = "All ranks must build the same model and take the same branch in each step."

RULES = (
    Rule(
        "gpu_memory",
        message(
            r"(?:MPS backend|NPU|XPU|MUSA|MLU) out of memory"
            r"|cudaMalloc[^\n]*failed: out of memory"
            r"|CUDA Error: out of memory|CUDA runtime error: out of memory"
            r"|torch(?:\.cuda)?\.OutOfMemoryError|NVRTC_ERROR_OUT_OF_MEMORY"
        ),
        "The GPU's memory is full.",
        "Choose a smaller batch size, or end what else uses the GPU.",
        _TORCH + "/csrc/cuda",
        where=RANK,
    ),
    Rule(
        "gpu_none",
        message(
            r"ProcessGroupNCCL is only supported with GPUs, no GPUs found"
            r"|(?:Torch|PyTorch) (?:is )?not (?:compiled|built) with CUDA|No GPUs? (?:found"
            r"|available)"
            r"|CUDA is not available|torch\.cuda\.is_available\(\) (?:is|should be|returned) F"
            r"|No HIP GPUs? (?:is|are) available|no NVIDIA GPU|CUDA GPUs? (?:is|are) not available"
            r"|GPU is required"
            r"|requires a (?:CUDA )?GPU|No supported gpu backend|No available GPUs?"
        ),
        "There is no GPU that this program can use.",
        "Check the node: its driver, and whether its PyTorch is one with CUDA.",
        _TORCH + "/cuda/__init__.py",
        where=_RAISED,
    ),
    Rule(
        "gpu_fork",
        message(r"only dense CPU tensors can be pinned|[Cc]annot pin 'torch\.cuda"),
        "The loader gave tensors that are on the GPU, where only those of the processor may be.",
        "Keep the loader on the processor: the job itself moves batches to the GPU.",
        "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html",
        where=_RAISED,
    ),
    Rule(
        "gpu_unsupported",
        message(
            r"nvcc fatal[^\n]*Unsupported gpu architecture|Your setup doesn't support bf16/gpu"
            r"|requires? (?:a )?(?:GPU|device)s? with (?:CUDA )?(?:compute )?capability"
            r"|FlashAttention only supports (?:Ampere|Hopper)"
            r"|(?:bf16|BFloat16|bfloat16)[^\n]*(?:not supported|requires|isn't supported"
            r"|only support)"
            r"|(?:CUDA )?compute capability[^\n]*(?:too low|not supported|at least|>= ?\d|required)"
            r"|type fp8\w* not supported|'sm_\d+' is not defined"
        ),
        "The program wants what this kind of GPU does not have, or its libraries have no code for "
        "it.",
        "Choose a node with another kind of GPU, switch the feature off that is named, or set the "
        "node up again.",
        _TORCH + "/cuda/__init__.py",
        where=_RAISED,
    ),
    Rule(
        "nccl_missing",
        message(
            r"Distributed package doesn't have (?P<what>\w+)\s+built in"
            r"|Unknown c10d backend type (?P<what2>\w+)|torch\.distributed is not available"
            r"|PyTorch is not linked with support for (?P<what3>\w+)"
        ),
        "The installed PyTorch was built without {what}.",
        "Set the node up again, with a PyTorch that has it.",
        _TORCH + "/distributed/distributed_c10d.py",
        where=_RAISED,
        otherwise="The installed PyTorch was built without what ranks talk over.",
    ),
    Rule(
        "nccl_version",
        message(
            r"NCCL version mismatch|[Mm]ismatched NCCL version"
            r"|NCCL WARN [^\n]*version (?:\S+ )?(?:mismatch|incompatib)"
        ),
        "The NCCL that was found is not the one that the program was built for, or differs between "
        "ranks.",
        "Take other NCCL libraries out of LD_LIBRARY_PATH on the nodes; else set them up again.",
        "https://github.com/NVIDIA/nccl/blob/master/src/init.cc",
    ),
    Rule(
        "ranks_differ",
        message(
            r"DDP expects same model across all ranks, but (?P<what>[^\n]*?)\.?$"
            r"|appears not to match (?:sizes|strides) of the same param"
        ),
        "The ranks do not build the same model: {what}.",
        _SAME_MODEL,
        _TORCH + "/distributed/utils.py",
        where=RANK,
        otherwise="The ranks do not build the same model.",
    ),
    Rule(
        "rendezvous_port",
        message(
            r"server socket has failed to (?:listen on any local network address|bind)[^\n]*"
            r"(?:errno: (?:99|13|97)|Permission denied|Cannot assign)"
            r"|(?:bind|listen)[^\n]*(?:Cannot assign requested address|Permission denied)"
        ),
        "The address or port at which the ranks were to meet cannot be opened on this node.",
        "It must be an address of the node that rank 0 runs on, and a port above 1023.",
        _TORCH + "/csrc/distributed/c10d/socket.cpp",
        where=RANK,
    ),
    Rule(
        "rendezvous_card",
        message(
            r"(?:ifa|rp) != nullptr\. Unable to find (?:interface|address) for: (?P<address>\S+)"
            r"|makeUVDevice\(\): interface or hostname can't be empty"
        ),
        "PyTorch found no network card of this node for {address}.",
        "Mostly the node's own name leads to another address than its own: mend /etc/hosts there. "
        "GLOO_SOCKET_IFNAME in the job's environment names the card to use.",
        "https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/device.cc",
        where=RANK,
        otherwise="PyTorch found no network card of this node to use.",
    ),
    Rule(
        "host_name",
        message(r"network addresses of \((?P<host>[\w.-]+), \d+\) cannot be retrieved \(gai error"),
        "The name {host} leads to no address.",
        "Add the node by its address, or mend the name on the nodes.",
        _TORCH + "/csrc/distributed/c10d/socket.cpp",
        where=RANK,
    ),
    Rule(
        "nccl_timeout",
        message(
            r"store->get\('[^']*'\) got error: (?:[Ss]ocket [Tt]imeout|[Ww]ait timeout"
            r"|[Tt]imed? ?out)"
            r"|Timed out waiting [^\n]*(?:recv|send|barrier|operation)|wait timeout after \d+ ?ms"
            r"|Rank \d+ failed to pass|NCCL operation [^\n]*tim(?:ed out|eout)"
            r"|\[gloo\][^\n]*Timed out|Application timeout caused pair closure"
            r"|DistStoreError: "
        ),
        "The ranks waited in vain for one that did not take part in a step. Its own log tells why.",
        "Look at the logs of the other ranks: one hangs, or took another branch in the model.",
        _TORCH + "/csrc/distributed/c10d",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "peer_gone",
        message(
            r"\[\S*gloo/transport/\S+\] Connection (?:closed|reset) by peer"
            r"|store->get\('[^']*'\) got error: (?:Connection (?:reset|closed)|Broken pipe)"
            r"|recvValue failed on SocketImpl|[Ff]ailed to recv, got 0 bytes"
        ),
        "Another rank had gone already, and its partners ended for it.",
        "Look at the log of the rank that ended first.",
        _TORCH + "/csrc/distributed/c10d",
        where=RANK,
        weight=Weight.ECHO,
    ),
    Rule(
        "compile",
        message(
            r"BackendCompilerFailed: |InductorError: |torch\._dynamo\.exc\.\w+: "
            r"|triton\.compiler\.errors\.\w+|CompilationError: at \d+:\d+"
            r"|LoweringException: |TorchRuntimeError: |Internal Triton PTX codegen error"
        ),
        "torch.compile, or Triton, could not make machine code of a part of the model.",
        "Run it once without torch.compile; when that works, leave the part that is named out of "
        "it.",
        "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        where=_RAISED,
        weight=Weight.VAGUE,
    ),
    Rule(
        "killed",
        message(r"process \d+ terminated with signal SIGKILL"),
        "A process was killed from outside (signal 9): mostly the node's memory ran out.",
        "The kernel does this when memory runs out: “dmesg” on the node tells. Else somebody "
        "ended it.",
        _TORCH + "/multiprocessing/spawn.py",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(r"process \d+ terminated with signal (?P<signal>SIG(?:SEGV|ABRT|BUS|FPE))"),
        "Compiled code crashed ({signal}); the log does not say why.",
        "Look for extensions in compiled code in the model and the loader; when there are none, "
        "set the node up again.",
        _TORCH + "/multiprocessing/spawn.py",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "extension_build",
        message(
            r"Could(?: not|n't) find (?:any )?(?:working |a )?(?:C\+\+|C|cuda|nvcc) compiler"
            r"|Command '\['which', '(?:c\+\+|g\+\+|gcc|nvcc)'"
            r"|No such file or directory: '(?:\S*/)?(?:nvcc|ninja|gcc|g\+\+|c\+\+|cc|x86_64\S*)'"
            r"|Cannot find a working triton installation|Failed to find C compiler"
            r"|ninja: build stopped|\b(?:gcc|g\+\+|nvcc|ninja)\b[^\n]*(?:failed with exit"
            r"|returned non-"
            r"zero)"
            r"|CUDA(?:_HOME| installation)[^\n]*(?:not set|not found|does not exist)"
            r"|unsupported GNU version|Unable to JIT load the \w+ op"
            r"|CUDAMismatchException|Installed CUDA version \S+ does not match"
        ),
        "The program builds compiled code while it runs, and that did not work.",
        "Install a compiler, and the CUDA toolkit of PyTorch's version, on the node; the lines "
        "before tell what it lacks.",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        where=_RAISED,
    ),
    Rule(
        "sparse_tensor",
        message(
            r"Could not run '(?P<operation>[^'\n]+)' with arguments from the 'Sparse\w+' backend"
            r"|(?P<operation2>\w+) does not support sparse gradients"
        ),
        "{operation} takes no sparse tensors, and an embedding with sparse=True has a sparse "
        "gradient.",
        "Make the embedding without sparse=True, or convert the tensor with .to_dense().",
        "https://docs.pytorch.org/docs/stable/sparse.html",
        where=_RAISED,
    ),
    Rule(
        "library_mismatch",
        message(
            r"No module named '[\w.]+\._(?:C|ext|cuda|ops)\w*'|No module named '(?P<module>_ext\w*"
            r"|\w+_(?:cuda|cpp|ext|C)|\w*_C)'|cannot import name '_C' from"
            r"|has no attribute '(?:_C|_ext)'|is not compiled with GPU support"
            r"|nvrtc: error: failed to open|NVRTC_ERROR_BUILTIN"
            r"|Could not run '[^'\n]+' with arguments"
            r" from the '(?!Sparse)\w+' backend"
            r"|name '(?:_ext|_C|\w+_cuda|MultiScaleDeformableAttention)' is not defined"
            r"|'NoneType' object has no attribute 'cget_col_row_stats'"
            r"|bitsandbytes[^\n]*(?:CUDA Setup"
            r"|libbitsandbytes\S+: )|CUDA Setup failed despite"
        ),
        "A compiled part of a library is not there, or was built without what is asked of it.",
        "Have the library built again on the node, against the PyTorch and CUDA that it has.",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        where=_RAISED,
    ),
    Rule(
        "pickle",
        message(
            r"objects? cannot be pickled|[Cc]annot serialize '"
            r"|Only Tensors created explicitly by the user"
            r"|cowardly refusing to serialize non-leaf"
        ),
        "The program sends something to another process, or copies it, that cannot be sent.",
        "Open files and connections inside the worker; make lambdas and inner functions "
        "module-level functions; detach tensors before they are handed on.",
        "https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
        where=_RAISED,
    ),
    Rule(
        "weights_mismatch",
        message(
            r"Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict"
            r"|^\s*size mismatch for [\w.]+: copying a param"
            r"|Trying to set a tensor of shape [^\n]*this look incorrect"
            r"|You set `ignore_mismatched_sizes` to `False`"
            r"|KeyError: '(?:\w+\.){2,}(?:weight|bias|running_mean|running_var)'"
        ),
        "The saved weights do not fit the model or its optimizer.",
        "Go back to the version of the model that made the weights, or start without them.",
        _TORCH + "/nn/modules/module.py",
        where=_RAISED,
    ),
    Rule(
        "weights_mismatch",
        message(
            r"^\s*Error\(s\) in loading state_dict for (?P<model>\w+):$"
            r"|^\s+(?:size mismatch for \S+: copying a param|(?:Missing"
            r"|Unexpected) key\(s\) in state)"
        ),
        "The saved weights do not fit the model {model}: it was changed since they were saved.",
        "Go back to the version of the model that made the weights, or start without them.",
        _TORCH + "/nn/modules/module.py",
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="The saved weights do not fit the model or its optimizer.",
    ),
    Rule(
        "dataset_empty",
        message(
            r"No (?:images?|files?|labels?|samples?|data|training (?:data|images?))\s?"
            r"(?:were|was|are)? ?found(?: in| for| at|\b)|found no (?:images|files|samples)"
            r"|(?:[Dd]ataset|[Dd]ataloader|[Tt]rain(?:ing)? set) (?:is|was) empty"
            r"|contains no (?:images|files|samples|data)|num_samples=0"
            r"|number of samples[:=]? ?0\b|[Ff]ound array with 0 (?:sample|feature)|\bn_samples=0"
            r"|[Nn]o (?:valid )?(?:images|data) (?:left|remain)|[Ee]mpty dataset"
            r"|`?train_dataloader`? [^\n]*(?:has|is) (?:zero|0) length"
        ),
        "The dataset is empty, as the loader reads it.",
        "Check the folder, the file endings and the filters that the loader uses.",
        _TORCH + "/utils/data/sampler.py",
        where=_RAISED,
    ),
    Rule(
        "ssh_unreachable",
        message(
            r"host=(?P<host2>\S+) was not reachable via ssh"
            r"|could not connect to some hosts via ssh"
            r"|ssh not successful for host (?P<host>\S+?):?$"
        ),
        "{host} did not answer SSH as horovodrun asked it to.",
        "Check that the node is on, that its SSH server runs, and that it lets the cluster's key "
        "in.",
        _HOROVOD + "/runner/launch.py",
        weight=Weight.VAGUE,
        otherwise="A node did not answer SSH as horovodrun asked it to.",
    ),
    Rule(
        "horovod_setup",
        message(
            r"Parameter names in named_parameters must be unique"
            r"|named_parameters was specified, but one or more model parameters were not named"
            r"|A parameter can only appear once in groups"
            r"|optimizer\.zero_grad\(\) was called after loss\.backward\(\) but before"
            r"|backward_passes_per_step must be > 0|Process set provided does not exist"
            r"|register process set with mismatching|tried to set up mismatching numbers of process"
        ),
        "The code gave Horovod what it does not take: the line says what.",
        "The job wraps the optimizer itself: leave Horovod out of the model's code.",
        _HOROVOD + "/torch/optimizer.py",
        where=RANK,
    ),
    Rule(
        "horovod_stall",
        message(r"Stalled ranks:|One or more rank[^\n]*Will shutdown"),
        "Some ranks waited for others that did not take part in a step.",
        "Look at the logs of the ranks that were missing: one hangs, or took another branch in the "
        "model.",
        _HOROVOD + "/common/stall_inspector.cc",
        weight=Weight.VAGUE,
    ),
)
