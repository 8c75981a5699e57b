#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a server's metrics with the package prometheus_client, as a scraper does: metrics_client.py URL KEY. Prints one JSON
object of types by family and values by sample, for openai_slow_test.cc; histograms that are none fail an assertion."""
import json
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

url, key = sys.argv[1:]
with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})) as reply:
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply.headers["Content-Type"]
    text = reply.read().decode()

result = {"types": {}, "samples": {}}
for family in text_string_to_metric_families(text):
    assert family.documentation and family.name not in result["types"], family.name
    result["types"][family.name] = family.type
    buckets = []
    for sample in family.samples:
        labels = dict(sample.labels)
        result["model"] = labels.pop("model_name")
        if "le" in labels:
            buckets.append((float(labels["le"]), sample.value))
            continue
        name = sample.name + "".join(f"{{{key}={value}}}" for key, value in labels.items())
        assert name not in result["samples"], name
        result["samples"][name] = sample.value
    if family.type == "histogram":
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), family.name
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), family.name
        assert buckets[-1][1] == result["samples"][family.name + "_count"], family.name
print(json.dumps(result))
