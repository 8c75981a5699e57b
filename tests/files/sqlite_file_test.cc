// SPDX-License-Identifier: Apache-2.0
// Tables are read with their types; views, virtual tables and missing columns are refused.
#include "files/sqlite_file.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <string>
#include <vector>

#include "files/scratch.h"

namespace ridge::files {
namespace {

// A database that these statements make.
std::string database(const ScratchFolder& folder, const char* statements) {
  // Bytes that mean something in a URI.
  const std::string path = folder / "a%41?b#c.sqlite";
  sqlite3* made = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &made), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(made, statements, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(made);
  sqlite3_close(made);
  return path;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile);
    return error.what();
  }
  return "";
}

TEST(SqliteFile, ReadsRowsWithTheirTypes) {
  const ScratchFolder folder;
  SqliteFile file(
      database(folder,
               "CREATE TABLE t (a INT, b TEXT, c);"
               "INSERT INTO t VALUES (1, 'x', NULL), (-9223372036854775808, '', 2.5);"));
  EXPECT_EQ(folder.count(), 1u) << "no journal";
  constexpr std::array kColumns = {"b", "a", "c"};
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  int nulls = 0;
  file.read("t", kColumns, [&](const SqliteRow& row) {
    texts.emplace_back(row.text(0));
    numbers.push_back(row.integer(1));
    nulls += row.is_null(2);
    EXPECT_NE(
        refusal([&] { row.integer(0); }).find("expected an integer in each row's b, found a text"),
        std::string::npos);
    EXPECT_NE(refusal([&] { row.text(1); }).find("expected a text"), std::string::npos);
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, INT64_MIN}));
  EXPECT_EQ(nulls, 1);
}

TEST(SqliteFile, RefusesWhatIsNoPlainTable) {
  const ScratchFolder folder;
  SqliteFile file(
      database(folder,
               "CREATE TABLE t (a INT);"
               "CREATE VIEW v AS WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 "
               "FROM r) SELECT a FROM r;"
               "CREATE VIRTUAL TABLE f USING fts5(a);"));
  EXPECT_TRUE(file.has_table("t"));
  EXPECT_TRUE(file.has_column("t", "a"));
  EXPECT_FALSE(file.has_column("t", "b"));
  constexpr std::array kColumn = {"a"};
  constexpr std::array kMissing = {"b\" FROM t; --"};
  const auto take = [](const SqliteRow&) {};
  for (const char* table : {"v", "f", "missing", "t\" --"})
    EXPECT_NE(refusal([&] { file.read(table, kColumn, take); }).find("expected a table"),
              std::string::npos)
        << table;
  EXPECT_NE(refusal([&] { file.read("t", kMissing, take); }).find("expected a column"),
            std::string::npos);
}

TEST(SqliteFile, RefusesWhatIsNoDatabase) {
  const ScratchFolder folder;
  write_plain(folder / "text", std::string(2000, 'x'));
  EXPECT_NE(refusal([&] { SqliteFile file(folder / "text"); }).find("file is not a database"),
            std::string::npos);
  EXPECT_NE(refusal([&] { SqliteFile file(folder / "missing"); }).find("unable to open"),
            std::string::npos);
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ridge::files
