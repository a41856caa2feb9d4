#include "lib/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dsv31/quant.h"
#include "lib/io/json_events.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxMetadata = 1 << 16;  // entries of __metadata__
constexpr int kMaxRank = 4;

// The header, straight into the table of tensors: nothing is stored for a value that does not belong where it stands.
class Header final : public JsonEvents {
 public:
  Header(std::string_view where, const Watch& watch, const OpenLimits& limits, std::uint64_t data_bytes, Checkpoint& to)
      : where_(where),
        watch_(watch),
        limits_(limits),
        data_bytes_(data_bytes),
        to_(to),
        file_(to.files.size()),
        begin_(to.tensors.size()) {}

  Json take_metadata() { return std::move(metadata_); }

  void null() override { misplaced("null"); }
  void boolean(bool) override { misplaced("a boolean"); }
  void number(double) override { misplaced("a number that is no integer"); }
  void unsigned_integer(std::uint64_t) override { misplaced("an integer above 2^63"); }

  void integer(std::int64_t v) override {
    if (v < 0) misplaced("a negative integer");
    if (state_ == State::shape) {
      if (tensor_.shape.rank == kMaxRank)
        throw Error(Code::unsupported, where_,
                    fmt::format("{}: got more than {} dimensions, expected no more", quoted(tensor_.name), kMaxRank));
      tensor_.shape.dim[static_cast<std::size_t>(tensor_.shape.rank++)] = v;
    } else if (state_ == State::offsets && n_offsets_ < 2) {
      offsets_[n_offsets_++] = static_cast<std::uint64_t>(v);
    } else {
      misplaced("an integer");
    }
  }

  void string(std::string& v) override {
    if (state_ == State::dtype) {
      read_dtype(v);
      state_ = State::entry;
    } else if (state_ == State::metadata_value) {
      metadata_.as_object().back().second = Json(std::move(v));
      state_ = State::metadata;
    } else {
      misplaced("a string");
    }
  }

  void key(std::string& name) override {
    switch (state_) {
      case State::root:
        if (name == "__metadata__") {
          if (!metadata_.is_null()) fail(name, "got this key twice, expected it once");
          state_ = State::metadata_start;
        } else {
          if (to_.tensors.size() >= limits_.max_tensors)
            throw Error(Code::limit, where_, fmt::format("tensors: got more than {}, expected no more", limits_.max_tensors));
          if (name.empty()) fail(name, "got an empty name, expected a tensor name");
          if ((to_.tensors.size() & 1023) == 0) watch_.check();
          tensor_ = TensorInfo{};
          tensor_.name = std::move(name);
          seen_ = 0;
          n_offsets_ = 0;
          state_ = State::entry_start;
        }
        return;
      case State::metadata: {
        Json::Object& pairs = metadata_.as_object();
        if (pairs.size() == kMaxMetadata)
          throw Error(Code::limit, where_, fmt::format("__metadata__: got more than {} entries, expected no more", kMaxMetadata));
        const auto name_of = [&](std::uint32_t i) -> std::string_view { return pairs[i].first; };
        if (metadata_index_.insert(name, static_cast<std::uint32_t>(pairs.size()), name_of, where_) != NameIndex::kNone)
          fail("__metadata__", fmt::format("got the key {} twice, expected it once", quoted(name)));
        pairs.emplace_back(std::move(name), Json());
        state_ = State::metadata_value;
        return;
      }
      default:  // State::entry: an object opens in no other state
        if (name == "dtype")
          field(1, State::dtype);
        else if (name == "shape")
          field(2, State::shape_start);
        else if (name == "data_offsets")
          field(4, State::offsets_start);
        else
          fail(tensor_.name, fmt::format("got the key {}, expected dtype, shape or data_offsets", quoted(name)));
    }
  }

