// SPDX-License-Identifier: MIT
#include "files.h"
#include "images/image.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdio.h>
#include <vector>
#include <png.h>
#include <zlib.h>
#include <jpeglib.h>

namespace {

// Closed at the end.
struct owned : image {
    owned(int its_width, int its_height, int its_channels, int value = 0) : image{} {
        fault why;
        EXPECT_TRUE(image_open(this, its_width, its_height, its_channels, &why)) << why.text;
        std::fill_n(pixels, width * height * channels, uint8_t(value));
    }
    ~owned() { image_close(this); }
    owned(const owned &) = delete;
};

std::vector<uint8_t> random_bytes(int count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (uint8_t &byte : bytes) byte = uint8_t(random());
    return bytes;
}

std::vector<int> values(const image &picture) {
    return std::vector<int>(picture.pixels,
                            picture.pixels + picture.width * picture.height * picture.channels);
}

void append(png_structp png, png_bytep data, png_size_t size) {
    static_cast<std::string *>(png_get_io_ptr(png))->append(reinterpret_cast<char *>(data), size);
}

// `rows` as PNG stores them, one after the other.
std::string encode_png(int width, int height, int color_type, int bit_depth, std::vector<uint8_t> rows,
                       int interlace = PNG_INTERLACE_NONE, const std::vector<png_color> &palette = {},
                       const std::vector<uint8_t> &alpha = {}, const png_color_16 *key = nullptr) {
    std::string bytes;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &bytes, append, nullptr);
    png_set_IHDR(png, info, png_uint_32(width), png_uint_32(height), bit_depth, color_type, interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!palette.empty()) png_set_PLTE(png, info, palette.data(), int(palette.size()));
    if (!alpha.empty()) png_set_tRNS(png, info, alpha.data(), int(alpha.size()), nullptr);
    if (key) png_set_tRNS(png, info, nullptr, 0, key);
    png_write_info(png, info);
    std::vector<png_bytep> pointers;
    for (int y = 0; y < height; y++)
        pointers.push_back(rows.data() + size_t(y) * png_get_rowbytes(png, info));
    png_write_image(png, pointers.data());
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return bytes;
}

// Of width and height `side`, with the checksum of that.
std::string with_sides(std::string png, uint32_t side) {
    for (size_t i = 0; i < 8; i++) png[16 + i] = char(side >> (24 - 8 * (i % 4)));
    const uLong sum = crc32(0, reinterpret_cast<const Bytef *>(png.data()) + 12, 17);
    for (size_t i = 0; i < 4; i++) png[29 + i] = char(sum >> (24 - 8 * i));
    return png;
}

// DC_ONLY: a progressive one without its other scans.
enum jpeg_kind { BASELINE, PROGRESSIVE, DC_ONLY };

std::string encode_jpeg(int width, int height, int components, J_COLOR_SPACE space, std::vector<uint8_t> rows,
                        jpeg_kind kind = BASELINE) {
    jpeg_compress_struct jpeg = {};
    jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char *buffer = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = JDIMENSION(width);
    jpeg.image_height = JDIMENSION(height);
    jpeg.input_components = components;
    jpeg.in_color_space = space;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (kind == PROGRESSIVE) jpeg_simple_progression(&jpeg);
    const jpeg_scan_info dc_only = {jpeg.num_components, {0, 1, 2}, 0, 0, 0, 0};
    if (kind == DC_ONLY) jpeg.scan_info = &dc_only, jpeg.num_scans = 1;
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW row = rows.data() + size_t(y) * size_t(width) * size_t(components);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    std::string bytes(reinterpret_cast<char *>(buffer), size);
    jpeg_destroy_compress(&jpeg);
    free(buffer);
    return bytes;
}

