// How a kernel reads the packed blocks of each format: code units, integer sub-scales and minima, float scales.
// Included after units.h of an instruction set; written once, compiled for each.
//
// Block<type, half> is a block of 32 of one strip, or a half of 128 of a super-block. Of its group t of 32 k it gives
//   unit<t, u>()   codes of quad u (4 k), 16 rows; with kOffset added where the product wants unsigned bytes
//   scale<t, s>()  of run s: kRun k, 16 or 32, share a float scale, d * sub_scale without rounding where there are sub-scales
//   minimum<t>()   kMin added: w = scale * (unit - kOffset) + minimum
// and of Q2_K and Q3_K, whose sub-scales for 16 k stay integers (kSub = 16), w = scale * sub_scale * (unit - kOffset) - min_scale
// * sub_min:
//   mult<t, s>()   sub-scale s for add_scaled
//   pair<t>()      the two sub-scales (kOffset > 0) or minima (kMin) as int16
//   min_scale()
#pragma once

#include "backends/quantized/layout.h"

namespace dsv31::inline v1::quantized::DSV31_ISA {

inline constexpr std::uint8_t kIq4Signed[16] = {129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr std::uint8_t kIq4Plus128[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr std::uint8_t kE2M1Plus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

DSV31_LANES I16 dwords(const std::byte* p) { return loadi(reinterpret_cast<const std::int32_t*>(p)); }
DSV31_LANES V16 halves(const std::byte* p) { return load_f16(reinterpret_cast<const std::uint16_t*>(p)); }
// IQ4 levels as the products of this instruction set want them.
DSV31_LANES Bytes iq4(Bytes index) { return lookup(kSignedUnits ? kIq4Signed : kIq4Plus128, index); }

template <int kByte>
DSV31_LANES V16 byte_u8(I16 x) {
  return to_float(bit_and(kByte == 0 ? x : shr_logical<8 * kByte>(x), set1i(255)));
}
template <int kByte>
DSV31_LANES V16 byte_i8(I16 x) {
  return to_float(shr<24>(kByte == 3 ? x : shl<24 - 8 * kByte>(x)));
}

enum class Min { none, added, sub_scaled };  // sub_scaled: of Q2_K, by integers

// What all formats share. chunk: units whose products may be summed in int16.
template <int run, int sub, Min min, int offset, bool signed_units, int chunk>
struct Traits {
  static constexpr int kRun = run, kSub = sub, kOffset = offset, kChunk = chunk;
  static constexpr Min kMin = min;
  static constexpr bool kSigned = signed_units;
  static constexpr bool kPairs = min == Min::sub_scaled || (sub != 0 && offset != 0);  // pair<t>() enters the product
};

template <DType kType, int kHalf>
struct Block;

template <int kCodes>  // bytes of codes, before the scales
struct Record32 {
  const std::byte* record;
  DSV31_LANES explicit Record32(const std::byte* r) : record(r) {}
  template <int u>
  DSV31_LANES Bytes nibble() const {
    return field<u / 4 * 4, 15>(load_unit(record + u % 4 * 64));
  }
  template <int u>
  DSV31_LANES Bytes five_bits() const {
    return join<u, 4, 1>(nibble<u>(), load_unit(record + 256));
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    return halves(record + kCodes);
  }
  template <int t>
  DSV31_LANES V16 minimum() const {
    return halves(record + kCodes + 32);
  }
};

template <int h>
struct Block<DType::q4_0, h> : Record32<256>, Traits<32, 0, Min::none, 8, false, 8> {
  using Record32<256>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return nibble<u>();
  }
};
template <int h>
struct Block<DType::q4_1, h> : Record32<256>, Traits<32, 0, Min::added, 0, false, 8> {
  using Record32<256>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return nibble<u>();
  }
};
template <int h>
struct Block<DType::q5_0, h> : Record32<320>, Traits<32, 0, Min::none, 16, false, 4> {
  using Record32<320>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return five_bits<u>();
  }
};
template <int h>
struct Block<DType::q5_1, h> : Record32<320>, Traits<32, 0, Min::added, 0, false, 4> {
  using Record32<320>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return five_bits<u>();
  }
};
template <int h>
struct Block<DType::q8_0, h> : Record32<512>, Traits<32, 0, Min::none, kSignedUnits ? 0 : 128, kSignedUnits, 1> {
  using Record32<512>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    const Bytes w = load_unit(record + u * 64);
    return kSignedUnits ? w : add_128(w);
  }
};
template <int h>
struct Block<DType::iq4_nl, h> : Record32<256>, Traits<32, 0, Min::none, kSignedUnits ? 0 : 128, kSignedUnits, 1> {
  using Record32<256>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return iq4(nibble<u>());
  }
};
template <int h>
struct Block<DType::mxfp4, h> : Record32<256>, Traits<32, 0, Min::none, 12, false, 4> {
  using Record32<256>::Record32;
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return lookup(kE2M1Plus12, nibble<u>());
  }
  // 2^(e - 128): the exponent field of float32 for e >= 2, the two subnormals below.
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    const I16 e = load_u8(reinterpret_cast<const std::uint8_t*>(record + 256));
    const I16 small = bit_or(bit_and(shl<22>(e), set1i(0x00400000)), shl<21>(bit_and(bit_xor(e, set1i(1)), set1i(1))));
    return select(equal(bit_and(e, set1i(0xFE)), set1i(0)), as_float(small), as_float(shl<23>(sub(e, set1i(1)))));
  }
};

