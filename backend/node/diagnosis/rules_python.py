"""Messages of Python programs about versions, packages and options that are missing."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, Rule, Weight, Where, message

_EXCEPTIONS = "https://docs.python.org/3/library/exceptions.html"
_RAISED = (Where.RAISED,)
_ADAPT = "Adapt the code to the installed versions, or install the versions it needs."
_PACKAGE = r"(?:PyTorch|[Tt]orch|torchvision|CUDA|cuda|cuDNN|NCCL|numpy|NumPy|[Tt]ransformers"
_PACKAGE += r"|accelerate|[Dd]eep[Ss]peed|bitsandbytes|peft|[Tt]riton|Python|TensorFlow|mmcv\S*"
_PACKAGE += r"|xformers|flash[-_]attn|apex|lightning|datasets|tokenizers|safetensors|horovod)"

RULES = (
    Rule(
        "library_version",
        message(
            r"'_\w*(?:DataLoader|Loader)Iter' object has no attribute 'next'"
            r"|'(?:str|bytes)' object has no attribute '(?:decode|encode)'"
            r"|'(?:Variable|VariableTensor)' object has no attribute '(?P<name>\w+)'"
            r"|'\w+' object has no attribute '(?:iteritems|itervalues|has_key)'"
            r"|'\w*(?:DataParallel|Optimizer|Tensor|Parameter|GradScaler|DataLoader|Scheduler|LR)'"
            r" object has no attribute '(?P<name2>_\w+)'"
            r"|'(?:generator|zip|map|csv\.reader|_io\.\w+)' object has no attribute 'next'"
        ),
        "The code was written for another version of a library, or of Python: {name} does not "
        "exist in this one.",
        _ADAPT,
        _EXCEPTIONS + "#AttributeError",
        where=_RAISED,
        otherwise="The code was written for another version of a library, or of Python.",
    ),
    Rule(
        "library_version",
        message(
            r"(?:requires?|needs?|require a|works? (?:only )?with|supports? only|only supports?) "
            r"(?:at least |a version of |minimum )?[`'\"]?(?P<wanted>"
            + _PACKAGE
            + r"[ `'\"]{0,2}(?:version )?(?:>=|==|<=|~=|!=|<|>|=|at least |v?\d)[^\n,;]{0,40})"
            r"|(?:upgrade|update|downgrade) (?:your )?(?:installation of |version of )?(?P<wanted2>"
            + _PACKAGE
            + r"\b[^\n]{0,40})"
            r"|[Yy]our (?:currently installed |installed )?(?:version of )?(?P<wanted3>"
            + _PACKAGE
            + r"[^\n]{0,40}(?:is too (?:old|new)|is incompatible|is not (?:supported|compatible)))"
            r"|(?P<wanted5>[\w.-]+ ?==? ?[\d.]+\S*) is used but incompatible"
            r"|(?:pip3? |[Pp]lease )install [^\n]*?(?P<wanted6>[A-Za-z][\w-]*(?:[<>=~]=)[^\n'\"`]{1"
            r",30})"
            r"|pip3? install (?:-U|--upgrade)|pip3? install [^\n]* -U\b"
            r"|does not recognize this architecture|[Uu]nrecognized configuration class"
            r"|(?P<wanted4>[\w.-]+ ?(?:>=|==|<=)[^\n]{0,30}) is required\b[^\n]*but found"
        ),
        "The program needs another version of a library: {wanted}.",
        _ADAPT,
        _EXCEPTIONS,
        where=_RAISED,
        otherwise="The program needs another version of a library.",
    ),
    Rule(
        "module_missing",
        message(
            r"^(?:\w+\.)*\w+(?:Error|Exception)?: [^\n]*?(?:"
            r"pip3? install (?:-U |--upgrade |--user |-q )*['\"`]?(?P<module>[A-Za-z][\w-]*)"
            r"|name '(?P<module4>apex|amp|hvd|horovod|deepspeed|flash_attn\w*|xformers|bnb|triton"
            r"|pynvml"
            r"|wandb|mpi4py|cupy|tensorboardX|pycuda|dgl|nltk|cv2|timm|einops)' is not defined"
            r"|[Pp]lease install (?:the )?['\"`]?(?P<module2>(?!it\b|the\b|from\b"
            r"|a\b)[A-Za-z][\w-]*)"
            r"|(?:`|'|\")?(?P<module3>[A-Za-z][\w-]*)(?:`|'|\")? (?:package |library |module )?"
            r"(?:(?:is|was) not (?:installed|available in your environment)"
            r"|seems to be not installed))"
        ),
        "The Python module {module} is missing: it is not installed on the node and not "
        "included with the program.",
        "Include the module with the model or the loader, or remove its use.",
        _EXCEPTIONS + "#ImportError",
        where=_RAISED,
        otherwise="A Python module that the program needs is missing on the node.",
    ),
    Rule(
        "gpu_number",
        message(
            r"You requested gpu: \[[\d, ]*\]\s+But your machine only has|requested [\d, ]+ GPUs?"
            r"[^\n]*(?:only|but)[^\n]*(?:available|found|has)"
            r"|[Ii]nvalid CUDA 'device=|Invalid device(?:_id)? ?(?:ordinal|index|string)"
        ),
        "The program uses GPU numbers that this rank does not have: each rank sees one GPU, "
        "number 0.",
        "Leave the choice of GPUs to the job: use no device numbers in the model or the loader.",
        "https://github.com/Lightning-AI/pytorch-lightning",
        where=_RAISED,
    ),
    Rule(
        "python_version",
        message(
            r"SyntaxError: (?:Missing parentheses in call to|invalid syntax\. Maybe you meant"
            r"|multiple exception types must be parenthesized|'return' with value in async gen)"
            r"|SyntaxError: future feature annotations is not defined"
            r"|NameError: name '(?:unicode|xrange|raw_input|reduce|basestring|long|unichr)' is not"
            r"|cannot import name '\w+' from '(?:typing|collections|importlib|asyncio|inspect)\b"
            r"|ImportError: cannot import name '?(?:Literal|Protocol|TypedDict|Final|Self|Annotated"
            r"|ParamSpec|TypeAlias|NotRequired)\b"
            r"|TypeError: dataclass_transform|TypeError: dataclass\(\) got an unexpected keyword"
        ),
        "The code was written for another version of Python than the node's.",
        "Adapt the code to this version, or use a newer version of the library that contains it.",
        "https://docs.python.org/3/whatsnew/index.html",
        where=_RAISED,
    ),
    Rule(
        "python_broken",
        message(
            r"Fatal Python error: (?:init_fs_encoding|init_import_site|init_sys_streams"
            r"|Py_Initialize|initfsencoding|initsite)[^\n]*|No module named 'encodings'"
        ),
        "Python could not start: it did not find its own files.",
        "Remove PYTHONHOME and PYTHONPATH from the job's environment, or set the node up again.",
        "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHOME",
        where=LINES,
    ),
    Rule(
        "package_install",
        message(
            r"^ERROR: (?:Could not find a version that satisfies the requirement (?P<what>\S+)"
            r"|No matching distribution found for (?P<what2>\S+)"
            r"|(?:Could not|Failed to) build (?:wheels|installable wheels) for (?P<what3>[\w.-]+)"
            r"|Failed building wheel for (?P<what4>\S+)|ResolutionImpossible)"
            r"|^error: externally-managed-environment|^error: subprocess-exited-with-error"
        ),
        "pip could not install {what}.",
        "Read the lines above for what is missing; usually the package has no build for this "
        "version of Python, or a compiler is missing.",
        "https://pip.pypa.io/en/stable/topics/dependency-resolution/",
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="pip could not install a package of the program.",
    ),
)