class Image : public testing::Test {
  protected:
    void TearDown() override { image_close(&picture); }
    bool read(const std::string &bytes) {
        image_close(&picture);
        write_bytes(path, bytes);
        return image_read(path.c_str(), &picture, &why);
    }
    void refuses(const std::string &bytes, const std::string &part) {
        EXPECT_FALSE(read(bytes)) << part;
        EXPECT_TRUE(contains(why, path) && contains(why, part)) << part << ", not " << why.text;
        EXPECT_EQ(picture.pixels, nullptr);
    }
    void expect_picture(int width, int height, const std::vector<int> &expected) {
        EXPECT_EQ(picture.width, width);
        EXPECT_EQ(picture.height, height);
        EXPECT_EQ(values(picture), expected);
    }
    // Reads and lets go, for the tests of damage.
    bool reads(fault *reason) {
        image_close(&picture);
        return image_read(path.c_str(), &picture, reason);
    }

    TemporaryFolder folder;
    std::string path = folder / "picture";
    image picture = {};
    fault why = {};
};

TEST_F(Image, RefusesBadShapes) {
    for (const int size : {0, -1, IMAGE_MAX_SIZE + 1}) {
        EXPECT_FALSE(image_open(&picture, size, 1, 3, &why));
        EXPECT_FALSE(image_open(&picture, 1, size, 3, &why));
    }
    EXPECT_EQ(picture.pixels, nullptr);
    image_close(&picture);
    image_close(&picture);
}

TEST_F(Image, WritesWhatItReads) {
    for (const int channels : {3, 4}) {
        owned sent(13, 7, channels);
        const std::vector<uint8_t> bytes = random_bytes(13 * 7 * channels, 1);
        std::copy(bytes.begin(), bytes.end(), sent.pixels);
        ASSERT_TRUE(image_write_png(path.c_str(), &sent, &why)) << why.text;
        ASSERT_TRUE(image_read(path.c_str(), &picture, &why)) << why.text;
        EXPECT_EQ(picture.channels, channels);
        expect_picture(13, 7, values(sent));
        image_close(&picture);
    }
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Image, WritesAJpegThatItReads) {
    const owned sent(40, 30, 3), rgba(8, 8, 4);
    for (int y = 0; y < 30; y++)
        for (int x = 0; x < 40; x++)
            for (int c = 0; c < 3; c++)
                sent.pixels[3 * (40 * y + x) + c] = uint8_t(c == 0 ? 6 * x : c == 1 ? 8 * y : 90);
    uint8_t *bytes = nullptr;
    size_t count = 0, coarse = 0;
    ASSERT_TRUE(image_encode_jpeg(&sent, 90, &bytes, &count, &why)) << why.text;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes), std::streamsize(count));
    free(bytes);
    ASSERT_TRUE(image_read(path.c_str(), &picture, &why)) << why.text;
    EXPECT_GT(image_psnr(&sent, &picture, NULL), 35);
    ASSERT_TRUE(image_encode_jpeg(&sent, 20, &bytes, &coarse, &why)) << why.text;
    free(bytes);
    EXPECT_LT(coarse, count);
    EXPECT_FALSE(image_encode_jpeg(&rgba, 90, &bytes, &count, &why));
    EXPECT_EQ(bytes, nullptr);
}

