// SPDX-License-Identifier: Apache-2.0
// Names under which a server answers, and what a page of a stranger gets.
#include "http/allowed_hosts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "http/api.h"

namespace ridge::http {
namespace {

TEST(AllowedHosts, TakesNamesAndAllAddresses) {
  const AllowedHosts hosts("localhost,*.localhost,Models.Example.com");
  for (const char* host : {"", "localhost", "localhost:8080", "LocalHost.:80", "a.b.localhost:1",
                           "127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "models.example.com"})
    EXPECT_TRUE(hosts.accepts_host(host)) << host;
  for (const char* host : {"evil.com", "evil.com:8080", "localhost.evil.com", "xlocalhost",
                           "a.models.example.com", "127.0.0.1.evil.com", "[::1", ":80", "[", "a b"})
    EXPECT_FALSE(hosts.accepts_host(host)) << host;
}

TEST(AllowedHosts, TakesOriginsOfTheSameNames) {
  const AllowedHosts hosts("localhost");
  for (const char* origin : {"", "http://localhost:8080", "https://127.0.0.1"})
    EXPECT_TRUE(hosts.accepts_origin(origin)) << origin;
  for (const char* origin : {"null", "http://", "http://evil.com", "localhost"})
    EXPECT_FALSE(hosts.accepts_origin(origin)) << origin;
}

TEST(AllowedHosts, AnyNamePasses) {
  for (const AllowedHosts& hosts : {AllowedHosts(), AllowedHosts("*")}) {
    EXPECT_TRUE(hosts.accepts_host("evil.com"));
    EXPECT_TRUE(hosts.accepts_origin("null"));
  }
}

TEST(AllowedHosts, RefusesWhatIsNoName) {
  for (const char* name : {"", "*.", "a*", "http://a", "a:80", "a b", "a,", ",a", "a,,b"})
    EXPECT_THROW(AllowedHosts{name}, Error) << name;
}

TEST(AllowedHosts, AStrangersPageGetsNothing) {
  const Api api("ridge test", {}, AllowedHosts("localhost"));
  Message message{.method = "GET", .path = "/version", .authorization = "", .body = ""};
  message.host = "localhost:8080";
  EXPECT_FALSE(api.refuse(message).has_value());
  message.origin = "http://evil.com";
  EXPECT_EQ(api.refuse(message)->status, 403);
  message = {.method = "GET", .path = "/version", .authorization = "", .body = ""};
  message.host = "evil.com:8080";
  EXPECT_EQ(api.refuse(message)->status, 403);
}

}  // namespace
}  // namespace ridge::http
