"""Pictures from files: upright, of one mode and size, as tensors from 0 to 1."""

import os
import struct
import zlib

import numpy
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
DAMAGED = (
    OSError, SyntaxError, ValueError, LookupError, TypeError, EOFError,
    struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
"""What Pillow raises for a file that is no picture, or is cut off."""


def open_picture(path: str, channels: int, about: int = 0, turn: bool = True) -> Image.Image:
    """Open a picture as grey (1 channel) or RGB (3).

    Args:
        about: A side in pixels: a much larger JPEG is decoded to about that, which is faster.
        turn: Turn it as its EXIF says.

    Raises:
        ValueError: It cannot be read; the message names the file.
    """
    try:
        with Image.open(path) as file:
            if about:
                file.draft("L" if channels == 1 else "RGB", (about, about))
            image = ImageOps.exif_transpose(file) if turn else file
            return in_mode(image, channels)
    except DAMAGED as error:
        name = "/".join(path.split(os.sep)[-2:])
        why = "it is no picture" if isinstance(error, UnidentifiedImageError) else str(error)
        raise ValueError(f"{name} cannot be read ({why}): remove or replace it") from error


def in_mode(image: Image.Image, channels: int) -> Image.Image:
    """Bring any mode to 8 bits of grey or RGB; what is transparent becomes white."""
    if image.mode.startswith("I") or image.mode == "F":
        values = numpy.asarray(image).astype(numpy.float32)
        white = 65535 if image.mode != "F" else 255 if values.max() > 1 else 1
        image = Image.fromarray((values * (255 / white)).clip(0, 255).astype(numpy.uint8))
    elif image.mode in ("P", "PA", "LA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def tensor_of(image: Image.Image) -> torch.Tensor:
    """Channels × height × width, from 0 (black) to 1."""
    values = torch.from_numpy(numpy.array(image)).float() / 255
    return values[None] if values.ndim == 2 else values.permute(2, 0, 1).contiguous()


def square_picture(path: str, channels: int, side: int) -> torch.Tensor:
    """The middle of a picture, side × side pixels."""
    return tensor_of(ImageOps.fit(open_picture(path, channels, side), (side, side)))


def augmented(picture: torch.Tensor, how: str) -> torch.Tensor:
    """Move a picture by up to an eighth of its side ("crop"), and flip half of them."""
    if how == "none":
        return picture
    height, width = picture.shape[1:]
    margin = max(1, min(height, width) // 8)
    wide = torch.nn.functional.pad(picture[None], [margin] * 4, mode="reflect")[0]
    top, left = torch.randint(0, 2 * margin + 1, (2,)).tolist()
    picture = wide[:, top : top + height, left : left + width]
    return picture.flip(2) if how == "flip and crop" and torch.rand(1) < 0.5 else picture


def picture_size(path: str) -> tuple[int, int] | None:
    """Width and height of an upright picture by its first bytes, None if it cannot be read."""
    try:
        with Image.open(path) as image:
            is_turned = image.getexif().get(0x0112, 1) >= 5
            return image.size[::-1] if is_turned else image.size
    except DAMAGED:
        return None


def is_readable(folder: str, path: str) -> bool:
    """Whether a picture can be read to its end."""
    try:
        open_picture(os.path.join(folder, path), 1, 32)
    except ValueError:
        return False
    return True
