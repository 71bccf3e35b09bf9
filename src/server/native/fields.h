// Fields of a request body, read with their types checked. The first thing wrong is kept; what is read after it is of no use.
#pragma once

#include <tritium/request.h>
#include <tritium/result.h>

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <set>

namespace tritium::server::native {

using Names = std::initializer_list<const char*>;  // of one field, as different programs call it

class Fields {
 public:
  // `text`: values come from a form, so numbers, truth values and objects may be written as text. `where` stands before names in errors.
  Fields(nlohmann::json object, bool text, std::string where = {});

  // Absent and null are the same. Given under several names, the values must agree.
  const nlohmann::json* find(Names names);
  std::optional<std::string> text(Names names);
  std::optional<std::int64_t> whole(Names names, std::int64_t least, std::int64_t most);
  std::optional<std::uint64_t> seed(Names names);
  std::optional<double> number(Names names);          // finite
  std::optional<double> number_or_text(Names names);  // as number(); "4" counts in JSON, too
  std::optional<bool> flag(Names names);
  std::optional<std::string> choice(Names names, const std::vector<std::string>& allowed);  // in lower case
  // An object, or text that holds one.
  std::optional<nlohmann::json> object(Names names);
  // A list, one value alone, or text that holds a list.
  std::vector<nlohmann::json> list(Names names);

  // Under which name the last of these was given; the first of them if none was.
  [[nodiscard]] std::string given_as(Names names) const;
  [[nodiscard]] bool is_text() const { return text_; }
  [[nodiscard]] const std::string& where() const { return where_; }

  void fail(Error error);
  void refuse(const std::string& field, std::string message, std::string hint = {});
  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  // A sentence for every key that nobody asked for, with the known name that it may stand for.
  [[nodiscard]] std::vector<std::string> unknown() const;
  void known(Names names) { known_.insert(names.begin(), names.end()); }
  void known(std::string name) { known_.insert(std::move(name)); }

 private:
  std::string path(const std::string& name) const { return where_.empty() ? name : where_ + "." + name; }

  nlohmann::json object_;
  bool text_;
  std::string where_;
  std::set<std::string> known_;
  std::optional<Error> error_;
};

// What kind of value this is, for messages: "a text", "a number", ...
std::string kind_of(const nlohmann::json& value);

// As it is shown in messages: short.
std::string shown(const nlohmann::json& value);

}  // namespace tritium::server::native