TEST_F(Image, ReadsEveryKindOfPng) {
    const std::vector<png_color> palette = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    const png_color_16 gray = {0, 0, 0, 0, 7}, color = {0, 1, 2, 3, 0};
    const auto none = PNG_INTERLACE_NONE;
    const std::vector<uint8_t> noise = random_bytes(19 * 11 * 3, 2);
    const auto reads_as = [&](const std::string &kind, const std::string &bytes, int channels,
                              const std::vector<int> &expected) {
        ASSERT_TRUE(read(bytes)) << kind << ": " << why.text;
        EXPECT_EQ(picture.channels, channels) << kind;
        EXPECT_EQ(values(picture), expected) << kind;
    };
    reads_as("gray", encode_png(3, 1, PNG_COLOR_TYPE_GRAY, 8, {0, 100, 255}), 3,
             {0, 0, 0, 100, 100, 100, 255, 255, 255});
    reads_as("gray of 2 bits", encode_png(4, 1, PNG_COLOR_TYPE_GRAY, 2, {0b00011011}), 3,
             {0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255});
    reads_as("gray with alpha", encode_png(2, 1, PNG_COLOR_TYPE_GRAY_ALPHA, 8, {7, 8, 9, 10}), 4,
             {7, 7, 7, 8, 9, 9, 9, 10});
    reads_as("palette", encode_png(3, 1, PNG_COLOR_TYPE_PALETTE, 8, {2, 0, 1}, none, palette), 3,
             {7, 8, 9, 1, 2, 3, 4, 5, 6});
    reads_as("palette with alpha",
             encode_png(3, 1, PNG_COLOR_TYPE_PALETTE, 8, {2, 0, 1}, none, palette, {50}), 4,
             {7, 8, 9, 255, 1, 2, 3, 50, 4, 5, 6, 255});
    reads_as("a transparent gray", encode_png(2, 1, PNG_COLOR_TYPE_GRAY, 8, {7, 8}, none, {}, {}, &gray), 4,
             {7, 7, 7, 0, 8, 8, 8, 255});
    reads_as("a transparent colour",
             encode_png(2, 1, PNG_COLOR_TYPE_RGB, 8, {1, 2, 3, 3, 2, 1}, none, {}, {}, &color), 4,
             {1, 2, 3, 0, 3, 2, 1, 255});
    // Big-endian. 257 times the value, rounded to nearest: where cutting off the low byte would do otherwise.
    reads_as("16 bits without gamma",
             encode_png(2, 1, PNG_COLOR_TYPE_RGB, 16,
                        {0x80, 0x80, 0x00, 0x80, 0x00, 0x81, 0xff, 0x7e, 0xff, 0x7f, 0xff, 0xff}),
             3, {128, 0, 1, 254, 255, 255});
    reads_as("interlaced", encode_png(19, 11, PNG_COLOR_TYPE_RGB, 8, noise, PNG_INTERLACE_ADAM7), 3,
             std::vector<int>(noise.begin(), noise.end()));
}

TEST_F(Image, ReadsJpeg) {
    for (const jpeg_kind kind : {BASELINE, PROGRESSIVE, DC_ONLY}) {
        std::vector<uint8_t> pixels;
        for (int i = 0; i < 20 * 9; i++) pixels.insert(pixels.end(), {200, 100, 50});
        ASSERT_TRUE(read(encode_jpeg(20, 9, 3, JCS_RGB, pixels, kind))) << why.text;
        EXPECT_TRUE(picture.width == 20 && picture.height == 9 && picture.channels == 3);
        const std::vector<int> got = values(picture);
        for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], pixels[i], 3);
    }
    ASSERT_TRUE(read(encode_jpeg(9, 9, 1, JCS_GRAYSCALE, std::vector<uint8_t>(81, 77)))) << why.text;
    expect_picture(9, 9, std::vector<int>(243, 77)); // three channels
    refuses(encode_jpeg(8, 8, 4, JCS_CMYK, std::vector<uint8_t>(256, 77)), path + ": a CMYK picture");
}

TEST_F(Image, RefusesHugePictures) {
    EXPECT_TRUE(
        read(encode_png(IMAGE_MAX_SIZE, 1, PNG_COLOR_TYPE_GRAY, 8, std::vector<uint8_t>(IMAGE_MAX_SIZE))))
        << why.text;
    const int size = IMAGE_MAX_SIZE + 1;
    const std::vector<uint8_t> rows(3 * size_t(size));
    for (const std::string &bytes :
         {encode_png(size, 1, PNG_COLOR_TYPE_GRAY, 8, rows),
          encode_png(1, size, PNG_COLOR_TYPE_GRAY, 8, rows), encode_jpeg(size, 1, 3, JCS_RGB, rows),
          encode_jpeg(1, size, 3, JCS_RGB, rows),
          // A size no file can hold, in a header that is otherwise right:
          with_sides(encode_png(1, 1, PNG_COLOR_TYPE_GRAY, 8, {0}), 0x7fffffffu)})
        refuses(bytes, path);
}

