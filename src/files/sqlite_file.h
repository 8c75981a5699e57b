// SPDX-License-Identifier: Apache-2.0
// Reads plain tables of an untrusted SQLite database from front to back. Views, virtual tables and
// triggers are never run, and nothing is written, not even a journal next to the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ridge::files {

// The present row of a table, valid until the next one.
class SqliteRow {
 public:
  SqliteRow(sqlite3_stmt* statement,
            const std::string& source,
            std::span<const char* const> columns)
      : statement_(statement), source_(source), columns_(columns) {}
  bool is_null(int column) const;
  // Throw bad-file Errors that name the column unless it has that type.
  int64_t integer(int column) const;
  std::string_view text(int column) const;

 private:
  Error fault(int column, const char* expected) const;

  sqlite3_stmt* statement_;
  const std::string& source_;
  std::span<const char* const> columns_;
};

class SqliteFile {
 public:
  static constexpr int64_t kMostRows = int64_t{1} << 24;  // the tables read have no more

  // Throws a bad-file Error for what is no database.
  explicit SqliteFile(const std::filesystem::path& path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  bool has_table(const std::string& table) const;
  // The names of tables that begin so, sorted.
  std::vector<std::string> tables(const std::string& prefix) const;
  bool has_column(const std::string& table, const std::string& column) const;
  // Calls `take` for each row, in the order of the file. Throws bad-file Errors for missing tables
  // and columns, damage, and more than kMostRows rows.
  void read(const std::string& table,
            std::span<const char* const> columns,
            const std::function<void(const SqliteRow&)>& take);
  const std::string& source() const { return source_; }

 private:
  using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;
  Statement prepare(const std::string& sql) const;
  bool step(sqlite3_stmt* statement) const;  // whether there is a row
  void expect_whole(const std::filesystem::path& path) const;
  Error fault() const;

  std::string source_;
  sqlite3* database_ = nullptr;
  int64_t rows_ = 0;
};

}  // namespace ridge::files