  void start_object() override {
    if (state_ == State::start) {
      state_ = State::root;
    } else if (state_ == State::entry_start) {
      state_ = State::entry;
    } else if (state_ == State::metadata_start) {
      metadata_ = Json(Json::Object());
      state_ = State::metadata;
    } else {
      misplaced("an object");
    }
  }

  void end_object() override {
    if (state_ == State::root) {
      state_ = State::done;
    } else {
      if (state_ == State::entry) end_tensor();
      state_ = State::root;
    }
  }

  void start_array() override {
    if (state_ == State::shape_start)
      state_ = State::shape;
    else if (state_ == State::offsets_start)
      state_ = State::offsets;
    else
      misplaced("an array");
  }

  void end_array() override {
    if (state_ == State::offsets && n_offsets_ != 2)
      fail(tensor_.name, fmt::format("got {} data_offsets, expected 2", n_offsets_));
    state_ = State::entry;
  }

  // Ranges, sorted, follow each other from the first to the last byte of the data. O(n log n), and O(n) for files in order.
  void check_cover() const {
    std::vector<std::uint32_t> order(to_.tensors.size() - begin_);
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto at = [&](std::uint32_t i) -> const TensorInfo& { return to_.tensors[begin_ + i]; };
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
      return at(a).offset != at(b).offset ? at(a).offset < at(b).offset : at(a).bytes < at(b).bytes;
    };
    if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
    std::uint64_t expected = 0;
    for (const std::uint32_t i : order) {
      const TensorInfo& t = at(i);
      if (t.offset != expected)
        throw Error(Code::format, where_,
                    fmt::format("{}: got data_offsets from {}, expected {}: ranges cover the data without gap or overlap",
                                quoted(t.name), t.offset, expected));
      expected = t.offset + t.bytes;
    }
    if (expected != data_bytes_) {
      const std::string_view last = order.empty() ? std::string_view("data") : std::string_view(at(order.back()).name);
      throw Error(
          Code::format, where_,
          fmt::format("{}: got {} bytes of data in all ranges, expected {} as in the file", quoted(last), expected, data_bytes_));
    }
  }

 private:
  enum class State {
    start,
    root,
    done,
    entry_start,
    entry,
    dtype,
    shape_start,
    shape,
    offsets_start,
    offsets,
    metadata_start,
    metadata,
    metadata_value,
  };

  [[noreturn]] void fail(std::string_view name, std::string_view what) const {
    throw Error(Code::format, where_, fmt::format("{} before byte {}: {}", quoted(name), kLengthBytes + offset(), what));
  }

  [[noreturn]] void misplaced(std::string_view got) const {
    std::string_view name = "header", expected = "an object";
    switch (state_) {
      case State::entry_start:
        name = tensor_.name;
        break;
      case State::dtype:
        name = tensor_.name, expected = "a string as dtype";
        break;
      case State::shape_start:
        name = tensor_.name, expected = "an array as shape";
        break;
      case State::shape:
        name = tensor_.name, expected = "integers from 0 to 2^63 - 1 in shape";
        break;
      case State::offsets_start:
        name = tensor_.name, expected = "an array as data_offsets";
        break;
      case State::offsets:
        name = tensor_.name, expected = "two integers from 0 to 2^63 - 1 in data_offsets";
        break;
      case State::metadata_start:
        name = "__metadata__";
        break;
      case State::metadata_value:
        name = "__metadata__", expected = "a string as each value";
        break;
      default:
        break;
    }
    fail(name, fmt::format("got {}, expected {}", got, expected));
  }

  void field(unsigned bit, State next) {
    if ((seen_ & bit) != 0) fail(tensor_.name, "got dtype, shape or data_offsets twice, expected each once");
    seen_ |= bit;
    state_ = next;
  }

  void read_dtype(const std::string& dtype) {
    const FormatInfo* info = dtype.empty() ? nullptr : format_by_safetensors(dtype);
    if (info == nullptr)
      throw Error(
          Code::unsupported, where_,
          fmt::format("{}: got dtype {}, expected one that this build reads", quoted(tensor_.name), quoted(dtype.substr(0, 16))));
    tensor_.type = info->type;
  }

  void end_tensor() {
    if (seen_ != 7) fail(tensor_.name, "got a part of dtype, shape and data_offsets, expected all three");
    const auto [begin, end] = offsets_;
    if (begin > end || end > data_bytes_)
      fail(tensor_.name,
           fmt::format("got data_offsets {} to {}, expected a range within the {} bytes of data", begin, end, data_bytes_));
    const Field field{where_, tensor_.name};
    const FormatInfo& info = format(tensor_.type);
    std::uint64_t elements = 1;
    for (int i = 0; i < tensor_.shape.rank; ++i)
      elements = checked_mul(elements, static_cast<std::uint64_t>(tensor_.shape[i]), field);
    const std::uint64_t bytes = checked_mul(elements, static_cast<std::uint64_t>(info.bytes), field);  // blocks of one element
    if (bytes != end - begin)
      fail(tensor_.name,
           fmt::format("got data_offsets of {} bytes, expected {} for its shape and {}", end - begin, bytes, info.name));
    tensor_.file = file_;
    tensor_.offset = begin;  // from the start of the data until the header is done
    tensor_.bytes = bytes;
    to_.add(std::move(tensor_), where_);
  }

  std::string_view where_;
  const Watch& watch_;
  const OpenLimits& limits_;
  std::uint64_t data_bytes_;
  Checkpoint& to_;
  std::size_t file_, begin_;
  State state_ = State::start;
  TensorInfo tensor_;
  unsigned seen_ = 0;  // bits: dtype, shape, data_offsets
  std::array<std::uint64_t, 2> offsets_{};
  std::size_t n_offsets_ = 0;
  Json metadata_;
  NameIndex metadata_index_;
};

}  // namespace