// Two-bit codes of Q2_K and Q3_K: field t of the unit of quad u.
template <int h>
struct Block<DType::q2_k, h> : Traits<32, 16, Min::sub_scaled, 0, false, 4> {
  const std::byte* record;
  I16 sub[2], minima[2];
  DSV31_LANES explicit Block(const std::byte* r) : record(r) {
    for (int i = 0; i < 2; ++i) {
      const I16 x = dwords(r + 1024 + 64 * (2 * h + i));
      sub[i] = bit_and(x, set1i(0x0F0F0F0F));
      minima[i] = bit_and(shr_logical<4>(x), set1i(0x0F0F0F0F));
    }
  }
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return field<2 * t, 3>(load_unit(record + 512 * h + 64 * u));
  }
  template <int t, int s>
  DSV31_LANES I16 mult() const {
    return mult_u8<t % 2 * 2 + s>(sub[t / 2]);
  }
  template <int t>
  DSV31_LANES I16 pair() const {
    return pair_u8<t % 2 * 2, t % 2 * 2 + 1>(minima[t / 2]);
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    return halves(record + 1280);
  }
  DSV31_LANES V16 min_scale() const { return halves(record + 1312); }
};

template <int h>
struct Block<DType::q3_k, h> : Traits<32, 16, Min::none, 4, false, 4> {
  const std::byte* record;
  I16 sub[2];  // with 32 added
  DSV31_LANES explicit Block(const std::byte* r) : record(r) {
    const I16 high = dwords(r + 1536 + 128);
    sub[0] = bit_or(bit_and(shr_logical<4 * h>(dwords(r + 1536)), set1i(0x0F0F0F0F)),
                    shl<4>(bit_and(shr_logical<4 * h>(high), set1i(0x03030303))));
    sub[1] = bit_or(bit_and(shr_logical<4 * h>(dwords(r + 1536 + 64)), set1i(0x0F0F0F0F)),
                    shl<4>(bit_and(shr_logical<4 * h + 2>(high), set1i(0x03030303))));
  }
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return join<4 * h + t, 2, 1>(field<2 * t, 3>(load_unit(record + 512 * h + 64 * u)), load_unit(record + 1024 + 64 * u));
  }
  template <int t, int s>
  DSV31_LANES I16 mult() const {
    return mult_less(mult_u8<t % 2 * 2 + s>(sub[t / 2]), 32);
  }
  template <int t>
  DSV31_LANES I16 pair() const {
    return pair_less(pair_u8<t % 2 * 2, t % 2 * 2 + 1>(sub[t / 2]), 32);
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    return halves(record + 1728);
  }
};