// Sizes that are allowed, but would take memory that nothing in the file justifies.
TEST_F(Image, RefusesPicturesThatTheFileCannotHold) {
    const std::string png = with_sides(encode_png(1, 1, PNG_COLOR_TYPE_RGB, 8, {0, 0, 0}), IMAGE_MAX_SIZE);
    std::string jpeg = encode_jpeg(8, 8, 3, JCS_RGB, std::vector<uint8_t>(192));
    const size_t frame = jpeg.find("\xff\xc0");
    ASSERT_NE(frame, std::string::npos);
    jpeg.replace(frame + 5, 4, std::string("\x40\x00\x40\x00", 4));
    for (const std::string &bytes : {png, jpeg, jpeg + std::string(200000, 'x')})
        refuses(bytes, path + ": damaged: 16384 x 16384 pixels announced, which its " +
                           std::to_string(bytes.size()) + " bytes cannot hold");
    // A block takes a bit, and 4096 x 4096 pixels with colours at half the size are so many.
    const size_t blocks = 512 * 512 + 2 * 256 * 256;
    for (const jpeg_kind kind : {BASELINE, PROGRESSIVE}) {
        jpeg = encode_jpeg(8, 8, 3, JCS_RGB, std::vector<uint8_t>(192), kind);
        jpeg.replace(jpeg.find(kind == BASELINE ? "\xff\xc0" : "\xff\xc2") + 5, 4,
                     std::string("\x10\x00\x10\x00", 4));
        jpeg.resize(blocks / 8 - 1, 'x');
        refuses(jpeg, path + ": damaged: 4096 x 4096 pixels announced, which its ");
        refuses(jpeg + 'x', path + ": damaged JPEG before byte "); // it could hold them, but does not
    }
    // The flattest picture there is does pass.
    const size_t side = 4096;
    EXPECT_TRUE(
        read(encode_png(int(side), int(side), PNG_COLOR_TYPE_GRAY, 8, std::vector<uint8_t>(side * side))))
        << why.text;
    for (const jpeg_kind kind : {PROGRESSIVE, DC_ONLY}) {
        jpeg = encode_jpeg(int(side), int(side), 3, JCS_RGB, std::vector<uint8_t>(3 * side * side), kind);
        EXPECT_TRUE(read(jpeg)) << why.text;
        EXPECT_TRUE(read(
            encode_jpeg(int(side), int(side), 1, JCS_GRAYSCALE, std::vector<uint8_t>(side * side), kind)))
            << why.text;
    }
    EXPECT_LT(jpeg.size(), blocks / 8 + 500) << "so the bound is no looser than it must be";
}

// What ends after its last row is shown, as every decoder shows it.
TEST_F(Image, RefusesEveryBeginningWithinTheRows) {
    const std::vector<uint8_t> pixels = random_bytes(9 * 6 * 3, 3);
    testing::internal::CaptureStderr(); // the decoders keep their thoughts to themselves
    for (const std::string &bytes :
         {encode_png(9, 6, PNG_COLOR_TYPE_RGB, 8, pixels), encode_jpeg(9, 6, 3, JCS_RGB, pixels),
          encode_jpeg(9, 6, 3, JCS_RGB, pixels, PROGRESSIVE)}) {
        write_bytes(path, bytes);
        ASSERT_TRUE(reads(&why)) << why.text;
        EXPECT_FALSE(picture.mended);
        const std::string whole(reinterpret_cast<char *>(picture.pixels), 9 * 6 * 3);
        image_close(&picture);
        for (size_t size = 0; size < bytes.size(); size++) {
            write_bytes(path, bytes.substr(0, size));
            if (!reads(&why)) {
                EXPECT_TRUE(bytes[1] != 'P' || contains(why, ": truncated at byte ")) << why.text;
                EXPECT_LT(size + 2, bytes.size()) << "no more than the mark of the end is missing";
                continue;
            }
            EXPECT_TRUE(picture.mended) << size;
            EXPECT_LT(bytes.size(), size + 24) << size; // no more than checksums and marks are missing
            EXPECT_TRUE(memcmp(picture.pixels, whole.data(), whole.size()) == 0) << size;
            image_close(&picture);
        }
    }
    // A phone's scan header, with Se 0 in place of 63, and its data behind a picture without an end.
    std::string phone = encode_jpeg(9, 6, 3, JCS_RGB, pixels);
    const size_t scan = phone.rfind("\xff\xda");
    phone[scan + 6 + 2 * size_t(phone[scan + 4])] = 0;
    write_bytes(path, phone.substr(0, phone.size() - 2) + std::string("\0\0\1\nSEFT", 8));
    ASSERT_TRUE(reads(&why)) << why.text;
    EXPECT_TRUE(picture.mended);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Blocks that the sides cut off do not count, but each side stays at least 1. Halves go upward.
TEST_F(Image, DownscalesByBlockMeans) {
    const owned big(5, 3, 4);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 5; x++)
            for (int c = 0; c < 4; c++) big.pixels[(y * 5 + x) * 4 + c] = uint8_t(50 * c + 10 * y + x * x);
    const struct {
        int factor, width, height;
        std::vector<int> values;
    } rows[] = {
        {2, 2, 1, {6, 56, 106, 156, 12, 62, 112, 162}}, // of {0, 1, 10, 11} = 5.5 and {4, 9, 14, 19} = 11.5
        {4, 1, 1, {14, 64, 114, 164}},                  // of {0, 1, 4, 9} + {0, 10, 20}: 13.5
        {1000000000, 1, 1, {16, 66, 116, 166}},
        {1, 5, 3, values(big)}};
    for (const auto &row : rows) {
        ASSERT_TRUE(image_downscale(&big, row.factor, &picture, &why)) << why.text;
        expect_picture(row.width, row.height, row.values);
        image_close(&picture);
    }
}

