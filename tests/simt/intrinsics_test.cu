// SPDX-License-Identifier: MIT
// Arithmetic intrinsics, at inputs where CUDA differs from the C library.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>

namespace {

const float nan_f = std::numeric_limits<float>::quiet_NaN();

TEST(Intrinsics, Bits) {
    EXPECT_EQ(__popc(0xf0f00001u), 9);
    EXPECT_EQ(__popcll(0xf0f0000100000003ull), 11);
    EXPECT_EQ(__ffs(0), 0);
    EXPECT_EQ(__ffs(8), 4);
    EXPECT_EQ(__ffs(INT_MIN), 32);
    EXPECT_EQ(__ffsll(1ll << 40), 41);
    EXPECT_EQ(__clz(0), 32);
    EXPECT_EQ(__clz(1), 31);
    EXPECT_EQ(__clz(-1), 0);
    EXPECT_EQ(__clzll(0), 64);
    EXPECT_EQ(__clzll(1ll << 40), 23);
    EXPECT_EQ(__brev(1u), 0x80000000u);
    EXPECT_EQ(__brev(0x12345678u), 0x1e6a2c48u);
    EXPECT_EQ(__brevll(1ull), 1ull << 63);
}

TEST(Intrinsics, Casts) {
    EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
    EXPECT_EQ(__float_as_int(-0.0f), INT_MIN);
    EXPECT_EQ(__uint_as_float(0x3f800000u), 1.0f);
    EXPECT_EQ(__int_as_float(0x40000000), 2.0f);
    EXPECT_EQ(__double_as_longlong(1.0), 0x3ff0000000000000ll);
    EXPECT_EQ(__longlong_as_double(0x4000000000000000ll), 2.0);
}

TEST(Intrinsics, RoundedOnceEach) {
    // With a fused multiply-add this would be the rounding error of the product, not 0.
    volatile float x = 1.0f + 0x1p-12f;
    const float product = __fmul_rn(x, x);
    EXPECT_EQ(__fadd_rn(__fmul_rn(x, x), -product), 0.0f);
    EXPECT_EQ(__fsub_rn(__fmul_rn(x, x), product), 0.0f);
    EXPECT_EQ(__fmaf_rn(x, x, -product), 0x1p-24f);
    EXPECT_EQ(__frcp_rn(3.0f), 1.0f / 3.0f);
    EXPECT_EQ(__fsqrt_rn(2.0f), std::sqrt(2.0f));
    EXPECT_EQ(__fdividef(1.0f, 4.0f), 0.25f);
    EXPECT_EQ(rsqrtf(4.0f), 0.5f);
    EXPECT_FLOAT_EQ(__expf(1.0f), 2.7182818f);
    EXPECT_FLOAT_EQ(__logf(2.0f), 0.69314718f);
    EXPECT_EQ(exp2f(3.0f), 8.0f);
}

TEST(Intrinsics, MinAndMaxPreferNumbers) {
    EXPECT_EQ(min(nan_f, 1.0f), 1.0f);
    EXPECT_EQ(min(1.0f, nan_f), 1.0f);
    EXPECT_EQ(max(nan_f, 1.0f), 1.0f);
    EXPECT_EQ(max(1.0f, nan_f), 1.0f);
    EXPECT_TRUE(std::isnan(max(nan_f, nan_f)));
    EXPECT_EQ(min(2.0f, -3.0f), -3.0f);
    EXPECT_EQ(max(2.0, -3.0f), 2.0);
    EXPECT_EQ(min(-1, 2), -1);
    EXPECT_EQ(max(1u, 2u), 2u);
    EXPECT_EQ(min(-1, 5u), 5u); // as unsigned
    EXPECT_EQ(max(1ll, 2ll), 2ll);
    EXPECT_EQ(__saturatef(nan_f), 0.0f);
    EXPECT_EQ(__saturatef(2.0f), 1.0f);
    EXPECT_EQ(__saturatef(-2.0f), 0.0f);
    EXPECT_EQ(__saturatef(0.5f), 0.5f);
}

TEST(Intrinsics, ConversionsSaturate) {
    EXPECT_EQ(__float2int_rn(2.5f), 2);
    EXPECT_EQ(__float2int_rn(3.5f), 4);
    EXPECT_EQ(__float2int_rz(-2.9f), -2);
    EXPECT_EQ(__float2int_rd(-2.1f), -3);
    EXPECT_EQ(__float2int_ru(2.1f), 3);
    EXPECT_EQ(__float2int_rz(1e20f), INT_MAX);
    EXPECT_EQ(__float2int_rz(-1e20f), INT_MIN);
    EXPECT_EQ(__float2int_rz(nan_f), 0);
    EXPECT_EQ(__float2uint_rz(-1.0f), 0u);
    EXPECT_EQ(__float2uint_rz(1e20f), UINT_MAX);
}

TEST(Intrinsics, VectorTypes) {
    EXPECT_EQ(sizeof(float3), 12u);
    EXPECT_EQ(alignof(float3), 4u);
    EXPECT_EQ(alignof(float2), 8u);
    EXPECT_EQ(alignof(float4), 16u);
    EXPECT_EQ(alignof(double2), 16u);
    EXPECT_EQ(alignof(uchar4), 4u);
    EXPECT_EQ(sizeof(uchar3), 3u);
    const float4 v = make_float4(1, 2, 3, 4);
    EXPECT_EQ(v.x + 10 * v.y + 100 * v.z + 1000 * v.w, 4321.0f);
    const dim3 d(5);
    EXPECT_EQ(d.x * 100 + d.y * 10 + d.z, 511u);
    EXPECT_EQ(__ldg(&v.y), 2.0f);
}

TEST(Intrinsics, IntegerParts) {
    EXPECT_EQ(__umulhi(0xffffffffu, 0xffffffffu), 0xfffffffeu);
    EXPECT_EQ(__mulhi(-1, 1), -1);
    EXPECT_EQ(__umul64hi(1ull << 63, 6), 3ull);
    EXPECT_EQ(__mul24(0x01ffffff, 3), -3);
    EXPECT_EQ(__umul24(0x01000002u, 3u), 6u);
    EXPECT_EQ(__funnelshift_l(0x80000000u, 0x1u, 4), 0x18u);
    EXPECT_EQ(__funnelshift_r(0x18u, 0x1u, 36), 0x10000001u);
    EXPECT_EQ(__byte_perm(0x44332211u, 0x88776655u, 0x7250u), 0x88336611u);
    EXPECT_EQ(__byte_perm(0x00008000u, 0u, 0x0098u), 0x0000ff00u);
}

TEST(Intrinsics, FastForms) {
    float sine, cosine;
    __sincosf(0.5f, &sine, &cosine);
    EXPECT_EQ(sine, std::sin(0.5f));
    EXPECT_EQ(cosine, std::cos(0.5f));
    EXPECT_EQ(__tanf(0.25f), std::tan(0.25f));
    EXPECT_EQ(__frsqrt_rn(4.0f), 0.5f);
    EXPECT_EQ(norm3df(2, 3, 6), 7.0f);
    EXPECT_EQ(rnorm3df(0, 0, 8), 0.125f);
    EXPECT_EQ(normcdff(0), 0.5f);
}

TEST(Intrinsics, HalfRoundsOnce) {
    // 1 + 2^-11 is halfway between two halves and rounds to the even one, 1; a bit more rounds up. As a
    // float, 1 + 2^-11 + 2^-40 is exactly halfway.
    EXPECT_EQ(__half2float(__half(1 + 0x1p-11)), 1.0f);
    EXPECT_EQ(__half2float(__half(1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10f);
    EXPECT_EQ(__half2float(__half(-(1 + 0x1p-11 + 0x1p-40))), -(1 + 0x1p-10f));
    EXPECT_EQ(__half2float(__half(1 + 3 * 0x1p-11 - 0x1p-40)), 1 + 0x1p-10f);
    EXPECT_EQ(__half2float(__half(2049)), 2048.0f);
    EXPECT_TRUE(__hisnan(__half(double(nan_f))));
    // (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20
    EXPECT_EQ(__half2float(__hfma(__half(1 + 0x1p-10), __half(1 + 0x1p-10), __half(-1 - 0x1p-9))), 0x1p-20f);
}

TEST(Intrinsics, HalfAndBfloat16) {
    __half h = __float2half(1.5f);
    h += __half(2);
    h *= h;
    EXPECT_EQ(__half2float(h), 12.25f);
    EXPECT_EQ(__half2float(-h / __half(2)), -6.125f);
    EXPECT_TRUE(h >= __half(12) && h <= __half(12.25) && h != __half(0));
    EXPECT_EQ(__half2float(__hmax(__half(nan_f), __half(3))), 3.0f);
    EXPECT_EQ(__half_as_ushort(__half(1)), 0x3c00);
    const __half2 two = __hfma2(__floats2half2_rn(2, 3), __half2half2(__half(4)), __float2half2_rn(1));
    EXPECT_EQ(__low2float(two), 9.0f);
    EXPECT_EQ(__high2float(two * two), 169.0f);
    EXPECT_EQ(__half22float2(two - __halves2half2(1, 2)).y, 11.0f);
    const __nv_bfloat162 b = __halves2bfloat162(__float2bfloat16(0.5f), __nv_bfloat16(3));
    EXPECT_EQ(__bfloat162float(__high2bfloat16(b + b)), 6.0f);
    EXPECT_EQ(__bfloat162float(__nv_bfloat16(1 + 0x1p-8 + 0x1p-40)), 1 + 0x1p-7f);
}

} // namespace
