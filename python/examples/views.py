# SPDX-License-Identifier: MIT
"""Photographs with their cameras, from a binary model of COLMAP or a transforms.json."""
import json
import math
import struct
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

COLMAP_MODELS = ["SIMPLE_PINHOLE f cx cy", "PINHOLE fx fy cx cy", "SIMPLE_RADIAL f cx cy k1", "RADIAL f cx cy k1 k2",
                 "OPENCV fx fy cx cy k1 k2 p1 p2"]
TRANSFORMS_NAMES = dict(fl_x="fx", fl_y="fy", w="width", h="height", cx="cx", cy="cy", k1="k1", k2="k2", p1="p1", p2="p2",
                        camera_angle_x="angle")


def records(path, read_one):
    """Reads a file of COLMAP: a count, then records. read_one(take) reads one; take(format) the next values, take("s") a text
    that a 0 ends."""
    data, at = path.read_bytes(), 0

    def take(form):
        nonlocal at
        if form == "s":
            begin, at = at, data.index(b"\0", at) + 1
            return data[begin:at - 1].decode()
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values
    try:
        return [read_one(take) for _ in range(take("Q")[0])]
    except (struct.error, ValueError):
        sys.exit(f"{path} ends early, at byte {at} of {len(data)}")


def colmap_camera(take):
    number, model, width, height = take("iiQQ")
    if not 0 <= model < len(COLMAP_MODELS):
        sys.exit(f"COLMAP's camera model {model} is not supported; models 0 to 4 are: "
                 f"{', '.join(text.split()[0] for text in COLMAP_MODELS)}")
    names = COLMAP_MODELS[model].split()[1:]
    camera = dict(zip(names, take(f"{len(names)}d")), width=width, height=height)
    return number, {**camera, "fx": camera.get("fx", camera.get("f")), "fy": camera.get("fy", camera.get("f"))}


