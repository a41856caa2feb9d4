#include "lib/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace dsv31::inline v1::text {

namespace {

constexpr std::array<std::uint8_t, 30> make_category_classes() {
  std::array<std::uint8_t, 30> t{};
  for (int c : {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO})
    t[static_cast<std::size_t>(c)] = kLetter;
  for (int c : {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME}) t[static_cast<std::size_t>(c)] = kMark;
  for (int c : {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO}) t[static_cast<std::size_t>(c)] = kNumber;
  for (int c : {UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE, UTF8PROC_CATEGORY_PI,
                UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO})
    t[static_cast<std::size_t>(c)] = kPunctuation;
  for (int c : {UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SC, UTF8PROC_CATEGORY_SK, UTF8PROC_CATEGORY_SO})
    t[static_cast<std::size_t>(c)] = kSymbol;
  for (int c : {UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP}) t[static_cast<std::size_t>(c)] = kSpace;
  return t;
}
constexpr std::array<std::uint8_t, 30> kCategoryClasses = make_category_classes();

// Characters of Unicode 15.1 and 16, which the tables of an older utf8proc do not know. With them the classes are those of
// Unicode 16, the version that Hugging Face's tokenizers use.
struct NewCharacters {
  std::uint32_t first, last;
  std::uint8_t bits;
};
constexpr NewCharacters kNewCharacters[] = {
    {0x897, 0x897, kMark},
    {0x1B4E, 0x1B4F, kPunctuation},
    {0x1B7F, 0x1B7F, kPunctuation},
    {0x1C89, 0x1C8A, kLetter},
    {0x2427, 0x2429, kSymbol},
    {0x2FFC, 0x2FFF, kSymbol},
    {0x31E4, 0x31E5, kSymbol},
    {0x31EF, 0x31EF, kSymbol},
    {0xA7CB, 0xA7CD, kLetter},
    {0xA7DA, 0xA7DC, kLetter},
    {0x105C0, 0x105F3, kLetter},
    {0x10D40, 0x10D49, kNumber},
    {0x10D4A, 0x10D65, kLetter},
    {0x10D69, 0x10D6D, kMark},
    {0x10D6E, 0x10D6E, kPunctuation},
    {0x10D6F, 0x10D85, kLetter},
    {0x10D8E, 0x10D8F, kSymbol},
    {0x10EC2, 0x10EC4, kLetter},
    {0x10EFC, 0x10EFC, kMark},
    {0x11380, 0x11389, kLetter},
    {0x1138B, 0x1138B, kLetter},
    {0x1138E, 0x1138E, kLetter},
    {0x11390, 0x113B5, kLetter},
    {0x113B7, 0x113B7, kLetter},
    {0x113B8, 0x113C0, kMark},
    {0x113C2, 0x113C2, kMark},
    {0x113C5, 0x113C5, kMark},
    {0x113C7, 0x113CA, kMark},
    {0x113CC, 0x113D0, kMark},
    {0x113D1, 0x113D1, kLetter},
    {0x113D2, 0x113D2, kMark},
    {0x113D3, 0x113D3, kLetter},
    {0x113D4, 0x113D5, kPunctuation},
    {0x113D7, 0x113D8, kPunctuation},
    {0x113E1, 0x113E2, kMark},
    {0x116D0, 0x116E3, kNumber},
    {0x11BC0, 0x11BE0, kLetter},
    {0x11BE1, 0x11BE1, kPunctuation},
    {0x11BF0, 0x11BF9, kNumber},
    {0x11F5A, 0x11F5A, kMark},
    {0x13460, 0x143FA, kLetter},
    {0x16100, 0x1611D, kLetter},
    {0x1611E, 0x1612F, kMark},
    {0x16130, 0x16139, kNumber},
    {0x16D40, 0x16D6C, kLetter},
    {0x16D6D, 0x16D6F, kPunctuation},
    {0x16D70, 0x16D79, kNumber},
    {0x18CFF, 0x18CFF, kLetter},
    {0x1CC00, 0x1CCEF, kSymbol},
    {0x1CCF0, 0x1CCF9, kNumber},
    {0x1CD00, 0x1CEB3, kSymbol},
    {0x1E5D0, 0x1E5ED, kLetter},
    {0x1E5EE, 0x1E5EF, kMark},
    {0x1E5F0, 0x1E5F0, kLetter},
    {0x1E5F1, 0x1E5FA, kNumber},
    {0x1E5FF, 0x1E5FF, kPunctuation},
    {0x1F8B2, 0x1F8BB, kSymbol},
    {0x1F8C0, 0x1F8C1, kSymbol},
    {0x1FA89, 0x1FA89, kSymbol},
    {0x1FA8F, 0x1FA8F, kSymbol},
    {0x1FABE, 0x1FABE, kSymbol},
    {0x1FAC6, 0x1FAC6, kSymbol},
    {0x1FADC, 0x1FADC, kSymbol},
    {0x1FADF, 0x1FADF, kSymbol},
    {0x1FAE9, 0x1FAE9, kSymbol},
    {0x1FBCB, 0x1FBEF, kSymbol},
    {0x2EBF0, 0x2EE5D, kLetter},
};

std::uint8_t class_of_new(std::uint32_t code) noexcept {
  const NewCharacters* const end = std::end(kNewCharacters);
  const NewCharacters* const r =
      std::lower_bound(std::begin(kNewCharacters), end, code, [](const NewCharacters& n, std::uint32_t c) { return n.last < c; });
  return r != end && r->first <= code ? r->bits : 0;
}

}  // namespace

std::uint8_t class_of_other(std::uint32_t code) noexcept {
  if (code == 0x85) return kSpace;  // a control character by category
  const auto category = utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->category;
  if (category == UTF8PROC_CATEGORY_CN) return class_of_new(code);
  return kCategoryClasses[static_cast<std::size_t>(category)];
}

}  // namespace dsv31::inline v1::text
