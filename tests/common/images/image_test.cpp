// SPDX-License-Identifier: MIT
#include "files.h"
#include "images/image.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdio.h>
#include <vector>
#include <zlib.h>
#include <jpeglib.h>

namespace {

using bytes_of = std::vector<uint8_t>;

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

bytes_of random_bytes(size_t count) {
    std::mt19937 random;
    bytes_of bytes(count);
    for (uint8_t &byte : bytes) byte = uint8_t(random());
    return bytes;
}

std::vector<int> values(const image &picture) {
    return std::vector<int>(picture.pixels,
                            picture.pixels + picture.width * picture.height * picture.channels);
}

// A chunk of a PNG: its length, kind and bytes, and their checksum.
std::string chunk(const std::string &content) {
    const auto number = [](size_t n) {
        return std::string({char(n >> 24), char(n >> 16), char(n >> 8), char(n)});
    };
    const auto *const begin = reinterpret_cast<const Bytef *>(content.data());
    return number(content.size() - 4) + content + number(crc32(0, begin, uInt(content.size())));
}

enum png_kind { GRAY = 0, RGB = 2, PALETTE = 3, GRAY_ALPHA = 4 };

// rows: as PNG stores them, one after the other; interlaced: with the filters' bytes. more: chunks.
std::string encode_png(int width, int height, png_kind kind, int bits, const bytes_of &rows,
                       const std::string &more = "", bool interlaced = false) {
    const int of_pixel = bits * (kind == RGB ? 3 : kind == GRAY_ALPHA ? 2 : 1);
    const size_t row = (size_t(width) * size_t(of_pixel) + 7) / 8;
    bytes_of filtered;
    for (size_t k = 0; k < rows.size(); k++) {
        if (!interlaced && k % row == 0) filtered.push_back(0); // no filter
        filtered.push_back(rows[k]);
    }
    uLongf size = compressBound(uLong(filtered.size()));
    std::string data(size, 0), header = "IHDR";
    compress(reinterpret_cast<Bytef *>(data.data()), &size, filtered.data(), uLong(filtered.size()));
    for (const int side : {width, height})
        for (const int shift : {24, 16, 8, 0}) header += char(side >> shift);
    header += {char(bits), char(kind), 0, 0, char(interlaced)};
    return "\x89PNG\r\n\x1a\n" + chunk(header) + more + chunk("IDAT" + data.substr(0, size)) + chunk("IEND");
}

// DC_ONLY: a progressive one without its other scans.
enum jpeg_kind { BASELINE, PROGRESSIVE, DC_ONLY };

// Gray, RGB or CMYK by the size of `rows`.
std::string encode_jpeg(int width, int height, bytes_of rows, jpeg_kind kind = BASELINE) {
    const size_t row = rows.size() / size_t(height);
    jpeg_compress_struct jpeg = {};
    jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char *buffer = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = JDIMENSION(width);
    jpeg.image_height = JDIMENSION(height);
    jpeg.input_components = int(row) / width;
    jpeg.in_color_space = row == size_t(width) ? JCS_GRAYSCALE : int(row) == 3 * width ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (kind == PROGRESSIVE) jpeg_simple_progression(&jpeg);
    const jpeg_scan_info dc_only = {jpeg.num_components, {0, 1, 2}, 0, 0, 0, 0};
    if (kind == DC_ONLY) jpeg.scan_info = &dc_only, jpeg.num_scans = 1;
    jpeg_start_compress(&jpeg, TRUE);
    for (uint8_t *at = rows.data(); at < rows.data() + rows.size(); at += row)
        jpeg_write_scanlines(&jpeg, &at, 1);
    jpeg_finish_compress(&jpeg);
    std::string bytes(reinterpret_cast<char *>(buffer), size);
    jpeg_destroy_compress(&jpeg);
    free(buffer);
    return bytes;
}

// A picture of 8 x 8 whose header has another size.
std::string jpeg_of_size(int side, jpeg_kind kind = BASELINE) {
    std::string bytes = encode_jpeg(8, 8, bytes_of(192), kind);
    const size_t frame = bytes.find(kind == BASELINE ? "\xff\xc0" : "\xff\xc2");
    for (const size_t at : {frame + 5, frame + 7}) bytes[at] = char(side >> 8), bytes[at + 1] = char(side);
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
    for (int turn = 0; turn < 2; turn++) image_close(&picture);
}

TEST_F(Image, WritesAJpegThatItReads) {
    const owned sent(40, 30, 3), rgba(8, 8, 4);
    for (int k = 0; k < 3 * 40 * 30; k++)
        sent.pixels[k] = uint8_t(k % 3 == 0 ? 6 * (k / 3 % 40) : k % 3 == 1 ? 8 * (k / 120) : 90);
    std::string bytes[2];
    uint8_t *encoded = nullptr;
    size_t count = 0;
    for (const int quality : {90, 20}) {
        ASSERT_TRUE(image_encode_jpeg(&sent, quality, &encoded, &count, &why)) << why.text;
        bytes[quality < 90].assign(reinterpret_cast<char *>(encoded), count);
        free(encoded);
    }
    ASSERT_TRUE(read(bytes[0])) << why.text;
    EXPECT_GT(image_psnr(&sent, &picture, NULL), 35);
    EXPECT_LT(bytes[1].size(), bytes[0].size());
    EXPECT_FALSE(image_encode_jpeg(&rgba, 90, &encoded, &count, &why));
    EXPECT_EQ(encoded, nullptr);
}

TEST_F(Image, ReadsEveryKindOfPng) {
    const auto reads_as = [&](const char *kind, const std::string &bytes, int channels,
                              const std::vector<int> &expected) {
        ASSERT_TRUE(read(bytes)) << kind << ": " << why.text;
        EXPECT_EQ(picture.channels, channels) << kind;
        EXPECT_EQ(values(picture), expected) << kind;
    };
    const std::string palette = chunk("PLTE\1\2\3\4\5\6\7\10\11");
    reads_as("gray", encode_png(3, 1, GRAY, 8, {0, 100, 255}), 3, {0, 0, 0, 100, 100, 100, 255, 255, 255});
    reads_as("gray of 2 bits", encode_png(4, 1, GRAY, 2, {0b00011011}), 3,
             {0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255});
    reads_as("gray with alpha", encode_png(2, 1, GRAY_ALPHA, 8, {7, 8, 9, 10}), 4, {7, 7, 7, 8, 9, 9, 9, 10});
    reads_as("palette", encode_png(3, 1, PALETTE, 8, {2, 0, 1}, palette), 3, {7, 8, 9, 1, 2, 3, 4, 5, 6});
    reads_as("palette with alpha", encode_png(3, 1, PALETTE, 8, {2, 0, 1}, palette + chunk("tRNS\x32")), 4,
             {7, 8, 9, 255, 1, 2, 3, 50, 4, 5, 6, 255});
    reads_as("a transparent gray", encode_png(2, 1, GRAY, 8, {7, 8}, chunk({"tRNS\0\7", 6})), 4,
             {7, 7, 7, 0, 8, 8, 8, 255});
    reads_as("a transparent colour",
             encode_png(2, 1, RGB, 8, {1, 2, 3, 3, 2, 1}, chunk({"tRNS\0\1\0\2\0\3", 10})), 4,
             {1, 2, 3, 0, 3, 2, 1, 255});
    // Big-endian. 257 times the value, rounded to nearest: where cutting off the low byte would do otherwise.
    reads_as(
        "16 bits without gamma",
        encode_png(2, 1, RGB, 16, {0x80, 0x80, 0x00, 0x80, 0x00, 0x81, 0xff, 0x7e, 0xff, 0x7f, 0xff, 0xff}),
        3, {128, 0, 1, 254, 255, 255});
    std::vector<int> square; // of five, interlaced: each pass begins in column `first` of row `top`
    bytes_of passes;
    for (int i = 0; i < 75; i++) square.push_back(i / 3 * 10);
    const int first[] = {0, 4, 0, 2, 0, 1, 0}, top[] = {0, 0, 4, 0, 2, 0, 1}, right[] = {8, 8, 4, 4, 2, 2, 1},
              down[] = {8, 8, 8, 4, 4, 2, 2};
    for (int pass = 0; pass < 7; pass++)
        for (int y = top[pass]; y < 5; y += down[pass]) {
            passes.push_back(0); // no filter
            for (int x = first[pass]; x < 5; x += right[pass]) passes.push_back(uint8_t(10 * (5 * y + x)));
        }
    reads_as("interlaced", encode_png(5, 5, GRAY, 8, passes, "", true), 3, square);
}

TEST_F(Image, ReadsJpeg) {
    bytes_of pixels;
    for (int i = 0; i < 20 * 9; i++) pixels.insert(pixels.end(), {200, 100, 50});
    for (const jpeg_kind kind : {BASELINE, PROGRESSIVE, DC_ONLY}) {
        ASSERT_TRUE(read(encode_jpeg(20, 9, pixels, kind))) << why.text;
        EXPECT_TRUE(picture.width == 20 && picture.height == 9 && picture.channels == 3);
        const std::vector<int> got = values(picture);
        for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], pixels[i], 3);
    }
    ASSERT_TRUE(read(encode_jpeg(9, 9, bytes_of(81, 77)))) << why.text;
    expect_picture(9, 9, std::vector<int>(243, 77)); // three channels
    refuses(encode_jpeg(8, 8, bytes_of(256, 77)), path + ": a CMYK picture");
}

