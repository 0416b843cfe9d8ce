"""Messages about what a program wants of its surroundings: files, the network, other libraries."""

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
        "The program wanted {file}, which is not there.",
        "Check the path in the model, the loader and the job's options, and that every node of "
        "the job sees it.",
        _EXCEPTIONS + "#FileNotFoundError",
        where=_RAISED,
        otherwise="The program wanted a file that is not there.",
        is_quoted=True,
    ),
    Rule(
        "image_unread",
        message(
            r"\(-215:Assertion failed\) (?:!_?src\.empty\(\)|!ssize\.e|!buf\.empty"
            r"|size\.width ?> ?0 && size\.height)"
        ),
        "OpenCV was given an empty picture: mostly its file could not be read, or is not there.",
        "Check the paths that the loader makes, and verify the dataset.",
        _ISSUES + "opencv/opencv-python/issues/376",
        where=_RAISED,
    ),
    Rule(
        "file_locked",
        message(r"unable to lock file(?![^\n]*errno = (?:5|28|116|121|122)\b)|database is locked"),
        "A file could not be locked: another process holds it, or its share knows no locks.",
        "Let one rank alone write it. On a share that knows no locks, HDF5 goes without them with "
        "HDF5_USE_FILE_LOCKING=FALSE in the job's environment.",
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
        "A server's certificate was not believed: the node's clock is wrong, or it lacks the "
        "certificates of those who sign.",
        "Check the date on the node and its package of root certificates (ca-certificates).",
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
        "The program wanted something from the network, and {host} did not give it.",
        "Bring the file along with the model or in a dataset: nodes often have no way to the "
        "internet.",
        "https://docs.python.org/3/library/urllib.error.html",
        where=_RAISED,
        otherwise="The program wanted something from the network and did not get it.",
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
        "name: {name} is not in it.",
        "Adapt the code to the versions that the node has, or have the others installed there.",
        _EXCEPTIONS + "#ImportError",
        where=_RAISED,
        otherwise="The code was written for another version of a library than the one installed.",
    ),
    Rule(
        "module_missing",
        message(
            r"No module named '?(?P<module>(?P<root>utils?|models?|tasks?|libs?|src|data(?:sets?)?"
            r"|core|tools?|train(?:ing|er)?|modules?|configs?|net(?:work)?s?|loss(?:es)?|common"
            r"|layers?|project|scripts?|dataloaders?)\.[\w.]+)'?(?![^\n]*is not a package)"
        ),
        "The module {module} was not found: it is a part of the program that was not brought "
        "along, or another package named {root} comes before the program's own.",
        "Bring its folder along with the model, or give it a name that no package has.",
        _EXCEPTIONS + "#ModuleNotFoundError",
        where=_RAISED,
    ),
    Rule(
        "library_version",
        message(
            r"No module named '?(?!__torch__)(?P<module>\w+)\.(?P<name>[\w.]+)'?"
            r"(?![^\n]*is not a package)"
        ),
        "{module} is there, and has no part {name}: the code was written for another version of "
        "it, or for another package of this name.",
        "Adapt the code to the version that the node has, or have the other installed there.",
        _EXCEPTIONS + "#ModuleNotFoundError",
        where=_RAISED,
    ),
    Rule(
        "text_encoding",
        message(r"UnicodeEncodeError: '(?P<codec>[\w-]+)' codec can't encode"),
        "The program wrote characters that {codec} does not have.",
        "Name the encoding where the file is opened (encoding=…). When the codec is ascii or "
        "latin-1, set LC_ALL=C.UTF-8 in the job's environment.",
        _EXCEPTIONS + "#UnicodeEncodeError",
        where=_RAISED,
    ),
    Rule(
        "text_encoding",
        message(r"UnicodeDecodeError: '(?P<codec>[\w-]+)' codec can't decode"),
        "The program read a text as {codec}, which it is not.",
        "Name the encoding where the file is opened (encoding=…). When the codec is ascii, set "
        "LC_ALL=C.UTF-8 in the job's environment.",
        _EXCEPTIONS + "#UnicodeDecodeError",
        where=_RAISED,
    ),
    Rule(
        "json_text",
        message(r"JSONDecodeError: "),
        "The program read a text as JSON, which it is not: a damaged or an empty file, or the "
        "answer of a server.",
        "Look at the text that is read there; of files, verify the dataset.",
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
        "A file of settings that the program reads cannot be read: {why}",
        "Mend the file at the line that is named.",
        "https://pyyaml.org/wiki/PyYAMLDocumentation",
        where=_RAISED,
        otherwise="A file of settings that the program reads cannot be read.",
    ),
    Rule(
        "options",
        message(
            r"(?:error: unrecognized arguments|Could not consume arg): [^\n]*--local[-_]rank\b"
        ),
        "The launcher of PyTorch gives the program an option that it does not take: newer versions "
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
        "The program was started with options that it does not take: {what}.",
        "Compare the job's options with those that the program knows; it lists them above.",
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
        "The program's settings do not fit the number of ranks it was started with: {what}.",
        "Choose another number of ranks, or a batch size that they share evenly.",
        "https://github.com/WongKinYiu/ScaledYOLOv4/issues/76",
        where=_RAISED,
    ),
    Rule(
        "display",
        message(
            r"no display name and no \$DISPLAY|[Cc]ould not connect to display|cannot open display"
            r"|[Cc]annot connect to X server|no Qt platform plugin could be initialized"
        ),
        "The program wants to open a window, and the node has no screen.",
        "Write pictures to files: for Matplotlib set MPLBACKEND=Agg in the job's environment, for "
        "OpenCV leave imshow out.",
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
        "A service that the program reports to did not let it in, or did not answer.",
        "Give its key in the job's environment (WANDB_API_KEY), or switch it off "
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
        "The program builds the extension {name} while it runs, and that did not work.",
        "Install a compiler, and the CUDA toolkit of PyTorch's version, on the node; the lines "
        "before tell what it lacks.",
        "https://docs.pytorch.org/docs/stable/cpp_extension.html",
        where=_RAISED,
        otherwise="The program builds compiled code while it runs, and that did not work.",
    ),
    Rule(
        "weights_refused",
        message(r"Weights only load failed|WeightsUnpickler error"),
        "A file of weights holds more than tensors, and PyTorch refuses to load such a file.",
        "Only for a file you trust: load it once with weights_only=False, and save its state_dict "
        "alone.",
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
        "The training left the numbers: a value became NaN or infinite.",
        "Lower the learning rate, clip the gradients, and look for empty or broken samples.",
        "https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",
        where=_RAISED,
    ),
    Rule(
        "pickle_class",
        message(r"Can't get attribute '(?P<name>\w+)' on <module '(?P<module>[\w.]+)'"),
        "A pickled object needs {name} from {module}, where it is not now.",
        "Keep the class or function where it was when the object was saved, or save a state_dict "
        "in place of whole objects.",
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
        "A file could not be written whole.",
        "Mostly its disk is full or its share was away: check both on the node, then resume.",
        "https://docs.pytorch.org/docs/stable/generated/torch.save.html",
        where=_RAISED,
        weight=Weight.VAGUE,
    ),
    Rule(
        "lmdb_full",
        message(r"MDB_MAP_FULL"),
        "An LMDB database reached the size that it was opened with.",
        "Open it with a larger map_size.",
        "https://lmdb.readthedocs.io/en/release/",
        where=_RAISED,
    ),
    Rule(
        "worker_slow",
        message(r"DataLoader timed out after (?P<seconds>\d+) seconds"),
        "The loader gave no batch within {seconds} s.",
        "Look at what the loader waits for: a share, a lock, or a worker without processor time.",
        "https://docs.pytorch.org/docs/stable/data.html",
        where=RANK,
    ),
    Rule(
        "main_guard",
        message(r"before the\s+current process has finished its bootstrapping phase"),
        "The program starts processes while it is imported, which begins it anew in each of them.",
        "Put what starts processes into functions: nothing of it may run at the import.",
        "https://docs.python.org/3/library/multiprocessing.html",
        where=_RAISED,
    ),
    Rule(
        "locale",
        message(r"unsupported locale setting|Python 3 was configured to use ASCII as encoding"),
        "The language settings (locale) of the node name one that is not installed there.",
        "Set LC_ALL=C.UTF-8 in the job's environment, or install the locale on the node.",
        "https://docs.python.org/3/library/locale.html",
        where=_RAISED,
    ),
)
