"""Messages about what a program needs around it: files, the network, other libraries."""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, RANK, Rule, Weight, Where, message

_ISSUES = "https://github.com/"
_EXCEPTIONS = "https://docs.python.org/3/library/exceptions.html"
_RAISED = (Where.RAISED,)

RULES = (
    Rule(
        "file_missing",
        message(
            r"^(?:FileNotFound|IO|OS|NotADirectory)Error: \[(?:Errno|WinError) (?:2|3|20)\] "
            r"(?:[^\n:]*: |[^\n]*?name = )b?'(?P<file>(?!/tmp/pymp-)[^'\n]+)'"
            r"|name = '(?P<file2>[^'\n]+)', errno = 2\b"
            r"|^FileNotFoundError: (?P<file3>/\S+) not found\.?$"
            r"|^FileNotFoundError: [^\n\[]*?(?P<file5>/[^\s':]+)|^FileNotFoundError: (?!\[Errno)"
            r"|No such file or no access: '(?P<file4>[^'\n]+)'"
            r"|Parent directory (?P<file6>\S+) does not exist"
            r"|Incorrect path_or_model_id: '(?P<file8>/[^'\n]+)'"
            r"|Error no file named [^\n]* found in directory (?P<file9>[^\n]+?)\.?$"
            r"|HFValidationError: Repo id must be[^\n]*: '(?P<file10>[./~][^'\n]*)'"
            r"|^lmdb\.Error: (?P<file7>[^\n:]+): No such file"
        ),
        "{file} does not exist.",
        "Check the path in the model, the loader and the job's options, and that every node of "
        "the job sees it.",
        _EXCEPTIONS + "#FileNotFoundError",
        where=_RAISED,
        otherwise="A file that the program needs does not exist.",
        is_quoted=True,
    ),
    Rule(
        "image_unread",
        message(
            r"\(-215:Assertion failed\) (?:!_?src\.empty\(\)|!ssize\.e|!buf\.empty"
            r"|size\.width ?> ?0 && size\.height)"
        ),
        "OpenCV got an empty image: usually its file is missing or unreadable.",
        "Check the paths that the loader builds, and verify the dataset.",
        _ISSUES + "opencv/opencv-python/issues/376",
        where=_RAISED,
    ),
    Rule(
        "file_locked",
        message(r"unable to lock file(?![^\n]*errno = (?:5|28|116|121|122)\b)|database is locked"),
        "A file could not be locked: another process holds it, or its share does not support "
        "locks.",
        "Let only one rank write it. On a share without locks, set HDF5_USE_FILE_LOCKING=FALSE "
        "in the job's environment for HDF5.",
        _ISSUES + "h5py/h5py/issues/1101",
        where=_RAISED,
    ),
    Rule(
        "dataset_empty",
        message(
            r"num_samples should be a positive integer value, but got num_samples=0"
            r"|Found 0 (?:files|images|logs) in|Couldn't find any class folder"
            r"|Found no valid file for the classes"
        ),
        "The dataset is empty, as the loader reads it.",
        "Check the folder, the file endings and the filters that the loader uses.",
        "https://docs.pytorch.org/docs/stable/data.html",
        where=_RAISED,
    ),
    Rule(
        "certificate",
        message(r"CERTIFICATE_VERIFY_FAILED"),
        "A server's certificate was rejected: the node's clock is wrong, or the certificate's "
        "issuer is unknown to it.",
        "Check the date on the node and its root certificates (package ca-certificates).",
        "https://docs.python.org/3/library/ssl.html",
        where=_RAISED,
        weight=Weight.CAUSE,
    ),
    Rule(
        "download",
        message(
            r"HTTPS?ConnectionPool\(host='(?P<host>[^']+)'|Max retries exceeded with url"
            r"|<urlopen error [^>]*>|urllib\.error\.HTTPError: |HTTPError: (?:HTTP Error )?[45]\d\d"
            r"|We couldn't connect to 'https?://(?P<host2>[^'/]+)|LocalEntryNotFoundError: "
            r"|ConnectionError: Couldn't reach (?P<host3>\S+)|GatedRepoError: "
            r"|is not a local folder and is not a valid model identifier|access a gated repo"
            r"|Can't load (?:tokenizer for|the (?:configuration|model) (?:of|for)) '"
            r"|does not appear to have a file named|(?:Repository|Revision|Entry)NotFoundError"
            r"|HfHubHTTPError: "
        ),
        "The program requested something from the network, and {host} did not deliver it.",
        "Include the file with the model or in a dataset: nodes often have no internet access.",
        "https://docs.python.org/3/library/urllib.error.html",
        where=_RAISED,
        otherwise="A request to the network failed.",
    ),
    Rule(
        "library_version",
        message(
            r"cannot import name '(?P<name>\w+)' from "
            r"'(?!(?:typing|collections|importlib|asyncio|inspect)\b)(?P<module>[\w.]+)' "
            r"\([^\n)]*(?:(?:site|dist)-packages|lib[/\\]python\d)[^\n)]*\)"
            r"|Descriptors cannot (?:not )?be created directly"
            r"|Unable to avoid copy while creating an array"
            r"|AttributeError: (?:partially initialized )?module "
            r"'(?:torch|torchvision|torchaudio|numpy|scipy|PIL\.\w+|PIL|cv2|tensorflow"
            r"|pandas)[\w.]*'"
            r" has no attribute '"
            r"|(?<![\w.-])(?P<wanted>[\w.-]{1,99}[<>=!~]=?[\w.,<>=!~]+) is"
            r" required for a normal functioning"
            r"|pkg_resources\.(?:VersionConflict|DistributionNotFound|ContextualVersionConflict)"
        ),
        "The code was written for another version of {module}, or for another package of this "
        "name: it has no {name}.",
        "Adapt the code to the installed versions, or install the versions it needs.",
        _EXCEPTIONS + "#ImportError",
        where=_RAISED,
        otherwise="The code was written for another version of a library.",
    ),
    Rule(
        "module_missing",
        message(
            r"No module named '?(?P<module>(?P<root>utils?|models?|tasks?|libs?|src|data(?:sets?)?"
            r"|core|tools?|train(?:ing|er)?|modules?|configs?|net(?:work)?s?|loss(?:es)?|common"
            r"|layers?|project|scripts?|dataloaders?)\.[\w.]+)'?(?![^\n]*is not a package)"
        ),
        "The module {module} was not found: the program's own folder is missing, or another "
        "package named {root} is found first.",
        "Include its folder with the model, or give it a name that no package has.",
        _EXCEPTIONS + "#ModuleNotFoundError",
        where=_RAISED,
    ),
    Rule(
        "library_version",
        message(
            r"No module named '?(?!__torch__)(?P<module>\w+)\.(?P<name>[\w.]+)'?"
            r"(?![^\n]*is not a package)"
        ),
        "{module} has no {name}: the code was written for another version of it, or for another "
        "package of this name.",
        "Adapt the code to the installed version, or install the version it needs.",
        _EXCEPTIONS + "#ModuleNotFoundError",
        where=_RAISED,
    ),
    Rule(
        "text_encoding",
        message(r"UnicodeEncodeError: '(?P<codec>[\w-]+)' codec can't encode"),
        "The program wrote characters that {codec} cannot encode.",
        "Name the encoding where the file is opened (encoding=…). If the codec is ascii or "
        "latin-1, set LC_ALL=C.UTF-8 in the job's environment.",
        _EXCEPTIONS + "#UnicodeEncodeError",
        where=_RAISED,
    ),
    Rule(
        "text_encoding",
        message(r"UnicodeDecodeError: '(?P<codec>[\w-]+)' codec can't decode"),
        "The program read a text as {codec}, but it has another encoding.",
        "Name the encoding where the file is opened (encoding=…). If the codec is ascii, set "
        "LC_ALL=C.UTF-8 in the job's environment.",
        _EXCEPTIONS + "#UnicodeDecodeError",
        where=_RAISED,
    ),
    Rule(
        "json_text",
        message(r"JSONDecodeError: "),
        "The program read a text that is not valid JSON: a damaged or empty file, or a server's "
        "answer.",
        "Print the text before it is parsed. If it comes from a file of the dataset, verify the "
        "dataset.",
        "https://docs.python.org/3/library/json.html",
        where=_RAISED,
        weight=Weight.VAGUE,
    ),
    Rule(
        "config_text",
        message(
            r"yaml\.(?:scanner\.Scanner|parser\.Parser)Error: (?P<why>[^\n]*)|TOMLDecodeError: "
            r"(?P<why2>[^\n]*)|configparser\.\w+Error: (?P<why3>[^\n]*)"
        ),
        "A settings file of the program cannot be read: {why}",
        "Fix the file at the line that is named.",
        "https://pyyaml.org/wiki/PyYAMLDocumentation",
        where=_RAISED,
        otherwise="A settings file of the program cannot be read.",
    ),
    Rule(
        "options",
        message(
            r"(?:error: unrecognized arguments|Could not consume arg): [^\n]*--local[-_]rank\b"
        ),
        "PyTorch's launcher passes an option that the program does not accept: newer versions "
        "write --local-rank, older ones --local_rank.",
        "Read the rank from the environment (LOCAL_RANK), or start the program without that "
        "launcher: the job starts its ranks itself.",
        "https://docs.pytorch.org/docs/stable/distributed.html#launch-utility",
        where=LINES,
    ),
    Rule(
        "options",
        message(
            r"error: unrecognized arguments: (?P<what>[^\n]+)"
            r"|error: the following arguments are required: (?P<what2>[^\n]+)"
            r"|^Error: (?:No such option|Missing (?:option|argument)"
            r"|Got unexpected extra argument)s?:? "
            r"(?P<what4>[^\n]+)"
            r"|^[Uu]sage: (?:.|\n){0,4000}?^[\w.-]+(?: \w+)?: error: (?P<what5>(?!argument"
            r"|unrec)[^\n]+)"
            r"|error: argument (?P<what3>\S+): (?:invalid|expected|not allowed)"
        ),
        "The program was started with options that it does not accept: {what}.",
        "Compare the job's options with those that the program lists above.",
        "https://docs.python.org/3/library/argparse.html",
        where=LINES,
    ),
    Rule(
        "options",
        message(
            r"^(?:Assertion|Value)Error: (?P<what>[^\n]*(?:multiple of|divisible by|not equal to"
            r"|is used for)[^\n]*(?:\bGPUs?\b|\bgpus\b|world.?size|num_(?:gpus|processes|devices)"
            r"|number of (?:ranks|processes|devices))[^\n]*?)\.?$"
        ),
        "The program's settings do not fit its number of ranks: {what}.",
        "Choose another number of ranks, or a batch size that is divisible by it.",
        "https://github.com/WongKinYiu/ScaledYOLOv4/issues/76",
        where=_RAISED,
    ),
    Rule(
        "display",
        message(
            r"no display name and no \$DISPLAY|[Cc]ould not connect to display|cannot open display"
            r"|[Cc]annot connect to X server|no Qt platform plugin could be initialized"
        ),
        "The program tried to open a window, but the node has no screen.",
        "Write images to files: for Matplotlib set MPLBACKEND=Agg in the job's environment, for "
        "OpenCV remove imshow.",
        "https://matplotlib.org/stable/users/explain/figure/backends.html",
        where=RANK,
    ),
    Rule(
        "service_login",
        message(
            r"api_key not configured|wandb\.errors\.(?:errors\.)?(?:UsageError|AuthenticationError)"
            r"|CommError: [^\n]*(?:401|403|permission denied|not logged)"
            r"|wandb: ERROR (?:api_key|Abn)|CommError: Run initialization has timed out"
        ),
        "An experiment-tracking service rejected the program's key or did not answer.",
        "Put its key into the job's environment (WANDB_API_KEY), or turn it off "
        "(WANDB_MODE=offline).",
        "https://docs.wandb.ai/guides/track/environment-variables",
        where=RANK,
    ),
    Rule(
        "extension_build",
        message(
            r"Error building extension '(?P<name>[^'\n]+)'|Ninja is required to load C\+\+ ext"
            r"|CUDA_HOME environment variable is not set|Failed to find C compiler"
            r"|The detected CUDA version \([\d.]+\) mismatches the version that was used to"
            r"|fatal error: Python\.h: No such file"
        ),
        "The program could not build the extension {name}.",
        "Install a compiler on the node, and the CUDA toolkit of PyTorch's version; the lines "
        "above name what is missing.",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        where=_RAISED,
        otherwise="The program could not build its compiled code.",
    ),
    Rule(
        "weights_refused",
        message(r"Weights only load failed|WeightsUnpickler error"),
        "A weights file contains more than tensors, and PyTorch refuses to load it.",
        "If you trust the file, load it once with weights_only=False, and save only its "
        "state_dict.",
        "https://docs.pytorch.org/docs/stable/generated/torch.load.html",
        where=_RAISED,
    ),
    Rule(
        "not_a_number",
        message(
            r"Function '(?P<where>\w+)' returned nan values|contains either `?inf`?, `?nan`? or"
            r"|Input (?:\w+ )?contains NaN|[Ll]oss (?:is|was|became) (?:nan|NaN|inf)"
            r"|NaN or Inf found in input"
            r"|loss scale already at minimum"
            r"|FloatingPointError: (?:Loss|loss|NaN|Minimum loss scale"
            r"|[^\n]*\bNaN\b)"
            r"|invalid values:\s+tensor\(\[*nan"
        ),
        "The loss diverged: a value became NaN or infinite.",
        "Lower the learning rate, clip the gradients, and check the data for empty or damaged "
        "samples.",
        "https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",
        where=_RAISED,
    ),
    Rule(
        "pickle_class",
        message(r"Can't get attribute '(?P<name>\w+)' on <module '(?P<module>[\w.]+)'"),
        "A pickled object needs {name} from {module}, where it no longer exists.",
        "Keep the class or function where it was when the object was saved, or save a "
        "state_dict instead of whole objects.",
        "https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
        where=_RAISED,
    ),
    Rule(
        "write_failed",
        message(
            r"inline_container\.cc[^\n]*(?:unexpected pos|file write failed)"
            r"|PytorchStreamWriter failed|(?<!\d)\d{1,20} requested and \d+ written|disk I/O error"
            r"|basic_ios::clear: iostream error"
        ),
        "A file could not be written completely.",
        "Usually its disk is full or its share was unavailable: check both on the node, then "
        "resume.",
        "https://docs.pytorch.org/docs/stable/generated/torch.save.html",
        where=_RAISED,
        weight=Weight.VAGUE,
    ),
    Rule(
        "lmdb_full",
        message(r"MDB_MAP_FULL"),
        "An LMDB database reached its maximum size.",
        "Open it with a larger map_size.",
        "https://lmdb.readthedocs.io/en/release/",
        where=_RAISED,
    ),
    Rule(
        "worker_slow",
        message(r"DataLoader timed out after (?P<seconds>\d+) seconds"),
        "The loader delivered no batch within {seconds} s.",
        "Check what the loader waits for: a slow share, a lock, or too few CPU cores for its "
        "workers.",
        "https://docs.pytorch.org/docs/stable/data.html",
        where=RANK,
    ),
    Rule(
        "main_guard",
        message(r"before the\s+current process has finished its bootstrapping phase"),
        "The program starts processes while it is imported, and each of them imports it again.",
        "Move the code that starts processes into functions, so that an import does not run it.",
        "https://docs.python.org/3/library/multiprocessing.html",
        where=_RAISED,
    ),
    Rule(
        "locale",
        message(r"unsupported locale setting|Python 3 was configured to use ASCII as encoding"),
        "The node's language setting (locale) is not installed.",
        "Set LC_ALL=C.UTF-8 in the job's environment, or install the locale on the node.",
        "https://docs.python.org/3/library/locale.html",
        where=_RAISED,
    ),
)
