// SPDX-License-Identifier: MIT
// The projection in Levenberg-Marquardt: its derivative along a direction and the adjoint, for several views
// at once; damping by units, and the limit of an update. Formulas: math.md, section 8.
#include "launch.cuh"
#include "kernels.cuh"
#include "tangents.cuh"
#include "splat.cuh"
#include "warp_rows.cuh"
#include <distwar/warp.cuh>

using namespace gs;

namespace {

// Several views with one camera model, passed to a kernel by value.
struct view_set {
    gs_lm_view of[GS_LM_VIEWS];
    view_constants constants[GS_LM_VIEWS];
};

// A call: what the kernels read, and its views by their camera model.
struct views_call {
    gs_gaussians gaussians;
    int degree;
    view_set seen[GS_CAMERA_MODELS];
    int count[GS_CAMERA_MODELS];
};

constexpr int row_floats = sh_floats(GS_MAX_SH_DEGREE);

// A warp's SH rows in shared memory, one per lane, row_floats each; 0 beyond the stored degree.
using sh_rows = warp_rows<row_floats>;

// Row i of `values` floats, padded with 0. The loads are independent, so their latencies overlap.
GS_DEVICE void load_sh(const float *sh, int64_t i, int values, float out[row_floats]) {
    const float *row = sh + i * values;
    DISTWAR_UNROLL
    for (int k = 0; k < row_floats; k += 4) {
        if (values % 4 == 0) { // every row is aligned to 16 bytes
            const float4 four =
                k < values ? *reinterpret_cast<const float4 *>(row + k) : make_float4(0, 0, 0, 0);
            out[k] = four.x, out[k + 1] = four.y, out[k + 2] = four.z, out[k + 3] = four.w;
        } else {
            DISTWAR_UNROLL
            for (int e = 0; e < 4; e++) out[k + e] = k + e < values ? row[k + e] : 0;
        }
    }
}

// sh_basis with 0 beyond the degree.
GS_DEVICE void padded_sh_basis(int degree, const float direction[3], float out[max_sh_coefficients]) {
    DISTWAR_UNROLL
    for (int k = 0; k < max_sh_coefficients; k++) out[k] = 0;
    sh_basis(degree, direction, out);
}

// *to = value, or *to += value if `add`.
__device__ void store(float *to, bool add, float value) {
    *to = add ? *to + value : value;
}

// Adjoint of log_alpha_tangent_of: adds the gradient by the mean and twice the gradient by the
// covariance.
template <typename Point>
GS_DEVICE void add_view_adjoint(const gs_camera &camera, const gs_splat &splat, const Point &p,
                                const symmetric &covariance, const gs_splat_grad &sums,
                                symmetric *d_covariance, float d_mean[3]) {
    float d_mean2d[2], g[2][2], map[2][3], d_j[2][3], d_point[3] = {0, 0, 0};
    conic_sqrt_adjoint(splat, sums.h_e0, sums.h_e1, sums.h_e0e0, sums.h_e0e1, sums.h_e1e1, d_mean2d, g);
    screen_map(camera, p, map);
    add_seen_covariance_adjoint(camera, covariance, map, g, d_covariance, d_j);
    for (int k = 0; k < 2; k++) p.add_projection_adjoint(camera, k, d_j[k], d_mean2d[k], d_point);
    for (int k = 0; k < 3; k++) d_mean[k] += to_world(camera, d_point, k);
}

// Reads the rows of Gaussians first .. first + 31 for which `existing` has a bit. By all lanes of a warp.
GS_DEVICE void read_sh_rows(const float *sh, int64_t first, unsigned existing, int values, sh_rows *rows) {
    __syncwarp();
    const int lane = int(distwar::lane_id());
    if (values == row_floats) {
        begin_rows<row_floats>(sh + first * row_floats, existing, row_floats, rows);
    } else if (existing >> lane & 1) {
        float own[row_floats];
        load_sh(sh, first + lane, values, own);
        for (int k = 0; k < row_floats; k++) rows->row(lane)[k] = own[k];
    }
    finish_rows();
}

GS_DEVICE void copy_row(const float *row, float out[row_floats]) {
    DISTWAR_UNROLL
    for (int k = 0; k < row_floats; k += 4) read_four<row_floats>(row + k, 4, out + k);
}

// Writes whole rows, or adds to them, with all lanes of a warp moving neighbouring floats. mine: this lane's
// row.
GS_DEVICE void store_whole_rows(const float mine[row_floats], bool add, int64_t first, unsigned existing,
                                sh_rows *rows, float *sh) {
    using part = lane_of_rows<row_floats>;
    const part of;
    const unsigned share = of.share_of(existing);
    float *const own = rows->row(int(distwar::lane_id()));
    DISTWAR_UNROLL
    for (int k = 0; k < row_floats; k += 4) write_four<row_floats>(mine + k, 4, own + k);
    float *const to = sh + (first + of.first_row) * row_floats + of.column;
    const float *const from = rows->row(of.first_row) + of.column;
    float4 before[part::turns];
    DISTWAR_UNROLL
    for (int turn = 0; turn < part::turns; turn++) {
        const int row = turn * part::rows_a_turn;
        before[turn] = add && (share >> row & 1) ? *reinterpret_cast<const float4 *>(to + row * row_floats)
                                                 : make_float4(0, 0, 0, 0);
    }
    __syncwarp();
    DISTWAR_UNROLL
    for (int turn = 0; turn < part::turns; turn++) {
        const int row = turn * part::rows_a_turn;
        if (!(share >> row & 1)) continue;
        const float4 b = before[turn];
        const float4 more = *reinterpret_cast<const float4 *>(from + row * sh_rows::stride);
        *reinterpret_cast<float4 *>(to + row * row_floats) =
            make_float4(b.x + more.x, b.y + more.y, b.z + more.z, b.w + more.w);
    }
}

// Writes every lane's row, or adds it. By all lanes of a warp.
GS_DEVICE void store_sh_rows(const float mine[row_floats], bool add, int64_t first, unsigned existing,
                             int values, sh_rows *rows, float *sh) {
    const int lane = int(distwar::lane_id());
    if (values == row_floats) {
        store_whole_rows(mine, add, first, existing, rows, sh);
    } else if (existing >> lane & 1) {
        DISTWAR_UNROLL
        for (int k = 0; k < row_floats; k++)
            if (k < values) store(sh + (first + lane) * values + k, add, mine[k]);
    }
}

constexpr int views_block = 64, views_blocks = 8; // threads, and least blocks per multiprocessor

template <int model>
__global__ void __launch_bounds__(views_block, views_blocks)
    tangents_kernel(gs_gaussians gaussians, int degree, view_set seen, int views, gs_gaussians direction) {
    __shared__ sh_rows memory[views_block / 32];
    sh_rows *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t here = int64_t(blockIdx.x) * views_block + threadIdx.x, first = here - lane;
    const bool exists = here < gaussians.count;
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    const int64_t i = exists ? here : gaussians.count - 1; // lanes past the end repeat the last, unwritten

    float mean[3], mean_change[3];
    for (int k = 0; k < 3; k++) mean[k] = gaussians.mean[3 * i + k];
    for (int k = 0; k < 3; k++) mean_change[k] = direction.mean[3 * i + k];
    symmetric covariance, covariance_change;
    {
        const gaussian_shape s = gaussian_shape_of(gaussians, i);
        const float4 q = reinterpret_cast<const float4 *>(direction.quaternion)[i];
        const float quaternion_change[4] = {q.x, q.y, q.z, q.w};
        float axes[3][3];
        world_axes(s, axes);
        covariance = world_covariance(axes);
        covariance_change = world_covariance_tangent(s, axes, direction.log_scale + 3 * i, quaternion_change);
    }
    const float log_opacity_change = (1 - sigmoid(gaussians.opacity_logit[i])) * direction.opacity_logit[i];
    const int values = sh_floats(gaussians.sh_degree);
    float sh_direction[row_floats];
    read_sh_rows(direction.sh, first, existing, values, rows);
    copy_row(rows->row(lane), sh_direction);
    read_sh_rows(gaussians.sh, first, existing, values, rows);
    const float *const sh = rows->row(lane);
    if (!exists) return;
    for (int n = 0; n < views; n++) {
        asm volatile("" ::: "memory"); // read rows again for each view: fewer registers
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        if (splat.depth == 0) continue;
        const auto v = seen_mean_of<model>(camera, seen.constants[n], mean);
        float direction_change[3], basis[max_sh_coefficients], basis_change[max_sh_coefficients];
        float color[GS_CHANNELS] = {};
        view_direction_tangent(v.direction, mean_change, direction_change);
        padded_sh_basis(degree, v.direction.unit, basis);
        sh_basis_tangent(degree, v.direction.unit, direction_change, basis_change);
        DISTWAR_UNROLL
        for (int at = 0; at < row_floats; at++) {
            const int k = at / GS_CHANNELS, c = at % GS_CHANNELS;
            color[c] = fmaf(basis[k], sh_direction[at], fmaf(basis_change[k], sh[at], color[c]));
        }
        for (int c = 0; c < GS_CHANNELS; c++)
            if (!(splat.color[c] > 0)) color[c] = 0;
        const log_alpha_tangent t =
            log_alpha_tangent_of(camera, splat, v.point, covariance, covariance_change, mean_change);
        splat_tangent record = {};
        for (int c = 0; c < GS_CHANNELS; c++) record.color[c] = color[c];
        record.log_alpha[0] = log_opacity_change;
        for (int k = 0; k < 5; k++) record.log_alpha[1 + k] = t.d[k];
        reinterpret_cast<splat_tangent *>(seen.of[n].records)[i] = record;
    }
}

// The transpose of tangents_kernel. The gradient by the world's covariance is summed over views, then goes on
// to scale and quaternion once.
template <int model>
__global__ void __launch_bounds__(views_block, views_blocks)
    gradients_kernel(gs_gaussians gaussians, int degree, view_set seen, int views, bool add,
                     gs_gaussians gradients) {
    __shared__ sh_rows memory[views_block / 32];
    sh_rows *const rows = &memory[threadIdx.x / 32];
    const int lane = int(distwar::lane_id());
    const int64_t here = int64_t(blockIdx.x) * views_block + threadIdx.x, first = here - lane;
    const bool exists = here < gaussians.count;
    const unsigned existing = __ballot_sync(distwar::all_lanes, exists);
    const int64_t i = exists ? here : gaussians.count - 1; // lanes past the end repeat the last, unwritten

    const int values = sh_floats(gaussians.sh_degree);
    float d_sh[row_floats] = {}, d_mean[3] = {}, d_log_opacity = 0;
    read_sh_rows(gaussians.sh, first, existing, values, rows);
    const float *const sh = rows->row(lane);
    symmetric covariance, d_covariance = {};
    {
        float axes[3][3];
        world_axes(gaussian_shape_of(gaussians, i), axes);
        covariance = world_covariance(axes);
    }
    bool any = false; // false: write zeros; the shape may not even be finite
    float mean[3];
    for (int k = 0; k < 3; k++) mean[k] = gaussians.mean[3 * i + k];
    for (int n = 0; n < views; n++) {
        asm volatile("" ::: "memory"); // read rows again for each view: fewer registers
        const gs_camera &camera = seen.of[n].camera;
        const gs_splat splat = seen.of[n].splats[i];
        const gs_splat_grad sums = load_splat_grad(seen.of[n].records, i);
        if (splat.depth == 0 || !any_grad(sums)) continue; // no gradient
        float d_color[GS_CHANNELS];
        for (int c = 0; c < GS_CHANNELS; c++) d_color[c] = splat.color[c] > 0 ? sums.color[c] : 0;
        d_log_opacity += sums.h;
        any = true;
        const auto v = seen_mean_of<model>(camera, seen.constants[n], mean);
        add_view_adjoint(camera, splat, v.point, covariance, sums, &d_covariance, d_mean);
        float basis[max_sh_coefficients], d_basis[max_sh_coefficients] = {}, d_direction[3], d_from_color[3];
        padded_sh_basis(degree, v.direction.unit, basis);
        DISTWAR_UNROLL
        for (int at = 0; at < row_floats; at++) {
            const int k = at / GS_CHANNELS, c = at % GS_CHANNELS;
            d_sh[at] = fmaf(basis[k], d_color[c], d_sh[at]);
            d_basis[k] = fmaf(d_color[c], sh[at], d_basis[k]);
        }
        sh_basis_adjoint(degree, v.direction.unit, d_basis, d_direction);
        view_direction_tangent(v.direction, d_direction, d_from_color);
        for (int k = 0; k < 3; k++) d_mean[k] += d_from_color[k];
    }
    store_sh_rows(d_sh, add, first, existing, values, rows, gradients.sh);
    if (!exists) return;
    const gaussian_shape s = gaussian_shape_of(gaussians, i);
    float axes[3][3], d_log_scale[3], d_quaternion[4];
    world_axes(s, axes);
    world_covariance_adjoint(s, axes, d_covariance, d_log_scale, d_quaternion);
    for (int k = 0; k < 3; k++) store(gradients.log_scale + 3 * i + k, add, any ? d_log_scale[k] : 0);
    for (int k = 0; k < 4; k++) store(gradients.quaternion + 4 * i + k, add, any ? d_quaternion[k] : 0);
    for (int k = 0; k < 3; k++) store(gradients.mean + 3 * i + k, add, d_mean[k]);
    store(gradients.opacity_logit + i, add, d_log_opacity * (1 - sigmoid(gaussians.opacity_logit[i])));
}

__device__ void add_where_positive(float *diagonal, int64_t i, int values, float amount) {
    for (int k = 0; k < values; k++)
        if (diagonal[i * values + k] > 0) diagonal[i * values + k] += amount;
}

__global__ void __launch_bounds__(project_block)
    add_units_kernel(gs_gaussians gaussians, float weight, gs_gaussians diagonal) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float *s = gaussians.log_scale + 3 * i, *q = gaussians.quaternion + 4 * i;
    const float square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    add_where_positive(diagonal.mean, i, 3, weight * expf(-2.0f / 3.0f * (s[0] + s[1] + s[2])));
    add_where_positive(diagonal.log_scale, i, 3, weight);
    add_where_positive(diagonal.quaternion, i, 4, weight / square);
    add_where_positive(diagonal.opacity_logit, i, 1, weight);
    add_where_positive(diagonal.sh, i, sh_floats(gaussians.sh_degree), weight);
}

