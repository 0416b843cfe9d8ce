"""Python packages that user code imports: their names, and which one an error lacks.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SAME_NAMES = """
accelerate aeon albumentations anndata ase astropy av biotite boto3 bottleneck braindecode cartopy
catboost chardet click cloudpickle cupy dask datasets decord deepspeed diffusers dgl e3nn einops
evaluate fairseq fastai fiona flax fsspec geopandas gensim gym gymnasium h5py huggingface_hub
imageio imgaug ipdb jax joblib jsonlines kornia librosa lightgbm lightning lmdb loguru mamba_ssm
markdown matplotlib mne monai more_itertools msgpack ncps netCDF4 networkx nibabel nilearn nltk
numba numpy obspy omegaconf onnx onnxruntime openpyxl optuna pandas peft pint plotly polars
prettytable psutil pyarrow pydantic pydicom pykeops pymatgen pysam pytorch_lightning rasterio
rawpy rdkit regex requests rich sacrebleu safetensors scanpy scipy seaborn
segmentation_models_pytorch selfies sentence_transformers sentencepiece shapely simplejson skorch
soxr spacy statsmodels submitit sympy tables tabulate tensorboard tensorboardX tensordict
tensorflow termcolor tifffile tiktoken timm tokenizers toml torch_cluster torch_geometric
torch_scatter torch_sparse torchaudio torchdata torchinfo torchio torchmetrics torchsde
torchsummary torchtext torchvision torchviz tqdm transformers trimesh ujson ultralytics wandb
webdataset xarray xgboost yacs zarr zstandard
"""

PYPI_NAMES = {name: name.replace("_", "-") for name in _SAME_NAMES.split()} | {
    "Bio": "biopython",
    "OpenEXR": "OpenEXR",
    "PIL": "Pillow",
    "SimpleITK": "SimpleITK",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "git": "GitPython",
    "hydra": "hydra-core",
    "osgeo": "gdal",
    "openslide": "openslide-python",
    "pywt": "PyWavelets",
    "ruamel": "ruamel.yaml",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "soundfile": "soundfile",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}
"""The PyPI name of each package that user code often imports, by its import name.

Only these are suggested for installation. ``utils``, ``src`` or ``config`` are nearly always a
part of the user's own project, and PyPI has unrelated packages with such names.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MISSING = re.compile(r"No module named '?(?P<root>\w+)")


def is_package_name(name: str) -> bool:
    """Return whether pip takes this as the name of a package, and as nothing else."""
    return _NAME.fullmatch(name) is not None


def missing_module(texts: Iterable[str]) -> str:
    """Return the top-level module that the last error in these texts lacks, "" for none."""
    modules = [match["root"] for text in texts for match in _MISSING.finditer(text)]
    return modules[-1] if modules else ""


def module_of(traceback: str) -> str:
    """Return the module whose absence a traceback ends with, "" if it ends otherwise."""
    return missing_module([traceback.strip().rpartition("\n")[2]])


def package_of(module: str) -> str:
    """Return the name to propose for the package of a top-level module."""
    return PYPI_NAMES.get(module, module)
