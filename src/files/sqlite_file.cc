// SPDX-License-Identifier: Apache-2.0
// Opens databases with SQLite's advice for untrusted ones (https://www.sqlite.org/security.html).
#include "files/sqlite_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <new>

#include "base/printable.h"

namespace ridge::files {
namespace {

// "file:" URIs take every byte but these as it is.
std::string uri(const std::filesystem::path& path) {
  std::string text = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#')
      text += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      text += c;
  }
  return text + "?immutable=1";  // looks for no journal and takes no lock
}

struct Limit {
  int id, most;
};
constexpr Limit kLimits[] = {
    {SQLITE_LIMIT_LENGTH, 1 << 20},
    {SQLITE_LIMIT_SQL_LENGTH, 1 << 17},
    {SQLITE_LIMIT_COLUMN, 500},
    {SQLITE_LIMIT_EXPR_DEPTH, 50},
    {SQLITE_LIMIT_COMPOUND_SELECT, 3},
    {SQLITE_LIMIT_VDBE_OP, 25'000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 10},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 10},
};

void distrust(sqlite3* database) {
  for (const Limit& each : kLimits) sqlite3_limit(database, each.id, each.most);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  // Else a quoted column that is missing would be a text.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  // A virtual table runs its module as soon as anybody asks for its columns. None is left to run.
  sqlite3_drop_modules(database, nullptr);
}

std::string identifier(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

// Takes the first word of a statement, in capitals, past blanks and comments. Empty where anything
// else stands.
std::string take_word(std::string_view& sql) {
  for (;;) {
    sql.remove_prefix(std::min(sql.find_first_not_of(" \t\n\f\r"), sql.size()));
    const bool is_line = sql.starts_with("--");
    if (!is_line && !sql.starts_with("/*")) break;
    const size_t end = is_line ? sql.find('\n') : sql.find("*/", 2);
    sql.remove_prefix(end == sql.npos ? sql.size() : end + (is_line ? 1 : 2));
  }
  std::string word;
  for (; !sql.empty() && std::isalpha(static_cast<unsigned char>(sql[0])); sql.remove_prefix(1))
    word += static_cast<char>(std::toupper(static_cast<unsigned char>(sql[0])));
  return word;
}

// A virtual table has no page of its own, and its statement is CREATE VIRTUAL TABLE.
bool is_plain_table(int64_t root_page, std::string_view sql) {
  return root_page > 0 && take_word(sql) == "CREATE" && take_word(sql) == "TABLE";
}

}  // namespace

bool SqliteRow::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

int64_t SqliteRow::integer(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) throw fault(column, "an integer");
  return sqlite3_column_int64(statement_, column);
}

std::string_view SqliteRow::text(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) throw fault(column, "a text");
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) throw fault(column, "a text that fits in memory");
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Error SqliteRow::fault(int column, const char* expected) const {
  constexpr const char* kTypes[] = {"", "an integer", "a fraction", "a text", "bytes", "none"};
  return file_error("[{}] expected {} in each row's {}, found {}", source_, expected,
                    columns_[static_cast<size_t>(column)],
                    kTypes[sqlite3_column_type(statement_, column)]);
}

SqliteFile::SqliteFile(const std::filesystem::path& path) : source_(path.string()) {
  const int result = sqlite3_open_v2(uri(path).c_str(), &database_,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  if (database_ == nullptr) throw std::bad_alloc();
  try {
    if (result != SQLITE_OK) throw fault();
    distrust(database_);
    // Reads the file's first page and the list of tables.
    step(prepare("SELECT count(*) FROM sqlite_schema").get());
    expect_whole(path);
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

SqliteFile::~SqliteFile() { sqlite3_close(database_); }

// SQLite reads what is missing of the last page as zeros.
void SqliteFile::expect_whole(const std::filesystem::path& path) const {
  const auto number = [this](const char* pragma) {
    const Statement statement = prepare(pragma);
    return step(statement.get()) ? sqlite3_column_int64(statement.get(), 0) : 0;
  };
  const int64_t expected = number("PRAGMA page_size") * number("PRAGMA page_count");
  const auto found = static_cast<int64_t>(std::filesystem::file_size(path));
  if (found < expected)
    throw file_error("[{}] expected {} bytes of a SQLite database, found {}", source_, expected,
                     found);
}

Error SqliteFile::fault() const {
  // It also says "out of memory" of a damaged record whose size it believes.
  return file_error("[{}] expected a SQLite database: {}", source_,
                    printable(sqlite3_errmsg(database_)));
}

SqliteFile::Statement SqliteFile::prepare(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    throw fault();
  return {statement, &sqlite3_finalize};
}

bool SqliteFile::step(sqlite3_stmt* statement) const {
  const int result = sqlite3_step(statement);
  if (result != SQLITE_ROW && result != SQLITE_DONE) throw fault();
  return result == SQLITE_ROW;
}

bool SqliteFile::has_table(const std::string& table) const {
  const Statement statement = prepare(
      "SELECT rootpage, sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE");
  sqlite3_bind_text(statement.get(), 1, table.c_str(), -1, SQLITE_TRANSIENT);
  bool is_plain = false;
  while (step(statement.get())) {
    const unsigned char* sql = sqlite3_column_text(statement.get(), 1);
    if (sql == nullptr || !is_plain_table(sqlite3_column_int64(statement.get(), 0),
                                          reinterpret_cast<const char*>(sql)))
      return false;
    is_plain = true;
  }
  return is_plain;
}

std::vector<std::string> SqliteFile::tables(const std::string& prefix) const {
  constexpr size_t kMost = 1000;
  const Statement statement = prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1 "
      "ORDER BY name");
  sqlite3_bind_text(statement.get(), 1, prefix.c_str(), -1, SQLITE_TRANSIENT);
  std::vector<std::string> names;
  while (names.size() < kMost && step(statement.get())) {
    const unsigned char* name = sqlite3_column_text(statement.get(), 0);
    if (name != nullptr && has_table(reinterpret_cast<const char*>(name)))
      names.emplace_back(reinterpret_cast<const char*>(name));
  }
  return names;
}

bool SqliteFile::has_column(const std::string& table, const std::string& column) const {
  const Statement statement = prepare("SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2");
  sqlite3_bind_text(statement.get(), 1, table.c_str(), -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(statement.get(), 2, column.c_str(), -1, SQLITE_TRANSIENT);
  return step(statement.get());
}

void SqliteFile::read(const std::string& table,
                      std::span<const char* const> columns,
                      const std::function<void(const SqliteRow&)>& take) {
  if (!has_table(table)) throw file_error("[{}] expected a table {}, found none", source_, table);
  std::string list;
  for (const char* column : columns) {
    if (!has_column(table, column))
      throw file_error("[{}] expected a column {} in the table {}, found none", source_, column,
                       table);
    list += (list.empty() ? "" : ", ") + identifier(column);
  }
  const Statement statement = prepare(fmt::format("SELECT {} FROM {}", list, identifier(table)));
  const SqliteRow row(statement.get(), source_, columns);
  while (step(statement.get())) {
    if (++rows_ > kMostRows) throw file_error("[{}] expected at most {} rows", source_, kMostRows);
    take(row);
  }
}

}  // namespace ridge::files