// How far the update moves a Gaussian, in the units of gs_lm_limit: the largest of its terms.
__device__ float update_length(const gs_gaussians &gaussians, const gs_gaussians &update, int64_t i) {
    const float *log_scale = gaussians.log_scale + 3 * i, *q = gaussians.quaternion + 4 * i;
    const float *d_mean = update.mean + 3 * i, *d_q = update.quaternion + 4 * i;
    const float length = sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    float unit[4], radial = 0, axes[3][3], angle2 = 0, distance2 = 0;
    float most = 0.5f * fabsf(update.opacity_logit[i]);
    for (int k = 0; k < 4; k++) {
        unit[k] = q[k] / length;
        radial += unit[k] * d_q[k];
    }
    for (int k = 0; k < 4; k++) angle2 += squared((d_q[k] - unit[k] * radial) / length);
    rotation_matrix(unit, axes);
    const float longest = fmaxf(log_scale[0], fmaxf(log_scale[1], log_scale[2]));
    for (int j = 0; j < 3; j++) {
        const float along = axes[0][j] * d_mean[0] + axes[1][j] * d_mean[1] + axes[2][j] * d_mean[2];
        distance2 += squared(along * expf(-fmaxf(log_scale[j], longest - 2)));
        most = fmaxf(most, fabsf(update.log_scale[3 * i + j]));
    }
    return fmaxf(most, fmaxf(2 * sqrtf(angle2), sqrtf(distance2)));
}