// Six-bit scales and minima of Q4_K and Q5_K: four rows of bytes in the 12 bytes of a row, then d and dmin.
template <int h>
struct SixBitScales {
  I16 sub, minima;
  V16 d, negative_dmin;
  DSV31_LANES explicit SixBitScales(const std::byte* p)
      : d(halves(p + 192)), negative_dmin(as_float(bit_xor(as_int(halves(p + 224)), set1i(INT32_MIN)))) {
    const I16 s0 = dwords(p), s1 = dwords(p + 64), s2 = dwords(p + 128);
    if constexpr (h == 0) {
      sub = bit_and(s0, set1i(0x3F3F3F3F));
      minima = bit_and(s1, set1i(0x3F3F3F3F));
    } else {
      sub = bit_or(bit_and(s2, set1i(0x0F0F0F0F)), bit_and(shr_logical<2>(s0), set1i(0x30303030)));
      minima = bit_or(bit_and(shr_logical<4>(s2), set1i(0x0F0F0F0F)), bit_and(shr_logical<2>(s1), set1i(0x30303030)));
    }
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    return mul(d, byte_u8<t>(sub));
  }
  template <int t>
  DSV31_LANES V16 minimum() const {
    return mul(negative_dmin, byte_u8<t>(minima));
  }
};

template <int h>
struct Block<DType::q4_k, h> : SixBitScales<h>, Traits<32, 0, Min::added, 0, false, 8> {
  const std::byte* record;
  DSV31_LANES explicit Block(const std::byte* r) : SixBitScales<h>(r + 2048), record(r) {}
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return field<t % 2 * 4, 15>(load_unit(record + 1024 * h + 512 * (t / 2) + 64 * u));
  }
};
template <int h>
struct Block<DType::q5_k, h> : SixBitScales<h>, Traits<32, 0, Min::added, 0, false, 4> {
  const std::byte* record;
  DSV31_LANES explicit Block(const std::byte* r) : SixBitScales<h>(r + 2560), record(r) {}
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    const Bytes low = field<t % 2 * 4, 15>(load_unit(record + 1024 * h + 512 * (t / 2) + 64 * u));
    return join<4 * h + t, 4, 1>(low, load_unit(record + 2048 + 64 * u));
  }
};

template <int h>
struct Block<DType::q6_k, h> : Traits<16, 0, Min::none, 32, false, 2> {
  const std::byte* record;
  I16 sub[2];
  DSV31_LANES explicit Block(const std::byte* r) : record(r) {
    for (int i = 0; i < 2; ++i) sub[i] = dwords(r + 3072 + 64 * (2 * h + i));
  }
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    const Bytes low = field<t / 2 * 4, 15>(load_unit(record + 1024 * h + 512 * (t % 2) + 64 * u));
    return join<2 * t, 4, 3>(low, load_unit(record + 2048 + 512 * h + 64 * u));
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    return mul(halves(record + 3328), byte_i8<t % 2 * 2 + s>(sub[t / 2]));
  }
};

template <int h>
struct Block<DType::iq4_xs, h> : Traits<32, 0, Min::none, kSignedUnits ? 0 : 128, kSignedUnits, 1> {
  const std::byte* record;
  I16 low, high;
  DSV31_LANES explicit Block(const std::byte* r) : record(r), low(dwords(r + 2048)), high(load_u16(r + 2112)) {}
  template <int t, int u>
  DSV31_LANES Bytes unit() const {
    return iq4(field<u / 4 * 4, 15>(load_unit(record + 256 * (4 * h + t) + u % 4 * 64)));
  }
  template <int t, int s>
  DSV31_LANES V16 scale() const {
    const I16 top = shl<4>(bit_and(shr_logical<2 * (4 * h + t)>(high), set1i(3)));
    const I16 sub_scale = sub(bit_or(bit_and(shr_logical<4 * (4 * h + t)>(low), set1i(15)), top), set1i(32));
    return mul(halves(record + 2144), to_float(sub_scale));
  }
};

}  // namespace dsv31::inline v1::quantized::DSV31_ISA