TEST_F(Image, RefusesHugePictures) {
    const int most = IMAGE_MAX_SIZE, size = most + 1;
    EXPECT_TRUE(read(encode_png(most, 1, GRAY, 8, bytes_of(most)))) << why.text;
    const bytes_of gray(static_cast<size_t>(size)), colors(3 * gray.size());
    for (const std::string &bytes : {encode_png(size, 1, GRAY, 8, gray), encode_png(1, size, GRAY, 8, gray),
                                     encode_jpeg(size, 1, colors), encode_jpeg(1, size, colors),
                                     encode_png(INT32_MAX, INT32_MAX, GRAY, 8, {0})}) // no file can hold that
        refuses(bytes, path);
}

// Sizes that are allowed, but would take memory that nothing in the file justifies.
TEST_F(Image, RefusesPicturesThatTheFileCannotHold) {
    const std::string huge = jpeg_of_size(IMAGE_MAX_SIZE),
                      png = encode_png(IMAGE_MAX_SIZE, IMAGE_MAX_SIZE, RGB, 8, {0, 0, 0});
    for (const std::string &bytes : {png, huge, huge + std::string(200000, 'x')})
        refuses(bytes, path + ": damaged: 16384 x 16384 pixels announced, which its " +
                           std::to_string(bytes.size()) + " bytes cannot hold");
    // A block takes a bit, and 4096 x 4096 pixels with colours at half the size are so many.
    const size_t pixels = 4096 * 4096, blocks = 512 * 512 + 2 * 256 * 256;
    for (const jpeg_kind kind : {BASELINE, PROGRESSIVE}) {
        std::string jpeg = jpeg_of_size(4096, kind);
        jpeg.resize(blocks / 8 - 1, 'x');
        refuses(jpeg, path + ": damaged: 4096 x 4096 pixels announced, which its ");
        refuses(jpeg + 'x', path + ": damaged JPEG before byte "); // it could hold them, but does not
    }
    // The flattest picture there is does pass.
    EXPECT_TRUE(read(encode_png(4096, 4096, GRAY, 8, bytes_of(pixels)))) << why.text;
    for (const jpeg_kind kind : {PROGRESSIVE, DC_ONLY}) {
        EXPECT_TRUE(read(encode_jpeg(4096, 4096, bytes_of(3 * pixels), kind))) << why.text;
        EXPECT_TRUE(read(encode_jpeg(4096, 4096, bytes_of(pixels), kind))) << why.text;
    }
    EXPECT_LT(encode_jpeg(4096, 4096, bytes_of(3 * pixels), DC_ONLY).size(), blocks / 8 + 500)
        << "so the bound is no looser than it must be";
}