__global__ void __launch_bounds__(project_block)
    limit_kernel(gs_gaussians gaussians, float radius, gs_gaussians update) {
    const int64_t i = int64_t(blockIdx.x) * project_block + threadIdx.x;
    if (i >= gaussians.count) return;
    const float length = update_length(gaussians, update, i);
    if (!(length > radius)) return;
    const float factor = radius / length;
    for (int k = 0; k < 3; k++) update.mean[3 * i + k] *= factor;
    for (int k = 0; k < 3; k++) update.log_scale[3 * i + k] *= factor;
    for (int k = 0; k < 4; k++) update.quaternion[4 * i + k] *= factor;
    update.opacity_logit[i] *= factor;
}

views_call call_of(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views, int count) {
    views_call out = {scaled(*gaussians), used_degree(sh_degree_used, gaussians), {}, {}};
    for (int n = 0; n < count; n++) {
        const gs_camera &camera = views[n].camera;
        view_set &seen = out.seen[camera.model];
        const int to = out.count[camera.model]++;
        seen.of[to] = views[n];
        seen.constants[to] = view_constants_of(camera);
    }
    return out;
}

} // namespace

gs_status gs_lm_tangents(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                         int count, const gs_gaussians *direction) {
    const views_call call = call_of(gaussians, sh_degree_used, views, count);
    for (int model = 0; model < GS_CAMERA_MODELS; model++)
        if (call.count[model] > 0)
            GS_CUDA(launch_for(nullptr, gaussians->count, views_block, GS_OF_MODEL(tangents_kernel, model),
                               call.gaussians, call.degree, call.seen[model], call.count[model], *direction));
    return GS_OK;
}

gs_status gs_lm_gradients(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                          int count, int add, const gs_gaussians *gradients) {
    const views_call call = call_of(gaussians, sh_degree_used, views, count);
    for (int model = 0; model < GS_CAMERA_MODELS; model++) {
        if (call.count[model] == 0) continue;
        GS_CUDA(launch_for(nullptr, gaussians->count, views_block, GS_OF_MODEL(gradients_kernel, model),
                           call.gaussians, call.degree, call.seen[model], call.count[model], add != 0,
                           *gradients));
        add = 1; // the second model's views add to the first's
    }
    return GS_OK;
}

gs_status gs_lm_add_units(const gs_gaussians *gaussians, float weight, const gs_gaussians *diagonal) {
    return GS_STATUS(launch_for(nullptr, gaussians->count, project_block, add_units_kernel, *gaussians,
                                weight, *diagonal));
}

gs_status gs_lm_limit(const gs_gaussians *gaussians, float radius, const gs_gaussians *update) {
    return GS_STATUS(
        launch_for(nullptr, gaussians->count, project_block, limit_kernel, *gaussians, radius, *update));
}
