#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PSNR, SSIM and LPIPS of the pictures that `dsplat eval --pictures DIR` writes: python metrics.py DIR [--net vgg].

SSIM and LPIPS are torchmetrics': its SSIM leaves the border of a picture out, that of `dsplat eval` does not. Pixels that a
mask leaves out count here."""
import argparse
import importlib.util
import pathlib
import sys

import numpy as np
from PIL import Image

NEEDED = ("torch", "torchvision", "torchmetrics")


def pair(path):
    """The rendered picture and the photograph, [height, width, 3] bytes each, which stand side by side in the file."""
    both = np.asarray(Image.open(path).convert("RGB"))
    return both[:, :both.shape[1] // 2], both[:, both.shape[1] // 2:]


def psnr(rendered, photograph):
    """In dB; infinite if nothing differs."""
    error = np.mean((rendered.astype(float) - photograph.astype(float))**2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--net", default="alex", choices=("alex", "vgg"), help="the network of LPIPS")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("view_*.png"))
    if not paths:
        sys.exit(f"{options.folder}: holds no view_*.png; first dsplat eval SCENE --cameras DATA --pictures {options.folder}")
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        sys.exit(f"metrics.py needs {', '.join(missing)}: pip install {' '.join(missing)}")
    import torch
    from torchmetrics.functional.image import (learned_perceptual_image_patch_similarity as lpips,
                                               structural_similarity_index_measure as ssim)

    rows = []
    print("view              PSNR, dB    SSIM   LPIPS")
    for path in paths:
        pictures = pair(path)
        a, b = (torch.tensor(picture.transpose(2, 0, 1)[None]).float() / 255 for picture in pictures)
        rows.append((psnr(*pictures), ssim(a, b, data_range=1.0).item(), lpips(a, b, options.net, normalize=True).item()))
        print(f"{path.stem:16}  {rows[-1][0]:8.2f}  {rows[-1][1]:6.4f}  {rows[-1][2]:6.4f}")
    mean = np.mean(rows, axis=0)
    print(f"{'mean':16}  {mean[0]:8.2f}  {mean[1]:6.4f}  {mean[2]:6.4f}")


if __name__ == "__main__":
    main()
