"""Messages of the shell, Python's start and batch systems about a program that did not start."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, Rule, Weight, Where, message

_BASH = "https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html"
_ERRNO = "https://man7.org/linux/man-pages/man3/errno.3.html"
_SLURM = "https://slurm.schedmd.com/srun.html"
_GLIBC = "https://man7.org/linux/man-pages/man8/ld.so.8.html"

RULES = (
    Rule(
        "program_missing",
        message(
            r"^(?:\S*(?:sh|bash|slurm_script): )?(?:line \d+: |\d+: )?(?P<what>[\w.+/-]+): "
            r"(?:command )?not found$"
            r"|slurmstepd: error: execve\(\): (?P<what2>\S+): No such file"
            r"|exec: \"(?P<what3>[^\"\n]+)\": executable file not found"
            r"|env: '?‘?(?P<what4>[\w.+-]+)’?'?: No such file or directory"
        ),
        "The command {what} is missing on the node.",
        "Install it on the node, or start the job in an environment that has it.",
        _BASH,
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="A command that the program calls is missing on the node.",
    ),
    Rule(
        "file_denied",
        message(
            r"^(?:\S*sh: )?(?:line \d+: |\d+: )?(?P<file>[\w.~/+-]+): Permission denied$"
            r"|execve\(\): (?P<file2>\S+): Permission denied"
            r"|can't open file '(?P<file3>[^'\n]+)': \[Errno 13\]"
            r"|execvp error on file (?P<file4>\S+) \(Permission denied\)"
        ),
        "The user who runs jobs has no permission for {file}, or it is not executable.",
        "Give the user on the node permission for it; make a script executable with “chmod +x”.",
        _BASH,
        where=LINES,
    ),
    Rule(
        "file_missing",
        message(
            r"can't open file '(?P<file>[^'\n]+)': \[Errno 2\]"
            r"|^(?:\S*sh: )?(?:line \d+: |\d+: )?(?P<file2>(?!\S*(?:hydra_\w+|orted"
            r"|prted):)[\w.~+-]*/[\w.~/+-]+): "
            r"No such file or directory$"
        ),
        "{file} does not exist.",
        "Check the path in the model, the loader and the job's options, and that every node of "
        "the job sees it.",
        "https://docs.python.org/3/using/cmdline.html",
        where=LINES,
    ),
    Rule(
        "module_missing",
        message(
            r"^\S*python[\d.]*: No module named '?(?P<module>[\w.]+)"
            r"|Error while finding (?:module specification|spec) for '(?P<module2>[\w.]+)'"
            r"(?= \((?:ModuleNotFound|Import)Error)"
        ),
        "The Python module {module} is missing: it is not installed on the node and not "
        "included with the program.",
        "Include the module with the model or the loader, or remove its use.",
        "https://docs.python.org/3/using/cmdline.html#cmdoption-m",
        where=LINES,
    ),
    Rule(
        "program_kind",
        message(
            r"[Ee]xec format error|wrong ELF class|cannot execute binary file"
            r"|invalid ELF header|ELF file OS ABI invalid|file too short$"
        ),
        "A program or library was built for another type of computer, or its file is damaged.",
        "Choose a node of the type it was built for, or set this one up again.",
        _ERRNO,
    ),
    Rule(
        "library_mismatch",
        message(
            r"version `(?P<version>[A-Z]+_[\d.]+)' not found \(required by"
            r"|(?:libc\.so|libstdc\+\+|libm\.so)[^\n]*version `(?P<version2>[A-Z]+_[\d.]+)' not"
        ),
        "A compiled library needs {version} of the system's libraries, which the node does not "
        "have: it was built on a newer system.",
        "Choose a node with a newer system, or have the library built for this one. With Conda, "
        "put its own lib folder first in LD_LIBRARY_PATH.",
        _GLIBC,
    ),
    Rule(
        "library_mismatch",
        message(
            r"relocation error: \S+: symbol|Inconsistency detected by ld\.so"
            r"|cannot allocate memory in static TLS block|failed to map segment from shared object"
            r"|cannot enable executable stack as shared object requires"
        ),
        "A compiled library could not be loaded together with the others.",
        "Import it before the others, or set LD_PRELOAD to it in the job's environment. A "
        "folder mounted with noexec causes this too.",
        _GLIBC,
    ),
    Rule(
        "compiled_check",
        message(r"^F\d{4} [\d:.]+ +\d+ [^\n\]]+\] (?:Check failed: )?(?P<what>[^\n]+)"),
        "Compiled code stopped at a check of its own: {what}.",
        "Fix what the check names; the lines above it may give the reason.",
        "https://google.github.io/glog/stable/logging/#severity-levels",
        where=LINES,
        weight=Weight.ECHO,
    ),
    Rule(
        "batch_refused",
        message(
            r"(?:srun|salloc|sbatch): error: (?:Task launch for \S+ failed on node"
            r"|Unable to (?:create step|allocate resources"
            r"|confirm)"
            r"|Batch job submission failed|Unable to create job step)[^\n:]*:? ?(?P<why>[^\n]*)"
        ),
        "The batch system did not start the run: {why}.",
        "Compare the requested resources with the nodes of the batch system.",
        _SLURM,
        where=LINES,
        otherwise="The batch system did not start the run.",
    ),
    Rule(
        "node_lost",
        message(r"DUE TO NODE (?:(?P<node>\S+) )?FAILURE|error: Node failure on (?P<node2>\S+)"),
        "The node {node} failed during the run, according to the batch system.",
        "Check that the node is on and healthy, and resume on others.",
        _SLURM,
        where=LINES,
        otherwise="A node failed during the run, according to the batch system.",
    ),
    Rule(
        "preempted",
        message(r"CANCELLED AT [^\n]*DUE TO PREEMPTION"),
        "The batch system preempted the run for a more urgent one.",
        "Resume when nodes are free again.",
        _SLURM,
        where=LINES,
    ),
    Rule(
        "script_text",
        message(
            r"syntax error near unexpected token|syntax error: unexpected"
            r"|\$'\\r': command not found"
            r"|bad interpreter: (?P<what>[^\n:]+)|unbound variable$"
        ),
        "A shell script has a syntax error or Windows line ends.",
        "Fix the script at the line that is named; dos2unix converts line ends.",
        _BASH,
        where=LINES,
    ),
    Rule(
        "options",
        message(
            r"^(?:\w+\.)*(?:omegaconf|hydra)\.\w[\w.]*: (?P<what>[^\n]+)"
            r"|(?P<what2>[Nn]on-existent (?:config )?key: [^\n']+)"
            r"|(?P<what3>Key '[^'\n]+' is not in struct)|(?P<what4>Could not override '[^'\n]+')"
            r"|(?<![\w.])(?P<what5>[\w.]{1,99} is not a valid config key)"
            r"|(?:pydantic\S*|jsonschema\S*)\.ValidationError: (?P<what6>[^\n]+)"
        ),
        "The program's settings are not valid: {what}.",
        "Compare the job's options and its settings file with those that the program accepts.",
        "https://hydra.cc/docs/advanced/override_grammar/basic/",
        where=(Where.RAISED,),
        is_quoted=True,
    ),
    Rule(
        "python_version",
        message(
            r"requires a different Python: (?P<have>[\d.]+) not in|"
            r"(?:TypeError: unsupported operand type\(s\) for \|: '(?:type|NoneType|_\w+)')"
            r"|TypeError: 'type' object is not subscriptable"
            r"|ImportError: cannot import name '\w+' from '(?:typing|collections|importlib)\b"
            r"|AttributeError: module '(?:collections|inspect|time|fractions|typing"
            r"|asyncio)' has no"
            r" attribute|ModuleNotFoundError: No module named '(?:distutils|imp)'"
        ),
        "The code was written for another version of Python than the node's.",
        "Adapt the code to this version, or use a newer version of the library that contains it.",
        "https://docs.python.org/3/whatsnew/index.html",
        where=(Where.RAISED,),
    ),
)
