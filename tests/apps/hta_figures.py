#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a trace with HolisticTraceAnalysis, as its users do: hta_figures.py TRACE. Prints one JSON object with its temporal
breakdown, the time of each kernel, its idle time by stream and the iterations that it found, all in microseconds. With --ranks
FOLDER: the communication of each rank, and how much of it other kernels hide."""
import json
import os
import sys

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # it would round the begin of each kernel up and the end down to microseconds

from hta.trace_analysis import TraceAnalysis  # noqa: E402 (reads the environment)

if sys.argv[1] == "--ranks":
    analysis = TraceAnalysis(trace_dir=os.path.abspath(sys.argv[2]))
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=10000)
    kernels = {rank: frame[frame["stream"] > 0] for rank, frame in analysis.t.traces.items()}
    names = analysis.t.symbol_table.get_sym_table()
    print(json.dumps({
        "ranks": sorted(int(rank) for rank in analysis.t.traces),
        "kinds": list(kinds["kernel_type"]),
        "overlap_percent": {str(int(row["rank"])): float(row["comp_comm_overlap_pctg"]) for _, row in overlap.iterrows()},
        "communication_us": {str(int(rank)): float(frame[[names[n].startswith("nccl") for n in frame["name"]]]["dur"].sum())
                             for rank, frame in kernels.items()},
    }))
    raise SystemExit
path = os.path.abspath(sys.argv[1])
analysis = TraceAnalysis(trace_files=[path], trace_dir=os.path.dirname(path))
temporal = analysis.get_temporal_breakdown(visualize=False).iloc[0]
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=10000)
idle = analysis.get_idle_time_breakdown(visualize=False)[0]
print(json.dumps({
    "ranks": list(analysis.t.traces),
    "iterations": [int(i) for i in analysis.t.get_iterations()],
    "devices": [device["name"] for device in analysis.t.meta_data[0]["deviceProperties"]],
    "kernel_us": float(temporal["kernel_time(us)"]),
    "compute_us": float(temporal["compute_time(us)"]),
    "idle_us": float(temporal["idle_time(us)"]),
    "kinds": list(kinds["kernel_type"]),
    "sum_us": {row["name"]: float(row["sum (us)"]) for _, row in kernels.iterrows()},
    "stream_idle_us": {str(stream): float(part["idle_time"].sum()) for stream, part in idle.groupby("stream")},
}))
