"""Messages of Open MPI, NCCL and Horovod about ranks that cannot connect."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, RANK, Rule, Weight, Where, message, prose

_ISSUES = "https://github.com/"
_LAUNCH = (Where.MPIRUN,)
_ROUTE = (
    "Check that firewalls allow all ports between the job's nodes, and that the nodes share a "
    "subnet."
)

RULES = (
    Rule(
        "mpi_missing",
        prose(
            r"(?:orted|prted|prterun|mpirun|mpiexec):? (?:command )?not found"
            r"|(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): No such file or directory"
            r"|could not find an installed MPI in order to use"
        ),
        "Open MPI was not found on a node of the job.",
        "Set the node up again.",
        _ISSUES + "horovod/horovod/issues/760",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_slots",
        prose(
            r"not enough slots available in the system to satisfy the (?P<count>\d+)\s+slots"
            r"|All nodes which are allocated for this job are already filled"
            r"|requested more processes than the ppr for"
        ),
        "mpirun has fewer slots than the {count} processes of the job.",
        "Choose fewer processes, or nodes with more GPUs or cores.",
        _ISSUES + "open-mpi/ompi/issues/3133",
        where=_LAUNCH,
        otherwise="mpirun has fewer slots than processes.",
    ),
    Rule(
        "mpi_binding",
        prose(
            r"A request was made to bind to that would (?:require|result in) binding more"
            r"|that has less cpus than requested|we found no available cpus on"
        ),
        "mpirun could not give each process its own cores: there are more processes than cores.",
        "Choose fewer processes on this node.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
    ),
    Rule(
        "node_lost",
        message(
            r"not running - cannot relay: NOT ALIVE|lost communication with a remote daemon"
            r"(?:(?:.|\n){0,300}?Remote daemon\s*:[^\n]* on node (?P<node>\S+))?"
        ),
        "mpirun lost its daemon on {node}: the node, its network or the daemon failed.",
        "Check that the node is on and reachable, then resume.",
        _ISSUES + "open-mpi/ompi/issues/3498",
        where=_LAUNCH,
        weight=Weight.VAGUE,
        otherwise="mpirun lost its daemon on a node: the node, its network or the daemon failed.",
    ),
    Rule(
        "mpi_daemon",
        prose(
            r"daemon has unexpectedly failed after launch and before\s+communicating back"
            r"|does not know how to route a message to the specified daemon"
            r"|daemon \(pid \d+\) died unexpectedly|unable to reliably start one or more daemons"
        ),
        "Open MPI's daemon on another node did not start, or could not connect to mpirun.",
        _ROUTE + " Each node must have the same Open MPI.",
        _ISSUES + "easybuilders/easybuild-easyconfigs/issues/18914",
        where=_LAUNCH,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_root",
        prose(r"has detected an attempt to run as root"),
        "mpirun refuses to run as root.",
        "Start jobs as another user.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_fabric",
        prose(
            r"PSM2 (?:was unable to open an endpoint|can't open hfi unit)"
            r"|UCX +ERROR[^\n]*(?:Invalid gid|failed to (?:open|create|connect|unpack)"
            r"|no usable trans)"
            r"|No components were able to be opened in the pml framework"
            r"|InfiniBand retry count between two MPI processes has been exceeded"
            r"|error polling [HL]P CQ|Error obtaining unique transport key from ORTE"
            r"|process failed to create a queue pair|got completion with error"
            r"|[Tt]ransport retry count(?:er)? exceeded|Endpoint timeout\b[^\n]*UCX"
        ),
        "MPI could not use the fast network of a node (InfiniBand or Omni-Path).",
        "Check the card and its driver on the node, or choose nodes with a working one.",
        _ISSUES + "open-mpi/ompi/issues/10601",
        where=LINES,
    ),
    Rule(
        "mpi_init",
        prose(
            r"MPI_INIT failed for some reason|Fatal error in (?:internal_|P?MPI_)Init"
            r"|MPI runtime init failed for some reason"
            r"|An error occurred in MPI_Init|(?:orte|prte|opal|ompi_rte)_init failed"
            r"|appears to have been direct launched using"
        ),
        "MPI failed to start; the lines below are all it printed.",
        "Usually the MPI library, mpirun and Horovod come from different installations: set the "
        "node up again.",
        _ISSUES + "open-mpi/ompi/issues/3144",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_version",
        prose(
            r"(?:ORTE|PRTE|PMIx|Open MPI) version (?:mismatch|conflict)"
            r"|detected a mismatch in versions"
            r"|(?:are using|is running) different versions of (?:Open MPI|ORTE|PRTE)"
        ),
        "The nodes do not have the same version of Open MPI.",
        "Set the nodes up again, so that all have the same version.",
        "https://docs.open-mpi.org/en/v5.0.x/",
        where=LINES,
    ),
    Rule(
        "mpi_version",
        prose(r"UNPACK-PAST-END|Data unpack would read past end of buffer"),
        "An Open MPI process could not read another one's message; usually their versions differ.",
        "Set the nodes up again, so that all have the same version.",
        "https://docs.open-mpi.org/en/v5.0.x/",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_interface",
        prose(
            r"invalid value was given for (?:btl|oob|ptl)_tcp_if_(?:in|ex)clude"
            r"|None of the TCP networks specified to be included"
            r"|Unable to find (?:address|interface) for: \S+"
            r"|No network interfaces were found for out-of-band communications"
        ),
        "A network that MPI was set to use does not exist on a node.",
        "Choose nodes that share a subnet; check their network cards and addresses.",
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html",
        where=LINES,
    ),
    Rule(
        "mpi_mismatch",
        prose(r"MPI_ERR_TRUNCATE: message truncated"),
        "The ranks exchange different data: a message was longer than its receiver expected.",
        "All ranks must build the same model and take the same branch in each step.",
        _ISSUES + "open-mpi/ompi/tree/v4.1.x/ompi/mpi",
        where=LINES,
    ),
    Rule(
        "mpi_call",
        prose(
            r"\*\*\* An error occurred in (?P<call>MPI_(?!Init)\w+)(?:.|\n){0,500}?"
            r"\*\*\* (?P<what>MPI_ERR_\w+: [^\n]+)"
            r"|Fatal error in (?:internal_|P?)(?P<call2>(?!Init)\w+): (?P<what2>[^\n,]+)"
        ),
        "MPI stopped in {call} with “{what}”.",
        "Open the logs of the other ranks and read the lines before this one.",
        _ISSUES + "open-mpi/ompi/tree/v4.1.x/ompi/mpi",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_map",
        prose(r"Your job failed to map"),
        "mpirun could not distribute the processes over the nodes.",
        "Choose fewer processes, or nodes with more GPUs or cores.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_component",
        prose(r"A requested component was not found, or was unable to be opened"),
        "Open MPI lacks a component that it was set to use.",
        "Set the node up again; remove OMPI_MCA variables from the job's environment.",
        "https://docs.open-mpi.org/en/v5.0.x/mca.html",
        where=LINES,
    ),
    Rule(
        "mpi_executable",
        prose(
            r"processes failed to start|help-(?:orte|prte)-odls-\S+ / execve error"
            r"|(?:unable to find the specified|could not find an|unable to launch the specified)"
            r"\s+(?:executable|application)"
            r"|could not access\s+or execute an executable|lacked permissions to execute an"
        ),
        "mpirun did not find the program on a node of the job.",
        "Set the node up again.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_folder",
        prose(
            r"A call to mkdir was unable to create the desired directory:"
            r"\s+Directory: (?P<folder>[^\n]+)(?:\s+Error:\s+(?P<why>[^\n]+))?"
        ),
        "Open MPI could not create its folder {folder}.",
        "Free space on that disk, or set TMPDIR on the node to a writable folder.",
        _ISSUES + "open-mpi/ompi/issues/7528",
        where=LINES,
    ),
    Rule(
        "mpi_tcp",
        prose(
            r"btl_tcp_endpoint[^\n]*connect\(\) to (?P<address2>\S+) failed"
            r"|failed to TCP connect to a peer MPI process(?:.|\n){0,500}?"
            r"connect\(\) to (?P<address>[\w.:\[\]-]+) failed"
            r"|[Uu]nable to connect to the peer (?P<address3>\S+) on port \d+"
            r"|unable to complete a TCP connection\s+to another process"
            r"|failed to handshake with a connecting peer MPI"
            r"|Unable to find reachable pairing between local and remote interfaces"
        ),
        "The MPI processes cannot connect over the network: {address} does not answer.",
        _ROUTE,
        _ISSUES + "open-mpi/ompi/issues/4963",
        where=LINES,
        otherwise="The MPI processes of the nodes cannot connect over the network.",
    ),
    Rule(
        "mpi_no_path",
        prose(
            r"At least one pair of MPI processes are unable to reach each other for\s+MPI"
            r"|PML add procs failed"
            r"|Unable to find a set of common task-to-task communication interfaces"
        ),
        "The MPI processes found no network that connects them.",
        _ROUTE,
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html",
        where=LINES,
    ),
    Rule(
        "nccl_connect",
        message(
            r"WARN (?:[\w/]+ ?: )?(?:Call to connect|Connect to (?P<address>\S+?)(?:<\d+>)?)"
            r" (?:failed|timeout :|returned \d+\((?!Success))"
            r"|WARN (?:Bootstrap|NET/Socket) ?: no (?:socket|usable) interface"
            r"|WARN socket(?:Start|Poll|Finalize)\w*: [Cc]onnect\w* (?:to )?\S+ (?:failed|ret)"
            r"|WARN (?:Call to bind|Net : Call to bind) failed|WARN Socket creation failed"
            r"|(?:WARN |Last error:\s*)[^\n]* failed ?: (?:Connection (?:refused|timed out)"
            r"|No route to host|Network is unreachable|Cannot assign requested address)"
            r"|connecting to address [^\n]* is neither AF_INET"
        ),
        "NCCL could not connect to {address}.",
        _ROUTE + " NCCL_SOCKET_IFNAME in the job's environment names the network card to use.",
        _ISSUES + "NVIDIA/nccl/issues/975",
        otherwise="NCCL could not connect the GPUs of the nodes.",
    ),
    Rule(
        "nccl_infiniband",
        message(
            r"NET/IB ?: Got (?:completion|async event)|NCCL WARN Got (?:completion|async event)"
            r"|Call to ibv_(?!open_device|get_|query_)\w+ failed"
        ),
        "NCCL's InfiniBand connection between two GPUs failed.",
        "Resume. If it happens again, set NCCL_IB_DISABLE=1 in the job's environment to do "
        "without InfiniBand.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Rule(
        "nccl_timeout",
        message(
            r"Watchdog caught co"
            r"|Timed out initializing process group|watchdog got stuck for \d+ seconds"
            r"|Timed out waiting \d+ms for \w+ operation to complete"
            r"|failed to pass monitoredBarrier|failed to reach the barrier"
        ),
        "One rank stopped taking part. See its log for the reason.",
        "Open the logs of the other ranks: one rank hangs, or took another branch in the model.",
        _ISSUES + "zai-org/GLM-130B/issues/132",
        weight=Weight.VAGUE,
    ),
    Rule(
        "nccl_mismatch",
        message(
            r"NCCL WARN [^\n]*(?:Message truncated|Mismatched collective|collective mismatch)"
            r"|Detected mismatch between collectives on ranks"
        ),
        "The ranks do not send the same tensors.",
        "All ranks must build the same model and take the same branch in each step.",
        _ISSUES + "EchoseChen/SPA-VL-RLHF/issues/2",
    ),
    Rule(
        "horovod_duplicate",
        message(
            r"Duplicate tensor name|with the same name as another tensor that is\s+currently being"
            r"|Gradients were computed more than backward_passes_per_step times"
        ),
        "The code submitted a tensor to Horovod twice before the first was done.",
        "Call the model's loss once a step, and give each tensor its own name.",
        "https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",
    ),
    Rule(
        "horovod_mismatch",
        message(r"Mismatched [^\n:]{3,60}: (?P<what>[^\n]+)"),
        "The ranks disagree about a step: {what}",
        "All ranks must build the same model and take the same branch in each step.",
        _ISSUES + "horovod/horovod/issues/398",
    ),
    Rule(
        "horovod_not_started",
        message(r"Horovod has not been initialized"),
        "The code used Horovod before it was initialised.",
        "The job initialises Horovod itself: use it in the functions of the model and the "
        "loader, not during their import.",
        _ISSUES + "aws-samples/mask-rcnn-tensorflow/issues/19",
        where=RANK,
    ),
    Rule(
        "horovod_not_built",
        message(
            r"finding module specification for 'horovod"
            r"|Extension horovod\.\w+ has not been built|No module named '?horovod"
            r"|Neither MPI nor Gloo support has been built"
            r"|(?:MPI|Gloo|NCCL) (?:support )?(?:is not (?:found|built|enabled)|has not been built)"
            r"|[Hh]orovod (?:has not been|was not|is not) (?:built|compiled|installed)"
        ),
        "Horovod is not installed on the node, or was built without PyTorch.",
        "Set the node up again.",
        _ISSUES + "horovod/horovod/issues/3877",
    ),
    Rule(
        "horovod_stall",
        message(
            r"(?:subset of ranks and are waiting for remainder of ranks"
            r"(?:(?:.|\n){0,1500}?\[missing ranks: (?P<ranks>[\d, ]+)\])?)|Stalled ops:"
            r"|ranks? [^\n]*(?:is|are) stalled for longer than"
        ),
        "The other ranks waited for rank {ranks}, which did not take part in a step.",
        "Open the logs of the missing ranks: one hangs, or took another branch in the model.",
        _ISSUES + "horovod/horovod/issues/403",
        weight=Weight.VAGUE,
        otherwise="Some ranks waited for others that did not take part in a step.",
    ),
    Rule(
        "nccl_usage",
        message(r"ncclInvalidUsage|NCCL error[^\n]*, invalid usage"),
        "NCCL was used incorrectly; usually two ranks share one GPU.",
        "Leave the choice of GPUs to the job. With NCCL_DEBUG=WARN in its environment NCCL "
        "names the reason.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html",
        weight=Weight.VAGUE,
    ),
    Rule(
        "nccl",
        message(
            r"(?:NCCL (?:[Ee]rror|failure|communicator was aborted)|nccl(?:System|Internal"
            r"|UnhandledCuda|Remote)Error|ncclInvalid(?:Usage|Argument)"
            r"|nccl(?:CommInitRank|AllReduce) failed"
            r"|unhandled (?:system|cuda) error)(?:(?:.|\n){0,400}?Last error:\s*(?P<what>[^\n]+))?"
        ),
        "NCCL reports: {what}.",
        "Set NCCL_DEBUG=INFO in the job's environment and resume: NCCL then logs more details.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        weight=Weight.VAGUE,
        otherwise="NCCL failed in a step.",
    ),
    Rule(
        "peer_gone",
        message(r"what\(\): [^\n]*Connection (?:reset|closed) by peer"),
        "Gloo ended this rank because another rank had ended.",
        "Open the log of the rank that ended first.",
        _ISSUES + "horovod/horovod/issues/2908",
        where=RANK,
        weight=Weight.VAGUE,
    ),
    Rule(
        "peer_gone",
        message(
            r"Horovod has been shut down"
            r"|(?:[Hh]orovod|mpirun|mpiexec|prterun) detected that one or more processes exited"
            r"\s+with\s+non-zero status"
            r"|^\S*multiprocessing\.errors\.ChildFailedError|Primary job +terminated normally, but"
            r"|MPI communication peer process has unexpectedly disconnected"
            r"|(?:Connection closed by peer|Connection reset by peer)"
            r"|NCCL WARN [^\n]*Connection closed by remote peer"
        ),
        "This rank only reports that another rank had ended.",
        "Open the log of the rank that ended first.",
        _ISSUES + "horovod/horovod/issues/2975",
        weight=Weight.ECHO,
    ),
)
