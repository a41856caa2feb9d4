#include "lib/text/unicode.h"

#include <utf8proc.h>

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

}  // namespace

std::uint8_t class_of_other(std::uint32_t code) noexcept {
  if (code == 0x85) return kSpace;  // a control character by category
  return kCategoryClasses[static_cast<std::size_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->category)];
}

}  // namespace dsv31::inline v1::text