def colmap_image(take):
    _, w, x, y, z, *t, camera = take("i7di")
    name, viewmat = take("s"), torch.eye(4, dtype=torch.float64)
    take(f"{24 * take('Q')[0]}x")
    w, x, y, z = np.array([w, x, y, z]) / np.linalg.norm([w, x, y, z])
    viewmat[:3, :3] = torch.tensor([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                                    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                                    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
    viewmat[:3, 3] = torch.tensor(t)
    return name, camera, viewmat


def colmap_point(take):
    values = take("Q3d3BdQ")
    take(f"{8 * values[-1]}x")
    return values[1:7]


def colmap_frames(folder, model):
    cameras, images = (dict(records(model / "cameras.bin", colmap_camera)), records(model / "images.bin", colmap_image))
    for camera in {camera for _, camera, _ in images} - set(cameras):
        sys.exit(f"camera {camera} of an image is not in {model / 'cameras.bin'}")
    points = records(model / "points3D.bin", colmap_point) if (model / "points3D.bin").exists() else []
    return [(folder / "images" / name, cameras[camera], viewmat) for name, camera, viewmat in images], np.array(points)


def transforms_frames(path):
    try:
        data, frames = json.loads(path.read_text()), []
        for frame in data["frames"]:
            m = {**data, **frame}
            camera = {new: float(m[old]) for old, new in TRANSFORMS_NAMES.items() if old in m}
            to_world = torch.tensor(frame["transform_matrix"], dtype=torch.float64)
            to_world[:3, 1:3] *= -1  # +y up, looking along -z, becomes +y down, looking along +z
            frames.append((path.parent / frame["file_path"], camera, torch.linalg.inv(to_world)))
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        sys.exit(f"{path}: {type(error).__name__}: {error}")
    return frames


def load_frames(folder):
    """(path of the photograph, camera, viewmat) of each frame, and points with colours [N, 6], or None."""
    model = next((m for m in (folder / "sparse/0", folder / "sparse", folder) if (m / "cameras.bin").exists()), None)
    if model:
        frames, points = colmap_frames(folder, model)
        return frames, points if len(points) else None
    if not (folder / "transforms.json").exists():
        sys.exit(f"{folder} has neither sparse/0/cameras.bin (COLMAP's binary model) nor a transforms.json")
    return transforms_frames(folder / "transforms.json"), None


def undistorted(picture, camera, K):
    """The picture [H, W, 3] that a pinhole sees, from one with Brown's k1, k2, p1, p2."""
    k1, k2, p1, p2 = (camera.get(name, 0.0) for name in ("k1", "k2", "p1", "p2"))
    if k1 == k2 == p1 == p2 == 0:
        return picture
    height, width = picture.shape[:2]
    at = [torch.arange(size, device=picture.device) + 0.5 for size in (height, width)]
    v, u = torch.meshgrid(*at, indexing="ij")
    x, y = (u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1]
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + k2 * r2)
    xd = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    yd = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    grid = torch.stack(((xd * K[0, 0] + K[0, 2]) * 2 / width - 1, (yd * K[1, 1] + K[1, 2]) * 2 / height - 1), -1)
    planar = picture.permute(2, 0, 1)[None].float()
    out = F.grid_sample(planar, grid[None], mode="bilinear", padding_mode="border", align_corners=False)
    return out[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)


def decode(path):
    try:
        return np.array(Image.open(path).convert("RGB"))
    except OSError as error:
        sys.exit(f"{path}: {error}")


def load(frames, downscale, device):
    """(viewmat [1, 4, 4], K [1, 3, 3], picture) of each frame that has a file, by name. Pictures stay on the GPU, and
    cameras on the CPU, where distwar reads them without waiting for the GPU."""
    views, frames = [], sorted(frames, key=lambda frame: frame[0])
    for path in (path for path, _, _ in frames if not path.exists()):
        print(f"{path}: no such file, skipped")
    frames = [frame for frame in frames if frame[0].exists()]
    with ThreadPoolExecutor() as pool:
        pictures = pool.map(decode, (path for path, _, _ in frames))
    for (path, m, viewmat), picture in zip(frames, pictures):
        picture = torch.from_numpy(picture).to(device)
        if "fx" not in m and "angle" not in m:
            sys.exit(f"{path}: its camera has neither fl_x nor camera_angle_x")
        height, width = picture.shape[:2]
        x, y = width / m.get("width", width), height / m.get("height", height)  # photographs may have been reduced
        fx = m["fx"] * x if "fx" in m else width / 2 / math.tan(m["angle"] / 2)
        fy = m["fy"] * y if "fy" in m else fx
        K = torch.tensor([[fx, 0, m["cx"] * x if "cx" in m else width / 2],
                          [0, fy, m["cy"] * y if "cy" in m else height / 2], [0, 0, 1]])
        picture = undistorted(picture, m, K)
        if downscale > 1:
            planar = picture[:height // downscale * downscale, :width // downscale * downscale].permute(2, 0, 1)[None]
            picture = F.avg_pool2d(planar.float(), downscale)[0].permute(1, 2, 0).round().to(torch.uint8)
            K[:2] /= downscale
        views.append((viewmat.float()[None], K[None], picture.contiguous()))
    return views or sys.exit("there are no photographs")


def random_points(views, count):
    """Points on rays through random pixels, around where the cameras look, with the pixels' colours."""
    to_world = torch.stack([torch.linalg.inv(viewmat[0]) for viewmat, _, _ in views])
    centers, forward = to_world[:, :3, 3], to_world[:, :3, 2]
    across = torch.eye(3) - forward[:, :, None] * forward[:, None, :]
    focus = torch.linalg.lstsq(across.sum(0), (across @ centers[:, :, None]).sum(0)).solution[:, 0]
    points, colors = [], []
    for (_, (K,), picture), center, pose in zip(views, centers, to_world):
        n = -(-count // len(views))
        row, column = (torch.rand(n) * picture.shape[0]).long(), (torch.rand(n) * picture.shape[1]).long()
        ray = torch.stack(((column + 0.5 - K[0, 2]) / K[0, 0], (row + 0.5 - K[1, 2]) / K[1, 1], torch.ones(n)), -1)
        depth = torch.linalg.norm(focus - center) * torch.exp(torch.empty(n).uniform_(math.log(0.3), math.log(3)))
        points.append(center + (ray * depth[:, None]) @ pose[:3, :3].T)
        colors.append(picture.cpu()[row, column])
    return torch.cat((torch.cat(points), torch.cat(colors)), 1)[:count]
