"""Common mistakes in a program's own code that libraries report, with a remedy for each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backend.node.diagnosis.rule import message


@dataclass(frozen=True)
class Hint:
    """``pattern`` is searched in the exception; a match proves that the code is wrong."""

    pattern: re.Pattern[str]
    remedy: str


_ALONE = " Fix the code, import it as a new version, then clone this job with that version."

HINTS = (
    Hint(
        message(
            r"mat1 and mat2 shapes|size mismatch(?:, m1: | \(got input)"
            r"|[Mm]ismatch in (?:shape|dimension)"
            r"|The size of tensor a \(\d+\) must match|Sizes of tensors must match"
            r"|shape '\[[^\]]*\]' is invalid for input of size|invalid argument \d+: (?:size|Sizes)"
            r"|to have \d+ channels, but got \d+ channels|[Ee]xpected input batch_size \(\d+\) to"
            r"|Expected \d(?:D|-D| ?-dimensional)[\w() ,-]* (?:input|tensor)|normalized_shape="
            r"|(?:expanded|output) size[^\n]* must match|Dimension out of range \(expected"
            r"|Using a target size \(torch\.Size|Target size \(torch\.Size|cannot be broadcast"
            r"|operands could not be broadcast|inhomogeneous shape|cannot reshape array"
            r"|only batches of spatial targets supported|multi-target not supported"
            r"|0D or 1D target tensor expected|input\.size\(-1\) must be equal to input_size"
            r"|running_mean should contain|inconsistent tensor size|Given input size: "
            r"|Kernel size can't be greater than actual input size|must have same dimensions"
            r"|doesn't match the broadcast shape|view size is not compatible"
            r"|Given groups=\d+, (?:expected )?weight|too many indices for (?:tensor|array)"
            r"|index -?\d+ is out of bounds for (?:axis|dimension)|selected index k out of range"
            r"|is ambiguous$|[Oo]nly one element tensors can be converted|expected a non-empty"
            r"|expects a non-empty|Expected reduction dim|(?:not enough|too many"
            r"|more than \d+) values to unpack"
            r"|is not broadcastable to the shape|shape mismatch: |[Ss]hapes? [^\n]* not aligned"
            r"|[Ee]xpected (?:size for first two dimensions|target size|sequence length)"
            r"|[Ee]xpected input(?:'s)? (?:to be|size|dim)|input must have \d+ dimensions"
            r"|must have the same (?:number of dimensions|size|shape)"
            r"|[Ii]nconsistent numbers of samples"
            r"|Sizes? of (?:input|tensors?|target)[^\n]*(?:must|does not|doesn't) match"
            r"|shapes? (?:do|does)(?:n't| not) match|negative dimension|size must be non-negative"
            r"|Padding size should be less than|Calculated padded input size"
            r"|Output size is too small"
            r"|could not broadcast input array|setting an array element with a sequence"
            r"|[Ii]nvalid shape|index is out of bounds for dimension|start \(\d+\) \+ length"
            r"|split_with_sizes expects|stack\(\): expected|expected sequence of length \d+ at dim"
            r"|Batch(?: |_)?size [^\n]*(?:divisible|match)|must be divisible by|narrow\(\): length"
            r"|[Tt]he shape of the (?:mask|2D attn_mask)|query should be unbatched|but got \d-D"
        ),
        "The input does not have the shape that this layer or operation expects. Check that "
        "this loader was made for this model, and print shapes before that line. An empty "
        "sample, or one of another size, causes this too." + _ALONE,
    ),
    Hint(
        message(r"stack expects each tensor to be equal size|Trying to resize storage that is not"),
        "The samples of one batch differ in shape: cut or pad them to one shape in the loader, "
        "or supply a collate function." + _ALONE,
    ),
    Hint(
        message(
            r"[Ee]xpected (?:all tensors to be on the same device|object of (?:backend|device))"
            r"|Input type \(\S*(?:cuda|FloatTensor)[^\n]*weight type \(\S*[^\n]*should be the same"
            r"|can't convert (?:cuda:\d+|CUDA) (?:device type )?tensor to numpy"
            r"|but (?:found|expected) (?:at least two devices|one of them on device)"
            r"|indices should be either on cpu or on the same device|must be on the same device"
            r"|Tensors must be CUDA and dense|Tensor for (?:'out'|argument [^\n]*) is on (?:CPU|GPU"
            r"|cpu)"
            r"|[Ee]xpected device \S+ but got|Expected a '?cuda'? device|is not on the same device"
            r"|tensors are not (?:at|on) the same device"
            r"|module must have its parameters and buffers"
            r"|expected to be on device|on different (?:devices|GPUs)"
            r"|can't convert (?:cuda|CUDA)\S* (?:device type )?tensor to numpy"
            r"|all tensors must be on devices\[0\]|device_ids and output_device arguments only work"
            r"|No backend type associated with device type"
            r"|Input, output and indices must be on the current device|arguments are located on "
        ),
        "Two tensors are on different devices or have different types: create new tensors with "
        "device=x.device, and register constants of the model as buffers." + _ALONE,
    ),
    Hint(
        message(
            r"[Ee]xpected (?:scalar type|object of (?:scalar )?type|dtype|tensor for argument)"
            r"|expected m1 and m2 to have the same dtype|must have the same dtype"
            r"|result type \w+ can't be cast|not implemented for '\w+'|found dtype \w+ but expected"
            r"|can't be cast to the desired output type|Found dtype \w+ but expected"
            r"|[Ee]xpected (?:tensor to have|floating point|a floating|dtype|\w+Tensor)"
            r"|expected type torch\.\w+ but got|index tensor of type int64|must be long, (?:int"
            r"|byte)"
            r"|tensors used as indices must be|only applicable to index tensor"
            r"|can't convert np\.ndarray of type|Could not infer dtype of|[Uu]nsupported ScalarType"
            r"|expects? [^\n]*(?:dtype|float|long|int64|half)[^\n]* but (?:got|found)"
            r"|(?:should|must) (?:be|have) (?:the same|one of the following) (?:data )?(?:d?types?)"
            r"|cannot be converted to type \w+ without overflow|have the same dtype"
            r"|Cannot cast ufunc|default_collate: batch must contain tensors"
            r"|batch must contain tensors, numbers, dicts or lists"
        ),
        "Convert the tensor to the expected type with .float() or .long()." + _ALONE,
    ),
    Hint(
        message(
            r"modified by an inplace operation|a leaf [Vv]ariable that requires grad"
            r"|backward through the graph a second time|does not require grad and does not have a"
            r"|grad can be implicitly created only for scalar|One of the differentiated Tensors"
            r"|backward can only be called in training mode|No inf checks were recorded"
            r"|Attempting to unscale FP16 gradients|unscale_\(\) has already been called"
            r"|call numpy\(\) on (?:a )?(?:Variable|Tensor) that requires grad"
            r"|is being modified inplace|Inplace update to (?:an )?inference tensor"
            r"|floating point (?:and complex )?dtype can require gradients"
            r"|can't optimize a non-leaf Tensor|must be a leaf"
            r"|saved intermediate values of the graph"
            r"|returned an invalid gradient|does not require grad\b|detach\(\)\.clone\(\)"
            r"|unused in(?: the)? forward"
        ),
        "Compute the loss from the model's parameters with differentiable operations only: no "
        "in-place changes, no detach, one backward pass a step." + _ALONE,
    ),
    Hint(
        message(
            r"Expected to have finished reduction in the prior iteration"
            r"|parameters that were not used in producing loss|unused parameters?\b"
            r"|is not needed when a module doesn't have any parameters"
        ),
        "A part of the model is not used in the loss: use each parameter in each step." + _ALONE,
    ),
    Hint(
        message(r"Expected to mark a variable ready only once"),
        "A wrapper such as DistributedDataParallel got a gradient twice in one step, as of a layer "
        "that is used twice under reentrant checkpointing: remove the wrapper, which a job does "
        "not need, or call torch.utils.checkpoint with use_reentrant=False." + _ALONE,
    ),
    Hint(
        message(
            r"Expected more than 1 (?:value per channel|spatial element) when training"
            r"|BatchNorm[^\n]*(?:batch size|more than)"
        ),
        "Batch normalisation needs more than one sample: use a larger batch size, or drop the "
        "last, smaller batch." + _ALONE,
    ),
    Hint(
        message(
            r"[Pp]rocess group (?:has not been|is not) initialized|make sure to call init_proc"
            r"|environment variable (?:MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE) expected"
            r"|initialize the default process group twice|Group [^\n]*not initialized"
            r"|KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_\w+)'"
            r"|Invalid (?:rank|backend)"
        ),
        "The job's ranks communicate through Horovod; torch.distributed is not started. Remove "
        "its calls." + _ALONE,
    ),
    Hint(
        message(r"'\w*DataParallel' object has no attribute|object has no attribute 'module'$"),
        "DataParallel wrappers keep the model in .module, but a job does not wrap the model: "
        "use the model itself, and .module only on a wrapper." + _ALONE,
    ),
    Hint(
        message(r"'; '[^'\n]+' is not a package|attempted relative import"),
        "The module name is not valid: write it with dots, without .py, relative to the folder "
        "that the program starts in." + _ALONE,
    ),
    Hint(
        message(r"context has already been set"),
        "The start method of processes can be set only once: leave it to the job." + _ALONE,
    ),
    Hint(
        message(r"optimizer got an empty parameter list"),
        "The model has no parameters: keep layers as attributes or in a ModuleList, not in a "
        "plain list." + _ALONE,
    ),
)
"""Messages of PyTorch and NumPy: https://github.com/pytorch/pytorch,
https://github.com/numpy/numpy.
"""


def remedy_for(text: str) -> str:
    """Return the remedy for this exception, or "" if no hint matches."""
    return next((hint.remedy for hint in HINTS if hint.pattern.search(text)), "")