TEST_F(Image, PutsPicturesBeside) {
    const owned left(1, 2, 3, 10), right(2, 2, 3, 20);
    const image *both[] = {&left, &right};
    ASSERT_TRUE(image_write_beside(path.c_str(), both, 2, 1, &why)) << why.text;
    ASSERT_TRUE(image_read(path.c_str(), &picture, &why)) << why.text;
    expect_picture(4, 2, {10, 10, 10, 255, 255, 255, 20, 20, 20, 20, 20, 20,
                          10, 10, 10, 255, 255, 255, 20, 20, 20, 20, 20, 20});
    const owned high(1, 3, 3), clear(1, 2, 4), wide(IMAGE_MAX_SIZE, 2, 3);
    for (const image *odd : {&high, &clear, &wide}) {
        const image *pair[] = {&left, odd};
        EXPECT_FALSE(image_write_beside(path.c_str(), pair, 2, 0, &why));
    }
}

TEST_F(Image, RoundsPlanes) {
    const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
    const float planes[3][4] = {{0.0f, 1.0f, -1.0f, 2.0f},
                                {nan, infinity, -infinity, 0.5f / 255},
                                {0.49f / 255, 99.6f / 255, 99.4f / 255, 254.6f / 255}};
    ASSERT_TRUE(image_from_planes(&planes[0][0], 2, 2, &picture, &why)) << why.text;
    EXPECT_EQ(values(picture), std::vector<int>({0, 0, 0, 255, 255, 100, 0, 0, 99, 255, 1, 255}));
}

TEST_F(Image, MeasuresPsnr) {
    const owned a(4, 2, 3), b(4, 2, 3), other(2, 4, 3);
    EXPECT_EQ(image_psnr(&a, &b, NULL), std::numeric_limits<double>::infinity());
    b.pixels[5] = 255;
    EXPECT_NEAR(image_psnr(&a, &b, NULL), 10 * std::log10(24.0), 1e-12);
    const uint8_t one[8] = {0, 7}, without[8] = {1, 0, 1}; // the pixel that differs is the second
    EXPECT_NEAR(image_psnr(&a, &b, one), 10 * std::log10(3.0), 1e-12);
    EXPECT_EQ(image_psnr(&a, &b, without), std::numeric_limits<double>::infinity());
    for (int i = 0; i < 24; i++) b.pixels[i] = 255;
    EXPECT_NEAR(image_psnr(&a, &b, NULL), 0.0, 1e-12);
    EXPECT_TRUE(std::isnan(image_psnr(&a, &other, NULL)));
}

} // namespace