Json read_safetensors(std::shared_ptr<const Reader> file, std::string_view where, const Watch& watch, const OpenLimits& limits,
                      Checkpoint& to) {
  const std::uint64_t size = file->size();
  if (size < kLengthBytes)
    throw Error(Code::format, where,
                fmt::format("header length at byte 0: got a file of {} bytes, expected at least {}", size, kLengthBytes));
  Cursor cursor(*file, where, 0, size, &watch);
  const std::uint64_t n = cursor.u64("header length");
  if (n > limits.max_header_bytes)
    throw Error(Code::limit, where,
                fmt::format("header length at byte 0: got {}, expected at most {}", n, limits.max_header_bytes));
  if (n < 2 || n > cursor.remaining())
    throw Error(Code::format, where,
                fmt::format("header length at byte 0: got {}, expected 2 to the {} bytes that are left", n, cursor.remaining()));
  std::string text(static_cast<std::size_t>(n), '\0');
  cursor.bytes(text.data(), text.size(), "header");
  to.count.reads += cursor.reads();
  to.count.bytes_read += cursor.bytes_read();
  if (text.front() != '{') throw Error(Code::format, where, "header at byte 8: got another byte, expected '{'");
  const std::size_t last = text.find_last_not_of(' ');
  if (text[last] != '}')
    throw Error(Code::format, where,
                fmt::format("header at byte {}: got another byte, expected '}}' and spaces", kLengthBytes + last));

  const std::size_t begin = to.tensors.size();
  const std::uint64_t data = kLengthBytes + n;
  Header header(where, watch, limits, size - data, to);
  JsonLimits json;
  json.max_depth = 3;  // the entry, and its arrays
  json.max_bytes = static_cast<std::size_t>(limits.max_header_bytes);
  json.max_values = json.max_bytes;  // the handler bounds what is stored
  parse_json_events(std::string_view(text).substr(0, last + 1), where, json, header);
  header.check_cover();
  for (std::size_t i = begin; i < to.tensors.size(); ++i) to.tensors[i].offset += data;
  to.files.push_back(std::move(file));
  return header.take_metadata();
}

}  // namespace dsv31::inline v1::io
