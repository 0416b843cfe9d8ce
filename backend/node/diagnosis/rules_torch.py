"""Messages of PyTorch and Horovod that no common mistake in the code explains."""

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
        "Out of GPU memory.",
        "Choose a smaller batch size, or end other processes on the GPU.",
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
        "The program found no usable GPU.",
        "Check the node: its driver, and whether its PyTorch was built with CUDA.",
        _TORCH + "/cuda/__init__.py",
        where=_RAISED,
    ),
    Rule(
        "gpu_fork",
        message(r"only dense CPU tensors can be pinned|[Cc]annot pin 'torch\.cuda"),
        "The loader returned tensors on the GPU; they must be on the CPU.",
        "Keep the loader on the CPU: the job moves batches to the GPU.",
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
        "The program needs a feature that this GPU model does not have, or its libraries do not "
        "support this model.",
        "Choose a node with another GPU model, turn the named feature off, or set the node up "
        "again.",
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
        otherwise="The installed PyTorch was built without the backend that the ranks "
        "communicate with.",
    ),
    Rule(
        "nccl_version",
        message(
            r"NCCL version mismatch|[Mm]ismatched NCCL version"
            r"|NCCL WARN [^\n]*version (?:\S+ )?(?:mismatch|incompatib)"
        ),
        "The NCCL version is not the one that the program was built for, or differs between ranks.",
        "Remove other NCCL libraries from LD_LIBRARY_PATH on the nodes, or set them up again.",
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
        "The address or port for the ranks' rendezvous cannot be opened on this node.",
        "Use an address of the node that rank 0 runs on, and a port above 1023.",
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
        "Usually the node's own name resolves to another node's address: fix its /etc/hosts. "
        "GLOO_SOCKET_IFNAME in the job's environment names the card to use.",
        "https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/device.cc",
        where=RANK,
        otherwise="PyTorch found no usable network card on this node.",
    ),
    Rule(
        "host_name",
        message(r"network addresses of \((?P<host>[\w.-]+), \d+\) cannot be retrieved \(gai error"),
        "The name {host} does not resolve to an address.",
        "Add the node by its address, or fix the name resolution on the nodes.",
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
        "One rank stopped taking part. See its log for the reason.",
        "Open the logs of the other ranks: one rank hangs, or took another branch in the model.",
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
        "Other ranks ended because one had ended before.",
        "Open the log of the rank that ended first.",
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
        "torch.compile or Triton could not compile a part of the model.",
        "Run the job once without torch.compile. If that works, exclude the named part from it.",
        "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        where=_RAISED,
        weight=Weight.VAGUE,
    ),
    Rule(
        "killed",
        message(r"process \d+ terminated with signal SIGKILL"),
        "A process was killed (signal 9): usually the node ran out of memory.",
        "Run “dmesg” on the node to see whether memory ran out. If not, a user or another "
        "program ended it.",
        _TORCH + "/multiprocessing/spawn.py",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "crash",
        message(r"process \d+ terminated with signal (?P<signal>SIG(?:SEGV|ABRT|BUS|FPE))"),
        "Compiled code crashed ({signal}).",
        "Check compiled extensions of the model and the loader. If there are none, set the node "
        "up again.",
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
        "The program could not build its compiled code.",
        "Install a compiler on the node, and the CUDA toolkit of PyTorch's version; the lines "
        "above name what is missing.",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        where=_RAISED,
    ),
    Rule(
        "sparse_tensor",
        message(
            r"Could not run '(?P<operation>[^'\n]+)' with arguments from the 'Sparse\w+' backend"
            r"|(?P<operation2>\w+) does not support sparse gradients"
        ),
        "{operation} does not accept sparse tensors, and an embedding with sparse=True has a "
        "sparse gradient.",
        "Create the embedding without sparse=True, or convert the tensor with .to_dense().",
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
        "A compiled part of a library is missing, or was built without the requested feature.",
        "Have the library rebuilt on the node for its PyTorch and CUDA.",
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
        "The program sends or copies an object that cannot be pickled.",
        "Open files and connections inside the worker; make lambdas and inner functions "
        "module-level functions; detach tensors before you pass them.",
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
        "Use the version of the model that saved the weights, or start without them.",
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
        "The saved weights do not fit the model {model}: it was changed after they were saved.",
        "Use the version of the model that saved the weights, or start without them.",
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
        "{host} did not answer horovodrun over SSH.",
        "Check that the node is on, that its SSH server runs, and that it accepts the cluster's "
        "key.",
        _HOROVOD + "/runner/launch.py",
        weight=Weight.VAGUE,
        otherwise="A node did not answer horovodrun over SSH.",
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
        "The code called Horovod incorrectly; the line below names the mistake.",
        "The job wraps the optimizer itself: remove Horovod from the model's code.",
        _HOROVOD + "/torch/optimizer.py",
        where=RANK,
    ),
    Rule(
        "horovod_stall",
        message(r"Stalled ranks:|One or more rank[^\n]*Will shutdown"),
        "Some ranks waited for others that did not take part in a step.",
        "Open the logs of the missing ranks: one hangs, or took another branch in the model.",
        _HOROVOD + "/common/stall_inspector.cc",
        weight=Weight.VAGUE,
    ),
)
