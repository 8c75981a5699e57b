// SPDX-License-Identifier: Apache-2.0
// Data sets as text and JSON.
#include "report/command_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge::report {
namespace {

TEST(DataSetText, OfASetThatWasMade) {
  const record::DataSetSummary made{"a\x1b", 1234567, 12, 3, 2, 50257, 2, 617283.5, 99};
  EXPECT_TRUE(data_set_text(made).starts_with(
      "Wrote 1,234,567 ids of 2 bytes from 12 documents in 3 shards to a"));
  EXPECT_TRUE(data_set_text(made).ends_with(" (617 k tokens/s).\n")) << data_set_text(made);
  EXPECT_EQ(data_set_text(made).find('\x1b'), std::string::npos);
  EXPECT_EQ(to_json(made).dump().substr(9),
            R"(:"a\u001b","ids":1234567,"documents":12,"shards":3,"id_bytes":2,"vocab_size":50257,)"
            R"("seconds":2.0,"tokens_per_s":617283.5,"read_bytes":99})");
}

TEST(DataSetText, OfContents) {
  record::DataSetContents contents;
  contents.path = "set";
  contents.ids = 1000;
  contents.vocab_size = 500;
  EXPECT_EQ(data_set_text(contents, {}), "set: 1,000 ids, vocabulary 500\n");
  EXPECT_EQ(data_set_json(contents).dump(),
            R"({"ids":1000,"vocab_size":500,"documents":0,"document_ids":{"least":0,"median":0,)"
            R"("most":0},"shards":[],"checked":false})");
  contents.documents = 2;
  contents.least_ids = 400;
  contents.most_ids = contents.median_ids = 600;
  contents.shards = {{"shard-00000", 1000, 2, "ab"}};
  contents.origin = R"({"b":1,"c":2})";
  contents.checked = true;
  contents.text = "Once";
  const std::string text = data_set_text(contents, {});
  EXPECT_TRUE(text.starts_with(
      "set: 1,000 ids, vocabulary 500\n2 documents of 400 to 600 ids, median 600\n\nshard"));
  EXPECT_NE(text.find("shard-00000  1,000"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n\nAll hashes agree.\n"));
  const auto json = data_set_json(contents);
  EXPECT_EQ(json["origin"]["c"], 2);
  EXPECT_EQ(json["text"], "Once");
  EXPECT_EQ(json["shards"][0]["xxh128"], "ab");
}

}  // namespace
}  // namespace ridge::report
