// SPDX-License-Identifier: Apache-2.0
// Times of prefill and decode that others published. docs/workbench.md has their sources.
#include "courses/courses.h"

namespace ridge::courses {
namespace {

constexpr std::string_view kBlog = "MI210, PyTorch fp16";
constexpr std::string_view kTorch = "H200, PyTorch 2.11 bf16";

// The blog's figures are read off its charts; its tuned GEMMs stand next to flash attention and
// paged attention.
constexpr bench::PublishedTime kTimes[] = {
    {kBlog, "llama-2-7b", "eager", false, 2048, 1, 430},
    {kBlog, "llama-2-7b", "eager", false, 2048, 8, 3509},
    {kBlog, "llama-2-7b", "eager", false, 2048, 16, 7810},
    {kBlog, "llama-2-7b", "compiled", false, 2048, 1, 333},
    {kBlog, "llama-2-7b", "compiled", false, 2048, 8, 2708},
    {kBlog, "llama-2-7b", "compiled", false, 2048, 16, 6193},
    {kBlog, "llama-2-7b", "flash", false, 2048, 1, 305},
    {kBlog, "llama-2-7b", "flash", false, 2048, 8, 2399},
    {kBlog, "llama-2-7b", "flash", false, 2048, 16, 5528},
    {kBlog, "llama-2-7b", "memory-efficient", false, 2048, 1, 307},
    {kBlog, "llama-2-7b", "memory-efficient", false, 2048, 8, 2447},
    {kBlog, "llama-2-7b", "memory-efficient", false, 2048, 16, 5619},
    {kBlog, "llama-2-7b", "tuned", false, 2048, 1, 254},
    {kBlog, "llama-2-7b", "tuned", false, 2048, 8, 2222},
    {kBlog, "llama-2-7b", "tuned", false, 2048, 16, 4456},
    {kBlog, "llama-2-7b", "eager", true, 2048, 1, 33},
    {kBlog, "llama-2-7b", "eager", true, 2048, 8, 35},
    {kBlog, "llama-2-7b", "eager", true, 2048, 16, 35},
    {kBlog, "llama-2-7b", "compiled", true, 2048, 1, 31},
    {kBlog, "llama-2-7b", "compiled", true, 2048, 8, 33},
    {kBlog, "llama-2-7b", "compiled", true, 2048, 16, 33},
    {kBlog, "llama-2-7b", "paged", true, 2048, 1, 24},
    {kBlog, "llama-2-7b", "paged", true, 2048, 8, 26},
    {kBlog, "llama-2-7b", "paged", true, 2048, 16, 28},
    {kBlog, "llama-2-7b", "tuned", true, 2048, 1, 13},
    {kBlog, "llama-2-7b", "tuned", true, 2048, 8, 15},
    {kBlog, "llama-2-7b", "tuned", true, 2048, 16, 18},
    {kTorch, "llama-2-7b", "eager", false, 2048, 1, 108.8},
    {kTorch, "llama-2-7b", "eager", false, 2048, 8, 845},
    {kTorch, "llama-2-7b", "eager", false, 2048, 32, 3424},
    {kTorch, "llama-2-7b", "flash", false, 2048, 1, 62.3},
    {kTorch, "llama-2-7b", "flash", false, 2048, 8, 476},
    {kTorch, "llama-2-7b", "flash", false, 2048, 32, 1920},
    {kTorch, "llama-2-7b", "eager", true, 2048, 1, 33.3},
    {kTorch, "llama-2-7b", "eager", true, 2048, 8, 23.2},
    {kTorch, "llama-2-7b", "eager", true, 2048, 32, 42.7},
    {kTorch, "llama-2-7b", "compiled", true, 2048, 1, 5.86},
    {kTorch, "llama-2-7b", "compiled", true, 2048, 8, 7.39},
    {kTorch, "llama-2-7b", "compiled", true, 2048, 32, 13.55},
    {kTorch, "gemma3-270m", "eager", false, 2048, 1, 22.2},
    {kTorch, "gemma3-270m", "flash", false, 2048, 1, 21.8},
    {kTorch, "gemma3-270m", "eager", true, 2048, 1, 25.4},
    {kTorch, "gemma3-270m", "compiled", true, 2048, 1, 10.8},
    {kTorch, "smollm2-135m", "eager", false, 1024, 1, 23.6},
    {kTorch, "smollm2-135m", "flash", false, 1024, 1, 21.0},
    {kTorch, "smollm2-135m", "eager", true, 1024, 1, 22.0},
    {kTorch, "smollm2-135m", "compiled", true, 1024, 1, 2.00}};

}  // namespace

std::span<const bench::PublishedTime> published_times() { return kTimes; }

}  // namespace ridge::courses
