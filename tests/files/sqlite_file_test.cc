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

// A database whose table f, which SQLite made with this module, has another statement.
std::string with_statement(const ScratchFolder& folder, const std::string& sql) {
  const std::string statements =
      "CREATE TABLE t (a INT); CREATE VIRTUAL TABLE f USING fts5(a); PRAGMA writable_schema = ON;"
      "UPDATE sqlite_schema SET sql = '" +
      sql + "' WHERE name = 'f'";
  return database(folder, statements.c_str());
}

// SQLite writes CREATE VIRTUAL TABLE itself; a hand can put comments and blanks between the words.
TEST(SqliteFile, SeesVirtualTablesBehindComments) {
  constexpr std::array kColumn = {"a"};
  const std::string far = "/*" + std::string(5000, '*') + "*/";
  for (const std::string& between :
       {std::string(" "), std::string("\t\n\f\r"), std::string("/**/"), std::string("--\n"),
        std::string(" /* TABLE */ -- TABLE\n /**/"), far})
    for (const char* verb : {"CREATE", "create", "CrEaTe"}) {
      const ScratchFolder folder;
      SCOPED_TRACE(between.substr(0, 20));
      SqliteFile file(with_statement(
          folder, verb + between + "vIrTuAl" + between + "TABLE" + between + "f USING fts5(a)"));
      EXPECT_FALSE(file.has_table("f"));
      EXPECT_FALSE(file.has_table("F"));
      EXPECT_TRUE(file.has_table("t"));
      EXPECT_NE(
          refusal([&] { file.read("f", kColumn, [](const SqliteRow&) {}); }).find("a table f"),
          std::string::npos);
      // Nobody can run its module, whoever asks.
      EXPECT_NE(refusal([&] { file.has_column("f", "a"); }).find("no such module"),
                std::string::npos);
    }
  // SQLite itself takes no statement that begins otherwise.
  for (const char* before : {"/**/", "--\n", " ", "\xEF\xBB\xBF"}) {
    const ScratchFolder folder;
    const std::string path =
        with_statement(folder, std::string(before) + "CREATE VIRTUAL TABLE f USING fts5(a)");
    EXPECT_NE(refusal([&] { SqliteFile(path).has_table("f"); }).find("malformed"),
              std::string::npos);
  }
}

// A page of its own makes a virtual table no plain one, and neither does the lack of VIRTUAL where
// it has none.
TEST(SqliteFile, AsksForThePageAndForTheStatement) {
  for (const char* change : {"rootpage = 2 WHERE name = 'f'", "rootpage = 0 WHERE name = 't'",
                             "rootpage = NULL WHERE name = 't'", "sql = NULL WHERE name = 't'"}) {
    SCOPED_TRACE(change);
    const ScratchFolder folder;
    const std::string path =
        database(folder, ("CREATE TABLE t (a INT); CREATE VIRTUAL TABLE f USING fts5(a);"
                          "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET " +
                          std::string(change))
                             .c_str());
    const auto has = [&](const char* table) {
      bool has_table = false;
      const std::string refused = refusal([&] { has_table = SqliteFile(path).has_table(table); });
      return has_table && refused.empty();
    };
    EXPECT_FALSE(has("f"));
    EXPECT_EQ(has("t"), std::string(change).ends_with("'f'"));
  }
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
