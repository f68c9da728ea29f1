# SPDX-License-Identifier: MIT
"""Scenes for the tests, as numpy arrays, and the same formulas (math.md, sections 2 and 3) in double precision."""
import numpy as np


def scene(count=40, cameras=1, degree=None, channels=3, seed=0, size=(40, 33)):
    """Arguments of rasterization() by name."""
    random = np.random.default_rng(seed)
    width, height = size
    viewmats = np.tile(np.eye(4), (cameras, 1, 1))
    for c in range(cameras):
        a = 0.1 * c
        viewmats[c, :3, :3] = [[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]]
        viewmats[c, :3, 3] = [0.05 * c, -0.02 * c, 3]
    K = np.array([[width, 0, width / 2 + 0.3], [0, width * 1.1, height / 2 - 0.2], [0, 0, 1]])
    colors = random.uniform(0, 1, (count, channels)) if degree is None else \
        0.4 * random.normal(size=(count, (degree + 1)**2, 3))
    arrays = dict(means=random.uniform(-1, 1, (count, 3)), quats=random.normal(size=(count, 4)),
                  scales=np.exp(random.uniform(-3.2, -1.6, (count, 3))), opacities=random.uniform(0.1, 0.9, count),
                  colors=colors, viewmats=viewmats, Ks=np.tile(K, (cameras, 1, 1)))
    arrays = {name: a.astype("float32") for name, a in arrays.items()}
    return dict(arrays, width=width, height=height, sh_degree=degree)


def ortho(s):
    """The scene in orthographic cameras that see about as much."""
    return dict(s, Ks=s["Ks"] / np.float32([[3, 1, 1], [1, 3, 1], [1, 1, 1]]), camera_model="ortho")


def _rotation(q):
    w, x, y, z = q / np.linalg.norm(q)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def covariances(quats, scales):
    """[N, 3, 3], in double precision."""
    axes = np.stack([_rotation(q) * scale for q, scale in zip(np.asarray(quats, "float64"), np.asarray(scales, "float64"))])
    return axes @ axes.swapaxes(1, 2)


def raw(s):
    """The scene with logarithms of scales and logits of opacities."""
    return dict(s, scales=np.log(s["scales"]), opacities=np.log(s["opacities"] / (1 - s["opacities"])))


def _splat(s, i, view, K, eps2d, antialiased):
    """Mean, covariance, opacity, colour and depth in a camera; None if it is culled."""
    R, t = view[:3, :3], view[:3, 3]
    p = R @ s["means"][i] + t
    if p[2] <= 0.01:
        return None
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
    J = np.array([[fx / p[2], 0, -fx * p[0] / p[2]**2], [0, fy / p[2], -fy * p[1] / p[2]**2]])
    mean = np.array([fx * p[0] / p[2] + cx, fy * p[1] / p[2] + cy])
    if s.get("camera_model") == "ortho":
        J, mean = np.array([[fx, 0, 0], [0, fy, 0]]), np.array([fx * p[0] + cx, fy * p[1] + cy])
    sharp = J @ R @ covariances(s["quats"][i:i + 1], s["scales"][i:i + 1])[0] @ R.T @ J.T
    blurred = sharp + eps2d * np.eye(2)
    opacity = s["opacities"][i]
    if antialiased:
        opacity = opacity * np.sqrt(np.linalg.det(sharp) / np.linalg.det(blurred))
    if opacity < 1 / 255:
        return None
    color = s["colors"][i]
    if s["sh_degree"] is not None:
        direction = s["means"][i] + R.T @ t
        x, y, z = 0.4886025119029199 * direction / np.linalg.norm(direction)
        basis = np.array([0.28209479177387814, -y, z, -x])  # of degree 1
        color = np.maximum(0, 0.5 + basis @ color[:4])
    return mean, np.linalg.inv(blurred), opacity, color, p[2]


def reference(s, eps2d=0.3, antialiased=False):
    """Colours [C, H, W, D], alphas [C, H, W], depths [C, H, W] in double precision."""
    s = {name: np.asarray(a, "float64") if isinstance(a, np.ndarray) else a for name, a in s.items()}
    x, y = np.meshgrid(np.arange(s["width"]) + 0.5, np.arange(s["height"]) + 0.5)
    frames = []
    for view, K in zip(s["viewmats"], s["Ks"]):
        splats = [_splat(s, i, view, K, eps2d, antialiased) for i in range(len(s["means"]))]
        splats = sorted((splat for splat in splats if splat is not None), key=lambda splat: splat[4])
        channels = 3 if s["sh_degree"] is not None else s["colors"].shape[-1]
        color, depth, T = np.zeros(x.shape + (channels,)), np.zeros(x.shape), np.ones(x.shape)
        going = np.ones(x.shape, bool)
        for mean, precision, opacity, rgb, z in splats:
            dx, dy = x - mean[0], y - mean[1]
            power = precision[0, 0] * dx * dx + 2 * precision[0, 1] * dx * dy + precision[1, 1] * dy * dy
            alpha = np.minimum(0.99, opacity * np.exp(-0.5 * power))
            counts = alpha >= 1 / 255
            going &= ~(counts & (T * (1 - alpha) < 1e-4))
            weight = np.where(counts & going, T * alpha, 0)
            color += weight[..., None] * rgb
            depth += weight * z
            T = T - weight
        frames.append((color, 1 - T, depth))
    return tuple(np.stack(part) for part in zip(*frames))


def relative(a, b):
    """The error of a against b as a norm; NaN stays NaN."""
    a, b = (np.asarray(of.detach().cpu() if hasattr(of, "detach") else of, "float64") for of in (a, b))
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)
