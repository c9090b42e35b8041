"""Writes small pictures of all kinds with Pillow, which the tests do not need: they are in the repository.

    python test/io/data/make_pictures.py [FOLDER]
"""

import pathlib
import sys

import numpy as np
from PIL import Image


def main(folder):
    y, x = np.mgrid[0:16, 0:24]
    rgb = np.stack([y * 10, x * 10, np.full_like(x, 100)], axis=-1).astype(np.uint8)
    picture = Image.fromarray(rgb)
    picture.save(folder / "rgb.png")
    picture.save(folder / "rgb.jpg", quality=95, subsampling=0)
    picture.save(folder / "progressive.jpg", quality=95, subsampling=0, progressive=True)
    picture.convert("CMYK").save(folder / "cmyk.jpg")
    picture.convert("L").save(folder / "grey.png")
    picture.convert("L").save(folder / "grey.jpg", quality=95)
    picture.convert("LA").save(folder / "grey_with_opacity.png")
    picture.convert("RGBA").save(folder / "rgb_with_opacity.png")
    picture.quantize(8).save(folder / "palette.png")
    Image.fromarray((y * 4000).astype(np.uint16)).save(folder / "sixteen_bits.png")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