// What ends after its last row is shown, as every decoder shows it.
TEST_F(Image, RefusesEveryBeginningWithinTheRows) {
    const bytes_of pixels = random_bytes(9 * 6 * 3);
    testing::internal::CaptureStderr(); // the decoders keep their thoughts to themselves
    for (const std::string &bytes : {encode_png(9, 6, RGB, 8, pixels), encode_jpeg(9, 6, pixels),
                                     encode_jpeg(9, 6, pixels, PROGRESSIVE)}) {
        ASSERT_TRUE(read(bytes)) << why.text;
        EXPECT_FALSE(picture.mended);
        const std::vector<int> whole = values(picture);
        for (size_t size = 0; size < bytes.size(); size++) {
            if (!read(bytes.substr(0, size))) {
                EXPECT_TRUE(bytes[1] != 'P' || contains(why, ": truncated at byte ")) << why.text;
                EXPECT_LT(size + 2, bytes.size()) << "no more than the mark of the end is missing";
                continue;
            }
            EXPECT_TRUE(picture.mended) << size;
            EXPECT_LT(bytes.size(), size + 24) << size; // no more than checksums and marks are missing
            EXPECT_EQ(values(picture), whole) << size;
        }
    }
    // A phone's scan header, with Se 0 in place of 63, and its data behind a picture without an end.
    std::string phone = encode_jpeg(9, 6, pixels);
    const size_t scan = phone.rfind("\xff\xda");
    phone[scan + 6 + 2 * size_t(phone[scan + 4])] = 0;
    ASSERT_TRUE(read(phone.substr(0, phone.size() - 2) + std::string("\0\0\1\nSEFT", 8))) << why.text;
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
