"""Packages that user code often imports, and their names on PyPI.

Only these are suggested for installation.  ``utils``, ``src`` or ``config`` are nearly always a
part of the user's own project, and PyPI has unrelated packages with such names.
"""

from __future__ import annotations

_NAMED_ALIKE = """
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

PYPI_NAMES = {name: name.replace("_", "-") for name in _NAMED_ALIKE.split()} | {
    "Bio": "biopython",
    "OpenEXR": "OpenEXR",
    "PIL": "pillow",
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
"""The PyPI name of each module, by its import name."""
